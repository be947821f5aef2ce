"""A task's checkout inside an open sandbox.

Built from an allow list: the annotated files, their support files, public tests, and the paper where the arm
wants it as a file. What differs later is found by comparing bytes with what was given; the agent's own git
counts for nothing. Every answer is bounded in entries, name lengths and bytes.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from rcb_agent.environments.base import Container, Entry, Limits, Runtime, Sandbox, SandboxSpec, Snapshot, Submission
from rcb_agent.environments.diff import unified_diff
from rcb_agent.environments.registry import open_sandbox
from rcb_agent.environments.repository import repository_files
from rcb_agent.environments.supervised import MORE_ENTRIES
from rcb_agent.tasks.base import DataFile, Problem, SourceFile

__all__ = ["LiveWorkspace", "WorkspaceSpec", "exported_files", "open_workspace", "unified_diff"]

ANNOTATED_BYTES = 2 << 20
FILE_BYTES = 256 << 10
TOTAL_BYTES = 4 << 20
MOST_FILES = 500
MOST_LISTED = 1000
MOST_NAME = 1024
NAME_BYTES = 64 << 10  # of all names of a snapshot together, as they are written


@dataclass(frozen=True, slots=True)
class WorkspaceSpec:
    """How to open a workspace. ``paper`` is the arm's place of the paper; ``keep`` takes (sha256, bytes) of kept files;
    ``container`` as in SandboxSpec."""

    sandbox_kind: str
    runtime: Runtime
    limits: Limits
    paper: str
    keep: Callable[[str, bytes], None]
    container: Container | None = None


def exported_files(problem: Problem, paper: str) -> dict[str, bytes]:
    """Return everything an agent finds in its workspace, by path."""
    sources: list[SourceFile | DataFile] = [
        *problem.data,
        *problem.files_support,
        *problem.public_tests,
        *problem.files,
    ]
    if paper == "file" and problem.paper is not None:
        sources.append(problem.paper)
    return {source.path: source.encode() for source in sources}


def open_workspace(problem: Problem, spec: WorkspaceSpec) -> "LiveWorkspace":
    """Open a sandbox that holds a problem's files and a repository with one commit of them."""
    given = exported_files(problem, spec.paper)
    files = {**given, **repository_files(given)}
    given_to = SandboxSpec(spec.runtime, files=files, limits=spec.limits, container=spec.container)
    sandbox = open_sandbox(spec.sandbox_kind, given_to)
    return LiveWorkspace(sandbox, given, tuple(file.path for file in problem.files), spec.keep)


