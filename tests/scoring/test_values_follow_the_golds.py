"""Guards: a candidate that owns what the expected values are made of, and so chooses both sides of the comparison."""

import pytest

from rcb_agent.scoring.base import FAILED, PASSED
from rcb_agent.scoring.gold_values import Tolerance, difference
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.scoring.value_trace import ROOM, SAMPLE, ValueTrace, describe, places, spread_of
from rcb_agent.tasks.base import GradingRules, Task, ValueRules
from tests.scoring.support import SANDBOXED, grade_text, make_task

GOLD = """
import math
import numpy as np

class Layer:
    def __init__(self, size):
        # <paper2code name="start">
        self.alpha = 0.7
        self.weight = np.full(size, 0.5)
        # </paper2code name="start">

    def forward(self, x):
        return np.tanh(self.alpha * x) * self.weight

    def noise(self, n):
        return np.random.default_rng().normal(size=n)

def sizes(n):
    return np.arange(n)

def double_in_place(x):
    x *= 2
"""

TEST = """
import unittest
import numpy as np
from model import Layer, double_in_place, sizes

class TestLayer(unittest.TestCase):
    def test_forward(self):
        layer, x = Layer(4), np.random.default_rng(3).normal(size=(3, 4))
        expected = np.tanh(layer.alpha * x) * layer.weight
        self.assertTrue(np.allclose(layer.forward(x), expected))

    def test_noise(self):
        self.assertEqual(Layer(2).noise(9).shape, (9,))

    def test_sizes(self):
        self.assertEqual(sizes(5).shape, (5,))

    def test_in_place(self):
        x = np.ones(3)
        double_in_place(x)
        self.assertTrue((x > 1).all())
"""

DRAW = [number / 7 for number in range(1, 17)]
START, FORWARD = "self.weight = np.full(size, 0.5)", "return np.tanh(self.alpha * x) * self.weight"
IN_PLACE = {"double_in_place()": (0,)}
COMPARED = GradingRules(values=ValueRules(), in_place=IN_PLACE)

CHEATS = {
    "zeros on both sides": ((START, "self.weight = np.zeros(size)"), (FORWARD, "return np.zeros(x.shape)")),
    "another scale": ((START, "self.weight = np.full(size, 0.51)"),),
    "another plain float": (("self.alpha = 0.7", "self.alpha = 0.7002"),),
    "another int in an array": (("return np.arange(n)", "return np.arange(n) + (np.arange(n) == 4)"),),
    "another in-place result": (("x *= 2", "x *= 3"),),
}

HONEST = {
    "another order of operations": (
        (FORWARD, "z = np.exp(2 * self.alpha * x); return self.weight * (z - 1) / (z + 1)"),
    ),
    "float32": ((FORWARD, "return (np.tanh(self.alpha * x).astype('float32') * self.weight.astype('float32'))"),),
    "a numpy scalar": (("self.alpha = 0.7", "self.alpha = np.float64(0.7)"),),
    "other draws": ((".normal(size=n)", ".standard_normal(2 * n)[:n]"),),
    "rounding": (("self.alpha = 0.7", "self.alpha = 0.1 + 0.6"),),
    "a helper": ((FORWARD, "return self.act(x) * self.weight\n    def act(self, x): return np.tanh(x * self.alpha)"),),
    "looks around, compares, prints, threads": (
        (
            FORWARD,
            (
                "import gc, inspect, sys, threading; gc.collect(); inspect.stack(); print('3 failed'); found = []; "
                "thread = threading.Thread(target=lambda: found.append(np.tanh(self.alpha * x))); "
                "thread.start(); thread.join(); return found[0] * self.weight"
            ),
        ),
        ("class Layer:", "class Layer:\n    def __eq__(self, other): return True\n    __hash__ = None\n"),
    ),
    "takes most of its time": ((FORWARD, f"import time; time.sleep(6); {FORWARD}"),),
}


def change(*pairs: tuple[str, str]) -> str:
    text = GOLD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def task_of(rules: GradingRules, test: str = TEST) -> Task:
    return make_task(GOLD, test, rules=rules)


pytestmark = SANDBOXED


@pytest.mark.parametrize("name", CHEATS)
def test_what_satisfies_the_tests_alone_fails(grader: SplitGrader, name: str) -> None:
    """Each passes every test, as it would in one process; the values say no, and say where."""
    text = change(*CHEATS[name])
    assert grade_text(grader, task_of(GradingRules(in_place=IN_PLACE)), text).verdict == PASSED
    grade = grade_text(grader, task_of(COMPARED), text)
    assert (grade.verdict, grade.reason, grade.values_only, grade.form_only) == (FAILED, "values", True, False)
    assert "crossing" in grade.message


