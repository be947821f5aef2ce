"""``regrade``: grades stored submissions again with the present grader, and says which verdicts moved.

New grades are appended; the latest of a key counts. A grade that could not be measured now does not take the place of one
that was: the machine of today says nothing about the code. ``regrades.jsonl`` keeps when a regrade began and ended, so that
one that was interrupted goes on where it stopped.
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rcb_agent.environments.base import Limits
from rcb_agent.environments.owners import name_run
from rcb_agent.environments.registry import is_isolated
from rcb_agent.errors import TaskError, UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Json
from rcb_agent.runs.config import cheats_of, digest_tasks
from rcb_agent.runs.containers import ContainerWish, check_base_is_the_same, check_wish, choose_container
from rcb_agent.runs.grading import grade_trial
from rcb_agent.runs.plan import Conditions, check_environment, make_grader
from rcb_agent.runs.pythons import load_runtimes
from rcb_agent.runs.reader import GradeKey, RunReader, find_run, grade_key
from rcb_agent.runs.salting import find_secret
from rcb_agent.runs.scratch import claim_scratch
from rcb_agent.runs.screen import ScreenWatch, moves_table, open_console, visible
from rcb_agent.runs.store import RunStore, reopen_store
from rcb_agent.runs.upstream_parts import digest_folders
from rcb_agent.scoring.base import NOT_MEASURED, Grader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

MOVED = 6
"""Exit code: everything is measured, and at least one verdict is another one than before."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is graded with what. ``conditions`` is what stands in ``regrades.jsonl``."""

    tasks: Mapping[str, Task]
    grader: Grader
    conditions: Json
    suite_changed: bool


def regrade(options: Mapping[str, Any]) -> tuple[Json, int]:
    """Carry out the command; returns its document and its exit code. Raises UsageError, TaskError, EnvironmentFault."""
    claim_scratch()
    reader = RunReader(find_run(options["run_id"], options["results"]))
    if source := reader.run.get("imported"):
        raise UsageError(f"{reader.path}: was imported from {source['file']}: no code is recorded that could be graded")
    job = make_job(reader, options)
    name_run(reader.path.name)
    opened: AbstractContextManager[RunStore | None] = nullcontext()
    if not options["dry_run"]:
        opened = reopen_store(reader.path)
    with opened as store, ScreenWatch() as watch:
        session = _Session(job, store or reader, store)
        watch.remark(f"regrade {session.id} of {reader.path} with {job.grader.version}, sandbox {_sandbox(job)}")
        for name in store.mended if store else ():
            watch.remark(f"warning: {name}: its last line was torn (a crash while writing) and cut off")
        if job.suite_changed:
            watch.remark("warning: the suite's tasks are no longer those of the run: a moved verdict may be theirs")
        session.carry_out(options["workers"] or max(1, os.cpu_count() or 1), watch)
        document = session.document(dry_run=options["dry_run"])
    if not options["as_json"]:
        _print_result(document)
    return document, _exit_code(document)


def make_job(reader: RunReader, options: Mapping[str, Any]) -> Job:
    """Resolve what is graded: the run's own conditions, less what the options say otherwise."""
    config = reader.config
    suite = load_suite(config["suite"])
    known = {task.id: task for task in suite.tasks}
    if gone := [name for name in config["tasks"] if name not in known]:
        raise TaskError(f"suite {config['suite']}: {gone[0]} is there no more, and the run is about it")
    everything = tuple(known[name] for name in config["tasks"])
    chosen = {task.id for task in select_tasks(suite, options["patterns"])} & set(config["tasks"])
    if not chosen:
        raise UsageError(f"--tasks: no task of {reader.id} fits")
    tasks = tuple(task for task in everything if task.id in chosen)
    sandbox, mode = options["sandbox"] or config["sandbox"], options["grading"] or config["mode"]
    try:
        limits = asdict(Limits(**config["limits"]))
    except TypeError as error:
        raise UsageError(f"the run was made by another version of rcb-agent: {error}") from None
    pythons = config.get("pythons", {})
    if any(cheats_of(arm) for arm in config["arms"]) and not is_isolated(sandbox):
        raise UsageError(f"--sandbox {sandbox}: the run has submissions of a cheater, and nothing would isolate them")
    recorded = config.get("container", {}) if sandbox == config["sandbox"] else {}
    check_base_is_the_same(recorded)
    wish = ContainerWish(recorded.get("base"), recorded.get("engine_runtime", ""))
    check_wish(sandbox, wish, pythons)
    runtimes = load_runtimes(tasks, pythons)
    container = choose_container(sandbox, wish, runtimes)
    check_environment(sandbox, runtimes, container)
    name = config.get("salt", "") if mode == "split" else ""
    salt = find_secret(name), name
    conditions = Conditions(config["suite"], config["attempts"], sandbox, limits, pythons, mode, wish, salt)
    grader = make_grader(conditions, suite.root, container)
    return Job(
        {task.id: task for task in tasks},
        grader,
        {
            "grader": grader.version,
            "mode": mode,
            "sandbox": sandbox,
            "tasks": [task.id for task in tasks],
            "suite_digest": digest_tasks(everything),
        },
        _digest(config["mode"], suite, everything) != config["suite_digest"],
    )


def _digest(mode: str, suite: LoadedSuite, tasks: Sequence[Task]) -> str:
    digest = digest_tasks(tasks)
    return digest if mode == "split" else digest_folders(digest, suite, tasks)


