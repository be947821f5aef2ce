"""Grades what the workspace held after each step of a finished run: no model is asked, nothing of the run is repeated.

The grades lie in the run's ``grades.jsonl`` with ``snapshot: k``. Equal files of one task are graded once, also those that were
submitted; what is graded already, by the same grader, is not graded again, so an interrupted session goes on.
"""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from rcb_agent.environments.owners import name_run
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.grading import grade_trial
from rcb_agent.runs.reader import GradeKey, RunReader
from rcb_agent.runs.regrading import Job, make_job
from rcb_agent.runs.screen import ScreenWatch
from rcb_agent.runs.store import RunStore, reopen_store
from rcb_agent.scoring.base import NOT_MEASURED

Content = tuple[str, tuple[tuple[str, str, str | None], ...]]
"""A task and the annotated files as they stand: path, kind, hash."""

_CHOICES: Json = {"patterns": (), "sandbox": None, "grading": None}


@dataclass(frozen=True, slots=True)
class Moment:
    """A trial after one of its steps."""

    trial: Json
    step: int
    files: tuple[tuple[str, str, str | None], ...]

    @property
    def content(self) -> Content:
        """What there is to grade."""
        return self.trial["task"], self.files

    def as_trial(self) -> Json:
        """Return the trial's record as if it had ended here."""
        files = [{"path": path, "kind": kind, "sha256": sha256} for path, kind, sha256 in self.files]
        return {**self.trial, "submission": {"files": files, "diff": ""}}

    def key(self, scope: str, mode: str) -> GradeKey:
        """Return the key of its grade."""
        return self.trial["trial"], self.step, scope, mode


def find_moments(trials: Mapping[str, Json]) -> list[Moment]:
    """Return the snapshots of all trials that were not broken by a fault of ours or of a provider."""
    return [
        Moment(trial, snapshot["step"], _files_of(trial, snapshot))
        for trial in trials.values()
        if trial["error"] is None and trial["submission"] is not None
        for snapshot in trial["snapshots"]
    ]


def _files_of(trial: Json, snapshot: Json) -> tuple[tuple[str, str, str | None], ...]:
    found = []
    for path in (item["path"] for item in trial["submission"]["files"]):
        sha256 = snapshot["files"].get(path)
        kind = "file" if sha256 else "unreadable" if path in snapshot["listed"] else "missing"
        found.append((path, kind, sha256))
    return tuple(found)


def grade_snapshots(reader: RunReader, workers: int | None, *, cold: bool = False) -> None:
    """Grade what is not graded yet. Raises UsageError where today's grader or suite is not the run's."""
    moments = find_moments(reader.trials())
    if not moments or not _missing(moments, reader):
        return
    job = make_job(reader, _CHOICES)
    try:
        _check_same(reader, job)
        if cold:
            job.grader.start_cold()
        name_run(reader.path.name)
        with reopen_store(reader.path) as store, _Watch() as watch:
            _carry_out(_missing(moments, store), job, store, (workers or max(1, os.cpu_count() or 1), watch))
    finally:
        job.grader.close()


class _Watch(ScreenWatch):
    """A bar on a terminal; elsewhere a line per tenth."""

    def tell(self, records: list[Json]) -> None:
        """Count a moment as graded."""
        self.counts[records[0]["verdict"]] += 1
        before, self.finished = self.finished, self.finished + 1
        self.progress.update(self.bar, completed=self.finished, description=self._description())
        if not self.console.is_terminal and self.finished * 10 // self.total > before * 10 // self.total:
            self.remark(f"{self.finished} of {self.total} snapshots graded")


def _check_same(reader: RunReader, job: Job) -> None:
    if job.suite_changed:
        raise UsageError(
            f"{reader.path}: the suite's tasks are no longer those of the run, so its steps cannot be graded"
        )
    others = {grade["grader"] for key, grade in reader.grades().items() if _is_final(key, reader)} - {
        job.grader.version
    }
    if others:
        raise UsageError(
            f"{reader.path}: was graded by {min(others)}, this version grades by {job.grader.version}: "
            "`rcb-agent regrade RUN` first, so that one grader judges its steps and its ends"
        )


def _is_final(key: GradeKey, reader: RunReader) -> bool:
    return key[1] == "final" and key[3] == reader.config["mode"]


def _missing(moments: list[Moment], reader: RunReader) -> list[Moment]:
    """Return the moments without a measured grade of the grader that judged the ends."""
    grades, mode = reader.grades(), reader.config["mode"]

    def is_graded(moment: Moment) -> bool:
        end = grades.get((moment.trial["trial"], "final", "diff", mode))
        found = [grades.get(moment.key(scope, mode)) for scope in reader.config["scopes"]]
        return all(
            one and one["verdict"] != NOT_MEASURED and (not end or one["grader"] == end["grader"]) for one in found
        )

    return [moment for moment in moments if not is_graded(moment)]


def _carry_out(todo: list[Moment], job: Job, store: RunStore, pace: tuple[int, _Watch]) -> None:
    workers, watch = pace
    watch.begin(len(todo), 0)
    known = dict(_known_grades(store, job.grader.version))
    groups: dict[Content, list[Moment]] = {}
    for moment in todo:
        groups.setdefault(moment.content, []).append(moment)
    pool = ThreadPoolExecutor(workers, "grade")

    def grade(content: Content) -> list[Json]:
        first = groups[content][0]
        return grade_trial(first.as_trial(), job.tasks[first.trial["task"]], job.grader, store.blob)

    try:
        for content in [one for one in groups if one in known]:
            _keep(groups[content], known[content], store, watch)
        futures: dict[Future[list[Json]], Content] = {
            pool.submit(grade, one): one for one in groups if one not in known
        }
        for future in as_completed(futures):
            _keep(groups[futures[future]], future.result(), store, watch)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    else:
        pool.shutdown()


def _keep(moments: list[Moment], grades: list[Json], store: RunStore, watch: _Watch) -> None:
    for moment in moments:
        records = [_regarding(moment, grade) for grade in grades]
        for record in records:
            store.add_grade(record)
        watch.tell(records)


def _regarding(moment: Moment, grade: Json) -> Json:
    """Return a grade as that of a moment; one that was made for equal files of another moment says whose it was."""
    trial = {key: moment.trial[key] for key in ("trial", "arm", "task", "attempt")}
    mine = grade["trial"] == trial["trial"] and grade["snapshot"] == moment.step
    source = grade["details"].get("graded_as", f"{grade['trial']}:{grade['snapshot']}")
    details = {name: value for name, value in grade["details"].items() if name != "regrade"}
    return {**grade, **trial, "snapshot": moment.step, "details": details if mine else {**details, "graded_as": source}}


def _known_grades(reader: RunReader, grader: str) -> Iterator[tuple[Content, list[Json]]]:
    """Yield what is graded already, by content: submissions and snapshots, measured in every scope."""
    grades, mode, scopes = reader.grades(), reader.config["mode"], reader.config["scopes"]
    trials = reader.trials()
    named: list[tuple[Moment, str | int]] = [(moment, moment.step) for moment in find_moments(trials)]
    named += [(_end_of(trial), "final") for trial in trials.values() if trial["submission"] is not None]
    for moment, name in named:
        found = [grades.get((moment.trial["trial"], name, scope, mode)) for scope in scopes]
        measured = [one for one in found if one and one["verdict"] != NOT_MEASURED and one["grader"] == grader]
        if len(measured) == len(scopes):
            yield moment.content, measured


def _end_of(trial: Json) -> Moment:
    return Moment(trial, -1, tuple((one["path"], one["kind"], one["sha256"]) for one in trial["submission"]["files"]))
