"""The form of a value: what must agree with the gold's whatever the numbers in it are.

Kind, keys, lengths, shapes and strings exactly, because they size things; of numbers whether they are integral, and
if so which, and whether any is NaN or infinite. Not: list against tuple, the width of a float, numpy's scalar wrappers, bool
against int. An array and a list stay apart: tests index, transpose and broadcast the one and not the other.
``gold_form`` says what agrees.

A form is what JSON holds: None, strings and ints (bools as well) stand for themselves, ``{"float": n}`` is a float of
the integral value n or none, ``{"items": [[form, count], ...]}`` a sequence in runs, ``{"dict": items}`` and
``{"set": items}`` are ordered by key; ``"nan": true`` and ``"infinite": true`` stand beside a number, or an
array, that is so somewhere. This file also runs inside sandboxes: standard library only.
"""

import cmath
import hashlib
import json
import math
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rcb_agent.scoring.tensors import is_tensor
from rcb_agent.scoring.values import MAX_DEPTH

MAX_TEXT = 16 << 20
IN_PLACE, SHARED, WEIGHTS = "in place: ", "shared: ", "weights: "
NAN, INFINITE = "nan", "infinite"
LIVE, CHANGED = "live", "changed"
OBJECT = {"kind": "object"}
_OBJECT_MARK = json.dumps(OBJECT)[1:-1]
_EXACT = 1 << 53

Crossings = list[list[str | None]]
Entries = Mapping[str, Crossings | None]
Names = Mapping[str, Mapping[str, str | None]]
Live = Mapping[str, Mapping[str, list[int]]]


class Trace:
    """What crossed from C to T, in order: per test, pairs of a short label and a form as JSON, None where any will do.

    After ``room`` characters only hashes of forms are kept. ``on_entry`` is told test, full label and value of each;
    ``labels`` are the full labels that the tests have come to.
    """

    def __init__(self, room: int = MAX_TEXT, gold: Entries | None = None, live: Live | None = None) -> None:
        self.current = ""
        self.entries: dict[str, Crossings] = {}
        self.live: dict[str, dict[str, list[int]]] = {LIVE: {}, CHANGED: {}}
        self._gold_live = live
        self.on_entry: Callable[[str, str, Any], None] = _no_more
        self.labels: set[str] = set()
        self._skipped: frozenset[str] = frozenset()
        self._room = room
        self._gold = gold or {}

    def skip(self, labels: list[str]) -> None:
        """Keep no form of the crossings with these full labels: in the gold code's run, whose places count ever after.
        A label has the candidate's claims in it."""
        self._skipped = frozenset(labels)

    def wanted(self, label: str) -> str:
        """Say as what the gold's next crossing came if it has that label: "values", "object" or "" (both, unknown)."""
        position, entries = len(self.entries.get(self.current, ())), self._gold.get(self.current) or []
        ahead = [
            entry
            for entry in entries[position : position + 3]
            if not str(entry[0]).startswith((IN_PLACE, SHARED, WEIGHTS))
        ]
        if not ahead or ahead[0][0] != label.rpartition(".")[2]:
            return ""
        return kind_of(ahead[0][1])

    @property
    def position(self) -> int:
        """Number of crossings of the current test so far."""
        return len(self.entries.get(self.current, ()))

    def may(self, what: str, position: int) -> bool:
        """Say whether here a tensor may cross that the candidate goes on changing (LIVE), or such a tensor may have
        CHANGED: only where the gold code's did, so that nothing changes after the test has looked at it."""
        return self._gold_live is None or position in self._gold_live.get(what, {}).get(self.current, ())

    def note_where(self, what: str, position: int) -> None:
        """Keep where a live tensor crossed or changed."""
        self.live[what].setdefault(self.current, []).append(position)

    def note_shared(self, label: str) -> None:
        """Add that a call shares its tensors; the whole label counts, as for in-place arguments."""
        self._add(f"{SHARED}{label}", "null", label, None)

    def note_weights(self, label: str) -> None:
        """Add that the candidate was given weights in place of being asked for its own."""
        self._add(f"{WEIGHTS}{label}", "null", label, None)

    def note(self, label: str, value: Any) -> None:
        """Add a crossing. Only the label's last part counts: which object came first under a path is the
        candidate's claim, the name the test used is not."""
        text = None if label in self._skipped else self.write(form_of(value))
        self._add(label.rpartition(".")[2], text, label, value)

    def note_error(self, label: str) -> None:
        """Add that an exception crossed."""
        text = None if label in self._skipped else self.write({"kind": "raises"})
        self._add(label.rpartition(".")[2], text, label, None)

    def note_in_place(self, label: str, indices: list[int], results: list[Any]) -> None:
        """Add that arguments are written back. The whole label counts, skipped or not: an object returned twice keeps
        its first label, so that the candidate has a say in which rule a call falls under."""
        self._add(f"{IN_PLACE}{label}", json.dumps(indices), label, results)

    def write(self, form: Any) -> str:
        """Return a form as text, or its hash once the room is used up."""
        text = json.dumps(form)
        self._room -= len(text)
        return text if self._room >= 0 else json.dumps({"hash": hash_form(form)})

    def _add(self, short: str, text: str | None, label: str, value: Any) -> None:
        self.labels.add(label)
        self.entries.setdefault(self.current, []).append([short, text])
        self.on_entry(self.current, label, value)


