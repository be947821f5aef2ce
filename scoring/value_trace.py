"""The numbers of every crossing from C to T, kept small: for papers whose tests measure the candidate by its own values.

Where an expected value is made of what the candidate owns (its parameters, its attributes), a candidate chooses both
sides of the comparison. Such a paper declares ``values``: then what crosses is compared with what crossed in the gold
code's run. A crossing is kept as its count of numbers, a sample of them at fixed places, their sum and their norm, so that
neither memory nor record grows with the tensors; strings are the form's business. This file
also runs inside sandboxes: standard library only, numpy and torch only where a value of theirs is at hand.
"""

import base64
import math
import random
import sys
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rcb_agent.scoring.form import in_order
from rcb_agent.scoring.jax_arrays import is_jax_array
from rcb_agent.scoring.tensors import is_tensor, plain_copy
from rcb_agent.scoring.values import MAX_DEPTH
from rcb_agent.scoring.wire import OverLimit

SAMPLE = 4096
"""Numbers kept of one crossing: all where there are no more, else those at ``places``."""
SMALL_SAMPLE = 64
ROOM = 500_000
"""Numbers kept of one run before crossings get the small sample; after as many again sum and norm stand alone."""
MOST_UPDATES = 100_000
COMMONEST = "commonest"
"""In what stands for a crossing that is skipped: how many of its kept numbers are the one that is there most often."""

Numbers = dict[str, Any]
Values = dict[str, list[Numbers | None]]
Updates = dict[str, dict[str, dict[str, Numbers | None]]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some numbers that cross together: how many, sum and norm, those at given places, and whether these are ints."""

    count: int
    total: float
    norm: float
    at: Callable[[list[int]], list[float]]
    ints_at: Callable[[list[int]], list[bool]]


class ValueTrace:
    """What crossed in a run: per test the numbers of each crossing, in step with the form's entries, and by the place in
    them the updates of shared tensors that came before, by name."""

    def __init__(self, skipped: Iterable[str] = (), *, ignored: Iterable[str] = ()) -> None:
        self.values: Values = {}
        self.updates: Updates = {}
        self._skipped = frozenset(skipped)
        self._ignored = frozenset(ignored)
        self._waiting: dict[str, Numbers | None] = {}
        self._room = ROOM
        self._updates = 0

    def note(self, test: str, label: str, value: Any) -> None:
        """Add the numbers of a crossing; what was updated before belongs to it. Of a skipped one is kept how they are
        spread, of an ignored one nothing, but both take their room: which they are only the gold code's run is told."""
        crossings = self.values.setdefault(test, [])
        if self._waiting:
            self.updates.setdefault(test, {})[str(len(crossings))] = self._waiting
            self._waiting = {}
        numbers = self._keep(value)
        is_open = label in self._ignored
        crossings.append(None if is_open else spread_of(numbers) if label in self._skipped else numbers)

    def note_update(self, name: str, value: Any) -> None:
        """Add that a shared tensor has, or its gradient has, these numbers from now on. Raises OverLimit."""
        self._updates += 1
        if self._updates > MOST_UPDATES:
            raise OverLimit(f"more than {MOST_UPDATES} updates of shared tensors")
        self._room += _room_of(self._waiting.get(name))  # a candidate that changes one often must not use all of it up
        self._waiting[name] = self._keep(value)

    def _keep(self, value: Any) -> Numbers | None:
        most = SAMPLE if self._room > 0 else SMALL_SAMPLE if self._room > -ROOM else 0
        numbers = describe(value, most)
        self._room -= _room_of(numbers)
        return numbers


def spread_of(numbers: Numbers | None) -> Numbers | None:
    """Return how many numbers of a crossing were kept, how often the commonest of them is there, and whether any is an int."""
    if numbers is None or not numbers["v"]:
        return None
    kept: array[float] = array("d")
    kept.frombytes(base64.b64decode(numbers["v"]))
    counts = Counter(math.inf if math.isnan(number) else number for number in kept)
    return {COMMONEST: counts.most_common(1)[0][1], "of": len(kept), "whole": bool(numbers["ints"])}


def _room_of(numbers: Numbers | None) -> int:
    return 0 if numbers is None else len(numbers["v"]) * 3 // (4 * array("d").itemsize) + 1


def describe(value: Any, most: int) -> Numbers | None:
    """Return what is kept of a value's numbers, or None where it has none."""
    parts = list(_joined(_parts(value, 0)))
    if not parts:
        return None
    count = sum(part.count for part in parts)
    kept, ints = _numbers_at(parts, places(count, most))
    return {
        "n": count,
        "v": base64.b64encode(kept.tobytes()).decode(),
        "ints": "".join("01"[is_int] for is_int in ints) if any(ints) else "",
        "sum": _sum(part.total for part in parts).hex(),
        "norm": math.hypot(*(part.norm for part in parts)).hex(),
    }


def places(count: int, most: int) -> list[int]:
    """Return which of ``count`` numbers are kept, in order: the same ones in every run."""
    return list(range(count)) if count <= most else sorted(random.Random(count).sample(range(count), most))  # noqa: S311


def _numbers_at(parts: list[Part], wanted: list[int]) -> "tuple[array[float], list[bool]]":
    kept: array[float] = array("d")
    ints: list[bool] = []
    start, position = 0, 0
    for part in parts:
        end = bisect_left(wanted, start + part.count, position)
        if end > position:
            inside = [place - start for place in wanted[position:end]]
            kept.extend(part.at(inside))
            ints += part.ints_at(inside)
        start, position = start + part.count, end
    return kept, ints


def _parts(value: Any, depth: int) -> Iterator[Part | float]:
    """Yield the numbers of a value, plain ones by themselves, in the order of its form."""
    if depth > 2 * MAX_DEPTH or hasattr(type(value), "handle_of"):
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, complex):
        yield from (value.real, value.imag)
    elif (part := _whole_part(value)) is not None:
        yield part
    elif (items := in_order(value)) is not None:
        for item in items:
            yield from _parts(item, depth + 1)


