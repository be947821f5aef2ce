"""Which numbers agree with the gold's, and what is kept of the gold's numbers.

What two runs of the gold code do not agree on, within the tolerance, depends on the run and is compared with nothing.
Of what is skipped only the spread is. Everything else agrees number by number: ints exactly, others as ``allclose`` has it, NaN with NaN only. Where only a
sample is kept, sum and norm must agree as well, within what the tolerance of the single numbers allows them to differ.
"""

import base64
import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rcb_agent.scoring.form import Entries
from rcb_agent.scoring.value_trace import COMMONEST, Numbers, Updates, Values, places, spread_of

FEW = 8
STAR = "from "
"""Begins the key under which the value of a star import stands, where a name may be missing."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may be from the gold's: ``absolute + relative * |gold|``."""

    relative: float
    absolute: float

    def around(self, gold: float) -> float:
        """Return how far from ``gold`` a number may be."""
        return self.absolute + self.relative * abs(gold)


@dataclass(frozen=True, slots=True)
class GoldValues:
    """What two runs of the gold code have in common: numbers by test and crossing, updates by name; None is open."""

    values: Values
    updates: Updates

    @property
    def count(self) -> int:
        """Number of crossings whose numbers are compared."""
        return sum(
            numbers is not None and COMMONEST not in numbers
            for crossings in self.values.values()
            for numbers in crossings
        )


def stable_values(first: Mapping[str, Any], second: Mapping[str, Any], tolerance: Tolerance) -> GoldValues:
    """Return what two verdicts of the gold code agree on."""
    one, two = first["values"], second["values"]
    values: Values = {}
    for test, crossings in one.items():
        others = two.get(test, [])
        if len(others) == len(crossings):
            values[test] = [
                mine if mine is None or _is_stable(mine, other, tolerance) else None
                for mine, other in zip(crossings, others, strict=True)
            ]
    updates = {test: dict(_stable_updates(test, first, second, tolerance)) for test in values}
    return GoldValues(values, updates)


def _is_stable(mine: Numbers, other: Numbers | None, tolerance: Tolerance) -> bool:
    return other is not None if COMMONEST in mine else not difference(mine, other, tolerance)


def _stable_updates(
    test: str, first: Mapping[str, Any], second: Mapping[str, Any], tolerance: Tolerance
) -> Iterator[tuple[str, dict[str, Numbers | None]]]:
    one, two = first["updates"].get(test, {}), second["updates"].get(test, {})
    for place in {**one, **two}:
        mine, others = one.get(place, {}), two.get(place, {})
        yield (
            place,
            {
                name: mine[name]
                if name in mine and name in others and not difference(mine[name], others[name], tolerance)
                else None
                for name in {**mine, **others}
            },
        )


def first_other_value(gold: GoldValues, verdict: Mapping[str, Any], tolerance: Tolerance) -> str:
    """Say which crossing first has other numbers than the gold's, or return ""; no number of the gold's is told."""
    labels: Entries = verdict["trace"]
    for test, expected in gold.values.items():
        seen = verdict["values"].get(test)
        if seen is None and test.startswith(STAR):
            continue
        found = _first_in_test(
            expected, seen or [], gold.updates.get(test, {}), verdict["updates"].get(test, {}), tolerance
        )
        if found is not None:
            place, words = found
            entries = labels.get(test) or []
            label = f"{entries[place][0]} (crossing {place + 1}) " if place < len(entries) else ""
            return f"{test + ': ' if test else ''}{label}{words}"
    return ""


def _first_in_test(
    gold: list[Numbers | None],
    seen: list[Numbers | None],
    gold_updates: Mapping[str, Mapping[str, Numbers | None]],
    seen_updates: Mapping[str, Mapping[str, Numbers | None]],
    tolerance: Tolerance,
) -> tuple[int, str] | None:
    for place, numbers in enumerate(gold):
        if place >= len(seen):
            return place, f"is missing: {len(seen)} values were exchanged, {len(gold)} with the gold code"
        changed = _other_update(gold_updates.get(str(place), {}), seen_updates.get(str(place), {}), tolerance)
        if changed:
            return place, changed
        if numbers is not None and (words := difference(numbers, seen[place], tolerance)):
            return place, words
    return None