def _no_more(_: str, __: str, ___: Any) -> None:
    """Keep nothing beside the form."""


def kind_of(text: str | None) -> str:
    """Say whether a form, as text, is of values only or of one object."""
    if text == json.dumps(OBJECT):
        return "object"
    return "values" if text is not None and _OBJECT_MARK not in text and "hash" not in text else ""


def form_of(value: Any, depth: int = 0) -> Any:
    """Return the form of a value."""
    if depth > 2 * MAX_DEPTH:  # an item of a dict is two levels deep
        return {"kind": "deep"}
    if hasattr(type(value), "handle_of"):  # an object of the candidate: asking it anything would be a request
        return OBJECT  # whether it can be called shows where the test calls it
    for kinds, form in _FORMS:
        if isinstance(value, kinds):
            return form(value, depth)
    return _number_form(value)


def settle(form: Any) -> Any:
    """Return a form without the values of floats: two runs that round differently give the same."""
    if type(form) is not dict:
        return form
    if "float" in form:
        return {**form, "float": None}
    if "items" in form:
        return {"items": join_runs((settle(item), count) for item, count in form["items"])}
    return {tag: settle(part) for tag, part in form.items()}


def hash_form(form: Any) -> str:
    """Return what stands for a form that is too long to keep: no tolerance for ints in place of floats is left."""
    return hash_text(json.dumps(_less_exact(settle(form))))


def _less_exact(form: Any) -> Any:
    """Return a form that does not say of arrays whether their numbers are whole: honest ones differ in it."""
    if type(form) is not dict:
        return form
    if "items" in form:
        return {"items": join_runs((_less_exact(item), count) for item, count in form["items"])}
    if form.get("array") in ("int", "float", "fraction"):
        return {**form, "array": "real"}
    return {tag: _less_exact(part) for tag, part in form.items()}


