"""Carries out the agent phase of one trial: values in, values out, everything worth keeping goes to ``emit``.

Nothing hidden reaches the agent or its sandbox: ``solve`` gets a Problem, and grading is elsewhere, after the sandbox
is gone. A harness fault becomes an ``error`` in the record, never a score; what goes wrong in a sandbox once it is
open is the agent's own doing (``sandbox_lost``: its last snapshot is graded).
"""

import base64
import hashlib
import threading
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from rcb_agent.agents.base import (
    NOTHING_USED,
    SILENCES,
    STOPS,
    Agent,
    Budget,
    Price,
    Sampling,
    Session,
    Solution,
    Usage,
)
from rcb_agent.agents.snapshots import snapshot_json
from rcb_agent.environments.base import Collected, Limits, Submission, Workspace
from rcb_agent.errors import (
    EnvironmentFault,
    ModelError,
    ModelUnavailable,
    RecordsLost,
    RunBudgetSpent,
    SandboxFileError,
    TaskError,
    TrialOver,
)
from rcb_agent.runs.base import SCHEMA_VERSION, Arm, Emit, Json, TrialSpec
from rcb_agent.runs.containers import read_container
from rcb_agent.runs.controls import CONTROLS, make_submission, submission_from
from rcb_agent.runs.looking import open_feedback
from rcb_agent.runs.showing import shown_problem
from rcb_agent.runs.traces import Traces, WatchedWorkspace, look_at_repository
from rcb_agent.runs.upstream_parts import given_prompt
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, find_task, load_suite

TrialResult = Json
"""A record that fits runs/schema/trial.json."""


def run_trial(spec: TrialSpec, emit: Emit) -> TrialResult:
    """Carry out one trial and return its record.

    Raises ModelUnavailable when no call to the model can succeed and RecordsLost when ``emit`` cannot keep
    anything (the run has to stop); every other fault of provider, machine or harness is in the record's ``error``.
    """
    journal = _Journal(emit)
    journal("start", trial=spec.name, arm=spec.arm.id, task=spec.task, attempt=spec.attempt)
    try:
        outcome = _carry_out(spec, journal)
    except (ModelUnavailable, RecordsLost):
        raise
    except RunBudgetSpent as fault:
        outcome = journal.failed("budget", fault)
    except EnvironmentFault as fault:
        outcome = journal.failed("environment", fault)
    except ModelError as fault:
        outcome = journal.failed("model", fault)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 - the declared boundary: no agent may end the run
        outcome = journal.failed("harness", fault)
    journal("stop", stop=outcome["stop"], error=outcome["error"])
    return {**_identity(spec), **outcome, "seconds": round(journal.seconds(), 3), "started": journal.started}


def refuse_trial(spec: TrialSpec, emit: Emit, failure: str) -> TrialResult:
    """Return the record of a trial that is not begun, because the gold code of its paper does not pass here."""
    journal = _Journal(emit)
    journal("start", trial=spec.name, arm=spec.arm.id, task=spec.task, attempt=spec.attempt)
    outcome = journal.failed("gold_fails", TaskError(failure))
    journal("stop", stop=outcome["stop"], error=outcome["error"])
    return {**_identity(spec), **outcome, "seconds": 0.0, "started": journal.started}