def _other_update(gold: Mapping[str, Numbers | None], seen: Mapping[str, Numbers | None], tolerance: Tolerance) -> str:
    for name in {**gold, **seen}:
        if name in gold and gold[name] is None:
            continue
        if name not in gold:
            return f"came with a change of the tensor {name}, which the gold code leaves as it is"
        if name not in seen:
            return f"came without a change of the tensor {name}"
        if words := difference(gold[name] or {}, seen[name], tolerance):
            return f"came with another change of the tensor {name}: {words}"
    return ""


def difference(gold: Numbers | None, seen: Numbers | None, tolerance: Tolerance) -> str:
    """Say how numbers differ from the gold's, or return ""."""
    if gold is None or gold == seen:
        return ""
    if COMMONEST in gold:
        return _other_spread(gold, spread_of(seen))
    if seen is None or gold.get("n") != seen["n"]:
        return f"has {seen['n'] if seen else 'no'} numbers, {gold.get('n', 0)} with the gold code"
    count = gold["n"]
    mine, others = _by_place(gold), _by_place(seen)
    ints = _ints_by_place(gold)
    shared = [place for place in mine if place in others]
    wrong = [
        place for place in shared if not _is_near(mine[place], others[place], None if place in ints else tolerance)
    ]
    if wrong:
        return f"differs from the gold code's in {len(wrong)} of {len(shared)} numbers, first in number {wrong[0] + 1}"
    norm, total = _read(gold["norm"]), _read(gold["sum"])
    width = math.sqrt(count) * tolerance.absolute + tolerance.relative * norm
    if not _is_near(norm, _read(seen["norm"]), Tolerance(0.0, width)):
        return "differs from the gold code's in its norm"
    if not _is_near(total, _read(seen["sum"]), Tolerance(0.0, math.sqrt(count) * width)):
        return "differs from the gold code's in its sum"
    return ""


def _other_spread(gold: Numbers, seen: Numbers | None) -> str:
    """What is skipped may have any numbers; but where the gold code's are nearly all different, no more than half of them
    are one number, as in an array that was not filled, and where they are not all the same, not all."""
    if seen is None:
        return ""
    if gold[COMMONEST] <= gold["of"] / 4 and not gold["whole"]:
        is_flat = seen[COMMONEST] > seen["of"] / 2
    else:  # a few values, as of a mask: those of an honest draw may by chance be the same
        is_flat = seen[COMMONEST] == seen["of"] >= FEW and gold[COMMONEST] < gold["of"]
    if not is_flat:
        return ""
    return f"is the same number in {seen[COMMONEST]} of {seen['of']} places, {gold[COMMONEST]} of {gold['of']} with the gold code"


def _by_place(numbers: Numbers) -> dict[int, float]:
    kept: array[float] = array("d")
    kept.frombytes(base64.b64decode(numbers["v"]))
    return dict(zip(places(numbers["n"], len(kept)), kept, strict=True))


def _ints_by_place(numbers: Numbers) -> set[int]:
    marks = numbers["ints"]
    return {place for place, mark in zip(places(numbers["n"], len(marks)), marks, strict=True) if mark == "1"}


def _read(number: str) -> float:
    return float.fromhex(number)


def _is_near(gold: float, seen: float, tolerance: Tolerance | None) -> bool:
    """Say whether a number agrees with the gold's; what is not finite must be the same."""
    if gold == seen or (math.isnan(gold) and math.isnan(seen)):
        return True
    if not math.isfinite(gold) or not math.isfinite(seen) or tolerance is None:
        return False
    return abs(gold - seen) <= tolerance.around(gold)