def hash_text(text: str) -> str:
    """Return a short hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def join_runs(runs: Iterable[tuple[Any, int]]) -> list[list[Any]]:
    """Return runs in which no two neighbours have the same form."""
    joined: list[list[Any]] = []
    for form, count in runs:
        if joined and joined[-1][0] == form:
            joined[-1][1] += count
        else:
            joined.append([form, count])
    return joined


def _sequence_form(value: Iterable[Any], depth: int) -> Any:
    return {"items": join_runs((form_of(item, depth + 1), 1) for item in value)}


class Again:
    """An iterator of the candidate's as the tests get it: once it is at its end, the next loop over it begins anew.

    By its form it is the list that it may stand for; one that were empty at the second look would let a test compare nothing.
    """

    __slots__ = ("_items", "_place")

    def __init__(self, items: list[Any]) -> None:
        self._items = items
        self._place = 0

    def __iter__(self) -> "Again":
        if self._place >= len(self._items):
            self._place = 0
        return self

    def __next__(self) -> Any:
        if self._place >= len(self._items):
            raise StopIteration
        self._place += 1
        return self._items[self._place - 1]

    def rest(self) -> list[Any]:
        """Return what is still to come; nothing is taken."""
        return self._items[self._place :]


def _dict_form(value: dict[Any, Any], depth: int) -> Any:
    return {"dict": _sequence_form(in_order(value) or (), depth)}


def _set_form(value: Iterable[Any], depth: int) -> Any:
    return {"set": _sequence_form(in_order(value) or (), depth)}


def in_order(value: Any) -> Iterable[Any] | None:
    """Return the items of a container in the order of its form, or None for what is none."""
    if isinstance(value, dict):
        return sorted(value.items(), key=lambda pair: _order(pair[0]))
    if isinstance(value, set | frozenset):
        return sorted(value, key=_order)
    if isinstance(value, list | tuple):
        return value
    return value.rest() if isinstance(value, Again) else None


def _order(key: Any) -> tuple[bool, float, str]:
    """Sort keys by value where they have one, so that 1 and 1.0 come in the same place."""
    is_real = isinstance(key, numbers.Real)
    if is_real and -_EXACT < key < _EXACT:
        return False, float(key), ""
    return True, 0.0, json.dumps(form_of(key))


def _type_form(kind: type, _: int) -> Any:
    if issubclass(kind, BaseException):
        return {"exception": ",".join(ancestor.__name__ for ancestor in kind.__mro__)}
    return {"type": kind.__name__}


def _float_form(value: float, _: int) -> Any:
    form = {"float": int(value) if math.isfinite(value) and value == int(value) else None}
    return form | _marks(is_nan=math.isnan(value), is_infinite=math.isinf(value))


def _marks(*, is_nan: bool, is_infinite: bool) -> dict[str, bool]:
    """NaN is neither more nor less than anything: a test that looks for what is too far away finds nothing in it. The
    infinities become NaN where a test divides by what it got, or takes the difference of two."""
    return {**({NAN: True} if is_nan else {}), **({INFINITE: True} if is_infinite else {})}


def _number_class(value: Any) -> str:
    """A float tensor is none of ints: a test that casts the reference to its dtype would round everything away."""
    return "complex" if value.is_complex() else "float" if value.is_floating_point() else "int"


def _array_class(value: Any) -> str:
    """Say of an array whether its dtype holds whole numbers only, and if not, whether its numbers are whole all the same:
    a test that casts the reference to the dtype of ints, or bools, would round everything away."""
    if value.dtype.kind == "c":
        return "complex"
    if value.dtype.kind != "f":
        return "int"
    plain = _as_numpy(value)
    return "float" if bool((plain == plain.round()).all()) else "fraction"


def _array_marks(value: Any) -> dict[str, bool]:
    np = sys.modules["numpy"]
    if value.dtype.kind not in "fc" or bool(np.isfinite(plain := _as_numpy(value)).all()):
        return {}
    return _marks(is_nan=bool(np.isnan(plain).any()), is_infinite=bool(np.isinf(plain).any()))


def _tensor_marks(value: Any) -> dict[str, bool]:
    plain = value.detach()
    if not (plain.is_floating_point() or plain.is_complex()) or bool(plain.isfinite().all()):
        return {}
    return _marks(is_nan=bool(plain.isnan().any()), is_infinite=bool(plain.isinf().any()))


def _as_numpy(value: Any) -> Any:
    """Return the same array as one of numpy's: jax would compile what is asked of its own."""
    return sys.modules["numpy"].asarray(value)


def _number_form(value: Any) -> Any:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape == () and dtype is not None:  # () equals torch.Size([])
        return form_of(value.item())
    if is_tensor(value):
        form = {"tensor": _number_class(value), "shape": json.dumps(list(value.shape))}
        return form | _tensor_marks(value)
    if any(base.__name__ in ("dtype", "device") for base in type(value).__mro__):  # what a test casts both sides to
        return {"kind": "dtype or device", "name": str(value)}
    if type(shape) is tuple and dtype is not None:
        return {"array": _array_class(value), "shape": json.dumps(shape)} | _array_marks(value)
    if isinstance(value, numbers.Complex):
        number = value if isinstance(value, complex) else 0j
        return {"number": "complex"} | _marks(is_nan=cmath.isnan(number), is_infinite=cmath.isinf(number))
    return {"kind": type(value).__name__}


_FORMS: tuple[tuple[Any, Callable[[Any, int], Any]], ...] = (
    ((type(None), str), lambda value, _: value),
    (int, lambda value, _: int(value)),
    (float, _float_form),
    (dict, _dict_form),
    ((list, tuple), _sequence_form),
    (Again, lambda value, depth: _sequence_form(in_order(value) or (), depth)),
    ((set, frozenset), _set_form),
    (bytes, lambda value, _: {"bytes": len(value)}),
    (type, _type_form),
)
