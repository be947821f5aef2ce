"""``verify``: says whether a run folder is whole: hashes, formats, and that its records belong together.

Reads a folder of whoever's making: nothing is written or locked, no link is followed, and whatever lies there becomes findings,
never an exception.
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json, trial_name
from rcb_agent.runs.config import hash_config
from rcb_agent.runs.reader import RECORD_FILES, RunReader, blob_path, find_run, redacted_mark, split_torn
from rcb_agent.runs.screen import visible
from rcb_agent.runs.summary import summarise_run
from rcb_agent.scoring.base import NOT_MEASURED, PASSED, SCOPES

FOUND = 3
"""Exit code: at least one finding."""

_FILE_BYTES = 1 << 30
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. ``file`` is relative to the run folder; ``line`` is 1-based, 0 for the whole file."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        """One line: ``file:line: what``."""
        return f"{self.file}:{self.line}: {self.what}" if self.line else f"{self.file}: {self.what}"


def print_findings(options: Mapping[str, Any]) -> int:
    """Carry out the command; returns its exit code. Raises UsageError where there is no run folder."""
    path = find_run(options["run_id"], options["results"])
    check = Check(path)
    findings = check.run()
    if options["as_json"]:
        document = {"path": str(path), "counts": check.counts, "findings": [asdict(one) for one in findings]}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        for finding in findings:
            sys.stdout.write(visible(str(finding)).replace("\n", " ") + "\n")
        counts = ", ".join(f"{count} {name}" for name, count in check.counts.items())
        sys.stdout.write(f"{visible(str(path))}: {counts}: {len(findings)} findings\n")
    return FOUND if findings else 0


@dataclass(frozen=True, slots=True)
class Line:
    """One record with its place."""

    file: str
    number: int
    record: Json


class Check:
    """Checks one run folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._findings: list[Finding] = []
        self.counts: dict[str, int] = {}

    def run(self) -> list[Finding]:
        """Return all findings, by file and line."""
        config = self._check_run()
        lines = {name: list(self._records(name, name.removesuffix("s.jsonl"))) for name in RECORD_FILES}
        trials, grades, regrades = (lines[name] for name in RECORD_FILES)
        hashes = self._check_blobs()
        self._check_trials(trials, config, hashes)
        self._check_grades(grades, trials, config)
        self._check_regrades(grades, regrades)
        self._check_stories(trials, imported=bool(config and config[0].get("imported")))
        self.counts = {"trials": len(trials), "grades": len(grades), "blobs": len(hashes)}
        self._check_summary(trials, grades)
        return sorted(dict.fromkeys(self._findings), key=lambda one: (one.file, one.line, one.what))

    def _find(self, place: Line | str, what: str) -> None:
        file, line = (place, 0) if isinstance(place, str) else (place.file, place.number)
        self._findings.append(Finding(file, line, what[:_SHOWN]))

    # Files and lines.

    def _read(self, name: str) -> bytes | None:
        """Return the bytes of a regular file of the folder; None where there is none, which may be a finding."""
        if "/" in name and (self._path / name.partition("/")[0]).is_symlink():
            self._find(name.partition("/")[0], "is a link, not followed")
            return None
        try:
            descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._find(name, f"cannot be read: {getattr(error, 'strerror', error)}")
            return None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                self._find(name, "is no regular file")
                return None
            if status.st_size > _FILE_BYTES:
                self._find(name, f"is {status.st_size} bytes large, more than is looked at")
                return None
            return file.read()

    def _records(self, name: str, schema: str) -> Iterator[Line]:
        """Yield the records of a file that fit their schema; every other line is a finding."""
        good, torn = split_torn(self._read(name) or b"")
        lines = good.split(b"\n")[:-1]
        if torn.strip():
            self._findings.append(Finding(name, len(lines) + 1, "torn: the last line is not whole, and is no record"))
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            record = self._parse(Line(name, number, {}), line)
            if record is not None and self._fits(Line(name, number, record), schema):
                yield Line(name, number, record)

    def _parse(self, place: Line | str, text: bytes) -> Json | None:
        try:
            record = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_doubles)
        except (ValueError, RecursionError) as error:
            self._find(place, f"is no strict JSON: {error}")
            return None
        if not isinstance(record, dict):
            self._find(place, "is no JSON object")
            return None
        return record

    def _fits(self, place: Line, schema: str) -> bool:
        errors = sorted(validator(schema).iter_errors(place.record), key=lambda error: list(map(str, error.path)))
        for error in errors[:3]:
            where = ".".join(map(str, error.path))
            self._find(place, f"does not fit the schema {schema}: {f'{where}: ' if where else ''}{error.message}")
        return not errors

    # run.json

    def _check_run(self) -> tuple[Json, Json] | None:
        """Return run.json and its config, if it can be relied on."""
        data = self._read("run.json")
        record = self._parse("run.json", data or b"") if data is not None else None
        if record is None or not self._fits(Line("run.json", 0, record), "run"):
            return None
        if hash_config(record["config"]) != record["config_hash"]:
            self._find("run.json", "config_hash is not the hash of config: the config was changed")
        if unknown := set(record["config"]["tasks"]) ^ record["task_facts"].keys():
            self._find("run.json", f"tasks and task_facts differ: {min(unknown)!r}")
        return record, record["config"]

    # Blobs

    def _check_blobs(self) -> set[str]:
        """Return the hashes of the blobs that hold what their names say."""
        good: set[str] = set()
        for folder, folders, names in os.walk(self._path / "blobs"):
            place = Path(folder).relative_to(self._path)
            for name in folders:
                if (Path(folder) / name).is_symlink():
                    self._find(str(place / name), "is a link, not followed")
            for name in sorted(names):
                sha256 = name.removesuffix(".redacted")
                if name.startswith("."):  # a write that was broken off
                    continue
                if len(sha256) != 64 or blob_path(Path(), sha256).parent != place:
                    self._find(str(place / name), "is no blob")
                elif name == sha256 and self._holds(str(place / name), sha256):
                    good.add(sha256)
        return good

    def _holds(self, name: str, sha256: str) -> bool:
        data = self._read(name)
        if data is None:
            return False
        if hashlib.sha256(data).hexdigest() != sha256 and not redacted_mark(self._path, sha256).is_file():
            self._find(name, "does not hold what its name says")
            return False
        return True

    # Trials

    def _check_trials(self, trials: list[Line], config: tuple[Json, Json] | None, hashes: set[str]) -> None:
        before: dict[str, Line] = {}
        for line in trials:
            record = line.record
            self._check_place(line, config)
            self._check_references(line, hashes)
            earlier = before.get(record["trial"])
            if earlier is not None and earlier.record["error"] is None:
                self._find(line, f"repeats {record['trial']}, which line {earlier.number} measured already")
            if record["error"] is not None and record["stop"] != "error":
                self._find(line, f"has an error and stop {record['stop']}")
            before[record["trial"]] = line

    def _check_place(self, line: Line, config: tuple[Json, Json] | None) -> None:
        """A record's names fit each other, and its task, arm and attempt are the run's."""
        record = line.record
        if record["trial"] != trial_name(record["arm"], record["task"], record["attempt"]):
            self._find(line, f"{record['trial']} is not the name of its arm, task and attempt")
        if config is None:
            return
        if record["task"] not in config[1]["tasks"]:
            self._find(line, f"task {record['task']!r} is none of the run's")
        if record["arm"] not in [arm.get("id") for arm in config[1]["arms"]]:
            self._find(line, f"arm {record['arm']!r} is none of the run's")
        if record["attempt"] > config[1]["attempts"]:
            self._find(line, f"attempt {record['attempt']} of {config[1]['attempts']}")

    def _check_references(self, line: Line, hashes: set[str]) -> None:
        submission = line.record["submission"]
        wanted = [submission["diff"], *(file["sha256"] for file in submission["files"])] if submission else []
        wanted += [sha256 for snapshot in line.record["snapshots"] for sha256 in snapshot["files"].values()]
        for sha256 in sorted({one for one in wanted if one is not None} - hashes):
            self._find(line, f"blob {sha256[:12]} of {line.record['trial']} is not there, or is damaged")
        for file in submission["files"] if submission else ():
            if (file["kind"] == "file") != (file["sha256"] is not None):
                self._find(line, f"{file['path']} is a {file['kind']} {'with' if file['sha256'] else 'without'} bytes")

    # Grades

    def _check_grades(self, grades: list[Line], trials: list[Line], config: tuple[Json, Json] | None) -> None:
        known = {line.record["trial"]: line.record for line in trials}
        before: dict[tuple[Any, ...], Line] = {}
        for line in grades:
            record = line.record
            self._check_place(line, config)
            if record["trial"] not in known:
                self._find(line, f"grades {record['trial']}, which is not in trials.jsonl")
            elif known[record["trial"]]["error"] is not None and record["verdict"] != NOT_MEASURED:
                self._find(line, f"is {record['verdict']}, but the trial has an error and nothing to grade")
            for what in _contradictions(record):
                self._find(line, what)
            key = (record["trial"], record["snapshot"], record["scope"], record["mode"])
            earlier = before.get(key)
            both = [before.get((record["trial"], record["snapshot"], scope, record["mode"])) for scope in SCOPES]
            was_whole = all(one is not None and one.record["verdict"] != NOT_MEASURED for one in both)
            if earlier is not None and was_whole and not _may_follow(earlier.record, record):
                self._find(line, f"repeats the grade of line {earlier.number}, which was measured")
            before[key] = line

    def _check_regrades(self, grades: list[Line], regrades: list[Line]) -> None:
        begun = {line.record["regrade"] for line in regrades if line.record["kind"] == "start"}
        for line in regrades:
            if line.record["regrade"] not in begun:
                self._find(line, f"regrade {line.record['regrade']} ends and never began")
        for line in grades:
            mark = line.record.get("details", {}).get("regrade")
            if mark is not None and mark not in begun:
                self._find(line, f"belongs to regrade {mark}, which is not in regrades.jsonl")

    # Trajectories and calls

    def _check_stories(self, trials: list[Line], *, imported: bool) -> None:
        """Each trial has its trajectory, which tells the same; no file is of a trial that is not there."""
        latest = {line.record["trial"]: line for line in trials}
        for name, line in latest.items():
            if "/" in name or name.startswith("."):
                self._find(line, f"{name} is no file's name")
            elif events := list(self._records(f"trajectories/{name}.jsonl", "event")):
                self._check_story(line, events)
            elif not imported:
                self._find(line, f"{name} has no trajectory")
        self._check_strays(latest)

    def _check_strays(self, latest: Mapping[str, Line]) -> None:
        """Look at calls, and at stories of trials that are not in trials.jsonl."""
        for folder, schema in (("trajectories", "event"), ("calls", "call")):
            for name in self._names(folder):
                # One that is not in trials.jsonl is under way, or was when the process died.
                if folder == "calls" or name not in latest:
                    list(self._records(f"{folder}/{name}.jsonl", schema))
                if name not in latest and latest and self._is_over(name):
                    self._find(f"{folder}/{name}.jsonl", "is of a trial that is not in trials.jsonl")

    def _names(self, folder: str) -> list[str]:
        try:
            return sorted(path.stem for path in (self._path / folder).glob("*.jsonl"))
        except OSError:
            return []

    def _is_over(self, name: str) -> bool:
        """Say whether a trajectory ends with a stop: then its record should be there."""
        lines = (self._read(f"trajectories/{name}.jsonl") or b"").rstrip(b"\n").rsplit(b"\n", 1)
        try:
            return bool(json.loads(lines[-1])["kind"] == "stop")
        except (ValueError, KeyError, TypeError, RecursionError):
            return True

    def _check_story(self, line: Line, events: list[Line]) -> None:
        starts = [index for index, event in enumerate(events) if event.record["kind"] == "start"]
        story = events[starts[-1] :] if starts else events
        if not starts or story[0].record.get("trial") != line.record["trial"]:
            self._find(story[0], f"does not begin with the start of {line.record['trial']}")
        stops = [event for event in story if event.record["kind"] == "stop"]
        if not stops:
            self._find(story[-1], "does not end with a stop, but the trial's record is there")
        elif stops[-1].record.get("stop") != line.record["stop"]:
            self._find(stops[-1], f"stops with {stops[-1].record.get('stop')}, the record with {line.record['stop']}")
        taken = [{"step": e.record.get("step"), **_mapping(e.record.get("snapshot"))} for e in story if _is_snapshot(e)]
        if taken != line.record["snapshots"]:
            self._find(line, "its snapshots are not those of its trajectory")

    # The summary

    def _check_summary(self, trials: list[Line], grades: list[Line]) -> None:
        """What ``show`` counts is what the records say, counted here another way. Where records are damaged there is no
        summary, and the findings say why."""
        if self._findings:
            return
        try:
            document = summarise_run(RunReader(self._path))
        except UsageError as error:
            self._find("run.json", f"cannot be summarised: {error}")
            return
        known = {line.record["trial"] for line in trials}
        for arm in document["arms"]:
            for scope in ("diff", "blank"):
                latest = {
                    (r["trial"], r["mode"]): r["verdict"]
                    for r in (line.record for line in grades)
                    if r["arm"] == arm["arm"]
                    and r["scope"] == scope
                    and r["snapshot"] == "final"
                    and r["trial"] in known
                }
                passed = sum(v == PASSED for (_, mode), v in latest.items() if mode == document["grading"]["mode"])
                if passed != arm["scopes"][scope]["passed"]:
                    self._find("grades.jsonl", f"{arm['arm']}, {scope}: {passed} passed, the summary says otherwise")