def _whole_part(value: Any) -> Part | None:
    """Return the numbers of what holds many by itself, or None."""
    if isinstance(value, bytes):
        return _bytes_part(value)
    if is_tensor(value):
        return _tensor_part(value)
    return _array_part(value) if _is_array(value) else None


def _joined(parts: Iterable[Part | float]) -> Iterator[Part]:
    """Yield parts, plain numbers in a row as one: a list of many floats must not become as many parts."""
    row: list[float] = []
    for part in parts:
        if not isinstance(part, Part):
            row.append(part)
            continue
        if row:
            yield _row_part(row)
            row = []
        yield part
    if row:
        yield _row_part(row)


def _row_part(row: list[float]) -> Part:
    numbers = [_as_float(number) for number in row]
    return Part(
        len(row),
        _sum(numbers),
        math.hypot(*numbers),
        lambda at: [numbers[place] for place in at],
        lambda at: [isinstance(row[place], int) for place in at],
    )


def _bytes_part(value: bytes) -> Part:
    counts = Counter(value)
    return Part(
        len(value),
        float(sum(byte * count for byte, count in counts.items())),
        math.sqrt(sum(byte * byte * count for byte, count in counts.items())),
        lambda at: [float(value[place]) for place in at],
        lambda at: [True] * len(at),
    )


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int that the form compares exactly
        return math.inf


def _sum(numbers: Iterable[float]) -> float:
    try:
        return math.fsum(numbers)
    except (OverflowError, ValueError):  # too large, or infinities of both signs
        return math.nan


def _is_array(value: Any) -> bool:
    np = sys.modules.get("numpy")
    if np is None or not (isinstance(value, np.ndarray | np.generic) or is_jax_array(value)):
        return False
    return getattr(value.dtype, "kind", "") in tuple("biufc")


def _array_part(value: Any) -> Part:
    import numpy as np

    flat = np.ravel(np.asarray(value))
    is_int = flat.dtype.kind in "biu"
    if flat.dtype.kind == "c":
        flat = flat.astype(np.complex128).view(np.float64)
    with np.errstate(all="ignore"):
        wide = flat.astype(np.float64, copy=False)
        total, norm = float(wide.sum()), float(np.sqrt(np.dot(wide, wide)))
    return Part(wide.size, total, norm, lambda at: wide[at].tolist(), lambda at: [is_int] * len(at))


def _tensor_part(value: Any) -> Part:
    import torch

    plain = plain_copy(value).reshape(-1)
    if plain.is_complex():
        plain = torch.view_as_real(plain).reshape(-1)
    is_int = not plain.is_floating_point()
    real = plain.double() if is_int else plain
    total, norm = float(real.sum(dtype=torch.float64)), float(torch.linalg.vector_norm(real, dtype=torch.float64))
    return Part(
        real.numel(),
        total,
        norm,
        lambda at: real[torch.tensor(at)].double().tolist(),
        lambda at: [is_int] * len(at),
    )
