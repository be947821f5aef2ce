"""Tasks made by hand, without any suite folder, and the grader over real sandboxes."""

import atexit
import shutil
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

import pytest

from rcb_agent.environments.base import Runtime, Sandbox, SandboxSpec
from rcb_agent.environments.registry import open_sandbox
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.environments.warm import WarmSandboxes
from rcb_agent.scoring.base import Grade
from rcb_agent.scoring.split import SplitGrader, SplitLimits
from rcb_agent.tasks.base import Answer, GradingRules, PaperInfo, Problem, SourceFile, Task
from rcb_agent.tasks.markers import find_blanks
from rcb_agent.tasks.masking import agent_view, gold_view, prompt_view

ATTACKS = Path(__file__).parent.parent / "attacks"

SANDBOXED = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not on PATH"),
]

OPEN = partial(open_sandbox, "bubblewrap")


class Counting:
    """Opens real sandboxes and counts them."""

    def __init__(self) -> None:
        self.opened = 0

    def __call__(self, spec: SandboxSpec) -> Sandbox:
        self.opened += 1
        return OPEN(spec)


@cache
def runtime() -> Runtime:
    """The shipped suite's runtime (numpy)."""
    return load_runtime("mini")


@cache
def warm() -> WarmSandboxes:
    """One for all tests of a process: what it forks is what real runs grade in."""
    kept = WarmSandboxes()
    atexit.register(kept.close)
    return kept


def make_grader(cache: Path, limits: SplitLimits | None = None, *, start: str = "warm") -> SplitGrader:
    """A grader whose sides are forked, as in real runs, or started "cold"."""
    return SplitGrader(OPEN, lambda _: runtime(), limits=limits, cache=cache, warm=warm() if start == "warm" else None)


def make_task(
    gold: str,
    test: str,
    *,
    path: str = "model.py",
    module: str = "model",
    hidden: Mapping[str, str] | None = None,
    support: Mapping[str, str] | None = None,
    rules: GradingRules | None = None,
) -> Task:
    """Return a task whose blank is the first of ``gold``."""
    blank = find_blanks(gold)[0]
    text, inside = gold_view(gold, blank)
    helpers = tuple(SourceFile(name, body) for name, body in (support or {}).items())
    problem = Problem(
        task_id=f"paper/{blank.name}",
        paper_id="paper",
        name=blank.name,
        path=path,
        loc=blank.loc,
        files=(SourceFile(path, agent_view(gold, blank)),),
        files_support=helpers,
        prompt_target=prompt_view(gold, blank),
        paper=None,
        runtime="mini",
    )
    secrets = {"paper2code_test.py": test, **(hidden or {})}
    answer = Answer(
        gold=inside,
        files=(SourceFile(path, text),),
        support=helpers,
        hidden=tuple(SourceFile(name, body) for name, body in secrets.items()),
        test_path="paper2code_test.py",
        modules=(module,),
        rules=rules or GradingRules(),
    )
    return Task(problem, answer, PaperInfo("paper", "A paper"), blank.depth, None, (), "digest")


@cache
def fixture_task(name: str) -> Task:
    """Return the task of a folder below ``tests/attacks/task``."""
    folder = ATTACKS / "task" / name
    hidden = {"model_ref.py": (folder / "model_ref.py").read_text()}
    return make_task((folder / "solution.py").read_text(), (folder / "paper2code_test.py").read_text(), hidden=hidden)


def honest(name: str) -> str:
    return (ATTACKS / "task" / name / "solution.py").read_text()


def grade_text(grader: SplitGrader, task: Task, text: str) -> Grade:
    """Grade a whole target file."""
    return grader.grade(task, {task.problem.path: text.encode()})