@pytest.mark.parametrize("name", HONEST)
def test_honest_rewrites_have_the_golds_values(grader: SplitGrader, name: str) -> None:
    """Rounding, float width and what two runs of the gold code differ in are no difference."""
    rules = GradingRules(values=ValueRules(skip=("Layer().noise()",)), in_place=IN_PLACE, seconds=10)
    found = grade_text(grader, task_of(rules), change(*HONEST[name]))
    assert (found.verdict, found.flags, found.message) == (PASSED, (), "")


FLAT = [
    "np.zeros(n)",
    "np.full(n, 0.3)",
    "np.eye(1, n)[0]",
    "np.full(n, np.nan)",
    "np.arange(n) / 7 * (np.arange(n) > n // 2)",
]


@pytest.mark.parametrize("noise", FLAT)
def test_what_is_skipped_is_no_array_that_nobody_filled(grader: SplitGrader, noise: str) -> None:
    """Draws may come in any order; one number in most places is no draw, and a test of the shape alone sees nothing else."""
    text = change(("return np.random.default_rng().normal(size=n)", f"return {noise}"))
    rules = GradingRules(values=ValueRules(skip=("Layer().noise()",)), in_place=IN_PLACE)
    grade = grade_text(grader, task_of(rules), text)
    assert grade.verdict == FAILED
    if "nan" in noise:
        assert grade.reason == "form"
        return
    assert grade.reason == "values"
    assert "noise() (crossing 3) is the same number in " in grade.message
    free = GradingRules(values=ValueRules(skip=("Layer().noise()", "sizes()")), in_place=IN_PLACE)
    assert grade_text(grader, task_of(free), change(("np.arange(n)", "np.arange(n)[::-1]"))).verdict == PASSED


SPREAD = {
    "a draw": (DRAW, DRAW[::-1], ""),
    "a mask": ([0.0, 1.0] * 8, [1.0] * 15 + [0.0], ""),
    "no mask": ([0.0, 1.0] * 8, [1.0] * 16, "same"),
    "a short mask": ([0.0, 1.0], [1.0, 1.0], ""),
    "ints": (list(range(16)), [3] * 12 + [1, 2, 4, 5], ""),
    "half of it": (DRAW, [*DRAW[:8], *[0.0] * 8], ""),
    "less than half": (DRAW, [*DRAW[:7], *[0.0] * 9], "same"),
    "NaN": (DRAW, [float("nan")] * 16, "same"),
    "constant in the gold too": ([0.5] * 16, [0.25] * 16, ""),
    "nothing": (DRAW, [], ""),
}


@pytest.mark.parametrize("name", SPREAD)
def test_a_draw_is_told_from_what_was_not_filled(name: str) -> None:
    """An honest draw of few values may be one number throughout by chance; of many different ones it cannot."""
    gold, seen, words = SPREAD[name]
    found = difference(spread_of(describe(gold, SAMPLE)), describe(seen, SAMPLE), Tolerance(0.0, 0.0))
    assert words in found if words else not found


RELABELLED = """
import unittest
import numpy as np
from model import Layer

class TestLayer(unittest.TestCase):
    def test_all(self):
        layer, x = Layer(4), np.random.default_rng(3).normal(size=(3, 4))
        layer.noise(2)
        self.assertTrue(np.allclose(layer.forward(x), np.tanh(layer.alpha * x) * layer.weight))
"""

BOTH = """
class Layer(Layer):
    def __init__(self, size):
        super().__init__(size)
        self.noise = self.forward = lambda x: np.zeros(2 if isinstance(x, int) else x.shape)
"""


def test_a_candidate_cannot_choose_what_is_skipped(grader: SplitGrader) -> None:
    """One object under two names keeps the label of the first; which crossing is skipped is the gold run's word."""
    task = task_of(GradingRules(values=ValueRules(skip=("Layer().noise()",))), RELABELLED)
    zeros = change((START, "self.weight = np.zeros(size)"), (FORWARD, "return np.zeros(x.shape)"))
    assert grade_text(grader, task, GOLD).verdict == PASSED
    assert grade_text(grader, task, change(*HONEST["other draws"])).verdict == PASSED
    assert grade_text(grader, task, zeros + BOTH).reason == "values"
    only_forward = change((START, "self.weight = np.full(size, 0.5)")) + BOTH.replace("x.shape)", "x.shape) + 1e-9")
    assert grade_text(grader, task, only_forward).verdict == FAILED


RECORDED = """
import unittest
import numpy as np
from numpy.testing import assert_allclose
from model import Layer

class TestRecorded(unittest.TestCase):
    def test_forward(self):
        out = Layer(2).forward(np.ones(2))
        self.assertEqual(out.tolist(), [0.3021839, 0.3021839])
        assert_allclose(out, [0.3021839, 0.3021839], rtol=1e-12)
        assert out[0] == 0.3021839

    def test_refuses(self):
        with self.assertRaises(Exception):
            Layer("x")
"""


