"""Guards: ``from model import *`` in a hidden test, by which a candidate would choose the test's own names."""

import pytest

from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import SANDBOXED, grade_text, make_task

pytestmark = SANDBOXED

GOLD = """
import math

WIDTH, DEPTH = 3, 2
RATE = 0.5

def signs(x):
    # <paper2code name="signs">
    return [1.0 if v > 0 else -1.0 for v in x]
    # </paper2code name="signs">

def halved(x):
    return x / 2

def helper(x):
    return x
"""
TEST = """
import unittest
from model_ref import signs_ref, halved_ref
from model import *
import model

X = [0.5, -2.0, 3.0]

class TestSign(unittest.TestCase):
    def test_all(self):
        self.assertTrue(all(v == e for v, e in zip(signs(X), signs_ref(X))))
    def test_reference(self):
        self.assertEqual(halved(3.0), halved_ref(3.0))
    def test_constants(self):
        for n in range(WIDTH):
            self.assertLess(abs(signs(X)[n]), 2.0)
        self.assertGreater(RATE, 0.0)
        for n in range(DEPTH):
            self.assertEqual(halved_ref(n), n / 2)
        self.assertEqual(model.helper(2), 2)
"""
REFERENCE = """
def signs_ref(x):
    return [1.0 if v > 0 else -1.0 for v in x]
def halved_ref(x):
    return x / 2
"""
WRONG = GOLD.replace("    return [1.0 if v > 0 else -1.0 for v in x]\n", "    return [0.0 for v in x]\n")
WRONG = WRONG.replace("    return x / 2\n", "    return x * 1.5\n")
TASK = make_task(GOLD, TEST, hidden={"model_ref.py": REFERENCE})

PLANT = "all = bool\ndef halved_ref(x): return x * 1.5\n"
PLANTED = {
    "as public names": PLANT,
    "by __all__": PLANT + "__all__ = ['signs', 'halved', 'halved_ref', 'WIDTH', 'RATE', 'all']\n",
    "as types": "import numpy as np\nall = bool\nhalved_ref = np.float64\nhalved = np.float64\n",
}
CHANGED = {
    "a constant that sizes": (GOLD + "WIDTH = 0\n", "form"),
    "a constant that only T uses": (GOLD + "DEPTH = 0\n", "form"),
    "a type where a constant is": (GOLD + "WIDTH = int\n", "tests_failed"),
    "a value where an object is": (GOLD.replace("import math", "") + "helper = 3\n", "tests_failed"),
}
HONEST = {
    "helpers": "def extra(x): return x\nclass Box: pass\nLIMIT = 7\n",
    "names of builtins": "def abs(x): return x\ndef all(x): return False\n",
    "a library's names": "from numpy import *\nfrom math import *\n",
    "fewer names": "__all__ = ['signs', 'halved', 'WIDTH', 'DEPTH', 'RATE']\n",
    "another kind of number": "WIDTH = 3.0 and 3\nRATE = 1 / 2\n",
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_name_reaches_no_test(grader: SplitGrader, name: str) -> None:
    """What the gold does not have is not taken, so that the wrong answer stays wrong."""
    grade = grade_text(grader, TASK, WRONG + PLANTED[name])
    outcomes = {test.id.rpartition(".")[2]: test.outcome for test in grade.tests}
    assert (grade.verdict, grade.reason) == ("failed", "tests_failed"), grade.message
    assert (outcomes["test_all"], outcomes["test_reference"]) == ("failed", "failed")


@pytest.mark.parametrize("name", CHANGED)
def test_a_name_keeps_its_form(grader: SplitGrader, name: str) -> None:
    """A name of the gold's cannot become something else."""
    text, reason = CHANGED[name]
    grade = grade_text(grader, TASK, text)
    assert (grade.verdict, grade.reason) == ("failed", reason), grade.message


@pytest.mark.parametrize("name", HONEST)
def test_honest_names_pass(grader: SplitGrader, name: str) -> None:
    """Helpers, other libraries' names and missing ones change nothing."""
    grade = grade_text(grader, TASK, GOLD + HONEST[name])
    assert (grade.verdict, grade.message, grade.flags) == ("passed", "", ())
