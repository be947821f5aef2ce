"""The form of a value: what must equal the gold's whatever the numbers in it are.

Kind, keys, lengths, shapes, and ints, strings and bools exactly, because they size things. Not: list against tuple,
the width of a float, numpy's scalar wrappers. This file also runs inside sandboxes: standard library only.
"""

import copy
import hashlib
import json
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rcb_agent.scoring.values import MAX_DEPTH

_SHORT = 400

Crossings = list[list[str | None]]
Entries = Mapping[str, Crossings | None]


class Trace:
    """What crossed from C to T, in order: per test, pairs of a short label and a form."""

    def __init__(self) -> None:
        self.current = ""
        self.entries: dict[str, Crossings] = {}
        self._skipped: frozenset[str] = frozenset()

    def skip(self, labels: list[str]) -> None:
        """Leave the crossings with these full labels out."""
        self._skipped = frozenset(labels)

    def note(self, label: str, form: Any) -> None:
        """Add a crossing. Only the label's last part counts: which object came first under a path is the
        candidate's claim, the name the test used is not."""
        if label not in self._skipped:
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
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value, depth)
    return _number_form(value)


def stable_part(first: Entries, second: Entries) -> dict[str, Crossings | None]:
    """Return what two runs of the same code have in common; None stands where they differ.

    What differs (an id, a time, the order of a set) depends on the run and says nothing about a candidate.
    """
    return {test: _stable_entries(first.get(test), second.get(test)) for test in {**first, **second}}


def _stable_entries(first: Crossings | None, second: Crossings | None) -> Crossings | None:
    if not first or not second or [label for label, _ in first] != [label for label, _ in second]:
        return None
    return [[label, form if form == other else None] for (label, form), (_, other) in zip(first, second, strict=True)]


def first_difference(gold: Entries, seen: Entries) -> str:
    """Say where a trace leaves the gold's, or return ""."""
    for test in [*gold, *(test for test in seen if test not in gold)]:
        expected, actual = gold.get(test, []), seen.get(test) or []
        difference = "" if expected is None else _difference(expected, actual)
        if difference:
            return f"{test}: {difference}" if test else difference
    return ""


def _difference(expected: Crossings, actual: Crossings) -> str:
    for (label, form), (other_label, other_form) in zip(expected, actual, strict=False):
        if label != other_label:
            return f"{other_label} was used where the gold code's {label} was"
        if form is not None and form != other_form:
            return f"{label} gave {other_form}, the gold code {form}"
    if len(expected) != len(actual):
        return f"{len(actual)} values were exchanged, {len(expected)} with the gold code"
    return ""


def _dict_form(value: dict[Any, Any], depth: int) -> Any:
    pairs = [[json.dumps(form_of(key, depth + 1)), form_of(item, depth + 1)] for key, item in value.items()]
    return {"dict": sorted(pairs, key=lambda pair: pair[0])}


def _sequence_form(value: Iterable[Any], depth: int) -> Any:
    forms = [form_of(item, depth + 1) for item in value]
    if len(forms) > 1 and all(form == forms[0] and type(form) is type(forms[0]) for form in forms):
        return {"each": forms[0], "length": len(forms)}
    return forms


def _set_form(value: Iterable[Any], depth: int) -> Any:
    return {"set": sorted(json.dumps(form_of(item, depth + 1)) for item in value)}


def _type_form(kind: type, _: int) -> Any:
    if issubclass(kind, BaseException):
        return {"exception": [ancestor.__name__ for ancestor in kind.__mro__]}
    return {"type": kind.__name__}


def _number_form(value: Any) -> Any:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape == () and dtype is not None:
        return form_of(value.item())
    if type(shape) is tuple and dtype is not None:
        return {"array": "complex" if dtype.kind == "c" else "real", "shape": list(shape)}
    if isinstance(value, numbers.Real):
        return {"number": "float"}
    if isinstance(value, numbers.Complex):
        return {"number": "complex"}
    return {"kind": type(value).__name__}


_FORMS: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    ((type(None), bool, int, str), lambda value, _: value),
    (dict, _dict_form),
    ((list, tuple), _sequence_form),
    (type(iter([])), lambda value, depth: _sequence_form(copy.copy(value), depth)),  # the test takes from it later
    ((set, frozenset), _set_form),
    (bytes, lambda value, _: {"bytes": len(value)}),
    (type, _type_form),
)
