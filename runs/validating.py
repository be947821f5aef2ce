"""Carries out ``tasks validate``: every task's gold code and wrong answers, on all cores, kept as it goes.

A task's record is written when it is done, under the hash of the task and of everything that could change it, so that the
same command goes on where it stopped and tries nothing twice. Records hold the suite's code (diffs of survivors): they stay in
the user's cache.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, Runtime
from rcb_agent.errors import EnvironmentFault, RcbAgentError, UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.containers import ContainerWish, choose_container
from rcb_agent.runs.depth import FULL, QUICK, Depth
from rcb_agent.runs.plan import Conditions, make_grader
from rcb_agent.runs.pythons import Pythons, choose_pythons, load_runtimes
from rcb_agent.runs.scratch import claim_scratch, release_scratch
from rcb_agent.runs.screen import open_console, visible
from rcb_agent.runs.soundness import records_folder
from rcb_agent.runs.validation import (
    BROKEN,
    FLAKY,
    VERDICTS,
    begin_record,
    judge_gold,
    limit_for,
    record_key,
    try_task,
)
from rcb_agent.runs.validation_screen import ValidationWatch, print_document
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

Options = Mapping[str, Any]
UNFIT = 3
"""Exit code with ``--strict``: a task is not sound."""


def validate(options: Options) -> int:
    """Carry out the command, print what came of it, return its exit code. Raises UsageError, TaskError, EnvironmentFault."""
    suite = load_suite(options["suite"])
    tasks = select_tasks(suite, options["patterns"])
    depth = QUICK if options["quick"] else FULL
    if options["mutants"] is not None:
        depth = replace(depth, mutants=options["mutants"])
    claim_scratch()
    document = validate_tasks(
        suite, tasks, depth, sandbox=options["sandbox"], workers=options["workers"], afresh=options["afresh"]
    )
    release_scratch()
    if options["as_json"]:
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        print_document(document, open_console())
    for fault in suite.faults:
        sys.stderr.write(f"rcb-agent: warning: paper left out: {visible(str(fault))}\n")
    return exit_code(document, strict=options["strict"], faults=bool(suite.faults))


def exit_code(document: Json, *, strict: bool, faults: bool) -> int:
    """0, 1 when something could not be measured, UNFIT for a faulty paper or, with ``strict``, a task that is not sound."""
    counts = document["verdicts"]
    if faults or (strict and any(counts[verdict] for verdict in VERDICTS[1:])):
        return UNFIT
    return 1 if counts[NOT_MEASURED] else 0


def validate_tasks(
    suite: LoadedSuite,
    tasks: Sequence[Task],
    depth: Depth,
    *,
    sandbox: str = "bubblewrap",
    workers: int | None = None,
    afresh: bool = False,
) -> Json:
    """Validate tasks and return the document that ``--json`` prints."""
    if not tasks:
        raise UsageError("no task to validate")
    pythons = choose_pythons((), tasks)
    runtimes, missing = split_runtimes(tasks, pythons)
    container = choose_container(sandbox, ContainerWish(), runtimes)
    grader = make_grader(Conditions(suite.name, 1, sandbox, asdict(Limits()), pythons), suite.root, container)
    if not isinstance(grader, SplitGrader):
        raise TypeError("validation grades in mode split")
    started = time.monotonic()
    with ValidationWatch(len(tasks)) as watch:
        crew = _Crew(grader, depth, {name: runtime.digest for name, runtime in runtimes.items()}, afresh=afresh)
        try:
            records = crew.carry_out(tasks, missing, workers or os.cpu_count() or 1, watch)
        finally:
            grader.close()
    return {
        "suite": suite.name,
        "suite_digest": suite.digest,
        "grader": grader.version,
        "sandbox": sandbox,
        "depth": asdict(depth),
        "seconds": round(time.monotonic() - started, 3),
        "cached": crew.cached,
        "verdicts": dict.fromkeys((*VERDICTS, NOT_MEASURED), 0) | Counter(record["verdict"] for record in records),
        "records": str(records_folder()),
        "tasks": records,
    }


def split_runtimes(tasks: Sequence[Task], pythons: Pythons) -> tuple[dict[str, Runtime], dict[str, str]]:
    """Return the runtimes that are there by name, and why the others are not."""
    found: dict[str, Runtime] = {}
    missing: dict[str, str] = {}
    for task in {task.problem.runtime: task for task in tasks}.values():
        try:
            found |= load_runtimes([task], pythons)
        except RcbAgentError as fault:
            missing[task.problem.runtime] = str(fault)
    return found, missing


class _Crew:
    """Tries tasks in a pool; one task of a paper is the first to run its gold code, the others wait for it."""

    def __init__(self, grader: SplitGrader, depth: Depth, digests: Mapping[str, str], *, afresh: bool) -> None:
        """Take the digest of each runtime that is there."""
        self._grader = grader
        self._depth = depth
        self._digests = digests
        self._afresh = afresh
        self._gold: dict[str, Json] = {}
        self._locks: dict[str, threading.Lock] = {}
        self.cached = 0

    def carry_out(
        self, tasks: Sequence[Task], missing: Mapping[str, str], workers: int, watch: ValidationWatch
    ) -> list[Json]:
        """Return the tasks' records in their order; ``missing`` says why a runtime is not to be had."""
        self._locks = {task.info.id: threading.Lock() for task in tasks}
        found: dict[str, Json] = {}
        pool = ThreadPoolExecutor(workers, "validate")
        try:
            jobs = {
                pool.submit(without_runtime, task, missing[name])
                if (name := task.problem.runtime) in missing
                else pool.submit(self._validate, task): task
                for task in tasks
            }
            for job in as_completed(jobs):
                found[jobs[job].id] = job.result()
                watch.done(found[jobs[job].id])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()
        return [found[task.id] for task in tasks]

    def _validate(self, task: Task) -> Json:
        path = records_folder() / f"{record_key(task, self._conditions(task))}.json"
        kept = None if self._afresh else read_record(path, task)
        if kept is not None:
            self.cached += 1
            return self._with_depth(path, kept)
        started = time.monotonic()
        record = try_task(task, self._gold_of(task), self._grade, self._depth)
        record = {**record, "seconds": round(time.monotonic() - started, 3), "time": round(time.time())}
        if record["verdict"] != NOT_MEASURED:
            write_record(path, record)
        return record

    def _with_depth(self, path: Path, kept: Json) -> Json:
        """Write the depth into a record that does not say it yet: its name was made with this one."""
        if "depth" not in kept:
            kept = {**kept, "depth": asdict(self._depth)}
            write_record(path, kept)
        return kept

    def _conditions(self, task: Task) -> tuple[Any, ...]:
        return self._digests[task.problem.runtime], self._grader.version, asdict(self._depth)

    def _grade(self, task: Task, files: Mapping[str, bytes], seconds: float) -> Grade:
        return self._grader.grade(task, files, seconds=seconds)

    def _gold_of(self, task: Task) -> Json:
        """Run a paper's gold code, once for all its blanks: which one is open changes nothing of it."""
        with self._locks[task.info.id]:
            if task.info.id not in self._gold:
                self._gold[task.info.id] = self._run_gold(task)
            return self._gold[task.info.id]

    def _run_gold(self, task: Task) -> Json:
        try:
            failure = self._grader.preflight(task)
            grades = [self._grader.repeat_gold(task, seed) for seed in range(1, self._depth.gold_runs + 1)]
        except EnvironmentFault as fault:
            return {
                "verdict": NOT_MEASURED,
                "message": str(fault),
                "runs": 0,
                "passed": 0,
                "seconds": 0.0,
                "limit": 0.0,
            }
        grades.append(Grade(FAILED, "gold_fails", failure) if failure else Grade(PASSED))  # its own first run
        seconds = max([grade.seconds for grade in grades], default=0.0)
        verdict = judge_gold(grades)
        why = next((f"{grade.reason}: {grade.message}" for grade in grades if grade.verdict != PASSED), "")
        return {
            "verdict": verdict,
            "message": why if verdict in (FLAKY, BROKEN, NOT_MEASURED) else "",
            "runs": len(grades),
            "passed": sum(grade.verdict == PASSED for grade in grades),
            "seconds": round(seconds, 3),
            "limit": min(limit_for(self._grader.gold_seconds(task)), task.answer.rules.seconds),
        }


def without_runtime(task: Task, why: str) -> Json:
    """Return the record of a task that cannot be tried here."""
    gold = {"runs": 0, "passed": 0, "seconds": 0.0, "limit": 0.0}
    return {**begin_record(task, gold), "verdict": NOT_MEASURED, "message": why, "seconds": 0.0, "time": 0}


def read_record(path: Path, task: Task) -> Json | None:
    """Return a kept record, or None where there is none that can be used."""
    try:
        record: Json = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fits = type(record) is dict and record.get("digest") == task.digest and record.get("verdict") in VERDICTS
    return {**record, "id": task.id} if fits else None


def write_record(path: Path, record: Json) -> None:
    """Keep a record; readers see all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(path)
