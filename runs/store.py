"""The run folder: append-only records, one live writing process, nothing lost.

``results/<run-id>/``: run.json, trials.jsonl, grades.jsonl, trajectories/, calls/, blobs/. A line counts once its
newline is on disk; a torn last line is cut off and its trial done again.
"""

import base64
import hashlib
import json
import os
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from rcb_agent.agents.redaction import redact, redact_bytes
from rcb_agent.errors import RecordsLost, UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Json
from rcb_agent.runs.config import RunConfig, differing_keys

_FOLDERS = ("trajectories", "calls", "blobs")

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

    def events(self, trial: str) -> list[Json]:
        """Return a trial's trajectory: all events from the last ``start`` on."""
        events = list(self._records(f"trajectories/{trial}.jsonl", versioned=False))
        starts = [index for index, event in enumerate(events) if event["kind"] == "start"]
        return events[starts[-1] :] if starts else events

    def blob(self, sha256: str) -> bytes:
        """Return the bytes of a blob. Raises UsageError when it is gone or damaged."""
        try:
            data = _blob_path(self.path, sha256).read_bytes()
        except OSError:
            raise UsageError(f"{self.path}: blob {sha256[:12]} is missing: the folder is damaged") from None
        if hashlib.sha256(data).hexdigest() != sha256 and not _redacted_mark(self.path, sha256).exists():
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


