"""Pulls a suite: fetches the published commit, keeps its folder as plain files, and checks every task by id and size.

No history is kept: it would hold the answers once more. What is not whole is never seen: the record that names the
new folder is put last, in one step, and the next pull removes what an interrupted one has left.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from rcb_agent.errors import EnvironmentFault, TaskError
from rcb_agent.tasks.fetching import Fetcher, check_commit, name_source, without_password
from rcb_agent.tasks.origins import RECORD, Origin, Pulled, is_whole, read_record, tree_digest
from rcb_agent.tasks.suites import LoadedSuite, read_suite

LOCK = ".lock"
WAIT_SECONDS = 600
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What to pull: another source or commit than the published ones, and whether again."""

    source: str | None = None
    commit: str | None = None
    force: bool = False


class PullWatch(Protocol):
    """Is told what happens."""

    def remark(self, text: str) -> None:
        """Take a line for a person."""

    def progress(self, done: float, total: float) -> None:
        """Take how far the fetch is; ``total`` is 0 where it is not known."""


def pull_suite(origin: Origin, request: PullRequest, watch: PullWatch) -> Pulled:
    """Pull a suite unless it is there. Raises TaskError (exit 3), or EnvironmentFault for this machine's faults."""
    commit = check_commit(request.commit or origin.commit)
    source = name_source(request.source or origin.url)
    with _held(origin.home):
        _sweep(origin.home, keep=read_record(origin))
        there = None if request.force else _find_present(origin, commit)
        if there is not None:
            watch.remark(f"{origin.name}: already pulled, {there} ({_how_to_renew(request)})")
            return there
        return _pull(origin, source, commit, watch)


def _how_to_renew(request: PullRequest) -> str:
    if request.source is None:
        return "--force to renew"
    return f"--from {without_password(request.source)} was not looked at: --force to pull from there"


@contextmanager
def _held(home: Path) -> Iterator[None]:
    """Hold the lock of a suite's place; name what keeps it from being written."""
    from filelock import FileLock, Timeout

    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / LOCK, timeout=WAIT_SECONDS):
            yield
    except Timeout:
        raise EnvironmentFault(
            f"{home}: another pull has held {LOCK} for {WAIT_SECONDS} s: end it, then again"
        ) from None
    except OSError as error:
        raise EnvironmentFault(
            f"{error.filename or home}: {error.strerror or error}: make it writable, then again"
        ) from None


def _find_present(origin: Origin, commit: str) -> Pulled | None:
    """Return the record of a pull that is whole and of this commit."""
    record = read_record(origin)
    fits = record is not None and record.commit.startswith(commit)
    return record if record is not None and fits and is_whole(origin, record) else None


def _pull(origin: Origin, source: str, commit: str, watch: PullWatch) -> Pulled:
    staging = origin.home / secrets.token_hex(4)
    try:
        record = _fill(origin, Fetcher(staging / "git", source), commit, watch)
        draft = staging / RECORD
        draft.write_text(json.dumps(record.as_json(), indent=2) + "\n")
        draft.replace(origin.home / RECORD)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    _sweep(origin.home, keep=record)
    return record


def _fill(origin: Origin, fetcher: Fetcher, commit: str, watch: PullWatch) -> Pulled:
    watch.remark(f"{origin.name}: fetching commit {commit[:12]} of {fetcher.shown}")
    sha = fetcher.fetch(commit, watch.progress)
    staging = fetcher.place.parent
    folder = staging / origin.folder
    for path in fetcher.write_folder(sha, origin.folder, folder):
        watch.remark(f"warning: {origin.folder}/{path} is no regular file and was left out")
    kept = fetcher.write_files(sha, origin.kept, staging)
    shutil.rmtree(fetcher.place)
    suite = read_suite(origin.name, folder)
    differences = [
        *find_differences(origin, suite),
        *(f"{path} is missing" for path in origin.kept if path not in kept),
    ]
    if differences:
        _judge(origin, sha, differences, watch)
    return Pulled(
        source=fetcher.shown,
        commit=sha,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        papers=len({task.info.id for task in suite.tasks}),
        tasks=len(suite.tasks),
        lines=sum(task.problem.loc for task in suite.tasks),
        digest=tree_digest(folder),
        folder=f"{staging.name}/{origin.folder}",
        differences=tuple(differences),
        kept=tuple(sorted(kept.items())),
    )


def find_differences(origin: Origin, suite: LoadedSuite) -> list[str]:
    """Compare what was pulled with the published facts, task by task; one line for each that differs."""
    found = {task.id: task.problem.loc for task in suite.tasks}
    known = dict(origin.sizes)
    lines = [f"{name} is missing" for name in known if name not in found]
    lines += [
        f"{name} has {found[name]} lines, not {size}" for name, size in known.items() if found.get(name, size) != size
    ]
    lines += [f"{name} is new" for name in found if name not in known]
    return [*(str(fault) for fault in suite.faults), *lines]


def _judge(origin: Origin, sha: str, differences: list[str], watch: PullWatch) -> None:
    """The published commit must be as published; of another one it is said and kept in the record."""
    named = "; ".join(differences[:MOST_NAMED])
    more = f"; and {len(differences) - MOST_NAMED} more" if len(differences) > MOST_NAMED else ""
    if sha == origin.commit:
        raise TaskError(f"{origin.name}: what was fetched is not what is published: {named}{more}: nothing was kept")
    watch.remark(f"warning: {origin.name} at {sha[:12]} differs from what is published: {named}{more}")


def _sweep(home: Path, *, keep: Pulled | None) -> None:
    """Remove what belongs to no record."""
    kept = {LOCK, RECORD} | ({Path(keep.folder).parts[0]} if keep else set())
    for path in home.iterdir():
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
