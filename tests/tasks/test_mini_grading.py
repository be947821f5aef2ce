"""Guards: mini's hidden tests fail the gold, or pass an empty or slightly wrong answer.

Here everything runs in one plain process per file, to be quick; ``rcb-agent tasks validate`` does the same in the
real grader. A wrong answer is one of the generated mutants.
"""

import time

import pytest

from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import null_code
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.suites import load_suite
from tests.tasks.plain_runs import passes, run_hidden_test

TASKS = load_suite("mini").tasks
MUTANTS_TRIED = 5


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_gold_passes_and_is_quick(task: Task) -> None:
    """A task that its own answer fails measures nothing; a slow one makes every run slow."""
    started = time.process_time()
    outcome = run_hidden_test(task, task.answer.gold)
    assert passes(outcome), getattr(outcome, "failures", outcome)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_empty_answer_fails(task: Task) -> None:
    """A blank that may stay empty rewards doing nothing."""
    assert not passes(run_hidden_test(task, null_code(task.problem)))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_slightly_wrong_answers_fail(task: Task) -> None:
    """A wrong sign, bound or constant must be noticed, or a pass says little."""
    mutants = mutants_of(task, seed=0, count=MUTANTS_TRIED)
    assert len(mutants) == MUTANTS_TRIED
    assert [one.description for one in mutants if passes(run_hidden_test(task, one.code))] == []