def _contradictions(record: Json) -> Iterator[str]:
    """Yield what a grade says against itself."""
    if (record["verdict"] == PASSED) != (record["reason"] == ""):
        yield f"is {record['verdict']} with reason {record['reason']!r}"
    bad = [test["id"] for test in record["tests"] if test["outcome"] != "passed"]
    if record["verdict"] == PASSED and bad:
        yield f"is passed, but test {bad[0]} is not"
    if record.get("same_as") == record["scope"]:
        yield "is the same as itself"


def _may_follow(earlier: Json, later: Json) -> bool:
    """Say whether a grade may take the place of another: of one that was not measured, or by a regrade of its own.

    Snapshots are graded again where another grader judges the ends now.
    """
    mark = later.get("details", {}).get("regrade")
    is_new = mark is not None and mark != earlier.get("details", {}).get("regrade")
    newer = later["snapshot"] != "final" and later["grader"] != earlier["grader"]  # a curve after a regrade
    return bool(earlier["verdict"] == NOT_MEASURED or is_new or newer)


def _is_snapshot(event: Line) -> bool:
    return bool(event.record["kind"] == "snapshot")


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _refuse_doubles(pairs: Iterable[tuple[str, Any]]) -> Json:
    record: Json = {}
    for key, value in pairs:
        if key in record:
            raise ValueError(f"key {key!r} twice")
        record[key] = value
    return record


@cache
def validator(name: str) -> Any:
    """Return the validator of a schema of ``runs/schema``."""
    from jsonschema import Draft202012Validator

    text = (files("rcb_agent.runs") / "schema" / f"{name}.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text))
