"""Runs unittest files of the mini suite in this process, from memory: quick, and only for code that we wrote."""

import io
import sys
import types
import unittest
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

from rcb_agent.tasks.base import SourceFile, Task
from rcb_agent.tasks.masking import fill_blank

Outcome = unittest.TestResult | Exception


def run_hidden_test(task: Task, code: str) -> Outcome:
    """Run the hidden test with ``code`` in the blank; an import that fails is returned as what it raised."""
    target = SourceFile(task.problem.path, fill_blank(task.problem, code))
    others = [file for file in task.answer.files if file.path != target.path]
    return run_test([target, *others, *task.answer.support, *task.answer.hidden], "paper2code_test")


def run_own_test(task: Task, code: str, test: str) -> Outcome:
    """Run a test as an agent would in its workspace: nothing hidden is there."""
    target = SourceFile(task.problem.path, fill_blank(task.problem, code))
    others = [file for file in task.problem.files if file.path != target.path]
    return run_test([target, *others, *task.problem.files_support, SourceFile("own_test.py", test)], "own_test")


def run_test(files: Iterable[SourceFile], module: str) -> Outcome:
    """Run one unittest module among ``files``; no file of the disk is looked at."""
    with _importable({file.path.removesuffix(".py"): file for file in files}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(module)
            return unittest.TextTestRunner(io.StringIO()).run(suite)
        except Exception as error:  # noqa: BLE001 - the candidate may raise whatever it likes
            return error


def passes(outcome: Outcome) -> bool:
    """Say whether every test ran and succeeded, and there was one."""
    return isinstance(outcome, unittest.TestResult) and outcome.testsRun > 0 and outcome.wasSuccessful()


@contextmanager
def _importable(modules: dict[str, SourceFile]) -> Iterator[None]:
    finder = _Finder(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
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
