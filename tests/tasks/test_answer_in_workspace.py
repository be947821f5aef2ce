"""Guards: a reference, a test or a copy of the answer among the files an agent sees."""

from collections.abc import Callable
from pathlib import Path

from rcb_agent.tasks.suites import load_suite

Write = Callable[[dict[str, str | bytes]], Path]

PAPERS = "- id: good\n  annotated_file_paths: model.py\n  context_file_paths: [context.py]\n"


def test_tests_references_and_strangers_are_withheld_by_name(write_suite: Write) -> None:
    """Only annotated files, declared context and what these import are shown; the rest is named with a reason."""
    suite = load_suite(
        str(
            write_suite(
                {
                    "papers.yaml": PAPERS,
                    "good/context.py": "from pkg.deep import thing\n",
                    "good/pkg/__init__.py": "",
                    "good/pkg/deep.py": "thing = 1\n",
                    "good/notebook.py": "y = x + x\n",
                }
            )
        )
    )
    task = suite.tasks[0]
    assert [file.path for file in task.problem.files_support] == ["context.py", "pkg/__init__.py", "pkg/deep.py"]
    assert {(item.path, item.reason) for item in task.withheld} == {
        ("paper2code_test.py", "hidden test"),
        ("model_ref.py", "imported by the hidden test"),
        ("notebook.py", "not on the allow list"),
    }
    assert [file.path for file in task.answer.hidden] == ["paper2code_test.py", "model_ref.py"]


def test_context_that_holds_the_answer_is_withheld(write_suite: Write) -> None:
    """A declared context file with the blank's own lines would give it away."""
    suite = load_suite(str(write_suite({"papers.yaml": PAPERS, "good/context.py": "def g(x):\n    y = x + x\n"})))
    outer = next(task for task in suite.tasks if task.problem.name == "double it")
    assert not outer.problem.files_support
    assert ("context.py", "holds 1 of the blank's 2 lines") in {(item.path, item.reason) for item in outer.withheld}


def test_digest_follows_problem_and_answer(write_suite: Write) -> None:
    """A changed hidden test is another task: a run must not be resumed over it."""
    before = load_suite(str(write_suite({})))
    after = load_suite(str(write_suite({"good/model_ref.py": "def twice(x):\n    return x * 2\n"})))
    assert before.digest != after.digest
    assert before.tasks[0].digest != after.tasks[0].digest


def test_a_relative_import_brings_the_package_it_is_relative_to(write_suite: Write) -> None:
    """``from . import x`` runs the package's own file, which may be where x comes from."""
    files: dict[str, str | bytes] = {
        "good/context.py": "from pkg.deep import thing\n",
        "good/pkg/__init__.py": "from .base import Base\n",
        "good/pkg/base.py": "Base = int\n",
        "good/pkg/deep.py": "from . import Base\nthing = Base(1)\n",
    }
    task = load_suite(str(write_suite({"papers.yaml": PAPERS, **files}))).tasks[0]
    shown = [file.path for file in task.problem.files_support]
    assert shown == ["context.py", "pkg/__init__.py", "pkg/base.py", "pkg/deep.py"]
