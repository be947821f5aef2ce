"""Guards: a verdict that depends on how fast the machine is, where the code itself stops on measured time."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rcb_agent.scoring.base import NOT_MEASURED, PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules, Task
from tests.scoring.support import SANDBOXED, grade_text, make_task

pytestmark = SANDBOXED

GOLD = """\
import time
from time import perf_counter


def train(seconds):
    # <paper2code name="train">
    turns, begun = 0, time.time()
    while time.time() - begun < seconds:
        turns += 1
    # </paper2code name="train">
    return turns


def clocks():
    return [type(read()).__name__ for read in (time.time, time.monotonic_ns, time.process_time, perf_counter)]
"""

TEST = """\
import time
import unittest
import model
import model_ref


class TestModel(unittest.TestCase):
    def test_turns(self):
        self.assertEqual(model.train(0.05), model_ref.train(0.05))

    def test_clocks(self):
        self.assertEqual(model.clocks(), ["float", "int", "float", "float"])
        self.assertLess(time.monotonic(), time.monotonic())
"""


def task_with(clock: float) -> Task:
    task = make_task(GOLD, TEST, hidden={"model_ref.py": GOLD.replace("paper2code", "of the paper")})
    return replace(task, answer=replace(task.answer, rules=GradingRules(seconds=20.0, clock=clock)))


def test_counted_time_is_the_same_on_every_machine(grader: SplitGrader) -> None:
    """With a counted clock both sides make the same number of turns: the gold code passes."""
    grade = grade_text(grader, task_with(0.001), GOLD)
    assert (grade.verdict, grade.message) == (PASSED, "")


def test_a_clock_that_is_a_default_argument_counts_too() -> None:
    """``timeit`` loaded ahead of time measures what it would measure had it been imported afterwards."""
    code = (
        "from rcb_agent.scoring import counted_clock\ncounted_clock.remember_loaded()\nimport timeit\n"
        "counted_clock.install(0.25)\nprint([round(t, 3) for t in (timeit.timeit('pass', number=1), *timeit.Timer('pass').repeat(1, 1))])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[0.25, 0.25]\n"


def test_a_module_imported_anew_counts_too(tmp_path: Path) -> None:
    """What was looked at ahead of time is not taken for a workspace's own module of that name; two names are one module."""
    (tmp_path / "stopwatch.py").write_text("from time import time\n")
    code = (
        "import sys\nfrom rcb_agent.scoring import counted_clock as c\nc.remember_loaded()\n"
        "import stopwatch, timeit\nsys.modules['alias'], sys.modules['number'], sys.modules['no'] = timeit, 1, None\nc.find_clocks()\nold = sys.modules.pop('stopwatch')\n"
        "import stopwatch\nc.install(0.25)\nprint([w.time() > 1.7e9 + 9 for w in (old, stopwatch)], round(timeit.timeit(number=1), 3))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert result.stdout == "[False, False] 0.25\n"


def test_without_it_the_gold_code_cannot_be_measured(grader: SplitGrader) -> None:
    """The same paper on real time is not measured, which is what the rule is for."""
    grade = grade_text(grader, task_with(0.0), GOLD)
    assert (grade.verdict, grade.reason) == (NOT_MEASURED, "gold_fails")


@pytest.mark.parametrize("way", ["while True:\n        pass", "time.sleep(60)"])
def test_real_time_still_bounds_a_grade(grader: SplitGrader, way: str) -> None:
    """A candidate that stands still on a counted clock ends by the grade's own clock."""
    task = task_with(0.001)
    task = replace(task, answer=replace(task.answer, rules=replace(task.answer.rules, seconds=2.0)))
    text = GOLD.replace("    turns, begun = 0, time.time()\n", f"    turns, begun = 0, time.time()\n    {way}\n")
    grade: Grade = grade_text(grader, task, text)
    assert (grade.verdict, grade.reason) == ("failed", "time_limit")
