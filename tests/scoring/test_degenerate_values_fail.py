"""Guards: a plain value that satisfies a weak assertion by being empty, of another shape, or NaN."""

from typing import Any

import numpy as np
import pytest

from rcb_agent.scoring.form import Trace
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.scoring.trusted_gates import ComparisonGate
from rcb_agent.tasks.base import GradingRules
from tests.scoring.support import SANDBOXED, grade_text, make_task

GOLD = """
import numpy as np

def spread(x):
    # <paper2code name="spread">
    return x - x.mean()
    # </paper2code name="spread">

def pieces(x):
    return [float(v) for v in x]

def table(x):
    return {"mean": float(x.mean()), "size": int(x.size)}

def rows(x):
    return x.sum(axis=1)

def at(x):
    return x[x > 1e9]

def logs(x):
    return np.log(np.abs(x))

def doubled(x):
    return 2 * x

def parts(x):
    return [x[:2], x[2:]]
"""

WEAK_TEST = """
import unittest
import numpy as np
from numpy.testing import assert_allclose
from model import at, doubled, logs, parts, pieces, rows, spread, table

class TestWeak(unittest.TestCase):
    def setUp(self):
        self.x = np.random.default_rng(0).normal(size=6)

    def test_close(self):
        self.assertTrue(np.allclose(spread(self.x), self.x - self.x.mean()))
        self.assertTrue((np.isclose(spread(self.x), self.x - self.x.mean())).all())
        assert_allclose(actual=spread(self.x), desired=self.x - self.x.mean())

    def test_zip(self):
        for a, b in zip(pieces(self.x), self.x):
            self.assertAlmostEqual(a, b)

    def test_loop(self):
        for key, value in table(self.x).items():
            self.assertIsNotNone(value)

    def test_scalar_expected(self):
        assert_allclose(rows(np.full((2, 2), 0.5)), 1.0)
        assert_allclose(at(self.x), [])

    def test_twice(self):
        found = parts(self.x)
        for part, wanted in zip(found, (self.x[:2], self.x[2:])):
            self.assertEqual(part.shape, wanted.shape)
        for part, wanted in zip(found, (self.x[:2], self.x[2:])):
            self.assertTrue(np.allclose(part, wanted))

    def test_nothing_far(self):
        far, expected = 0.0, np.log(np.abs(self.x))
        for a, b in zip(logs(self.x), expected):
            far = max(far, abs(a - b))
        self.assertLess(far, 1e-6)
        self.assertFalse((np.abs(logs(self.x) - expected) > 1e-6).any())

    def test_nothing_far_of_its_own_size(self):
        for size in (float, np.float32, complex):
            twice, wanted = doubled(self.x.astype(size)), 2 * self.x.astype(size)
            with np.errstate(all="ignore"):
                self.assertFalse((np.abs((twice - wanted) / twice) > 1e-6).any())
        self.assertEqual(doubled(np.full(3, np.inf)).shape, (3,))

    def test_cast(self):
        out = logs(np.full(3, 0.6))
        assert_allclose(out, np.log(np.full(3, 0.6)).astype(out.dtype))
"""

SPREAD, PIECES = "    return x - x.mean()\n", "    return [float(v) for v in x]\n"
LOGS, LOG = "    return np.log(np.abs(x))\n", "np.log(np.abs(x))"
TABLE, ROWS = '    return {"mean": float(x.mean()), "size": int(x.size)}\n', "    return x.sum(axis=1)\n"
DOUBLED = "    return 2 * x\n"
PARTS = "    return [x[:2], x[2:]]\n"

