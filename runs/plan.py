"""Prepares a run: resolves suite, tasks and arms into a config, and checks early what would fail late.

Everything that can be known to fail before the first trial fails here, with nothing written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.errors import TaskError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import ArmOptions, RunConfig, build_arms, digest_tasks, runtimes_of, suite_label
from rcb_agent.runs.controls import CONTROLS
from rcb_agent.scoring.base import Grader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks


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

    def task_facts(self) -> Json:
        """Return what tables need of each task, so that a run folder can be read without its suite."""
        return {
            task.id: {"paper": task.info.id, "loc": task.problem.loc, "depth": task.depth}
            for task in self.tasks.values()
        }


def make_plan(request: RunRequest) -> Plan:
    """Resolve a request. Raises UsageError, TaskError, EnvironmentFault or ModelError before anything is written."""
    arms = build_arms(request.arms)
    suite = load_suite(request.suite)
    tasks = _selected(suite, request.patterns)
    limits = asdict(Limits(**request.limits))
    runtimes = check_environment(request.sandbox, tasks)
    check_models(arms)
    grader = make_grader(request.sandbox)
    config = RunConfig(
        suite=suite_label(request.suite),
        suite_digest=digest_tasks(tasks),
        tasks=tuple(task.id for task in tasks),
        arms=arms,
        attempts=request.attempts,
        sandbox=request.sandbox,
        limits=limits,
        runtimes={name: runtime.digest for name, runtime in runtimes.items()},
        grader=grader.version,
        prompts=_prompts_digest(),
    )
    return Plan(config, {task.id: task for task in tasks}, grader, tuple(str(fault) for fault in suite.faults))


def replan(config: Json) -> Plan:
    """Rebuild the plan of a recorded run, to resume it: what changed since shows up as another config."""
    arms = tuple(Arm.from_json(arm) for arm in config["arms"])
    suite = load_suite(config["suite"])
    wanted = set(config["tasks"])
    tasks = tuple(task for task in suite.tasks if task.id in wanted)
    runtimes = check_environment(config["sandbox"], tasks)
    check_models(arms)
    grader = make_grader(config["sandbox"])
    rebuilt = RunConfig(
        suite=config["suite"],
        suite_digest=digest_tasks(tasks),
        tasks=tuple(task.id for task in tasks),
        arms=arms,
        attempts=config["attempts"],
        sandbox=config["sandbox"],
        limits=config["limits"],
        runtimes={name: runtime.digest for name, runtime in runtimes.items()},
        grader=grader.version,
        prompts=_prompts_digest(),
    )
    return Plan(rebuilt, {task.id: task for task in tasks}, grader, ())


def _selected(suite: LoadedSuite, patterns: Sequence[str]) -> tuple[Task, ...]:
    if not suite.tasks:
        first = suite.faults[0] if suite.faults else "it holds no task"
        raise TaskError(f"suite {suite.name}: nothing to run: {first}")
    return select_tasks(suite, patterns)


def check_environment(sandbox: str, tasks: Sequence[Task]) -> dict[str, Runtime]:
    """Load every runtime and start one sandbox. Raises EnvironmentFault or UsageError."""
    from rcb_agent.environments.registry import open_sandbox
    from rcb_agent.environments.runtimes import load_runtime

    runtimes = {name: load_runtime(name) for name in runtimes_of(tasks)}
    for runtime in runtimes.values():
        open_sandbox(sandbox, SandboxSpec(runtime)).close()
    return runtimes


def check_models(arms: Sequence[Arm]) -> None:
    """Open every model once, so that a wrong name is known now. Raises UsageError or ModelError."""
    from rcb_agent.agents.registry import open_model

    for model in {arm.model for arm in arms if arm.agent not in CONTROLS}:
        open_model(model)


def make_grader(sandbox: str) -> Grader:
    """Return the grader of mode ``split`` over one kind of sandbox."""
    from rcb_agent.environments.registry import open_sandbox
    from rcb_agent.environments.runtimes import load_runtime
    from rcb_agent.scoring.split import SplitGrader

    return SplitGrader(partial(open_sandbox, sandbox), load_runtime)


def _prompts_digest() -> str:
    from rcb_agent.agents.prompts import prompts_digest

    return prompts_digest()