class RunStore(RunReader):
    """Writes a run folder. Only one process holds it at a time; use as a context manager."""

    def __init__(self, path: Path, lock: Any, *, created: bool) -> None:
        super().__init__(path)
        self._lock, self._created = lock, created
        self._mutex = threading.Lock()
        self._known_blobs: set[str] = set()
        self.mended = mend_torn_lines(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder free for another writer."""
        self._lock.release()

    def discard_if_empty(self) -> None:
        """Remove a folder that this process created and that holds no record (nothing was measured)."""
        if self._created and not (self.path / "trials.jsonl").exists():
            shutil.rmtree(self.path, ignore_errors=True)

    def add_trial(self, record: Json) -> None:
        """Append a trial record and wait until it is on disk."""
        self._append("trials.jsonl", record, sync=True)

    def add_grade(self, record: Json) -> None:
        """Append a grade record and wait until it is on disk."""
        self._append("grades.jsonl", record, sync=True)

    def emit(self, trial: str, kind: str, payload: Json) -> None:
        """Keep what a running trial emits (see runs.base.Emit)."""
        if kind == "ask":
            return
        if kind == "blob":
            self.add_blob(base64.b64decode(payload["data"]))
        else:
            self._append(f"{'calls' if kind == 'call' else 'trajectories'}/{trial}.jsonl", payload, sync=False)

    def add_blob(self, data: bytes) -> str:
        """Keep bytes once under their hash, which is returned.

        Bytes that hold a secret are kept without it, under the hash they had, with a mark beside them.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        target = _blob_path(self.path, sha256)
        if sha256 not in self._known_blobs and not target.exists():
            with _losses_named(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                clean = redact_bytes(data)
                if clean != data:
                    _redacted_mark(self.path, sha256).touch()
                write_atomically(target, clean)
        self._known_blobs.add(sha256)  # only now: another thread with the same bytes may go on to read them
        return sha256

    def _append(self, name: str, record: Json, *, sync: bool) -> None:
        text = redact(json.dumps(record, ensure_ascii=True, allow_nan=False))
        path = self.path / name
        with self._mutex, _losses_named(path):
            _append_line(path, text.encode() + b"\n", sync=sync)


@contextmanager
def _losses_named(path: Path) -> Iterator[None]:
    """Turn a failed write into one line; what was written before stays, and a torn line is mended on the next start."""
    try:
        yield
    except OSError as error:
        raise RecordsLost(
            f"{path}: cannot be written: {error.strerror}: make room, then the same command with --out goes on"
        ) from None


def _append_line(path: Path, line: bytes, *, sync: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        _write_all(descriptor, line)
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def grade_key(record: Json) -> GradeKey:
    """What identifies a grade: the latest record of a key counts."""
    return record["trial"], record["snapshot"], record["scope"], record["mode"]


def open_store(path: Path | None, config: RunConfig, facts: Json, results: Path) -> RunStore:
    """Create a run folder, or open one that holds the same config to resume it.

    ``facts`` are kept in ``run.json`` beside the config (task_facts, faults).
    Raises UsageError when the folder is another run's (naming the keys that differ), in use, or not a run.
    """
    if path is None:
        path = _new_folder(results, config.suite)
    elif not (path / "run.json").exists():
        _claim_folder(path)
    lock = _acquire(path)
    created = not (path / "run.json").exists()  # asked with the lock held: another process may have made it
    try:
        if created:
            _write_run(path, config, facts)
        store = RunStore(path, lock, created=created)
        _check_same(store, config.as_json())
    except BaseException:
        lock.release()
        raise
    return store


def find_run(text: str, results: Path) -> Path:
    """Resolve RUN: a path, ``latest``, or a unique prefix of a run id below ``results``. Raises UsageError."""
    for direct in (Path(text), results / text):
        if text and (direct / "run.json").is_file():
            return direct
    prefix = "" if text == "latest" else text
    runs = sorted(path.parent for path in results.glob("*/run.json"))
    found = [path for path in runs if path.name.startswith(prefix)] if text else []
    if len(found) == 1 or (found and text == "latest"):
        return found[-1]
    if found:
        raise UsageError(
            f"{text!r} fits {len(found)} runs in {results}/: {found[0].name}, {found[1].name}, ...: give more of the id"
        )
    raise UsageError(f"no run {text!r}: give a run folder, the beginning of an id in {results}/, or latest")


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


def mend_torn_lines(path: Path) -> list[str]:
    """Cut torn last lines off (a crash in the middle of a write); returns the names of the files mended."""
    mended = []
    for file in [path / "trials.jsonl", path / "grades.jsonl", *path.glob("trajectories/*"), *path.glob("calls/*")]:
        if not file.exists():
            continue
        good, torn = split_torn(file.read_bytes())
        if torn:
            os.truncate(file, len(good))
            mended.append(file.name)
    return mended


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _blob_path(path: Path, sha256: str) -> Path:
    return path / "blobs" / sha256[:2] / sha256


def _redacted_mark(path: Path, sha256: str) -> Path:
    return path / "blobs" / sha256[:2] / f"{sha256}.redacted"


def _new_folder(results: Path, suite: str) -> Path:
    label = "".join(c if c.isalnum() else "-" for c in Path(suite).name.lower()).strip("-") or "suite"
    while True:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = results / f"{stamp}-{label}-{secrets.token_hex(2)}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{results}: cannot create a run folder: {error.strerror}") from None
        return path


def _claim_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        foreign = [item.name for item in path.iterdir() if not _is_ours(item.name)]
    except OSError as error:
        raise UsageError(f"--out {path}: {error.strerror}") from None
    if foreign:
        raise UsageError(f"--out {path}: is not empty and not a run folder ({foreign[0]} lies there): choose another")


def _is_ours(name: str) -> bool:
    """Say whether a name in a folder without run.json may be what a start that was killed left."""
    return name in (".lock", "run.json", *_FOLDERS) or name.startswith(".run.json.")


def _acquire(path: Path) -> Any:
    from filelock import FileLock, Timeout

    lock = FileLock(path / ".lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UsageError(f"{path}: another process is writing this run: wait for it or choose another --out") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    return lock


def _write_run(path: Path, config: RunConfig, facts: Json) -> None:
    for folder in _FOLDERS:
        (path / folder).mkdir(exist_ok=True)
    record = {
        "schema_version": SCHEMA_VERSION,
        "run": path.name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.as_json(),
        "config_hash": config.hash,
        **facts,
        "versions": library_versions(),
    }
    data = redact(json.dumps(record, indent=1)) + "\n"
    with _losses_named(path / "run.json"):
        write_atomically(path / "run.json", data.encode())


def library_versions() -> dict[str, str]:
    """Return the versions of what a result rests on; a missing package is left out."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "kernel": platform.release(), **_commit()}
    for name in ("rcb-agent", "langgraph", "litellm"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> dict[str, str]:
    """Return the commit of the checkout we run from, marked when files differ from it; nothing when installed."""
    home = Path(str(files("rcb_agent.runs"))).resolve().parent
    try:
        from git import InvalidGitRepositoryError, Repo
    except ImportError:  # GitPython without a git program
        return {}
    try:
        with Repo(home) as checkout:
            return {"git": checkout.head.commit.hexsha + ("+changes" if checkout.is_dirty() else "")}
    except (InvalidGitRepositoryError, ValueError, OSError):
        return {}


def _check_same(store: RunStore, config: Json) -> None:
    if store.config == config:
        return
    keys = differing_keys(store.config, config)
    raise UsageError(f"{store.path}: holds a run with another config: {'; '.join(keys)}: choose another --out")


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
    """Return the keys that every line of ``trials.jsonl`` or ``grades.jsonl`` must have."""
    schema = json.loads((files("rcb_agent.runs") / "schema" / f"{stem.removesuffix('s')}.json").read_text("utf-8"))
    return tuple(schema["required"])


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