def test_recorded_floats_of_another_machine(grader: SplitGrader) -> None:
    """With ``asserts: false`` the gold passes, a wrong value and a swallowed error do not."""
    assert grade_text(grader, task_of(GradingRules(), RECORDED), GOLD).reason == "gold_fails"
    rules = GradingRules(values=ValueRules(), asserts=False)
    task = task_of(rules, RECORDED)
    assert grade_text(grader, task, GOLD).verdict == PASSED
    assert grade_text(grader, task, change((START, "self.weight = np.full(size, 0.4)"))).reason == "values"
    assert grade_text(grader, task, change((START, "self.weight = np.ones(2)"))).verdict == FAILED
    swallow = change((START, "self.weight = np.full(size, 0.5) if size != 'x' else None"))
    assert grade_text(grader, task, swallow).reason == "tests_failed"
    assert grade_text(grader, task, change((FORWARD, "return None"))).verdict == FAILED


def test_nothing_decides_without_a_stable_value(grader: SplitGrader) -> None:
    """Where asserts are off and no value of the gold's own repeats, the task is not measured."""
    test = "import unittest\nfrom model import Layer\nclass T(unittest.TestCase):\n    def test(self): Layer(1)\n"
    grade = grade_text(grader, task_of(GradingRules(values=ValueRules(), asserts=False), test), GOLD)
    assert (grade.reason, "nothing decides" in grade.message) == ("gold_fails", True)


def differ(gold: object, seen: object, most: int = 100) -> bool:
    one, two = describe(gold, most), describe(seen, most)
    return bool(difference(one, two, Tolerance(1e-4, 1e-6)))


def test_numbers_agree_as_allclose_has_it() -> None:
    """Rounding agrees, ints exactly, NaN with NaN, an int for an integral float."""
    nan, inf = float("nan"), float("inf")
    same = [(1.0, 1.00005), (2.0, 2), (3, 3.0), ([1.0, nan], (1.0, nan)), (inf, inf), (True, 1), (1 << 5000, 1 << 5000)]
    same += [(b"abc", b"abc"), (b"", b"")]
    same += [({"b": 1.0, "a": 2.0}, {"a": 2.0, "b": 1.0}), ({1.0, 2.0}, {2.0, 1.0}), (1j, 1j), ("text", "text")]
    assert [pair for pair in same if differ(*pair)] == []
    other = [(1.0, 1.001), (100_000, 100_001), (1.0, nan), (nan, 1.0), (inf, -inf), (inf, 1e308), ([1.0], [1.0, 1.0])]
    other += [(b"abc", b"abd"), ([b"a", 1.0], [b"b", 1.0])]
    other += [(1.0, None), (1j, -1j), (0.0, 1e-5), ([1.0, 2.0], [2.0, 1.0])]
    assert [pair for pair in other if not differ(*pair)] == []


def test_a_sample_stands_for_many_numbers() -> None:
    """What is kept of a large value is small; a change of all, of half and of one large number is seen."""
    import numpy as np

    gold = np.random.default_rng(0).normal(size=100_000)
    kept = describe(gold, 512)
    assert kept is not None
    assert len(str(kept)) < 7000
    assert not differ(gold, gold * (1 + 5e-5), 512)
    half, one = gold.copy(), gold.copy()
    half[::2], one[777] = 0, 1e4
    assert [differ(gold, seen, 512) for seen in (-gold, half, one, gold[::-1])] == [True] * 4
    assert not differ(gold.tolist(), gold, 512)
    unseen = [place for place in range(1000) if place not in places(100_000, 512)][:2]
    balanced = gold.copy()
    balanced[unseen[0]] += 50
    balanced[unseen[1]] -= 50
    assert differ(gold, balanced, 512)
    assert difference(kept, describe(gold, 64), Tolerance(1e-4, 1e-6)) == ""


def test_room_is_the_same_for_the_gold_and_cannot_be_used_up() -> None:
    """What is skipped takes its room in both runs; a tensor that changes often takes it once."""
    import numpy as np

    large = np.zeros(SAMPLE)
    enough = ROOM // SAMPLE + 1

    def kept(skipped: list[str], crossings: int, changes: int) -> int:
        trace = ValueTrace(skipped)
        for _ in range(crossings):
            trace.note("t", "skipped()", large)
        for _ in range(changes):
            trace.note_update("weight 1", large)
        trace.note("t", "f()", large)
        numbers = trace.values["t"][-1]
        assert numbers is not None
        return len(numbers["v"])

    assert kept(["skipped()"], enough, 0) == kept([], enough, 0) < kept([], 0, 0) == kept([], 0, enough)
