"""Prepares a run: resolves suite, tasks and arms into a config, and checks early what would fail late.

Everything that can be known to fail before the first trial fails here, with nothing written.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.errors import EnvironmentFault, TaskError, UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import ArmOptions, RunConfig, build_arms, digest_tasks, runtimes_of, suite_label
from rcb_agent.runs.controls import CONTROLS
from rcb_agent.scoring.base import Grader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

_SOURCES = (".py", ".md", ".yaml", ".json", ".txt")
_DISPLAY = ("runs/screen.py", "runs/inspection.py", "runs/summary.py", "runs/launch.py")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the command line asks for. ``limits`` holds only the limits that were given."""

    suite: str = "mini"
    patterns: Sequence[str] = ()
    arms: ArmOptions = field(default_factory=ArmOptions)
    attempts: int = 1
    sandbox: str = "bubblewrap"
    limits: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    results: Path = Path("results")


@dataclass(frozen=True, slots=True)
class Plan:
    """A config with the tasks it is about and the grader that will judge them."""

    config: RunConfig
    tasks: Mapping[str, Task]
    grader: Grader
    faults: tuple[str, ...]

    def facts(self) -> Json:
        """Return what ``run.json`` says beside the config, so that a run folder can be read without its suite."""
        facts = {
            task.id: {"paper": task.info.id, "loc": task.problem.loc, "depth": task.depth}
            for task in self.tasks.values()
        }
        return {"task_facts": facts, "faults": list(self.faults)}


def make_plan(request: RunRequest) -> Plan:
    """Resolve a request. Raises UsageError, TaskError, EnvironmentFault or ModelError before anything is written."""
    arms = build_arms(request.arms)
    suite = load_suite(request.suite)
    tasks = _selected(suite, request.patterns)
    conditions = Conditions(
        suite_label(request.suite), request.attempts, request.sandbox, asdict(Limits(**request.limits))
    )
    return _build_plan(conditions, suite, tasks, arms)


def replan(config: Json) -> Plan:
    """Rebuild the plan of a recorded run, to resume it: what changed since shows up as another config."""
    try:
        arms = tuple(Arm.from_json(arm) for arm in config["arms"])
        limits = asdict(Limits(**config["limits"]))
    except TypeError as error:
        raise UsageError(f"the run was made by another version of rcb-agent: {error}") from None
    suite = load_suite(config["suite"])
    wanted = set(config["tasks"])
    tasks = tuple(task for task in suite.tasks if task.id in wanted)
    conditions = Conditions(config["suite"], config["attempts"], config["sandbox"], limits)
    return _build_plan(conditions, suite, tasks, arms)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a plan is built under, beside its tasks and arms."""

    suite: str
    attempts: int
    sandbox: str
    limits: Json


def _build_plan(conditions: Conditions, suite: LoadedSuite, tasks: tuple[Task, ...], arms: tuple[Arm, ...]) -> Plan:
    from rcb_agent.runs.trial import keep_suite

    runtimes = check_environment(conditions.sandbox, tasks)
    check_models(arms)
    grader = make_grader(conditions.sandbox, Limits(**conditions.limits))
    config = RunConfig(
        suite=conditions.suite,
        suite_digest=digest_tasks(tasks),
        tasks=tuple(task.id for task in tasks),
        arms=arms,
        attempts=conditions.attempts,
        sandbox=conditions.sandbox,
        limits=conditions.limits,
        runtimes={name: runtime.digest for name, runtime in runtimes.items()},
        grader=grader.version,
        prompts=_prompts_digest(),
        code=digest_code(),
    )
    keep_suite(conditions.suite, suite)
    return Plan(config, {task.id: task for task in tasks}, grader, tuple(str(fault) for fault in suite.faults))


def _selected(suite: LoadedSuite, patterns: Sequence[str]) -> tuple[Task, ...]:
    if not suite.tasks:
        first = suite.faults[0] if suite.faults else "it holds no task"
        raise TaskError(f"suite {suite.name}: nothing to run: {first}")
    return select_tasks(suite, patterns)


def check_environment(sandbox: str, tasks: Sequence[Task]) -> dict[str, Runtime]:
    """Load every runtime and start one sandbox. Raises EnvironmentFault, TaskError or UsageError."""
    from rcb_agent.environments.registry import open_sandbox

    runtimes = {name: _load_runtime(name, tasks) for name in runtimes_of(tasks)}
    for runtime in runtimes.values():
        open_sandbox(sandbox, SandboxSpec(runtime)).close()
    if shutil.which("git") is None:
        raise EnvironmentFault("git is not installed: apt-get install git")
    return runtimes


def _load_runtime(name: str, tasks: Sequence[Task]) -> Runtime:
    from rcb_agent.environments.runtimes import load_runtime

    try:
        return load_runtime(name)
    except UsageError:
        paper = next(task.info.id for task in tasks if task.problem.runtime == name)
        variable = f"RCB_AGENT_RUNTIME_{''.join(c if c.isalnum() else '_' for c in name.upper())}"
        raise TaskError(
            f"paper {paper} needs the runtime {name!r}, which is not known here: say `runtime: mini` in "
            f"{paper}/rcb-agent.yaml, or name a Python that has its packages in {variable}"
        ) from None


def check_models(arms: Sequence[Arm], *, capped: bool = False) -> None:
    """Open every model once, so that a wrong name or parameter is known now. Raises UsageError or ModelError.

    ``capped``: the run has a cap on dollars, which only known prices can hold.
    """
    from rcb_agent.agents.registry import prepare_model
    from rcb_agent.runs.trial import sampling_of

    for arm in arms:
        if arm.agent not in CONTROLS:
            needed = arm.price is None and (capped or arm.max_cost is not None)
            prepare_model(arm.model, sampling_of(arm), needs_price=needed)


def make_grader(sandbox: str, limits: Limits) -> Grader:
    """Return the grader of mode ``split`` over one kind of sandbox with these limits."""
    from rcb_agent.environments.registry import open_sandbox
    from rcb_agent.environments.runtimes import load_runtime
    from rcb_agent.scoring.split import SplitGrader, SplitLimits

    return SplitGrader(partial(open_sandbox, sandbox), load_runtime, limits=SplitLimits(sandbox=limits))


def digest_code() -> str:
    """Hash our own sources: prompts in code, tools, masking, sandboxes and grading all can move a result.

    Suites are left out (``suite_digest`` covers the tasks of the run), and so is the way results are shown.
    """
    digest = hashlib.sha256()
    for package in ("tasks", "environments", "agents", "scoring", "runs"):
        root = Path(str(files(f"rcb_agent.{package}")))
        for path in sorted(root.rglob("*")):
            name = f"{package}/{path.relative_to(root).as_posix()}"
            if path.suffix in _SOURCES and not name.startswith("tasks/data/") and name not in _DISPLAY:
                digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _prompts_digest() -> str:
    from rcb_agent.agents.prompts import prompts_digest

    return prompts_digest()
