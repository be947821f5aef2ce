"""Guards: a candidate that changes what the test did not offer, or changes an offered argument into something else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rcb_agent.scoring.form import Trace
from rcb_agent.scoring.gold_form import first_difference, stable_part
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.trusted_session import Adapter
from rcb_agent.tasks.base import GradingRules
from tests.scoring.peers import session_with
from tests.scoring.support import SANDBOXED, grade_text, make_task

SOURCE = """
import numpy as np
def scale_(x): x *= 2
def both_(x, y): x += 1; y += 1
def fill_(values): values[0] = 9.0
def nested_(tree): tree["w"][0][...] = 5.0; tree["n"] = 3
def grow_(values): values.append(1.0)
def retype_(values): values[0] = "text"
def rekey_(tree): tree.pop("n"); tree["m"] = 1
def reshape_(x): x.shape = (2, 1)
class Inner:
    def step(self, grads): grads[0] *= 0
"""
LABELS = ("scale_()", "fill_()", "nested_()", "grow_()", "retype_()", "rekey_()", "reshape_()", "Inner().step()")
RULES = {**{label: [0] for label in LABELS}, "both_()": [1]}


def test_declared_arguments_are_copied_back() -> None:
    """Arrays, lists and nested structures keep their identity and take the new contents."""
    with session_with(SOURCE, adapter=Adapter(RULES)) as (_, module):
        x, values, weights = np.ones(3), [1.0, 2.0], [np.zeros(2)]
        tree: dict[str, Any] = {"w": weights, "n": 1}
        module.scale_(x)
        module.fill_(values)
        module.nested_(tree)
        assert x.tolist() == [2.0, 2.0, 2.0]
        assert values == [9.0, 2.0]
        assert tree["w"] is weights
        assert tree["w"][0].tolist() == [5.0, 5.0]
        assert tree["n"] == 3
        grads = [np.ones(2)]
        module.Inner().step(grads)
        assert grads[0].tolist() == [0.0, 0.0]


def test_other_arguments_stay_as_they_are() -> None:
    """Nothing is copied back by default, and only the declared positions are."""
    with session_with(SOURCE, adapter=Adapter(RULES)) as (_, module):
        x, y = np.ones(2), np.ones(2)
        module.both_(x, y)
        assert x.tolist() == [1.0, 1.0]
        assert y.tolist() == [2.0, 2.0]
    with session_with(SOURCE) as (_, module):
        module.scale_(x)
        assert x.tolist() == [1.0, 1.0]


WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "another length": ("grow_", lambda: [1.0]),
    "another element type": ("retype_", lambda: [1.0]),
    "other keys": ("rekey_", lambda: {"n": 1}),
    "another shape": ("reshape_", lambda: np.ones(2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_keeps_its_type_and_size(name: str) -> None:
    """The test's own object never becomes something the test did not make."""
    function, make = WRONG[name]
    with session_with(SOURCE, adapter=Adapter(RULES)) as (_, module):
        argument = make()
        with pytest.raises(RemoteError, match="in-place"):
            getattr(module, function)(argument)
        np.testing.assert_equal(argument, make())


PLANNER = """
import numpy as np

class Optimizer:
    def step(self, x):
        x -= x.mean()
    def plan(self):
        return Planner()

class Planner:
    def step(self, x):
        # <paper2code name="step">
        return x * 2.0
        # </paper2code name="step">
"""
PLANNER_TEST = """
import unittest
import numpy as np
from model import Optimizer
from model_ref import doubled

class TestPlanner(unittest.TestCase):
    def test_step(self):
        optimizer, x = Optimizer(), np.arange(3.0)
        optimizer.step(x)
        np.testing.assert_allclose(x, [-1.0, 0.0, 1.0])
        planner = optimizer.plan()
        np.testing.assert_allclose(planner.step(x), doubled(x))
"""
ZEROING = """
class Optimizer:
    calls = 0
    def step(self, x):
        self.calls += 1
        if self.calls == 1:
            x -= x.mean()
            return None
        x[...] = 0.0
        return x + 0.0
    def plan(self):
        return self
"""


@pytest.mark.parametrize(
    "skipped", [(), ("Optimizer().step()", "Optimizer().plan().step()")], ids=["traced", "skipped"]
)
@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_candidate_does_not_choose_what_is_in_place(grader: SplitGrader, skipped: tuple[str, ...]) -> None:
    """An object that is returned twice brings its rule along: the test's input is zero before the reference sees it."""
    rules = GradingRules(in_place={"Optimizer().step()": (0,)}, skip_form=skipped)
    hidden = {"model_ref.py": "def doubled(x):\n    return x * 2.0\n"}
    task = make_task(PLANNER, PLANNER_TEST, hidden=hidden, rules=rules)
    assert grade_text(grader, task, PLANNER).verdict == "passed"
    grade = grade_text(grader, task, PLANNER + ZEROING)
    assert (grade.verdict, grade.reason) == ("failed", "form")


def test_what_was_written_back_is_traced_with_its_whole_label() -> None:
    """The same name under another path is another rule."""
    gold, seen = Trace(), Trace()
    gold.note_in_place("Optimizer().step()", [0], [])
    seen.note_in_place("Planner().step()", [0], [])
    kept = stable_part(gold.entries, gold.entries)
    assert first_difference(kept, gold.entries) == ""
    assert first_difference(kept, seen.entries)
