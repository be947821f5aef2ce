"""Grading mode ``split``: hidden tests and reference in one process, the candidate in another, each in a sandbox.

A pass needs exactly the test ids of the gold code's own run, each reported as plain success by a process that the
candidate cannot write to, a candidate process that was alive to the end, and values of the gold's form.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.environments.warm import WarmSandboxes
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import programs
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED, Grade
from rcb_agent.scoring.judge import Expected, judge
from rcb_agent.scoring.pair import PairPlan, PairResult, run_pair
from rcb_agent.scoring.preflight import (
    RECORD,
    Kept,
    cache_folder,
    candidate_key,
    describe_processor,
    expected_from,
    gold_files,
    gold_record,
    preflight_key,
)
from rcb_agent.scoring.salt import derive
from rcb_agent.scoring.sides import ColdSides, OpenSandbox, Sides, WarmSides
from rcb_agent.scoring.wire import WireLimits
from rcb_agent.tasks.base import GradingRules, Task
from rcb_agent.tasks.masking import filled_files, null_code

MODE = "split"
FORMAT = 6
SALT_DRAWS = 4
"""Salts that are tried before a paper is graded without."""


@dataclass(frozen=True, slots=True)
class SplitLimits:
    """Bounds of a grade beside the paper's own seconds: one call (more where the paper takes more than the usual seconds),
    what crosses, and each of the two sandboxes."""

    call_seconds: float = 30.0
    wire: WireLimits = field(default_factory=WireLimits)
    sandbox: Limits = field(default_factory=Limits)


class SplitGrader:
    """A Grader (see ``scoring.base``). Safe to use from several threads."""

    def __init__(
        self,
        open_sandbox: OpenSandbox,
        runtime_of: Callable[[str], Runtime],
        *,
        limits: SplitLimits | None = None,
        cache: Path | None = None,
        warm: WarmSandboxes | None = None,
        secret: str = "",
    ) -> None:
        """Grade in sandboxes that ``open_sandbox`` opens, or, with ``warm``, in ones forked from a warm process.

        What runs alone to be sure always starts cold.
        """
        self._open_sandbox = open_sandbox
        self._warm = warm
        self._cold: Sides = ColdSides(open_sandbox)
        self._sides: Sides = WarmSides(warm, open_sandbox) if warm else self._cold
        self._runtime_of = runtime_of
        self._limits = limits or SplitLimits()
        self._secret = secret
        self._kept = Kept(cache or cache_folder())
        self._turns = Turns()
        self._version = f"{MODE}-{FORMAT}+{programs.digest()}"

    @property
    def mode(self) -> str:
        """The mode recorded with each grade."""
        return MODE

    @property
    def version(self) -> str:
        """Changes with every change of the code that grades."""
        return self._version

    def start_cold(self) -> None:
        """Fork nothing from now on."""
        self.close()
        self._warm, self._sides = None, self._cold

    def close(self) -> None:
        """End the processes from which sides are forked."""
        if self._warm is not None:
            self._warm.close()

    def preflight(self, task: Task) -> str:
        """Say why the gold code does not pass here, or return "". Raises EnvironmentFault as ``grade`` does."""
        return str(self._preflight(task, self._runtime_of(task.problem.runtime))[1]["failure"])

    def _preflight(self, task: Task, runtime: Runtime) -> tuple[str, dict[str, Any]]:
        """Return key and record of the gold's run with the first salt of the paper's with which it passes, else without."""
        key, record = "", {}
        for salt in self._salts(task):
            key = preflight_key(task.answer, runtime, (*self._conditions(runtime), salt))
            record = self._kept.get(key, partial(self._run_gold, task, runtime, salt), needs=RECORD)
            if not record["failure"]:
                break
        return key, record

    def _salts(self, task: Task) -> tuple[str, ...]:
        if not self._secret or not task.answer.rules.salt:
            return ("",)
        return (*(derive(self._secret, task.problem.paper_id, draw) for draw in range(SALT_DRAWS)), "")

    def gold_seconds(self, task: Task) -> float:
        """Return the wall seconds of the gold code's own run here; 0 where it does not pass."""
        return float(self._preflight(task, self._runtime_of(task.problem.runtime))[1].get("seconds", 0.0))

    def repeat_gold(self, task: Task, hash_seed: int) -> Grade:
        """Grade the gold code once more, in fresh interpreters that hash text by another seed.

        It is held to its own first run; where that failed, to its tests alone. Raises EnvironmentFault as ``grade`` does.
        """
        runtime = self._runtime_of(task.problem.runtime)
        _, record = self._preflight(task, runtime)
        rules = task.answer.rules
        expected = Expected((), is_gold=True) if record["failure"] else expected_from(record, rules)
        plan = self._plan(task, runtime, gold_files(task.answer), expected)
        plan = replace(plan, environment={"PYTHONHASHSEED": str(hash_seed)})
        with self._turns.shared():
            result = run_pair(self._cold, plan)
        if _is_doubtful(result):
            with self._turns.alone():
                result = run_pair(self._cold, plan)
        return judge(result, expected)

    def grade(self, task: Task, files: Mapping[str, bytes], *, seconds: float | None = None) -> Grade:
        """Grade candidate files put onto the pristine tree, within the paper's seconds or within fewer.

        Raises EnvironmentFault when no sandbox can be opened.
        """
        pristine = {file.path: file.encode() for file in task.answer.files}
        if stray := sorted(set(files) - set(pristine)):
            raise ValueError(f"{', '.join(stray)}: no annotated file of {task.id}")
        if task.problem.path not in files:  # the pristine one holds the answer
            return Grade(FAILED, "file_missing", f"{task.problem.path} is missing")
        runtime = self._runtime_of(task.problem.runtime)
        key, record = self._preflight(task, runtime)
        if record["failure"]:
            return Grade(NOT_MEASURED, "gold_fails", record["failure"])
        expected = expected_from(record, task.answer.rules)
        result, grade = self._run_pair(task, runtime, {**pristine, **files}, expected, seconds)
        if _is_doubtful(result) or grade.reason in ("no_verdict", "time_limit"):
            self._check_machine(task, runtime, expected)
        details = {**grade.details, **({"salt": expected.salt} if self._secret else {})}
        return replace(grade, flags=(*grade.flags, *self._vacuous(task, runtime, key, expected)), details=details)

    def _run_gold(self, task: Task, runtime: Runtime, salt: str) -> tuple[dict[str, Any], bool]:
        files, first = gold_files(task.answer), Expected((), salt=salt, is_gold=True)
        return gold_record(task.answer.rules, salt, lambda: self._run_pair(task, runtime, files, first))

    def _check_machine(self, task: Task, runtime: Runtime, expected: Expected) -> None:
        """Run the gold code now and alone: where it fails too, the machine and not the candidate did it.

        Raises EnvironmentFault then.
        """
        with self._turns.alone():
            result = run_pair(self._cold, self._plan(task, runtime, gold_files(task.answer), expected))
        control = judge(result, expected)
        if control.verdict != PASSED:
            raise EnvironmentFault(
                f"the gold code, which passed before, fails now: {control.reason}: {control.message}"
            )

    def _vacuous(self, task: Task, runtime: Runtime, key: str, expected: Expected) -> tuple[str, ...]:
        """Return the flag of a task that an empty blank passes."""
        files = filled_files(task.problem, null_code(task.problem))

        def run_null() -> tuple[dict[str, Any], bool]:
            result, grade = self._run_pair(task, runtime, files, expected)
            if grade.reason == "time_limit":  # kept for good, so it must not be the machine's
                self._check_machine(task, runtime, expected)
            return {"verdict": grade.verdict}, not _is_doubtful(result)

        try:
            kept = self._kept.get(candidate_key(key, files), run_null, needs={"verdict": str})
        except EnvironmentFault:  # the flag is a remark; a grade is not given up for it
            return ()
        return ("vacuous:an empty blank passes",) if kept["verdict"] == PASSED else ()

    def _run_pair(
        self,
        task: Task,
        runtime: Runtime,
        files: Mapping[str, bytes],
        expected: Expected,
        seconds: float | None = None,
    ) -> tuple[PairResult, Grade]:
        """Run both sides; what the machine may have caused is run once more, alone."""
        plan = self._plan(task, runtime, files, expected, seconds)
        with self._turns.shared() as company:
            result = run_pair(self._sides, plan)
        grade = judge(result, expected)
        if _is_doubtful(result) or (grade.reason == "time_limit" and company.was_seen):
            with self._turns.alone():
                result = run_pair(self._cold, plan)
            grade = judge(result, expected)
        return result, grade

    def _plan(
        self,
        task: Task,
        runtime: Runtime,
        files: Mapping[str, bytes],
        expected: Expected,
        seconds: float | None = None,
    ) -> PairPlan:
        answer, limits = task.answer, self._limits
        total = min(seconds or answer.rules.seconds, answer.rules.seconds)
        support, hidden = answer.shared_bytes, answer.hidden_bytes
        wire = asdict(limits.wire)
        settings = {
            "limits": wire,
            "session": {
                "call_seconds": limits.call_seconds * max(1.0, answer.rules.seconds / GradingRules().seconds),
                "total_seconds": total,
            },
            "adapter": {
                "in_place": {label: list(indices) for label, indices in answer.rules.in_place.items()},
                "shared": list(answer.rules.shared),
                "offers": {name: list(offered) for name, offered in answer.rules.offers.items()},
                "plain": dict(answer.rules.plain),
                "by_value": list(answer.rules.by_value),
                "weights": dict(answer.rules.weights),
                "trusted": list(answer.rules.trusted),
            },
            "skip_form": list(answer.rules.skip_form) if expected.is_gold else [],
            "skip_values": list(answer.rules.values.skip) if expected.is_gold and answer.rules.values else [],
            "values": answer.rules.values is not None,
            "asserts": answer.rules.asserts,
            "clock": answer.rules.clock,
            "salt": expected.salt,
            **expected.settings(),
            "test_path": answer.test_path,
            "modules": list(answer.modules),
        }
        return PairPlan(
            runtime=runtime,
            trusted_files={path: data for path, data in {**support, **hidden}.items() if path not in files},
            candidate_files={path: data for path, data in {**support, **files}.items() if path not in hidden},
            trusted_settings=settings,
            candidate_settings={
                "limits": wire,
                "clock": answer.rules.clock,
                "prelude": answer.rules.prelude,
                "salt": expected.salt,
            },
            seconds=total,
            limits=limits.sandbox,
        )

    def _conditions(self, runtime: Runtime) -> tuple[str, ...]:
        """Return what else a preflight depends on: grader, processor, kind of sandbox and of start, limits."""
        start = "cold" if self._warm is None else "warm"
        return self._version, describe_processor(), self._kind(runtime), start, str(self._limits)

    def _kind(self, runtime: Runtime) -> str:
        """Ask a sandbox for its kind, once."""

        def ask() -> tuple[dict[str, str], bool]:
            box = self._open_sandbox(SandboxSpec(runtime, limits=self._limits.sandbox))
            box.close()
            return {"kind": box.kind}, False

        kind: str = self._kept.get("kind of sandbox", ask, needs={"kind": str})["kind"]
        return kind


