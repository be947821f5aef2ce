"""Writes a run folder: append-only records, one live writing process, nothing lost.

What lies in it is described in ``reader.py``. A torn last line is cut off and its trial done again.
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
from pathlib import Path
from typing import Any, Self

from rcb_agent.agents.redaction import redact, redact_bytes
from rcb_agent.errors import RecordsLost, UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Json
from rcb_agent.runs.config import RunConfig, differing_keys
from rcb_agent.runs.reader import AUDIT_FILE, RECORD_FILES, RunReader, blob_path, redacted_mark, split_torn
from rcb_agent.runs.versions import library_versions

_FOLDERS = ("trajectories", "calls", "blobs")


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

    def add_regrade(self, record: Json) -> None:
        """Append that a regrade began or ended, and wait until it is on disk."""
        self._append("regrades.jsonl", record, sync=True)

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
        target = blob_path(self.path, sha256)
        if sha256 not in self._known_blobs and not target.exists():
            with _losses_named(target):
                target.parent.mkdir(parents=True, exist_ok=True)
                clean = redact_bytes(data)
                if clean != data:
                    redacted_mark(self.path, sha256).touch()
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


def reopen_store(path: Path) -> RunStore:
    """Open a run that is there, whatever its config, to append to it. Raises UsageError when it is in use."""
    lock = _acquire(path)
    try:
        return RunStore(path, lock, created=False)
    except BaseException:
        lock.release()
        raise


def open_store(path: Path | None, config: RunConfig, facts: Json, results: Path) -> RunStore:
    """Create a run folder, or open one that holds the same config to resume it.

    ``facts`` are kept in ``run.json`` beside the config (task_facts, faults); an ``audit`` among them in a file of its own.
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


def mend_torn_lines(path: Path) -> list[str]:
    """Cut torn last lines off (a crash in the middle of a write); returns the names of the files mended."""
    mended = []
    records = [path / name for name in RECORD_FILES]
    for file in [*records, *path.glob("trajectories/*"), *path.glob("calls/*")]:
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
    return name in (".lock", "run.json", AUDIT_FILE, *_FOLDERS) or name.startswith((".run.json.", f".{AUDIT_FILE}."))


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
    if "audit" in facts:
        facts = {**facts, "audit": _write_audit(path / AUDIT_FILE, facts["audit"])}
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


def _write_audit(path: Path, audit: Json) -> Json:
    """Write where answers lie about; returns what ``run.json`` says of it."""
    data = (redact(json.dumps(audit)) + "\n").encode()
    with _losses_named(path):
        write_atomically(path, data)
    return {"sha256": hashlib.sha256(data).hexdigest(), "allow_leaks": audit["allow_leaks"]}


def _check_same(store: RunStore, config: Json) -> None:
    if store.config == config:
        return
    keys = differing_keys(store.config, config)
    raise UsageError(f"{store.path}: holds a run with another config: {'; '.join(keys)}: choose another --out")
