"""One measurement of this harness in a fresh process; prints one JSON line. ``harness.py`` calls it.

    python benchmarks/own.py loop TRIALS STEPS        the agent's loop alone: no sandbox, no record
    python benchmarks/own.py run TRIALS STEPS WORKERS MODEL COMMAND [later | graded] [submit]

``run`` is the whole of ``rcb-agent run`` but its table: plan, run folder, trials in bubblewrap, fsynced records. Grading is
left out, or it comes meanwhile (``graded``), or afterwards (``later``): the first pass then has a grader that says
``not_measured``, and a second pass over the same folder, which is a resume, grades what there is. COMMAND ``true`` is what
peers run as well; ``python`` is the tool run_python. With ``submit`` there is one more step, in which the model submits. CPU
is user and system time: ``own`` of this process, ``boxes`` of its children, which are sandboxes, supervisors, commands.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rcb_agent.agents import tools as toolbox
from rcb_agent.agents.base import Budget, Sampling, Session
from rcb_agent.agents.react import ReactAgent
from rcb_agent.agents.registry import open_model
from rcb_agent.agents.tool_base import Scope, Tool
from rcb_agent.agents.tools import TOOLS
from rcb_agent.environments.base import Sandbox, Snapshot, Submission
from rcb_agent.runs.base import Json
from rcb_agent.runs.config import ArmOptions
from rcb_agent.runs.execute import Pace, execute
from rcb_agent.runs.plan import Plan, RunRequest, make_plan
from rcb_agent.runs.scratch import claim_scratch
from rcb_agent.runs.store import RunStore, open_store
from rcb_agent.scoring.base import NOT_MEASURED, Grade
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import load_suite

PAPERS = ("silt", "ripple", "terrace")
NOTHING: Mapping[str, Any] = {}


def run_true(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Run the smallest command there is."""
    del arguments
    return f"exit code {scope.sandbox.run(['true'], timeout=10).exit_code}"


COMMANDS: Mapping[str, tuple[Tool, str]] = {
    "true": (Tool("true", "Runs true.", (), run_true), "{}"),
    "nothing": (Tool("nothing", "Does nothing.", (), lambda _scope, _arguments: "done"), "{}"),
    "python": (TOOLS["run_python"], '{"code": "pass"}'),
}


def write_script(folder: Path, command: str, steps: int) -> str:
    """Write replies that call one command again and again; returns the model's name."""
    tool, arguments = COMMANDS[command]
    replies = [{"text": "", "tool_calls": [{"name": tool.name, "arguments": arguments}]}] * steps
    path = folder / "replies.json"
    path.write_text(json.dumps(replies))
    return f"scripted/file:{path}"


def offer(command: str) -> str:
    """Make the command a tool of this process and return its name."""
    name, (tool, _) = command, COMMANDS[command]
    if tool.name in TOOLS:
        return tool.name
    # No tool of ours runs a bare command yet; until `bash` does, this is how `true` gets in.
    toolbox.TOOLS = {**TOOLS, name: tool}
    toolbox.TOOL_NAMES = tuple(toolbox.TOOLS)
    return name


class NoWorkspace:
    """A workspace of nothing, for the loop alone."""

    sandbox: Sandbox

    def snapshot(self) -> Snapshot:
        """Nothing has changed."""
        return Snapshot({})

    def submission(self) -> Submission:
        """Nobody asks."""
        return Submission((), "")


def measure_loop(trials: int, steps: int) -> Json:
    """CPU of the agent with a scripted model, and nothing below or beside it."""
    problem = next(task for task in load_suite("mini").tasks if task.id.startswith(PAPERS)).problem
    tools = (offer("nothing"),)
    with tempfile.TemporaryDirectory() as folder:
        model = write_script(Path(folder), "nothing", steps)

        def solve() -> None:
            session = Session(NoWorkspace(), open_model(model), Budget(steps), lambda *_, **__: None, Sampling(), tools)
            ReactAgent().solve(problem, session)

        solve()  # imports
        meter = Meter()
        for _ in range(trials):
            solve()
    return {"trials": trials, "steps": trials * steps, **meter.read()}


class Meter:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self.start = self._now()

    @staticmethod
    def _now() -> dict[str, float]:
        own, boxes = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "own": own.ru_utime + own.ru_stime,
            "boxes": boxes.ru_utime + boxes.ru_stime,
            "wall": time.monotonic(),
        }

    def read(self) -> Json:
        """Return seconds by kind."""
        return {name: value - self.start[name] for name, value in self._now().items()}


