"""Guards: a scripted draft that is not what ``demo.yaml`` says it is, so that the demo run shows a wrong table."""

import re
from collections import Counter

import pytest

from rcb_agent.agents.demo import Script, indent
from rcb_agent.agents.scripted import load_scripts
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.leaks import compare, telling_lines
from rcb_agent.tasks.suites import load_suite
from tests.tasks.plain_runs import passes, run_hidden_test, run_own_test

TASKS = load_suite("mini").tasks
SCRIPTS = load_scripts()
EACH = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)


def fitted(task: Task, code: str) -> str:
    """Return code at the indentation of the task's blank."""
    todo = re.search(r"^([ \t]*)#.*\bTODO\b", task.problem.target.text, re.MULTILINE)
    assert todo is not None
    return indent(code, todo[1])


def is_right(task: Task, code: str) -> bool:
    """Ask the hidden test."""
    return passes(run_hidden_test(task, fitted(task, code)))


def is_green(task: Task, script: Script, code: str) -> bool:
    """Ask the script's own test."""
    return passes(run_own_test(task, fitted(task, code), script.test))


@EACH
def test_drafts_are_as_right_as_they_claim(task: Task) -> None:
    """Right at once for solve, wrong for all others; a repair is right."""
    script = SCRIPTS[task.id]
    assert is_right(task, script.draft) == (script.behaviour == "solve")
    if script.repair:
        assert is_right(task, script.repair)


@EACH
def test_own_tests_notice_what_they_should(task: Task) -> None:
    """Red for a draft that gets repaired, green for everything else, the wrong drafts included."""
    script = SCRIPTS[task.id]
    if script.behaviour == "repair":
        assert not is_green(task, script, script.draft)
        assert is_green(task, script, script.repair)
    elif script.test:
        assert is_green(task, script, script.draft)


@EACH
def test_drafts_are_not_the_answer(task: Task) -> None:
    """The demo works from the paper: lines copied from the gold would be a leak in the package; a `return 0.0` is chance."""
    script = SCRIPTS[task.id]
    gold = telling_lines(task.answer.gold)
    for text in (script.draft, script.repair, script.test):
        overlap = compare(gold, text)
        assert not overlap.is_copy
        assert overlap.held <= 1


def test_the_mix_is_believable() -> None:
    """Every task has a script, about half are right at once, and each behaviour is there to be seen."""
    assert set(SCRIPTS) == {task.id for task in TASKS}
    mix = Counter(script.behaviour for script in SCRIPTS.values())
    assert mix == {"solve": 28, "repair": 16, "wrong": 8, "loop": 3}
