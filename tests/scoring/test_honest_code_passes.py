"""Guards: a right answer that fails because of how it looks, what it prints or what it imports."""

import pytest

from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules
from tests.scoring.support import SANDBOXED, fixture_task, grade_text, honest, make_task

pytestmark = SANDBOXED

PLAIN, NUMPY = honest("plain"), honest("np")
RETURN_SMOOTH = "    return out\n"
RETURN_MEAN = "    return sum("
RETURN_GATED = "    return x * (1.0 / (1.0 + np.exp(-x)))\n"

ODD_BUT_RIGHT = {
    "prints failures": PLAIN + '\nprint("3 failed")\nprint("Error: Traceback (most recent call last)")\n',
    "imports what attackers use": "import gc, inspect, sys, unittest, ctypes, socket\ninspect.stack()\ngc.collect()\n"
    + PLAIN,
    "is called through": PLAIN
    + "\n_inner = smooth\ndef smooth(xs, a):\n    import inspect\n    inspect.currentframe().f_back\n    return _inner(xs, a)\n",
    "defines an equality": PLAIN + "\nclass Anything:\n    def __eq__(self, other): return True\n    __hash__ = None\n",
    "uses threads": PLAIN
    + """
import threading
_inner = gated_mean
def gated_mean(xs, gate=1.0):
    out = []
    thread = threading.Thread(target=lambda: out.append(_inner(xs, gate)))
    thread.start(); thread.join()
    return out[0]
threading.Thread(target=threading.Event().wait, daemon=False).start()
""",
    "changes its own inputs": PLAIN
    + "\n_inner = smooth\ndef smooth(xs, a):\n    out = _inner(xs, a)\n    xs.clear()\n    return out\n",
    "returns a tuple": PLAIN.replace(RETURN_SMOOTH, "    return tuple(out)\n"),
    "returns a deque": PLAIN.replace(RETURN_SMOOTH, "    from collections import deque\n    return deque(out)\n"),
    "returns numpy scalars": "import numpy as np\n" + PLAIN.replace(RETURN_MEAN, "    return np.float64(1) * sum("),
    "returns a zero-dimensional array": "import numpy as np\n"
    + PLAIN.replace(RETURN_MEAN, "    return np.asarray(1.0) * sum("),
}
ODD_ARRAYS = {
    "a column-major array": NUMPY.replace(
        RETURN_GATED, "    return np.asfortranarray(x * (1.0 / (1.0 + np.exp(-x))))\n"
    ),
    "a long double": NUMPY.replace(
        RETURN_GATED, "    x = x.astype(np.longdouble)\n    return x * (1.0 / (1.0 + np.exp(-x)))\n"
    ),
    "a view backwards": NUMPY.replace(
        RETURN_GATED, "    y = x[::-1]\n    return (y * (1.0 / (1.0 + np.exp(-y))))[::-1]\n"
    ),
    "random numbers it does not need": NUMPY.replace(
        RETURN_GATED, "    np.random.rand(3)\n    np.random.seed(5)\n" + RETURN_GATED
    ),
}


@pytest.mark.parametrize("text", ODD_BUT_RIGHT.values(), ids=ODD_BUT_RIGHT)
def test_odd_but_right_code_passes(grader: SplitGrader, text: str) -> None:
    """Nothing but the values decides."""
    grade = grade_text(grader, fixture_task("plain"), text)
    assert (grade.verdict, grade.message) == ("passed", "")


@pytest.mark.parametrize("text", ODD_ARRAYS.values(), ids=ODD_ARRAYS)
def test_odd_but_right_arrays_pass(grader: SplitGrader, text: str) -> None:
    """Layout and width of an array are no form."""
    grade = grade_text(grader, fixture_task("np"), text)
    assert (grade.verdict, grade.message) == ("passed", "")


FEATURES = '''
"""What hidden tests of real papers do with a module."""
import random
import numpy as np

SCALE = 3
TABLE = np.arange(3.0)

class StepError(ValueError):
    pass

class Optimizer:
    def __init__(self, weights, rate=0.5):
        self.weights, self.rate, self.steps = weights, rate, 0
    def step(self, grads):
        # <paper2code name="step">
        if len(grads) != len(self.weights):
            raise StepError("lengths differ")
        for weight, grad in zip(self.weights, grads):
            weight -= self.rate * grad
        self.steps += 1
        return self
        # </paper2code name="step">
    def __len__(self):
        return len(self.weights)

def whiten_(x):
    x -= x.mean(axis=0)
    x /= x.std(axis=0)

def fill_(values, tables):
    values[0] = 7.0
    tables["a"][0] = 1.0

def noise(n):
    return [random.random() for _ in range(n)], np.random.normal(size=n)

def draw(rng, n):
    return rng.normal(size=n)

def minimise(function, x):
    return min((function(x + delta), x + delta) for delta in (-1.0, 0.0, 1.0))

def configured(config):
    return config.width * config.depth

def settings():
    return {"layers": [(1, "relu"), (2, None)], "flags": {True, False}, 3: np.float32(0.5)}

def numbers():
    yield from (1.0, 2.0)
'''

