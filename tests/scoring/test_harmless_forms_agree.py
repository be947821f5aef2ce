"""Guards: an honest value refused for its form, a size that may be chosen freely, a record that grows with the values."""

import json
from typing import Any

import numpy as np
import pytest

from rcb_agent.scoring.form import Again, Trace, form_of
from rcb_agent.scoring.gold_form import agrees, first_difference, stable_part
from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import SANDBOXED, grade_text, make_task

MIXED = [1.5, 0.0, 2, "a", None, 3.0] * 100

AGREEING: list[tuple[Any, Any]] = [
    ([1.0, 2.0], (3.0, 4.0)),
    (np.float32(1), 2.0),
    (np.asarray(1.5), 2.0),
    (np.zeros(3, "float32"), np.ones(3)),
    (np.zeros(3, "int64"), np.ones(3)),
    (np.zeros(3), np.ones(3, "int64")),
    (np.full(3, 0.5), np.full(3, 0.7, "float32")),
    (np.full(3, 0.5), np.ones(3)),
    (np.ones(3), np.full(3, 0.5)),
    (np.full(3, np.nan), np.full(3, 0.5)),
    (np.full(3, np.nan), np.full(3, np.nan)),
    (np.array([0.5, np.inf, -np.inf]), np.full(3, 0.5)),
    (np.full(3, -np.inf), np.full(3, np.inf, "float32")),
    (float("inf"), float("-inf")),
    (float("inf"), 0.5),
    ([np.full(n, 0.5) for n in range(1000)], [np.full(n, n / 2) for n in range(1000)]),
    (float("nan"), 0.5),
    (complex("nan"), 1j),
    ([np.arange(3.0) + n / 7 for n in range(300)], [np.arange(3) + n / 6 for n in range(300)]),
    (np.int64(3), 3),
    (np.bool_(1), True),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Again([1.0]), [2.0]),
    ([(1.0, 2)], ([3.0, 2],)),
    (b"abc", b"xyz"),
    (0.0, 0),
    (0.5, True),
    (1.0, np.int32(7)),
    (3, 3.0),
    (3, np.float32(3)),
    (1, True),
    (True, 1),
    (False, np.int64(0)),
    ([0.5, 1.0, 0.0], [0.5, 1, 0]),
    ([1, 2], [1.0, 2.0]),
    ((0.0, {"a": [0.0]}), [0, {"a": (0,)}]),
    ({1: 0.5, 2: 0.5}, {2.0: 1, 1.0: 0}),
    ({1.0, 2.5}, {2.5, 1}),
    ({0.1, 0.9}, {0.100001, 1.0}),
    (Again([0.0, 1.0]), Again([0, 1])),
    ([0.5] * 5000, [0, 1.5] * 2500),
    (list(range(5000)), [float(n) for n in range(5000)]),
    ([[n, n / 7] for n in range(1000)], [(n, n) for n in range(1000)]),
    ([n // 2 for n in range(5000)], [float(n // 2) for n in range(5000)]),
    (MIXED, [1, 1, 2.0, "a", None, 0.5] * 100),
    ({str(n): [n, 0.5] for n in range(100)}, {str(n): [n, 0] for n in range(100)}),
]
DIFFERENT: list[tuple[Any, Any]] = [
    ([1.0], [1.0, 1.0]),
    (1, 2),
    (1, 1.5),
    (1, 2.0),
    (2, True),
    (True, 0),
    (1, float("nan")),
    (1, float("inf")),
    (0.5, float("-inf")),
    (float("inf"), float("nan")),
    (float("nan"), float("inf")),
    (1j, complex("inf")),
    (np.full(3, 0.5), np.array([0.5, np.inf, -np.inf])),
    (np.full(3, 0.5), np.array([0.5, np.nan, -np.inf])),
    (np.array([0.5, np.nan]), np.array([0.5, np.inf])),
    (0.5, float("nan")),
    (1j, complex("nan")),
    ([0.5, 0.5], [0.5, float("nan")]),
    (np.zeros(3), np.full(3, np.nan)),
    (np.zeros(3, complex), np.full(3, complex("nan"))),
    (np.full(3, 0.5), np.zeros(3, "int64")),
    (np.full(3, 0.5), np.ones(3, bool)),
    ([np.full(n, 0.5) for n in range(1000)], [np.full(n, 0.5 if n else np.nan) for n in range(1, 1001)]),
    ([np.full(n, 0.5) for n in range(1000)], [np.full(n, 0.5 if n != 9 else np.nan) for n in range(1000)]),
    ([0.5] * 5000, [*[0.5] * 4999, float("nan")]),
    ("a", "b"),
    ("1", 1),
    (1, "1"),
    (None, 0.0),
    (0.5, None),
    (0.5, "0.5"),
    (0.5, [0.5]),
    ([0.5], 0.5),
    (1.0, np.zeros(1)),
    (np.zeros(3), np.zeros((3, 1))),
    (np.zeros(3), [0.0, 0.0, 0.0]),
    ([0.0, 0.0, 0.0], np.zeros(3)),
    (np.zeros(3), np.zeros(3, complex)),
    ({"a": 1.0}, {"b": 1.0}),
    ({"a": 1.0}, {}),
    ({"a": 1.0}, {"a"}),
    ([], [[]]),
    ([1.0, 1], [1, 1.5]),
    ({1, 2}, {1, 3}),
    ({1, 2}, [1, 2]),
    (ValueError, KeyError),
    (b"abc", b"ab"),
    (list(range(5000)), [*range(4999), 0]),
    (list(range(5000)), [*range(4999), 0.5]),
    ([[n, n / 7] for n in range(1000)], [(n + 1, n) for n in range(1000)]),
    (MIXED, [1.5, 0.0, 2, "b", None, 3.0] * 100),
    (MIXED, MIXED[:-1]),
    ({str(n): n for n in range(100)}, {str(n + 1): n for n in range(100)}),
]


def trace_of(*values: Any, room: int = 1 << 20) -> Trace:
    trace = Trace(room)
    trace.current = "t"
    for value in values:
        trace.note("f()", value)
    return trace


def kept(*values: Any) -> Any:
    """Return what a preflight keeps of values that both runs of the gold gave."""
    return stable_part(trace_of(*values).entries, trace_of(*values).entries)


@pytest.mark.parametrize(("gold", "seen"), AGREEING)
def test_harmless_differences_agree(gold: Any, seen: Any) -> None:
    """List or tuple, widths, wrappers, an int for a float, a float of the same integral value say nothing."""
    assert first_difference(kept(gold), trace_of(seen).entries) == ""


@pytest.mark.parametrize(("gold", "seen"), DIFFERENT)
def test_sizes_and_kinds_are_form(gold: Any, seen: Any) -> None:
    """What a test may size or index by is compared exactly."""
    assert first_difference(kept(gold), trace_of(seen).entries)


def test_what_depends_on_the_run_is_not_compared() -> None:
    """An int that two gold runs do not share cannot be asked of a candidate; its neighbours still are."""
    stable = stable_part(trace_of(1, 5, 2).entries, trace_of(1, 6, 2).entries)
    assert first_difference(stable, trace_of(1, 7, 2).entries) == ""
    assert first_difference(stable, trace_of(1, 7, 3).entries)
    assert first_difference(stable, trace_of(1, 7).entries)
    uneven = stable_part(trace_of(1).entries, trace_of(1, 2).entries)
    assert first_difference(uneven, trace_of(9, 9, 9).entries) == ""
    rounded = stable_part(trace_of(0.5).entries, trace_of(1.0).entries)
    assert first_difference(rounded, trace_of([1.0]).entries)


@pytest.mark.parametrize("value", [list(range(5000)), MIXED, [0.5] * 5000, {str(n): n for n in range(900)}])
def test_what_is_kept_is_short(value: Any) -> None:
    """A record does not grow with the values."""
    assert len(kept(value)["t"][0][1]) < 20_200


def test_a_trace_is_bounded() -> None:
    """Beyond its room only hashes are kept, which still differ and still agree."""
    values = [[n, f"{n}"] for n in range(50)]
    short = trace_of(*values, room=200).entries
    assert len(json.dumps(short)) < 4_000
    assert first_difference(short, trace_of(*values, room=200).entries) == ""
    assert first_difference(short, trace_of(*values[:-1], [49, "50"], room=200).entries)


def test_a_skeleton_that_is_long_itself_is_compared_strictly() -> None:
    """Without order in it a long form keeps no tolerance, and loses no difference."""
    gold = [[[0.5] * (n % 17), [1] * (n % 13), None if n % 7 else "x"] for n in range(2000)]
    record = kept(gold)
    assert len(record["t"][0][1]) < 100
    assert first_difference(record, trace_of(gold).entries) == ""
    assert first_difference(record, trace_of([*gold[:-1], None]).entries)


def test_a_kind_cannot_be_spelled_by_a_string() -> None:
    """A string is itself and no form of something else."""
    kinds: list[dict[str, Any]] = [{"kind": "raises"}, {"float": None}, {"items": []}]
    for kind in kinds:
        for text in ("raises", json.dumps(kind)):
            assert not agrees(json.dumps(kind), json.dumps(form_of(text)))


INTS = {
    "the empty sum": (
        "    return 0.0 if not xs else total / len(xs)\n",
        "    return 0 if not xs else total / len(xs)\n",
    ),
    "the sum": ("    total = 0.0\n", "    total = 0\n"),
    "a yielded value": ("        yield float(max(0.0, x))\n", "        yield max(0, x)\n"),
    "a dict's value": ('    return {"low": 0.0, "n": n}\n', '    return {"n": float(n), "low": 0}\n'),
    "a condition": ("    return x > 0\n", "    return int(x > 0)\n"),
}
GOLD = """
def mean(xs):
    # <paper2code name="mean">
    total = 0.0
    for x in xs:
        total += x
    return 0.0 if not xs else total / len(xs)
    # </paper2code name="mean">

def positive(xs):
    for x in xs:
        yield float(max(0.0, x))

def bounds(n):
    return {"low": 0.0, "n": n}

def is_on(x):
    return x > 0
"""
TEST = """
import unittest
from model import bounds, is_on, mean, positive

class TestInts(unittest.TestCase):
    def test_all(self):
        self.assertEqual([mean([]), mean([1, 2])], [0.0, 1.5])
        self.assertEqual(list(positive([-1.5, 2.5])), [0.0, 2.5])
        self.assertEqual(bounds(3), {"low": 0.0, "n": 3})
        self.assertEqual((is_on(1), is_on(-1)), (True, False))
"""


@pytest.mark.sandbox
@SANDBOXED[1]
def test_an_int_for_a_float_passes(grader: SplitGrader) -> None:
    """All of it at once in a real grade, as honest code would."""
    text = GOLD
    for old, new in INTS.values():
        assert old in text
        text = text.replace(old, new)
    grade = grade_text(grader, make_task(GOLD, TEST), text)
    assert (grade.verdict, grade.message) == ("passed", "")