@dataclass
class Clock:
    """A ``Watch`` that keeps when things were written; its meter runs from the first trial's start to the last record."""

    total: int
    meter: Meter = field(default_factory=Meter)
    first_trial: float = 0.0
    first_call: float = 0.0
    trials: list[float] = field(default_factory=list)
    grades: list[float] = field(default_factory=list)
    agent_phase: Json = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)

    def begin(self, total: int, done: int) -> None:
        """The gold code is checked after this."""

    def remark(self, text: str) -> None:
        """Say it aside."""
        print(text, file=sys.stderr)

    def trial_done(self, record: Json) -> None:
        """A trial's record is on disk."""
        self.trials.append(time.monotonic())
        why = record["error"]["message"] if record["error"] else record["stop"]
        self.stops[why] = self.stops.get(why, 0) + 1
        if len(self.trials) == self.total:
            self.agent_phase = self.meter.read()

    def graded(self, records: list[Json]) -> None:
        """A trial's grades are on disk."""
        del records
        self.grades.append(time.monotonic())

    def listen(self, store: RunStore) -> None:
        """Note when the first trial starts, which starts the meter, and when a model is asked first."""
        emit = store.emit

        def noting(trial: str, kind: str, payload: Json) -> None:
            if not self.first_trial:
                self.meter = Meter()
                self.first_trial = time.monotonic()
            if kind == "ask" and not self.first_call:
                self.first_call = time.monotonic()
            emit(trial, kind, payload)

        store.emit = noting  # type: ignore[method-assign]  # a measurement looks inside


class LaterGrader:
    """Leaves every grade open."""

    def __init__(self, plan: Plan) -> None:
        self.mode, self.version = plan.grader.mode, plan.grader.version

    def preflight(self, task: Task) -> str:
        """Say that all is well."""
        del task
        return ""

    def grade(self, task: Task, files: Mapping[str, bytes]) -> Grade:
        """Say that this was not measured, so that a resume grades it."""
        del task, files
        return Grade(NOT_MEASURED, "harness", "graded later")

    def start_cold(self) -> None:
        """Nothing is started."""

    def close(self) -> None:
        """Nothing is kept running."""


def plan_run(folder: Path, trials: int, model: str, arm: Json) -> Plan:
    """Plan ``trials`` trials: the tasks of some small papers, as often as that takes."""
    found = [task.id for task in load_suite("mini").tasks if task.id.startswith(PAPERS)]
    tasks = max(size for size in range(1, len(found) + 1) if trials % size == 0)
    options = ArmOptions(agents=("react",), models=(model,), common=arm)
    return make_plan(RunRequest("mini", found[:tasks], options, trials // tasks, out=folder / "run"))


@dataclass(frozen=True)
class Work:
    """What one run does."""

    trials: int
    steps: int
    workers: int
    model: str
    command: str
    options: frozenset[str]


def measure_run(work: Work) -> Json:
    """Carry out a run and return its seconds, its agent phase first."""
    claim_scratch()
    graded = "graded" in work.options
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="results")))
        model = write_script(folder, work.command, work.steps) if work.model == "scripted" else work.model
        tools = [offer(work.command), "submit"]
        plan = plan_run(
            folder,
            work.trials,
            model,
            {"tools": tools, "max_steps": work.steps + ("submit" in work.options), "price": "1,1"},
        )
        store = stack.enter_context(open_store(folder / "run", plan.config, plan.facts(), folder))
        pace = Pace(work.workers)
        clock = Clock(work.trials)
        clock.listen(store)
        if graded:
            plan.grader.preflight(next(iter(plan.tasks.values())))
        execute(plan if graded else replace(plan, grader=LaterGrader(plan)), store, pace, clock)
        result = describe_run(work, clock)
        result["commands"] = count_commands(store)
        if "later" in work.options:
            later = Clock(0)
            execute(plan, store, pace, later)
            result["grading"] = {**later.meter.read(), "trials": len(later.grades)}
    return result


def count_commands(store: RunStore) -> int:
    """Count the tool calls that really ran: a refused one would be fast for nothing."""
    tools = (event for trial in store.trials() for event in store.events(trial) if event["kind"] == "tool")
    return sum(event["text"].startswith("exit code 0") for event in tools)


def describe_run(work: Work, clock: Clock) -> Json:
    """Return the figures of a run's agent phase."""
    return {
        "trials": len(clock.trials),
        "steps": work.trials * work.steps,
        "stops": clock.stops,
        **clock.agent_phase,
        "before_first_call": clock.first_call - clock.first_trial,
        "first_call_to_last_trial": clock.trials[-1] - clock.first_call,
        **({"first_call_to_last_grade": clock.grades[-1] - clock.first_call} if "graded" in work.options else {}),
    }


def main(kind: str, *words: str) -> None:
    if kind == "loop":
        result = measure_loop(int(words[0]), int(words[1]))
    else:
        trials, steps, workers, model, command, *rest = words
        result = measure_run(Work(int(trials), int(steps), int(workers), model, command, frozenset(rest)))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
