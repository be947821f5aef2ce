"""Guards: mini's hidden tests fail the gold, or pass an empty or slightly wrong answer.

Here everything runs in one plain process per file, to be quick; ``scripts/mini_table.py`` does the same in the
real grader. A wrong answer is one of the generated mutants.
"""

import io
import sys
import time
import types
import unittest
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

import pytest

from rcb_agent.tasks.base import SourceFile, Task
from rcb_agent.tasks.masking import fill_blank, null_code
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.suites import load_suite

TASKS = load_suite("mini").tasks
MUTANTS_TRIED = 5


def run_hidden_test(task: Task, code: str) -> unittest.TestResult | Exception:
    """Run the hidden test with ``code`` in the blank; an import that fails is returned as what it raised."""
    target = SourceFile(task.problem.path, fill_blank(task.problem, code))
    others = [file for file in task.answer.files if file.path != target.path]
    files = [*task.answer.support, target, *others, *task.answer.hidden]
    modules = {file.path.removesuffix(".py"): file for file in files}
    finder = _Finder(modules)
    sys.meta_path.insert(0, finder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            suite = unittest.defaultTestLoader.loadTestsFromName("paper2code_test")
            return unittest.TextTestRunner(io.StringIO()).run(suite)
    except Exception as error:  # noqa: BLE001 - the candidate may raise whatever it likes
        return error
    finally:
        sys.meta_path.remove(finder)
        for name in modules:
            sys.modules.pop(name, None)


class _Finder(MetaPathFinder, Loader):
    """Imports the files of one paper from memory."""

    def __init__(self, modules: dict[str, SourceFile]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self._modules else None

    def exec_module(self, module: types.ModuleType) -> None:
        file = self._modules[module.__name__]
        exec(compile(file.text, file.path, "exec"), module.__dict__)  # noqa: S102 - our own files


def passes(outcome: unittest.TestResult | Exception) -> bool:
    """Say whether every hidden test ran and succeeded."""
    return isinstance(outcome, unittest.TestResult) and outcome.testsRun > 0 and outcome.wasSuccessful()


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
