"""A Sandbox and a Workspace on a plain folder: no isolation, for tests of agents and tools only."""

import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rcb_agent.environments.base import (
    Collected,
    CommandResult,
    Entry,
    Match,
    Sandbox,
    Snapshot,
    Submission,
)
from rcb_agent.errors import SandboxFileError, SandboxLost


@dataclass
class FolderSandbox:
    """Runs commands in a folder; after ``lives`` operations it is lost."""

    root: Path
    lives: int = 1_000_000
    operations: list[str] = field(default_factory=list)
    kind: str = "folder"
    enforcement: Mapping[str, str] = field(default_factory=dict)

    def _live(self, operation: str) -> None:
        self.operations.append(operation)
        if len(self.operations) > self.lives:
            raise SandboxLost("the sandbox no longer answers")

    def _inside(self, path: str) -> Path:
        try:
            found = (self.root / path).resolve()
        except (OSError, ValueError) as error:
            raise SandboxFileError(f"{path!r}: {error}") from error
        if not found.is_relative_to(self.root.resolve()):
            raise SandboxFileError(f"{path!r} is outside the workspace")
        return found

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        self._live(f"run {' '.join(argv)[:200]} within {timeout:.0f}")
        begin = time.monotonic()
        # A Python without packages, as a paper's runtime would be.
        command = [getattr(sys, "_base_executable", sys.executable), "-S", *argv[1:]]
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                input=stdin,
                capture_output=True,
                timeout=timeout,
                check=False,
                env={**(env or {})},
            )
        except subprocess.TimeoutExpired:
            return CommandResult(137, b"", b"", 0, timed_out=True, seconds=time.monotonic() - begin, killed="time")
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return CommandResult(code, done.stdout, done.stderr, 0, timed_out=False, seconds=time.monotonic() - begin)

    def read(self, path: str, *, limit: int = 8 << 20) -> bytes:
        self._live(f"read {path!r}")
        try:
            return self._inside(path).read_bytes()[:limit]
        except OSError as error:
            raise SandboxFileError(f"{path!r}: {error.strerror}") from error

    def write(self, path: str, data: bytes) -> None:
        self._live(f"write {path!r}")
        target = self._inside(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise SandboxFileError(f"{path!r}: {error.strerror}") from error

    def scan(self, *, hash_limit: int = 0) -> tuple[Entry, ...]:
        self._live("scan")
        return tuple(self._entry(path, hash_limit) for path in sorted(self.root.rglob("*")))

    def _entry(self, path: Path, hash_limit: int) -> Entry:
        name = path.relative_to(self.root).as_posix()
        if path.is_symlink():
            return Entry(name, "symlink", 0)
        if path.is_dir():
            return Entry(name, "dir", 0)
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest() if len(data) <= hash_limit else None
        return Entry(name, "file", len(data), digest)

    def search(self, pattern: str, *, path: str = ".", limit: int = 200) -> tuple[Match, ...]:
        self._live(f"search {pattern!r}")
        try:
            wanted = re.compile(pattern)
        except re.error as error:
            raise SandboxFileError(f"bad pattern: {error}") from error
        base = self._inside(path)
        try:
            files = [base] if base.is_file() else sorted(one for one in base.rglob("*") if one.is_file())
        except OSError as error:
            raise SandboxFileError(f"{path!r}: {error.strerror}") from error
        found = [
            Match(file.relative_to(self.root.resolve()).as_posix(), number, line)
            for file in files
            if not file.is_symlink()
            for number, line in enumerate(file.read_text(errors="replace").split("\n"), 1)
            if wanted.search(line)
        ]
        return tuple(found[:limit])

    def collect(self, paths: Sequence[str], *, limit: int = 2 << 20) -> tuple[Collected, ...]:
        return tuple(Collected(path, "file", self.read(path, limit=limit)) for path in paths)

    def close(self) -> None:
        """Nothing is held."""


class FolderWorkspace:
    """A workspace over a FolderSandbox; a snapshot holds what differs from how it began."""

    def __init__(self, sandbox: FolderSandbox, annotated: Sequence[str] = ()) -> None:
        self.local = sandbox
        self._annotated = tuple(annotated)
        self._first = _digests(sandbox)
        sandbox.operations.clear()

    @property
    def sandbox(self) -> Sandbox:
        return self.local

    def snapshot(self) -> Snapshot:
        now = _digests(self.local)
        files = {path: digest for path, digest in now.items() if self._first.get(path) != digest}
        return Snapshot(files, deleted=tuple(sorted(set(self._first) - set(now))))

    def submission(self) -> Submission:
        return Submission(self.local.collect(self._annotated), "")


def _digests(sandbox: FolderSandbox) -> dict[str, str]:
    return {entry.path: str(entry.sha256) for entry in sandbox.scan(hash_limit=1 << 30) if entry.kind == "file"}


def open_folder(root: Path, files: Mapping[str, bytes], *, lives: int = 1_000_000) -> FolderWorkspace:
    """Return a workspace over ``root`` with these files in it."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    workspace = FolderWorkspace(FolderSandbox(root), sorted(files))
    workspace.local.lives = lives
    return workspace