FEATURES_TEST = """
import argparse, copy, dataclasses, random, unittest
from types import SimpleNamespace
import numpy as np
import src.deep.model as model
from src.deep.model import *
from src.deep.model import Optimizer, StepError
from src.deep.model_ref import mean_of

@dataclasses.dataclass
class Config:
    width: int = 2
    depth: int = 3

class TestFeatures(unittest.TestCase):
    def setUp(self):
        random.seed(1)
        np.random.seed(1)
        self.x = np.random.normal(size=(4, 2))

    def test_constants(self):
        self.assertEqual(model.SCALE, 3)
        self.assertEqual(SCALE, 3)
        np.testing.assert_allclose(model.TABLE, np.arange(3.0))
        model.SCALE = 4
        self.assertEqual(model.SCALE, 4)
        model.SCALE = 3

    def test_objects(self):
        optimizer = Optimizer([np.ones(2)], rate=0.25)
        self.assertIsInstance(optimizer, Optimizer)
        self.assertIs(optimizer.step([np.ones(2)]), optimizer)
        np.testing.assert_allclose(optimizer.weights[0], [0.75, 0.75])
        self.assertEqual((optimizer.steps, len(optimizer)), (1, 1))
        other = copy.deepcopy(optimizer)
        optimizer.rate = 0.0
        self.assertEqual(other.rate, 0.25)

    def test_errors(self):
        with self.assertRaises(ValueError):
            Optimizer([]).step([1.0])
        with self.assertRaisesRegex(StepError, "lengths"):
            Optimizer([]).step([1.0])
        self.assertFalse(hasattr(model, "missing"))

    def test_in_place(self):
        model.whiten_(self.x)
        np.testing.assert_allclose(self.x.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(mean_of(self.x), np.zeros(2), atol=1e-12)
        values, tables = [1.0, 2.0], {"a": np.zeros(2)}
        model.fill_(values, tables)
        self.assertEqual(values, [7.0, 2.0])
        self.assertEqual(tables["a"].tolist(), [1.0, 0.0])

    def test_copies(self):
        before = self.x.copy()
        weights = [self.x]
        Optimizer(weights).step([np.ones((4, 2))])
        np.testing.assert_array_equal(self.x, before)

    def test_random(self):
        first, second = model.noise(3)
        random.seed(1)
        np.random.seed(1)
        np.random.normal(size=(4, 2))
        self.assertEqual(first, [random.random() for _ in range(3)])
        np.testing.assert_array_equal(second, np.random.normal(size=3))
        random.seed(1)
        self.assertEqual(model.noise(3)[0], first)
        rng = np.random.default_rng(3)
        np.testing.assert_array_equal(model.draw(rng, 2), np.random.default_rng(3).normal(size=2))
        self.assertFalse(np.allclose(model.draw(rng, 2), np.random.default_rng(3).normal(size=2)))
        unseeded = np.random.default_rng().integers(1000)
        self.assertEqual(len(model.noise(int(unseeded))[0]), unseeded)

    def test_callbacks(self):
        seen = []
        def square(x):
            seen.append(x)
            return x * x
        self.assertEqual(model.minimise(square, 1.0), (0.0, 0.0))
        self.assertEqual(seen, [0.0, 1.0, 2.0])
        self.assertEqual(model.minimise(np.abs, -1.0), (0.0, 0.0))

    def test_configs(self):
        for config in (Config(), SimpleNamespace(width=2, depth=3), argparse.Namespace(width=2, depth=3)):
            self.assertEqual(model.configured(config), 6)

    def test_nested(self):
        found = model.settings()
        self.assertEqual(found["layers"], [(1, "relu"), (2, None)])
        self.assertEqual(found["flags"], {True, False})
        self.assertEqual(found[3], 0.5)
        self.assertEqual(list(model.numbers()), [1.0, 2.0])

    def test_subtests(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(len(model.noise(n)[0]), n)
"""

RULES = GradingRules(in_place={"whiten_()": (0,), "fill_()": (0, 1)})


def test_what_real_tests_do_works(grader: SplitGrader) -> None:
    """Objects, constants, errors, in-place arguments, random state, callbacks, configs: gold passes, again and again."""
    task = make_task(
        FEATURES,
        FEATURES_TEST,
        path="src/deep/model.py",
        module="src.deep.model",
        hidden={"src/deep/model_ref.py": "def mean_of(x):\n    return x.mean(axis=0)\n"},
        rules=RULES,
    )
    for _ in range(2):
        grade = grade_text(grader, task, FEATURES)
        assert (grade.verdict, grade.message, grade.flags) == ("passed", "", ())
    assert [test.outcome for test in grade.tests] == ["passed"] * 10
    helper = grade_text(grader, task, FEATURES + "\nHELPER = 5\ndef more(): pass\n")
    assert helper.verdict == "passed", helper.message


def test_a_failed_subtest_fails_its_test(grader: SplitGrader) -> None:
    """Subtests do not hide behind the test they are in."""
    test = """
import unittest
from model import f
class TestF(unittest.TestCase):
    def test_all(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(f(n), float(n))
"""
    gold = 'def f(n):\n    # <paper2code name="f">\n    return float(n)\n    # </paper2code name="f">\n'
    task = make_task(gold, test)
    assert grade_text(grader, task, gold).verdict == "passed"
    assert grade_text(grader, task, gold.replace("float(n)", "1.0")).reason == "tests_failed"