class LiveWorkspace:
    """The Workspace of ``environments.base``; closing it closes its sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        given: Mapping[str, bytes],
        annotated: tuple[str, ...],
        keep: Callable[[str, bytes], None],
    ) -> None:
        self._sandbox = sandbox
        self._given = dict(given)
        self._annotated = annotated
        self._keep = keep
        self._kept: set[str] = set()
        self._hashes = {path: hash_bytes(data) for path, data in given.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sandbox(self) -> Sandbox:
        """Where the files lie."""
        return self._sandbox

    def close(self) -> None:
        """Close the sandbox; nothing of it remains."""
        self._sandbox.close()

    def snapshot(self) -> Snapshot:
        """Compare with the first commit and hand the bytes of kept files to the blob keeper."""
        entries = self._sandbox.scan(hash_limit=max(FILE_BYTES, *(len(data) for data in self._given.values())))
        same = self._unhashed_but_same(entries)
        changed = [entry for entry in entries if entry.path not in same and self._differs(entry)]
        names = NameRoom((*self._annotated, MORE_ENTRIES))
        deleted = names.bound(self._missing(entries))
        wanted, listed = choose(changed, names)
        paths = [path for path in dict.fromkeys([*self._annotated, *wanted]) if len(path) <= MOST_NAME]
        files = self._recognise(paths, entries)
        files |= self._take([path for path in paths if path not in files], listed)
        self._kept &= set(files.values())  # whoever keeps may have let go of the rest
        return Snapshot({path: files[path] for path in paths if path in files}, names.bound(listed), deleted)

    def _recognise(self, paths: list[str], entries: tuple[Entry, ...]) -> dict[str, str]:
        """Files whose bytes are known by their hash: as given, or as in the snapshot before. They are not fetched."""
        digests = {entry.path: entry.sha256 for entry in entries if entry.kind == "file" and entry.sha256}
        files: dict[str, str] = {}
        for path in paths:
            digest = digests.get(path)
            if digest and digest == self._hashes.get(path):
                files[path] = self._keep_bytes(self._given[path])
            elif digest in self._kept:
                files[path] = digest
        return files

    def _unhashed_but_same(self, entries: tuple[Entry, ...]) -> set[str]:
        """Given files that a scan had no room to hash; the sizes of given files bound what is read here."""
        suspects = [
            entry.path
            for entry in entries
            if entry.sha256 is None and entry.kind == "file" and entry.size == len(self._given.get(entry.path, b""))
        ]
        limit = max((len(self._given.get(path, b"")) for path in suspects), default=0)
        found = self._sandbox.collect(suspects, limit=limit) if suspects else ()
        return {item.path for item in found if item.data is not None and item.data == self._given.get(item.path)}

    def _differs(self, entry: Entry) -> bool:
        if entry.path in self._annotated:  # always taken, whatever has become of it
            return False
        if entry.kind == "dir":
            return entry.path in self._given
        return entry.kind != "file" or entry.sha256 is None or self._hashes.get(entry.path) != entry.sha256

    def _take(self, paths: list[str], listed: list[str]) -> dict[str, str]:
        files: dict[str, str] = {}
        found = self._sandbox.collect(paths, limit=self._annotated_limit()) if paths else ()
        for item in found:
            if item.data is not None:
                files[item.path] = self._keep_bytes(item.data)
            elif item.kind != "missing" and item.path not in listed:
                listed.append(item.path)
        return files

    def _keep_bytes(self, data: bytes) -> str:
        digest = hash_bytes(data)
        if digest not in self._kept:
            self._keep(digest, data)
            self._kept.add(digest)
        return digest

    def _missing(self, entries: tuple[Entry, ...]) -> list[str]:
        there = {entry.path for entry in entries}
        suspects = [path for path in self._given if path not in there]
        return (
            [item.path for item in self._sandbox.collect(suspects, limit=0) if item.kind == "missing"]
            if suspects
            else []
        )

    def submission(self) -> Submission:
        """Kill everything else in the sandbox and take the annotated files as they are."""
        collected = self._sandbox.collect(self._annotated, limit=self._annotated_limit())
        given = {path: self._given[path] for path in self._annotated}
        left = {item.path: item.data for item in collected}
        diff = unified_diff(given, left, kinds={item.path: item.kind for item in collected})
        return Submission(collected, diff)

    def _annotated_limit(self) -> int:
        return max(ANNOTATED_BYTES, *(2 * len(self._given[path]) for path in self._annotated))


def choose(changed: list[Entry], names: "NameRoom") -> tuple[list[str], list[str]]:
    """Split what differs into files small enough to be kept and names that are only listed."""
    wanted: list[str] = []
    listed: list[str] = []
    room = TOTAL_BYTES
    for entry in changed:
        small = entry.kind == "file" and entry.size <= FILE_BYTES and entry.sha256 is not None
        fits = small and entry.size <= room and len(wanted) < MOST_FILES and len(entry.path) <= MOST_NAME
        if fits and names.take(entry.path):
            wanted.append(entry.path)
            room -= entry.size
        else:
            listed.append(entry.path)
    return wanted, listed


class NameRoom:
    """What is left of NAME_BYTES for the names of one snapshot; those ``always`` named take none and need none."""

    def __init__(self, always: Iterable[str]) -> None:
        self._always = frozenset(always)
        self._left = NAME_BYTES

    def take(self, name: str) -> bool:
        """Whether a name still fits; if so, its room is taken."""
        if name in self._always:
            return True
        size = written_length(name)
        if size > self._left:
            return False
        self._left -= size
        return True

    def bound(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return at most MOST_LISTED names, each cut to MOST_NAME characters, and a line on the rest."""
        short = sorted(name if len(name) <= MOST_NAME else f"{name[:MOST_NAME]}[...]" for name in names)
        kept = [name for name in short if name in self._always]
        others = [name for name in short if name not in self._always]
        kept += [name for name in others[:MOST_LISTED] if self.take(name)]
        left_out = len(short) - len(kept)
        return (*sorted(kept), *([f"[... {left_out} more ...]"] if left_out else []))


def written_length(name: str) -> int:
    r"""Characters of a name in a record: bytes that are not UTF-8 as ``\xNN``, then JSON in ASCII."""
    return len(json.dumps(name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")))


def hash_bytes(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()
