"""Carries out what a run still lacks: a bounded pool for trials, one for grades, one writer.

Only the calling thread writes trial and grade records, in the order in which things end; trajectories, calls and
blobs are written as they happen. A trial counts when its record is on disk; one that was under way when the process
died is done again, nothing else is.
"""

import gc
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rcb_agent.runs.base import Json, TrialSpec
from rcb_agent.runs.grading import grade_trial
from rcb_agent.runs.plan import Plan
from rcb_agent.runs.purse import Purse, RunCaps
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.store import RunStore
from rcb_agent.runs.trial import prepare_agent, refuse_trial, run_trial
from rcb_agent.scoring.base import NOT_MEASURED


class Watch(Protocol):
    """Is told what happens; ``trial_done`` and ``graded`` get the records as written."""

    def begin(self, total: int, done: int) -> None:
        """Take the number of trials of the run and how many are measured already."""

    def remark(self, text: str) -> None:
        """Something a person should know now."""

    def trial_done(self, record: Json) -> None:
        """An agent phase ended; its grades follow."""

    def graded(self, records: list[Json]) -> None:
        """A trial is graded in both scopes."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run still lacks: trials to carry out, and trial records that have no (measured) grade yet."""

    trials: tuple[TrialSpec, ...]
    ungraded: tuple[Json, ...]
    done: int


def find_workload(plan: Plan, store: RunReader) -> Workload:
    """Compare a plan with the records: solved trials are graded, ``not_measured`` is tried again."""
    records, grades = store.trials(), store.grades()
    config = plan.config
    trials: list[TrialSpec] = []
    ungraded: list[Json] = []
    done = 0
    for spec in config.trials():
        record = records.get(spec.name)
        if record is None or record["error"] is not None:
            trials.append(spec)
            continue
        found = [grades.get((spec.name, "final", scope, config.mode)) for scope in config.scopes]
        if all(grade is not None and grade["verdict"] != NOT_MEASURED for grade in found):
            done += 1
        else:
            ungraded.append(record)
    return Workload(tuple(trials), tuple(ungraded), done)


def default_workers() -> int:
    """Return how many trials run at once by default: most of their time is spent waiting for a model."""
    return min(8, 2 * (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Pace:
    """What may differ between a run and its resume: trials at once, and caps on the whole."""

    workers: int
    caps: RunCaps = field(default_factory=RunCaps)


def execute(plan: Plan, store: RunStore, pace: Pace, watch: Watch) -> None:
    """Carry out everything the run lacks. Raises ModelUnavailable, KeyboardInterrupt; what is written stays."""
    work = find_workload(plan, store)
    watch.begin(len(work.trials) + len(work.ungraded) + work.done, work.done)
    for agent in {spec.arm.agent for spec in work.trials}:
        prepare_agent(agent)
    crew = _Crew(plan, store, pace, watch)
    with _settled_memory():
        try:
            crew.check_gold(work)
            crew.carry_out(work)
        except BaseException:
            crew.abandon()
            raise
        else:
            crew.dismiss()
        finally:
            plan.grader.close()


@contextmanager
def _settled_memory() -> Iterator[None]:
    """Let the garbage collector pass over what is loaded by now: one full look through LiteLLM's modules takes 0.3 s, in
    which no trial goes on."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Crew:
    """The two pools and what is under way in them."""

    def __init__(self, plan: Plan, store: RunStore, pace: Pace, watch: Watch) -> None:
        self.plan, self.store, self.watch = plan, store, watch
        self.purse = Purse(pace.caps, store.replies() if pace.caps.any else [])
        self.workers, self.graders = pace.workers, max(1, os.cpu_count() or 1)
        self.trial_pool = ThreadPoolExecutor(self.workers, "trial")
        self.grade_pool = ThreadPoolExecutor(self.graders, "grade")
        self.trials_running: dict[Future[Json], TrialSpec] = {}
        self.grades_running: dict[Future[list[Json]], Json] = {}
        self.gold_failures: dict[str, str] = {}

    def carry_out(self, work: Workload) -> None:
        """Run until nothing is left. What has ended is written before a fault of another trial is raised."""
        trials, to_grade = deque(work.trials), deque(work.ungraded)
        while trials or to_grade or self.trials_running or self.grades_running:
            self._fill(trials, to_grade)
            wait({**self.trials_running, **self.grades_running}, return_when=FIRST_COMPLETED)
            ended = [one for one in self.trials_running if one.done()]
            for trial in sorted(ended, key=lambda one: one.exception() is not None):
                to_grade.append(self._finish_trial(trial))
            for grade in [one for one in self.grades_running if one.done()]:
                self._finish_grade(grade)

    def check_gold(self, work: Workload) -> None:
        """Run the gold code of each paper before any model is paid for trials that could not be graded."""
        names = [*(spec.task for spec in work.trials), *(record["task"] for record in work.ungraded)]
        papers = {self.plan.tasks[name].info.id: self.plan.tasks[name] for name in names}
        failures = self.grade_pool.map(self.plan.grader.preflight, papers.values())
        self.gold_failures = {paper: failure for paper, failure in zip(papers, failures, strict=True) if failure}
        for paper, failure in self.gold_failures.items():
            self.watch.remark(f"warning: paper {paper}: its gold code does not pass here: {failure}")

    def _start_trial(self, spec: TrialSpec) -> Future[Json]:
        emit = self.purse.guard(partial(self.store.emit, spec.name))
        failure = self.gold_failures.get(self.plan.tasks[spec.task].info.id)
        if failure:
            return self.trial_pool.submit(refuse_trial, spec, emit, failure)
        return self.trial_pool.submit(run_trial, spec, emit)

    def abandon(self) -> None:
        """Start nothing more and wait for nothing; sandboxes end with this process."""
        self.trial_pool.shutdown(wait=False, cancel_futures=True)
        self.grade_pool.shutdown(wait=False, cancel_futures=True)

    def dismiss(self) -> None:
        """Let idle threads go."""
        self.trial_pool.shutdown()
        self.grade_pool.shutdown()

    def _fill(self, trials: deque[TrialSpec], to_grade: deque[Json]) -> None:
        if trials and (why := self.purse.spent()):
            self.watch.remark(f"stopped: {why}; {len(trials)} trials are not begun; `resume` with a higher cap goes on")
            trials.clear()
        while trials and len(self.trials_running) < self.workers:
            spec = trials.popleft()
            self.trials_running[self._start_trial(spec)] = spec
        while to_grade and len(self.grades_running) < self.graders:
            record = to_grade.popleft()
            self.grades_running[self.grade_pool.submit(self._grade, record)] = record

    def _grade(self, record: Json) -> list[Json]:
        return grade_trial(record, self.plan.tasks[record["task"]], self.plan.grader, self.store.blob)

    def _finish_trial(self, future: Future[Json]) -> Json:
        self.trials_running.pop(future)
        record = future.result()
        self.store.add_trial(record)
        self.watch.trial_done(record)
        return record

    def _finish_grade(self, future: Future[list[Json]]) -> None:
        self.grades_running.pop(future)
        records = future.result()
        for record in records:
            self.store.add_grade(record)
        self.watch.graded(records)