class _Journal:
    """Turns what happens in a trial into events, blobs and the parts of its record.

    It also counts replies, tokens and cost and holds the annotated files of the last snapshot, so that a trial that
    breaks still says what it took and leaves what there was.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit, self._begin = emit, time.monotonic()
        self.started = datetime.now(UTC).isoformat(timespec="seconds")
        self.snapshots: list[Json] = []
        self.sandbox: Json = {"kind": "none", "enforcement": {}}
        self.calls, self.steps, self.usage, self.cost = 0, 0, NOTHING_USED, 0.0
        self.reply: int | None = None
        self.traces: Traces | None = None
        self._bytes: dict[str, bytes] = {}
        self._unpriced = False

    def __call__(self, kind: str, /, **fields: Any) -> None:
        """Record one event; a snapshot is kept for the trial's record as well."""
        if kind == "snapshot":
            self.snapshots.append({"step": fields["step"], **fields["snapshot"]})
            wanted = set(fields["snapshot"]["files"].values())
            self._bytes = {sha256: data for sha256, data in self._bytes.items() if sha256 in wanted}
        if kind == "reply":
            self.reply = fields.get("step")
        self._emit("event", {"kind": kind, "time": round(self.seconds(), 4), **fields})

    def call(self, record: Json) -> None:
        """Keep one model call and add up what it took."""
        reply = record["reply"]
        if reply is not None:
            self.calls += 1
            self.steps += record["kind"] not in SILENCES
            self.usage = self.usage.plus(Usage(**reply["usage"]))
            self._unpriced |= reply["cost"] is None
            self.cost += reply["cost"] or 0.0
        self._emit("call", record)

    def ask(self) -> None:
        """Ask whether the run may make another model call. Raises RunBudgetSpent."""
        self._emit("ask", {})

    def keep(self, sha256: str, data: bytes) -> None:
        """Keep the bytes of a file."""
        self._bytes[sha256] = data
        self._emit("blob", {"sha256": sha256, "data": base64.b64encode(data).decode()})

    def seconds(self) -> float:
        """Wall seconds since the trial began."""
        return time.monotonic() - self._begin

    def so_far(self, stop: str, note: str = "") -> Solution:
        """Return a solution that says what the trial took until it broke."""
        return Solution(stop, self.steps, self.usage, None if self._unpriced else self.cost, note=note)

    def price(self, solution: Solution) -> Solution:
        """Return the solution with what its recorded calls took: also those an agent never saw the reply of."""
        if not self.calls:
            return solution
        return replace(solution, usage=self.usage, cost=None if self._unpriced else self.cost)

    def last_files(self, task: Task) -> dict[str, Collected]:
        """Return the annotated files as the last snapshot has them; before the first, as they were given."""
        files = {file.path: Collected(file.path, "file", file.encode()) for file in task.problem.files}
        last = self.snapshots[-1] if self.snapshots else {"files": {}, "listed": [], "deleted": []}
        for path in files:
            if path in last["files"]:
                files[path] = Collected(path, "file", self._bytes[last["files"][path]])
            elif path in last["listed"] or path in last["deleted"]:
                files[path] = Collected(path, "missing" if path in last["deleted"] else "unreadable")
        return files

    def other_files(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the files of the last snapshot, and the names of those whose bytes are not kept."""
        last = self.snapshots[-1] if self.snapshots else {"files": {}, "listed": []}
        files = {path: self._bytes[sha256] for path, sha256 in last["files"].items() if sha256 in self._bytes}
        return files, [*last["listed"]]

    def failed(self, reason: str, fault: BaseException) -> Json:
        """Return the outcome of a trial that neither agent nor candidate ended."""
        message = f"{type(fault).__name__}: {fault}" if reason == "harness" else str(fault)
        if reason == "harness":
            self.traces = None  # the fault may lie there
            import traceback

            self("note", text="".join(traceback.format_exception(fault)))
        error = {"reason": reason, "message": message}
        return {**self.outcome(self.so_far("error"), None), "error": error}

    def outcome(self, solution: Solution, submission: Submission | None) -> Json:
        """Return the part of the record that says how the agent phase ended."""
        return {
            "stop": solution.stop,
            "steps": solution.steps,
            "usage": solution.usage.as_json(),
            "cost": solution.cost,
            "submission": None if submission is None else self._keep_submission(submission),
            "snapshots": self.snapshots,
            "sandbox": self.sandbox,
            "error": None,
            "flags": self._flags(submission),
            "note": solution.note,
            **({"variant": solution.variant} if solution.variant else {}),
        }

    def _flags(self, submission: Submission | None) -> list[Json]:
        if self.traces is None:
            return []
        self.traces.note_left(*self.other_files())
        if submission is not None:
            self.traces.note_submission(submission)
        return self.traces.records()

    def _keep_submission(self, submission: Submission) -> Json:
        files = []
        for item in submission.files:
            sha256 = None if item.data is None else self._keep_blob(item.data)
            files.append({"path": item.path, "kind": item.kind, "sha256": sha256})
        return {"files": files, "diff": self._keep_blob(submission.diff.encode("utf-8", "surrogateescape"))}

    def _keep_blob(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.keep(sha256, data)
        return sha256


def _identity(spec: TrialSpec) -> Json:
    return {
        "schema_version": SCHEMA_VERSION,
        "trial": spec.name,
        "arm": spec.arm.id,
        "task": spec.task,
        "attempt": spec.attempt,
    }


def _carry_out(spec: TrialSpec, journal: _Journal) -> Json:
    task = find_task(cached_suite(spec.suite), spec.task)
    if control := CONTROLS.get(spec.arm.agent):
        return journal.outcome(Solution("control", 0, cost=0.0), control(task))
    from rcb_agent.agents.registry import load_agent

    agent = load_agent(spec.arm.agent)
    journal.traces = Traces(task, lambda: journal.reply)
    opened: AbstractContextManager[Workspace | None] = nullcontext()
    if agent.uses_workspace:
        opened = _open_workspace(spec, task, journal)
    with opened as workspace:
        return _solve(spec, task, journal, (agent, workspace))


def _solve(spec: TrialSpec, task: Task, journal: _Journal, parts: tuple[Agent, Workspace | None]) -> Json:
    agent, workspace = parts
    if workspace is not None:
        sandbox = workspace.sandbox
        journal.sandbox = {"kind": sandbox.kind, "enforcement": dict(sandbox.enforcement)}
        if journal.traces is not None:
            workspace = WatchedWorkspace(workspace, journal.traces)
    problem = shown_problem(task.problem, spec.arm)
    try:
        session = _session(spec, journal, workspace)
        session = replace(
            session,
            prompt=given_prompt(spec.arm, cached_suite(spec.suite), task),
            feedback=open_feedback(spec.arm.feedback, problem, workspace, session.budget.seconds_left),
        )
        solution = agent.solve(problem, session)
    except EnvironmentFault as fault:  # the sandbox was open: whatever broke it came from inside
        solution = journal.so_far("sandbox_lost", str(fault))
    except TrialOver as end:  # an agent that does not mind: it ends all the same, and what is there is graded
        solution = replace(journal.so_far(end.stop, str(end)), files=None if workspace else _untouched(task))
    solution = journal.price(solution)
    if solution.stop not in STOPS:
        raise ValueError(f"agent {spec.arm.agent} stopped with {solution.stop!r}, which is none of {', '.join(STOPS)}")
    if solution.files is not None:
        return journal.outcome(solution, submission_from(solution.files, task))
    if workspace is None:
        raise TypeError(f"agent {spec.arm.agent} used no workspace and returned no files")
    return journal.outcome(*_collect(task, journal, workspace, solution))


def _untouched(task: Task) -> dict[str, bytes]:
    return {file.path: file.encode() for file in task.problem.files}


def _collect(task: Task, journal: _Journal, workspace: Workspace, solution: Solution) -> tuple[Solution, Submission]:
    """Take the submission; after a lost sandbox its last snapshot is what there is (no retry)."""
    if solution.stop != "sandbox_lost":
        try:
            if not journal.snapshots:  # an agent that takes none: what it leaves is listed all the same
                journal("snapshot", step=solution.steps, snapshot=snapshot_json(workspace.snapshot()))
            submission = workspace.submission()
            if journal.traces is not None:
                look_at_repository(workspace.sandbox, journal.traces)
            return solution, submission  # noqa: TRY300 - nothing of it may raise past here
        except (EnvironmentFault, SandboxFileError) as fault:
            solution = replace(solution, stop="sandbox_lost", note=str(fault))
    return solution, make_submission(task, journal.last_files(task))


def _open_workspace(spec: TrialSpec, task: Task, journal: _Journal) -> AbstractContextManager[Workspace]:
    from rcb_agent.environments.runtimes import load_runtime
    from rcb_agent.environments.workspace import WorkspaceSpec, open_workspace

    name = task.problem.runtime
    return open_workspace(
        shown_problem(task.problem, spec.arm),
        WorkspaceSpec(
            sandbox_kind=spec.sandbox,
            runtime=load_runtime(name, spec.pythons.get(name)),
            limits=Limits(**spec.limits),
            paper=spec.arm.paper,
            keep=journal.keep,
            container=read_container(spec.container),
        ),
    )


def _session(spec: TrialSpec, journal: _Journal, workspace: Workspace | None) -> Session:
    from rcb_agent.agents.metering import MeteredModel, Watch
    from rcb_agent.agents.recording import CallScope, RecordingModel
    from rcb_agent.agents.registry import open_model, with_protocol

    arm = spec.arm
    scope = CallScope(arm.id, spec.task, spec.attempt)
    budget = budget_of(arm, spec.task)
    price = None if arm.price is None else Price(*arm.price)
    recording = RecordingModel(open_model(arm.model, budget.deadline, price), scope, journal.call)
    return Session(
        workspace=workspace,
        model=MeteredModel(
            with_protocol(recording, arm.tool_protocol),
            budget,
            Watch(journal.ask, lambda text: journal("note", text=text)),
        ),
        budget=budget,
        journal=journal,
        sampling=sampling_of(arm),
        tools=arm.tools,
        paper=arm.paper,
        options=arm.options,
        turn=spec.turn,
    )


def budget_of(arm: Arm, task: str) -> Budget:
    """Return what a trial of an arm may use at a task: its own caps, and where it has one the matched budget's."""
    steps, tokens, cost = arm.max_steps, arm.max_tokens, arm.max_cost
    if arm.match:
        amount, by = arm.match["tasks"][task], arm.match["by"]
        steps = min(steps, amount) if by == "steps" else steps
        tokens = min(tokens or amount, amount) if by == "tokens" else tokens
        cost = min(amount if cost is None else cost, amount) if by == "dollars" else cost
    return Budget(steps, arm.max_seconds, tokens, cost)


def sampling_of(arm: Arm) -> Sampling:
    """Return an arm's sampling parameters."""
    return Sampling(arm.temperature, arm.max_output_tokens, arm.top_p, arm.seed, arm.reasoning_effort)


def prepare_agent(name: str) -> None:
    """Let an agent load what it needs before the first trial's clock runs, where it has a method ``prepare``.

    What goes wrong there is left to its trials to meet: no agent may end the run.
    """
    if name in CONTROLS:
        return
    from rcb_agent.agents.registry import load_agent

    with suppress(Exception, SystemExit):
        getattr(load_agent(name), "prepare", lambda: None)()


_loading = threading.Lock()
_suites: dict[str, LoadedSuite] = {}
_MOST_SUITES = 4


def cached_suite(name: str) -> LoadedSuite:
    """Load a suite once per process, also when all trials ask at the same moment."""
    with _loading:
        if name not in _suites:
            _keep(name, load_suite(name))
        return _suites[name]


def keep_suite(name: str, suite: LoadedSuite) -> None:
    """Let trials of this process use a suite that is loaded already: the one that was planned."""
    with _loading:
        _keep(name, suite)


def _keep(name: str, suite: LoadedSuite) -> None:
    _suites.pop(name, None)
    while len(_suites) >= _MOST_SUITES:
        del _suites[next(iter(_suites))]
    _suites[name] = suite