def _sandbox(job: Job) -> str:
    return str(job.conditions["sandbox"])


class _Session:
    """One regrade: what it has to do, what it did, and what moved."""

    def __init__(self, job: Job, reader: RunReader, store: RunStore | None) -> None:
        self._job, self._reader, self._store = job, reader, store
        unfinished = _unfinished(reader.regrades(), job.conditions) if store is not None else ""
        self.id = unfinished or f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        self._is_new = not unfinished
        self._before: dict[GradeKey, Json] = {}
        self._after: dict[GradeKey, Json] = {}
        for record in reader.grade_history():
            mine = record.get("details", {}).get("regrade") == self.id
            (self._after if mine else self._before)[grade_key(record)] = record
        records = reader.trials().values()
        self._trials = [r for r in records if r["task"] in job.tasks and r["error"] is None]

    def carry_out(self, workers: int, watch: ScreenWatch) -> None:
        """Grade what is not graded yet; each trial's grades are on disk before the next is looked at."""
        todo = [trial for trial in self._trials if not self._is_done(trial)]
        if self._store is not None and self._is_new:
            self._store.add_regrade(self._line("start", conditions=self._job.conditions))
        watch.begin(len(self._trials), len(self._trials) - len(todo))
        pool = ThreadPoolExecutor(workers, "grade")
        try:
            for future in as_completed([pool.submit(self._grade, trial) for trial in todo]):
                records = future.result()
                self._keep(records)
                watch.graded(records)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        else:
            pool.shutdown()
        finally:
            self._job.grader.close()
        if self._store is not None and not self._unmeasured():
            self._store.add_regrade(self._line("end", moved=len(self._moves())))

    def _line(self, kind: str, **fields: Any) -> Json:
        time = datetime.now(UTC).isoformat(timespec="seconds")
        return {"schema_version": SCHEMA_VERSION, "regrade": self.id, "kind": kind, "time": time, **fields}

    def _is_done(self, trial: Json) -> bool:
        """Say whether this very regrade has measured a trial in every scope."""
        keys = [(trial["trial"], "final", scope, self._job.grader.mode) for scope in self._reader.config["scopes"]]
        return all(key in self._after and self._after[key]["verdict"] != NOT_MEASURED for key in keys)

    def _grade(self, trial: Json) -> list[Json]:
        records = grade_trial(trial, self._job.tasks[trial["task"]], self._job.grader, self._reader.blob)
        marks = {"regrade": self.id, "sandbox": _sandbox(self._job)}
        return [{**record, "details": {**record["details"], **marks}} for record in records]

    def _keep(self, records: Iterable[Json]) -> None:
        for record in records:
            key = grade_key(record)
            if key in self._after and self._after[key]["verdict"] != NOT_MEASURED:
                continue  # this scope was on disk already when the regrade was interrupted
            self._after[key] = record
            old = self._before.get(key)
            is_loss = record["verdict"] == NOT_MEASURED and old is not None and old["verdict"] != NOT_MEASURED
            if self._store is not None and not is_loss:
                self._store.add_grade(record)

    def _unmeasured(self) -> int:
        return sum(record["verdict"] == NOT_MEASURED for record in self._after.values())

    def _moves(self) -> list[Json]:
        """Return the verdicts that are others than before; what could not be measured now has not moved."""
        moved = []
        for key, record in self._after.items():
            old = self._before.get(key)
            if old is None or record["verdict"] in (NOT_MEASURED, old["verdict"]):
                continue
            place = {name: record[name] for name in ("task", "arm", "attempt", "scope", "trial")}
            change = {"from": old["verdict"], "to": record["verdict"], "from_grader": old["grader"]}
            why = {"reason": record["reason"], "message": record["message"], "from_reason": old["reason"]}
            moved.append({**place, **change, **why})
        return sorted(moved, key=lambda move: (move["task"], move["arm"], move["attempt"], move["scope"]))

    def document(self, *, dry_run: bool) -> Json:
        """Return what ``--json`` prints."""
        return {
            "run": self._reader.id,
            "path": str(self._reader.path),
            "regrade": self.id,
            **{name: self._job.conditions[name] for name in ("grader", "mode", "sandbox")},
            "dry_run": dry_run,
            "suite_changed": self._job.suite_changed,
            "trials": len(self._trials),
            "grades": len(self._after),
            "new": sum(key not in self._before for key in self._after),
            "not_measured": self._unmeasured(),
            "moved": self._moves(),
        }


def _unfinished(lines: Iterable[Json], conditions: Json) -> str:
    """Return the id of the last regrade under the same conditions, if it has not ended."""
    found = ""
    for line in lines:
        if line["kind"] == "start" and line["conditions"] == conditions:
            found = line["regrade"]
        elif line["kind"] == "end" and line["regrade"] == found:
            found = ""
    return found


def _exit_code(document: Json) -> int:
    if document["not_measured"]:
        return 1
    return MOVED if document["moved"] else 0


def _print_result(document: Json) -> None:
    console = open_console()
    if document["moved"]:
        console.print(moves_table(document["moved"]))
    kept = "nothing was written" if document["dry_run"] else "they count from now on"
    say: Callable[[str], object] = sys.stdout.write
    say(
        f"{document['trials']} trials, {document['grades']} grades ({document['new']} new), "
        f"{len(document['moved'])} verdicts moved, {document['not_measured']} not measured; {visible(kept)}\n"
    )
    if document["not_measured"]:
        say("what could not be measured now keeps its earlier grade; the same command tries it again\n")
