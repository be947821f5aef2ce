"""Reads a run folder, running or finished, and changes nothing in it.

``results/<run-id>/``: run.json, audit.json, trials.jsonl, grades.jsonl, trajectories/, calls/, blobs/. A line counts once its
newline is on disk; a torn last line is no record.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Json

AUDIT_FILE = "audit.json"
RECORD_FILES = ("trials.jsonl", "grades.jsonl", "regrades.jsonl")

GradeKey = tuple[str, str | int, str, str]


class RunReader:
    """Reads a run folder, running or finished; changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = _read_run(path)
        self.torn: list[str] = []

    @property
    def id(self) -> str:
        """The run's id (its folder's name when it was created)."""
        return str(self.run["run"])

    @property
    def config(self) -> Json:
        """The config record of ``run.json``."""
        return dict(self.run["config"])

    def trials(self) -> dict[str, Json]:
        """Trial name -> its latest record."""
        return {record["trial"]: record for record in self._records("trials.jsonl")}

    def replies(self) -> list[Json]:
        """Return every reply that was ever paid for, those of tries that broke or were repeated included."""
        names = [f"calls/{path.name}" for path in sorted(self.path.glob("calls/*.jsonl"))]
        calls = (record for name in names for record in self._records(name, versioned=False))
        return [record["reply"] for record in calls if record["reply"] is not None]

    def cost_of_tries(self) -> dict[str, float | None]:
        """Trial name -> what all its tries cost together, those that were repeated included; None is unknown."""
        costs: dict[str, float | None] = {}
        for record in self._records("trials.jsonl"):
            before, cost = costs.get(record["trial"], 0.0), record["cost"]
            costs[record["trial"]] = None if before is None or cost is None else before + cost
        return costs

    def grades(self) -> dict[GradeKey, Json]:
        """(trial, snapshot, scope, mode) -> the latest grade. Raises UsageError for a grade of no trial."""
        found = {grade_key(record): record for record in self._records("grades.jsonl")}
        if strays := {key[0] for key in found} - self.trials().keys():
            raise UsageError(f"{self.path}: {min(strays)} is graded but not in trials.jsonl: the folder is damaged")
        return found

    def grade_history(self) -> list[Json]:
        """Return every grade that was ever written, in order."""
        return list(self._records("grades.jsonl"))

    def regrades(self) -> list[Json]:
        """Return what is recorded of regrades: their beginnings and ends, in order."""
        return list(self._records("regrades.jsonl"))

    def events(self, trial: str) -> list[Json]:
        """Return a trial's trajectory: all events from the last ``start`` on."""
        events = list(self._records(f"trajectories/{trial}.jsonl", versioned=False))
        starts = [index for index, event in enumerate(events) if event["kind"] == "start"]
        return events[starts[-1] :] if starts else events

    def calls(self, trial: str) -> list[Json]:
        """Return the calls of a trial's last try, in order."""
        calls = list(self._records(f"calls/{trial}.jsonl", versioned=False))
        begins = [index for index, call in enumerate(calls) if call["ordinal"] == 1]
        return calls[begins[-1] :] if begins else calls

    def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob. Raises UsageError when it is gone or damaged."""
        try:
            data = blob_path(self.path, sha256).read_bytes()
        except OSError:
            raise UsageError(f"{self.path}: blob {sha256[:12]} is missing: the folder is damaged") from None
        if hashlib.sha256(data).hexdigest() != sha256 and not redacted_mark(self.path, sha256).exists():
            raise UsageError(f"{self.path}: blob {sha256[:12]} does not hold what its name says: the folder is damaged")
        return data

    def _records(self, name: str, *, versioned: bool = True) -> Iterator[Json]:
        path = self.path / name
        if not path.exists():
            return
        good, torn = split_torn(path.read_bytes())
        if torn:
            self.torn.append(name)
        required = _required_keys(path.stem) if versioned else ("kind",)
        for number, line in enumerate(good.split(b"\n")[:-1], 1):
            if line.strip():
                yield _parse_line(path, number, line, required=required)


def grade_key(record: Json) -> GradeKey:
    """What identifies a grade: the latest record of a key counts."""
    return record["trial"], record["snapshot"], record["scope"], record["mode"]


def find_run(text: str, results: Path) -> Path:
    """Resolve RUN: a path, ``latest`` (the one that began last), or a unique prefix of a run id below ``results``.

    Raises UsageError.
    """
    for direct in (Path(text), results / text):
        if text and (direct / "run.json").is_file():
            return direct
    runs = sorted(path.parent for path in results.glob("*/run.json"))
    if runs and text == "latest":
        return max(runs, key=_began)
    found = [path for path in runs if path.name.startswith(text)] if text else []
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{text!r} fits {len(found)} runs in {results}/: {found[0].name}, {found[1].name}, ...: give more of the id"
        )
    raise UsageError(f"no run {text!r}: give a run folder, the beginning of an id in {results}/, or latest")


def _began(path: Path) -> tuple[float, str]:
    """Return when a run began, in seconds, and its name; what cannot be read began before everything."""
    try:
        when = datetime.fromisoformat(_read_run(path)["created"])
        return when.replace(tzinfo=when.tzinfo or UTC).timestamp(), path.name
    except (UsageError, KeyError, TypeError, ValueError, OverflowError):
        return float("-inf"), path.name


def open_run(text: str, results: Path) -> tuple[RunReader, str | None]:
    """Read RUN or RUN:ARM; a run whose own name holds a colon is found first. Raises UsageError."""
    try:
        return RunReader(find_run(text, results)), None
    except UsageError:
        name, colon, arm = text.rpartition(":")
        if not colon:
            raise
    reader = RunReader(find_run(name, results))
    known = [one["id"] for one in reader.config["arms"]]
    if arm not in known:
        raise UsageError(f"run {reader.id} has no arm {arm!r}; it has {', '.join(known[:6])}")
    return reader, arm


def split_torn(data: bytes) -> tuple[bytes, bytes]:
    """Part a JSONL file into whole, parseable lines and a torn end (no newline, or a last line that is no JSON)."""
    cut = data.rfind(b"\n") + 1
    last = data.rfind(b"\n", 0, cut - 1) + 1 if cut else 0
    try:
        if cut:
            json.loads(data[last:cut])
    except ValueError:
        cut = last
    return data[:cut], data[cut:]


def blob_path(path: Path, sha256: str) -> Path:
    """Return where the bytes of a hash lie in a run folder."""
    return path / "blobs" / sha256[:2] / sha256


def redacted_mark(path: Path, sha256: str) -> Path:
    """Return the mark of a blob that is kept without a secret: its bytes are not those of its name."""
    return path / "blobs" / sha256[:2] / f"{sha256}.redacted"


def _read_run(path: Path) -> Json:
    try:
        record = json.loads((path / "run.json").read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: no readable run.json there: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path}/run.json: is not JSON: the folder is damaged") from None
    if not isinstance(record, dict) or record.get("schema_version") != SCHEMA_VERSION:
        version = record.get("schema_version") if isinstance(record, dict) else None
        raise UsageError(
            f"{path}/run.json: has format {version}, this version reads {SCHEMA_VERSION}: use the version that wrote it"
        )
    return record


def _parse_line(path: Path, number: int, line: bytes, *, required: tuple[str, ...]) -> Json:
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except ValueError as error:
        raise UsageError(f"{path}:{number}: is not a record ({error}): the folder is damaged") from None
    if not isinstance(record, dict):
        raise UsageError(f"{path}:{number}: is not a record: the folder is damaged")
    version = record.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{path}:{number}: has format {version}, this version reads {SCHEMA_VERSION}: use the version that wrote it"
        )
    missing = [key for key in required if key not in record]
    if missing:
        raise UsageError(f"{path}:{number}: is not a record (no {', '.join(missing[:3])}): the folder is damaged")
    return record


@cache
def _required_keys(stem: str) -> tuple[str, ...]:
    """Return the keys that every line of a file of RECORD_FILES must have."""
    schema = json.loads((files("rcb_agent.runs") / "schema" / f"{stem.removesuffix('s')}.json").read_text("utf-8"))
    return tuple(schema["required"])


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