DEGENERATE = {
    "an empty array": (SPREAD, "    return np.empty(0)\n", "tests_failed"),
    "an empty list": (SPREAD, "    return []\n", "tests_failed"),
    "an empty row each": (SPREAD, "    return np.empty((0, 6))\n", "tests_failed"),
    "one value for all": (SPREAD, "    return np.float64(0)\n", "tests_failed"),
    "a broadcast copy": (SPREAD, "    return np.stack([x - x.mean()] * 2)\n", "tests_failed"),
    "an empty tuple under zip": (PIECES, "    return ()\n", "form"),
    "a shorter list under zip": (PIECES, "    return [float(v) for v in x[:2]]\n", "form"),
    "an empty dict under a loop": (TABLE, "    return {}\n", "form"),
    "another key": (TABLE, '    return {"mean": 0.0, "length": 6}\n', "form"),
    "another size": (TABLE, '    return {"mean": 0.0, "size": 7}\n', "form"),
    "an object for a value": (TABLE, '    return {"mean": object(), "size": 6}\n', "form"),
    "a scalar where rows are": (ROWS, "    return 1.0\n", "form"),
    "NaN where nothing is far": (LOGS, f"    return {LOG} if x[0] == 0.6 else {LOG} * np.nan\n", "form"),
    "infinities where nothing is far": (DOUBLED, "    return np.inf * x\n", "form"),
    "infinities of a complex dtype": (DOUBLED, "    return x * (np.inf if x.dtype.kind == 'c' else 2)\n", "form"),
    "one NaN": (TABLE, '    return {"mean": float("nan"), "size": 6}\n', "form"),
    "ints to cast to": (LOGS, f"    return {LOG}.astype(int) if x[0] == 0.6 else {LOG}\n", "form"),
    "bools to cast to": (LOGS, f"    return {LOG}.astype(bool) if x[0] == 0.6 else {LOG}\n", "form"),
    "an iterator that is at its end": (PARTS, "    return iter([x[:2] * 0, x[2:] * 0])\n", "tests_failed"),
    "a generator that is at its end": (PARTS, "    return (part * 0 for part in (x[:2], x[2:]))\n", "tests_failed"),
    "no rows": (ROWS, "    return np.empty(0)\n", "tests_failed"),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.sandbox
@SANDBOXED[1]
def test_degenerate_values_fail(grader: SplitGrader, name: str) -> None:
    """The weak test alone would let each of them pass."""
    old, new, reason = DEGENERATE[name]
    task = make_task(GOLD, WEAK_TEST)
    assert old in GOLD
    grade = grade_text(grader, task, GOLD.replace(old, new))
    assert (grade.verdict, grade.reason, grade.form_only) == ("failed", reason, reason == "form")


@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_skipped_label_is_no_form(grader: SplitGrader) -> None:
    """A paper may declare that the results of a call differ honestly in form."""
    task = make_task(GOLD, WEAK_TEST, rules=GradingRules(skip_form=("table()",)))
    longer = GOLD.replace(TABLE, '    return {"mean": 1.0, "size": 7, "more": 1}\n')
    assert grade_text(grader, task, longer).verdict == "passed"
    assert grade_text(grader, task, GOLD.replace(PIECES, "    return ()\n")).reason == "form"


TWO = """
class Model:
    def __init__(self):
        # <paper2code name="start">
        self.size = 1
        # </paper2code name="start">

    def table(self, x):
        return [v / 3 for v in x]

    def rows(self, x):
        return [v / 7 for v in x]
"""
TWO_TEST = """
import unittest
from model import Model

class TestBoth(unittest.TestCase):
    def test_both(self):
        x, made = [1, 2, 3], [Model() for _ in range(3)]
        for table, rows in [(model.table, model.rows) for model in made]:
            table(x)
            for seen, value in zip(rows(x), x):
                self.assertEqual(seen, value / 7)
"""
TRADED = """
class Model:
    gets = calls = 0
    def _get(self, number):
        Model.gets += 1
        return (one, other)[number if Model.gets < 3 else 1 - number]
    table, rows = property(lambda self: self._get(0)), property(lambda self: self._get(1))

def other(x):
    Model.calls += 1
    return [v / 7 for v in x]

def one(x):
    return [v / 3 for v in x] if Model.calls < 2 else []
"""


@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_skipped_label_is_the_golds_word(grader: SplitGrader) -> None:
    """Two functions that trade names: the one whose form is left out stands where the other's results are looked at."""
    task = make_task(TWO, TWO_TEST, rules=GradingRules(skip_form=("Model().table()",)))
    assert grade_text(grader, task, TWO).verdict == "passed"
    assert grade_text(grader, task, TWO.replace("return [v / 3 for v in x]", "return None")).verdict == "passed"
    assert grade_text(grader, task, TRADED).reason == "form"


def test_the_gate_remembers_the_golds_own_odd_comparisons() -> None:
    """The same test may do the same comparison of the same shapes; nothing else may."""
    empty, row, scalar = np.empty(0), np.zeros(3), 1.0
    gold_trace = Trace()
    gold = ComparisonGate(gold_trace, None)
    gold_trace.current = "t"
    assert [gold.refusal([row, row]), gold.refusal([row, scalar]), gold.refusal([empty, empty])] == [""] * 3

    def run(*pairs: list[Any]) -> list[bool]:
        trace = Trace()
        trace.current = "t"
        gate = ComparisonGate(trace, gold.irregular)
        return [gate.refusal(pair) == "" for pair in pairs]

    assert run([row, row], [row, scalar], [empty, empty]) == [True, True, True]
    assert run([empty, row], [empty, scalar], [row, empty]) == [False, False, False]
    assert run([row, scalar]) == [False]