def _is_doubtful(result: PairResult) -> bool:
    """Say whether the machine may have ended a run: no verdict, no word from C at all, or a lost sandbox."""
    was_greeted = result.verdict is not None and result.verdict["was_greeted"]
    return not was_greeted or bool(result.candidate_lost)


@dataclass(slots=True)
class Company:
    """Whether another grade ran at the same time."""

    was_seen: bool = False


class Turns:
    """Lets grades run side by side, and one alone when it has to be sure that nothing else slowed it."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._running: list[Company] = []
        self._waiting_alone = 0
        self._is_alone = False

    @contextmanager
    def shared(self) -> Iterator[Company]:
        """Hold a place beside others."""
        company = Company()
        with self._change:
            self._change.wait_for(lambda: not self._is_alone and not self._waiting_alone)
            self._running.append(company)
            if len(self._running) > 1:
                for each in self._running:
                    each.was_seen = True
        try:
            yield company
        finally:
            with self._change:
                self._running = [each for each in self._running if each is not company]
                self._change.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the only place."""
        with self._change:
            self._waiting_alone += 1
            self._change.wait_for(lambda: not self._running and not self._is_alone)
            self._waiting_alone -= 1
            self._is_alone = True
        try:
            yield
        finally:
            with self._change:
                self._is_alone = False
                self._change.notify_all()
