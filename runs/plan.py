"""Prepares a run: resolves suite, tasks and arms into a config, and checks early what would fail late.

Everything that can be known to fail before the first trial fails here, with nothing written.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime, Sandbox, SandboxSpec
from rcb_agent.environments.registry import is_isolated
from rcb_agent.environments.shims import shims_in
from rcb_agent.errors import EnvironmentFault, TaskError, UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import ArmOptions, RunConfig, build_arms, cheats_of, digest_tasks, suite_label
from rcb_agent.runs.containers import (
    ContainerWish,
    check_base_is_the_same,
    check_wish,
    choose_container,
    image_ids,
    read_container,
)
from rcb_agent.runs.matching import match_budgets
from rcb_agent.runs.pythons import Pythons, choose_pythons, load_runtimes
from rcb_agent.runs.salting import find_secret, keep_secret
from rcb_agent.runs.upstream_parts import digest_folders, digest_prompts
from rcb_agent.scoring.base import Grader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

_SOURCES = (".py", ".md", ".yaml", ".json", ".txt")
_DISPLAY = (
    *(f"runs/{name}.py" for name in ("screen", "inspection", "pulling", "summary", "launch", "doctor", "listing")),
    *(
        f"runs/{name}.py"
        for name in ("furnishing", "cleaning", "audit", "auditing", "authoring", "scaffold", "checking")
    ),
    *(f"runs/{name}.py" for name in ("leaderboard", "board_screen", "importing", "upstream_results")),
    *(
        f"runs/{name}.py"
        for name in ("preview", "estimate", "presets", "cheats", "verification", "regrading", "setups")
    ),
    *(
        f"runs/{name}.py"
        for name in ("curves", "curve_screen", "snapshot_grading", "ablation", "ablation_arms", "tool_use")
    ),
    *(f"runs/{name}.py" for name in ("soundness", "depth", "validation", "validation_screen", "validating")),
    *(f"runs/{name}.py" for name in ("compare", "compare_words", "compare_screen", "compare_text", "compare_tables")),
    *(f"runs/{name}.py" for name in ("contestants", "breakdowns", "copies", "failures", "latex", "output")),
    *(f"tasks/{name}.py" for name in ("published", "cutoffs", "contamination", "mutants", "trivial")),
    *(f"scoring/{name}.py" for name in ("intervals", "comparison", "clustered", "simulation", "error_classes")),
    "environments/package_index.py",
)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the command line asks for. ``limits`` holds only the limits that were given."""

    suite: str = "mini"
    patterns: Sequence[str] = ()
    arms: ArmOptions = field(default_factory=ArmOptions)
    attempts: int = 1
    sandbox: str = "bubblewrap"
    limits: Mapping[str, Any] = field(default_factory=dict)
    pythons: Sequence[str] = ()
    docker_base: str | None = None
    docker_runtime: str = ""
    grading: str = "split"
    cheats: str | None = None
    salt: str = ""
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
            task.id: {
                "paper": task.info.id,
                "loc": task.problem.loc,
                "depth": task.depth,
                "digest": task.digest,
            }
            for task in self.tasks.values()
        }
        return {"task_facts": facts, "faults": list(self.faults), "image_ids": image_ids(self.config.container)}


def make_plan(request: RunRequest) -> Plan:
    """Resolve a request. Raises UsageError, TaskError, EnvironmentFault or ModelError before anything is written."""
    arms = build_arms(request.arms)
    suite = load_suite(request.suite)
    tasks = _selected(suite, request.patterns)
    arms = match_budgets(arms, [task.id for task in tasks], request.results)
    limits = asdict(Limits(**request.limits))
    pythons = choose_pythons(request.pythons, tasks)
    label = suite_label(request.suite)
    attempts = _attempts(request, arms)
    wish = ContainerWish(request.docker_base, request.docker_runtime)
    check_wish(request.sandbox, wish, pythons)
    if request.salt and request.grading != "split":
        raise UsageError(f"--salt: seeds are salted in grading split only, not in {request.grading}")
    salt = keep_secret(request.salt)
    conditions = Conditions(label, attempts, request.sandbox, limits, pythons, request.grading, wish, salt)
    return _build_plan(conditions, suite, tasks, arms)


def _attempts(request: RunRequest, arms: Sequence[Arm]) -> int:
    """Return the attempts per task; with ``--cheats`` each task is tried with each of them, one an attempt."""
    if request.cheats is None:
        return request.attempts
    if not all(cheats_of(arm.as_json()) for arm in arms):
        raise UsageError("--cheats takes every task with every cheat: --agent cheater alone, other arms in another run")
    if request.attempts != 1:
        raise UsageError("--cheats takes every task with every cheat, one an attempt: leave --attempts out")
    return len(cheats_of(arms[0].as_json()))


