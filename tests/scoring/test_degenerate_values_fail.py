"""Guards: a plain value that satisfies a weak assertion by being empty or of another shape."""

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
"""

WEAK_TEST = """
import unittest
import numpy as np
from numpy.testing import assert_allclose
from model import at, pieces, rows, spread, table

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
"""

SPREAD, PIECES = "    return x - x.mean()\n", "    return [float(v) for v in x]\n"
TABLE, ROWS = '    return {"mean": float(x.mean()), "size": int(x.size)}\n', "    return x.sum(axis=1)\n"

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
