"""The form of a value: what must equal the gold's whatever the numbers in it are.

Kind, keys, lengths, shapes, and ints, strings and bools exactly, because they size things. Not: list against tuple,
the width of a float, numpy's scalar wrappers. This file also runs inside sandboxes: standard library only.
"""

import hashlib
import json
import numbers
from collections.abc import Mapping
from typing import Any

from rcb_agent.scoring.values import MAX_DEPTH

_SHORT = 400


class Trace:
    """What crossed from C to T, in order: per test, pairs of a short label and a form."""

    def __init__(self) -> None:
        self.current = ""
        self.entries: dict[str, list[list[str]]] = {}
        self._skipped: frozenset[str] = frozenset()

    def skip(self, labels: list[str]) -> None:
        """Leave the crossings with these full labels out."""
        self._skipped = frozenset(labels)

    def note(self, label: str, form: Any) -> None:
        """Add a crossing that has a label. Only the label's last part counts: which object came first under a path is the
        candidate's claim, the name the test used is not."""
        if label and label not in self._skipped:
            text = json.dumps(form, sort_keys=True)
            if len(text) > _SHORT:
                text = f"{text[:80]}... {hashlib.sha256(text.encode()).hexdigest()[:16]}"
            self.entries.setdefault(self.current, []).append([label.rpartition(".")[2], text])


def form_of(value: Any, depth: int = 0) -> Any:
    """Return the form of a value as something JSON can hold."""
    if depth > MAX_DEPTH:
        return "deep"
    if hasattr(type(value), "handle_of"):  # an object of the candidate: asking it anything would be a request
        return {"kind": "callable" if callable(value) else "object"}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, dict):
        return _mapping(value, depth)
    if isinstance(value, list | tuple):
        return _sequence([form_of(item, depth + 1) for item in value])
    if isinstance(value, set | frozenset):
        return {"set": sorted(json.dumps(form_of(item, depth + 1)) for item in value)}
    if isinstance(value, type):
        return _type_form(value)
    return _leaf(value)


def first_difference(gold: Mapping[str, list[list[str]]], seen: Mapping[str, list[list[str]]]) -> str:
    """Say where a trace leaves the gold's, or return ""."""
    for test in [*gold, *(test for test in seen if test not in gold)]:
        expected, actual = gold.get(test, []), seen.get(test, [])
        for (label, form), (other_label, other_form) in zip(expected, actual, strict=False):
            if label != other_label:
                return f"{test}: {other_label} where the gold code was asked for {label}"
            if form != other_form:
                return f"{test}: {label} gave {other_form}, the gold code {form}"
        if len(expected) != len(actual):
            return f"{test}: {len(actual)} values were exchanged, {len(expected)} with the gold code"
    return ""


def _mapping(value: dict[Any, Any], depth: int) -> Any:
    pairs = [[json.dumps(form_of(key, depth + 1)), form_of(item, depth + 1)] for key, item in value.items()]
    return {"dict": sorted(pairs, key=lambda pair: pair[0])}


def _sequence(forms: list[Any]) -> Any:
    if len(forms) > 1 and all(form == forms[0] and type(form) is type(forms[0]) for form in forms):
        return {"each": forms[0], "length": len(forms)}
    return forms


def _type_form(kind: type) -> Any:
    if issubclass(kind, BaseException):
        return {"exception": [ancestor.__name__ for ancestor in kind.__mro__]}
    return {"type": kind.__name__}


def _leaf(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    if type(shape) is tuple and dtype is not None:
        if shape == ():
            return form_of(value.item())
        return {"array": "complex" if dtype.kind == "c" else "real", "shape": list(shape)}
    if isinstance(value, numbers.Real):
        return {"number": "float"}
    if isinstance(value, numbers.Complex):
        return {"number": "complex"}
    return {"kind": type(value).__name__}