def _refuse_bare_cheater(conditions: "Conditions", arms: Sequence[Arm]) -> None:
    if any(cheats_of(arm.as_json()) for arm in arms) and not is_isolated(conditions.sandbox):
        raise UsageError(
            f"--agent cheater with --sandbox {conditions.sandbox}: its programs are hostile, and nothing would isolate "
            "them from this machine; use --sandbox bubblewrap"
        )


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
    pythons, mode = config.get("pythons", {}), config["mode"]
    container = config.get("container", {})
    check_base_is_the_same(container)
    wish = ContainerWish(container.get("base"), container.get("engine_runtime", ""))
    name = config.get("salt", "")
    salt = find_secret(name), name
    conditions = Conditions(config["suite"], config["attempts"], config["sandbox"], limits, pythons, mode, wish, salt)
    return _build_plan(conditions, suite, tasks, arms)


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a plan is built under, beside its tasks and arms."""

    suite: str
    attempts: int
    sandbox: str
    limits: Json
    pythons: Pythons
    mode: str = "split"
    container: ContainerWish = field(default_factory=ContainerWish)
    salt: tuple[str, str] = ("", "")
    """The secret of salted seeds, and its hash."""


def _build_plan(conditions: Conditions, suite: LoadedSuite, tasks: tuple[Task, ...], arms: tuple[Arm, ...]) -> Plan:
    from rcb_agent.runs.trial import keep_suite

    _refuse_bare_cheater(conditions, arms)
    runtimes = load_runtimes(tasks, conditions.pythons)
    container = choose_container(conditions.sandbox, conditions.container, runtimes)
    check_environment(conditions.sandbox, runtimes, container)
    prompts = digest_prompts(_prompts_digest(), arms, suite)
    check_models(arms)
    grader = make_grader(conditions, suite.root, container)
    digest = digest_tasks(tasks)
    config = RunConfig(
        suite=conditions.suite,
        suite_digest=digest if conditions.mode == "split" else digest_folders(digest, suite, tasks),
        tasks=tuple(task.id for task in tasks),
        arms=arms,
        attempts=conditions.attempts,
        sandbox=conditions.sandbox,
        limits=conditions.limits,
        runtimes={name: runtime.digest for name, runtime in runtimes.items()},
        pythons=conditions.pythons,
        container=container,
        grader=grader.version,
        prompts=prompts,
        code=digest_code(),
        mode=conditions.mode,
        salt=conditions.salt[1],
        shims={name: found for name, runtime in runtimes.items() if (found := shims_in(runtime.packages))},
    )
    keep_suite(conditions.suite, suite)
    return Plan(config, {task.id: task for task in tasks}, grader, tuple(str(fault) for fault in suite.faults))


def _selected(suite: LoadedSuite, patterns: Sequence[str]) -> tuple[Task, ...]:
    if not suite.tasks:
        first = suite.faults[0] if suite.faults else "it holds no task"
        raise TaskError(f"suite {suite.name}: nothing to run: {first}")
    return select_tasks(suite, patterns)


def check_environment(sandbox: str, runtimes: Mapping[str, Runtime], container: Json) -> None:
    """Start one sandbox of each runtime. Raises EnvironmentFault or UsageError."""
    from rcb_agent.environments.registry import open_sandbox

    for runtime in runtimes.values():
        open_sandbox(sandbox, SandboxSpec(runtime, container=read_container(container))).close()
    if shutil.which("git") is None:
        raise EnvironmentFault("git is not installed: apt-get install git")


def check_models(arms: Sequence[Arm], *, capped: bool = False) -> None:
    """Open every model once, so that a wrong name or parameter is known now. Raises UsageError or ModelError.

    ``capped``: the run has a cap on dollars, which only known prices can hold.
    """
    from rcb_agent.agents.registry import NO_MODEL, prepare_model
    from rcb_agent.runs.trial import sampling_of

    for arm in arms:
        if arm.model != NO_MODEL:
            in_dollars = arm.max_cost is not None or arm.match.get("by") == "dollars"
            needed = arm.price is None and (capped or in_dollars)
            prepare_model(arm.model, sampling_of(arm), needs_price=needed)
            _check_protocol(arm)


def _check_protocol(arm: Arm) -> None:
    if arm.tools and arm.tool_protocol == "json" and arm.model.startswith("scripted/"):
        raise UsageError(f"--tool-protocol json: {arm.model} is a script, and scripts speak native calls only")


def make_grader(conditions: Conditions, root: Path, container: Json) -> Grader:
    """Return the grader of the mode that is asked for; ``root`` is the suite's folder."""
    from rcb_agent.environments.registry import open_sandbox
    from rcb_agent.environments.runtimes import load_runtime
    from rcb_agent.environments.shells import WITH_WARM_START, ShellOpener
    from rcb_agent.environments.warm import WarmSandboxes
    from rcb_agent.scoring.split import SplitGrader, SplitLimits
    from rcb_agent.scoring.upstream import UpstreamGrader

    def load(name: str) -> Runtime:
        return load_runtime(name, conditions.pythons.get(name))

    def opener(spec: SandboxSpec) -> Sandbox:
        return open_sandbox(conditions.sandbox, replace(spec, container=read_container(container)))

    limits = Limits(**conditions.limits)
    if conditions.mode == "upstream":
        return UpstreamGrader(opener, load, root, limits=limits)
    if conditions.mode != "split":
        raise UsageError(f"--grading {conditions.mode!r}: choose split or upstream")
    shells = ShellOpener(conditions.sandbox, read_container(container))
    warm = WarmSandboxes(shells) if conditions.sandbox in WITH_WARM_START else None
    return SplitGrader(opener, load, limits=SplitLimits(sandbox=limits), warm=warm, secret=conditions.salt[0])


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
