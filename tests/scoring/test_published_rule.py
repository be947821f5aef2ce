"""Guards: parity grading by another rule than the published one, or without saying that it protects nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from rcb_agent.scoring.base import Grade
from rcb_agent.scoring.upstream import UpstreamGrader, place_candidate
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import fill_blank
from rcb_agent.tasks.suites import load_suite
from tests.scoring.support import OPEN, SANDBOXED, runtime

FILES: Mapping[str, str] = {
    "papers.yaml": "- {id: p, title: T, venue: V, annotated_file_paths: [model.py, other.py], context_file_paths: null}\n",
    "p/model.py": (
        'def f(x):\n    # <paper2code name="whole">\n    # <paper2code name="part">\n    y = x + x\n'
        '    # </paper2code name="part">\n    return y\n    # </paper2code name="whole">\n'
    ),
    "p/other.py": '# <paper2code name="constant">\nC = 1\n# </paper2code name="constant">\n',
    "p/paper2code_paper.md": "# P\n",
    "p/data/numbers.txt": "7\n",
    "p/model_ref.py": "def f(x):\n    return 2 * x\n",
    "p/paper2code_test.py": (
        "import unittest\nfrom model import f\nfrom model_ref import f as g\n\n\n"
        "class T(unittest.TestCase):\n    def test_f(self):\n"
        "        number = int(open('data/numbers.txt').read())\n        self.assertEqual(f(number), g(number))\n\n\n"
        "if __name__ == '__main__':\n    unittest.main()\n"
    ),
    "p/rcb-agent.yaml": "runtime: mini\n",
}


@dataclass(frozen=True)
class Bench:
    """A suite on disk and its grader."""

    root: Path
    grader: UpstreamGrader

    def task(self, name: str = "part") -> Task:
        return next(task for task in load_suite(str(self.root)).tasks if task.id == f"p/{name}")

    def grade(self, code: str) -> Grade:
        return self.grader.grade(self.task(), {"model.py": fill_blank(self.task().problem, code).encode()})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite."""
    folder = tmp_path_factory.mktemp("suite")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def bench(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """It with a grader of little patience."""
    return Bench(root, UpstreamGrader(OPEN, lambda _: runtime(), root, cache=tmp_path_factory.mktemp("c"), seconds=4))


def in_sandbox(test: Callable[..., None]) -> Callable[..., None]:
    for mark in SANDBOXED:
        test = mark(test)
    return test


CASES = {
    "gold": ("    y = x + x\n", "passed", "", 0),
    "wrong": ("    y = x\n", "failed", "tests_failed", 1),
    "nothing": ("", "failed", "tests_failed", 1),
    "a word on standard output": ("    print('no ValueError: here')\n    y = x + x\n", "failed", "tests_failed", 0),
    "a word on standard error": (
        "    import sys\n    print('not failed', file=sys.stderr)\n    y = x + x\n",
        "failed",
        "tests_failed",
        0,
    ),
    "harmless words": ("    print('error: FAILED exception')\n    y = x + x\n", "passed", "", 0),
    "a word in the middle of much output": (
        "    print('.' * 60_000 + 'Traceback' + '.' * 60_000)\n    y = x + x\n",
        "failed",
        "tests_failed",
        0,
    ),
    "endless": ("    while True: pass\n", "failed", "time_limit", 124),
}


@in_sandbox
@pytest.mark.parametrize("name", CASES)
def test_exit_status_and_words_decide(bench: Bench, name: str) -> None:
    """Status 0 and none of the four words, exactly; time runs out as ``timeout`` has it."""
    code, verdict, reason, status = CASES[name]
    grade = bench.grade(code)
    assert (grade.verdict, grade.reason, grade.details["exit_code"]) == (verdict, reason, status)
    assert grade.details["protected"] is False


@in_sandbox
def test_it_protects_nothing_and_says_so(bench: Bench) -> None:
    """Code that ends the test's process, or reads the answer beside it, passes by this rule: hence the label."""
    for cheat in ("    import os\n    os._exit(0)\n", "    import model_ref\n    y = model_ref.f(x)\n"):
        grade = bench.grade(cheat)
        assert (grade.verdict, grade.details["protected"]) == ("passed", False)
    assert bench.grader.mode == "upstream"


@in_sandbox
def test_gold_that_fails_here_measures_nothing(root: Path, tmp_path: Path) -> None:
    """By the same rule, before anything is paid for; what would have passed is not measured either."""
    broken = tmp_path / "suite"
    for name, text in FILES.items():
        path = broken / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("7", "seven") if name.endswith("numbers.txt") else text)
    bench = Bench(broken, UpstreamGrader(OPEN, lambda _: runtime(), broken, cache=tmp_path / "cache"))
    assert "exit status 1" in bench.grader.preflight(bench.task())
    assert (bench.grade("    y = x + x\n").verdict, bench.grade("    y = x + x\n").reason) == (
        "not_measured",
        "gold_fails",
    )


def test_only_the_lines_of_the_blank_are_replaced(root: Path) -> None:
    """The original keeps all other markers and loses its last line end, as the authors write it."""
    task = next(task for task in load_suite(str(root)).tasks if task.id == "p/part")
    given = {file.path: file.encode() for file in task.problem.files}
    filled = {**given, "model.py": fill_blank(task.problem, "    y = 3\r\n").encode()}
    placed = place_candidate(root, task, filled)
    original = FILES["p/model.py"]
    assert placed == {"model.py": original.replace("    y = x + x", "    y = 3").rstrip("\n").encode()}


def test_what_an_agent_changed_elsewhere_is_graded_as_left(root: Path) -> None:
    """In the blank's own file and in the paper's others; files as given stay the authors'."""
    task = next(task for task in load_suite(str(root)).tasks if task.id == "p/part")
    given = {file.path: file.encode() for file in task.problem.files}
    changed = fill_blank(task.problem, "    y = 3\n").replace("def f(x)", "def f(x, z=0)").encode()
    assert place_candidate(root, task, {**given, "model.py": changed}) == {"model.py": changed}
    both = {"model.py": changed, "other.py": b"C = 2\n"}
    assert place_candidate(root, task, both) == both
    lost = fill_blank(task.problem, '    # <paper2code name="part">\n    y = 3\n').encode()
    assert place_candidate(root, task, {"model.py": lost}) == {"model.py": lost}
