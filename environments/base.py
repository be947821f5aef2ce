"""The contract of ``environments``: sandboxes, and what leaves them.

Nothing that comes out of a sandbox is trusted: names, bytes and kinds of files are claims of whoever ran in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

WORKDIR = "/workspace"  # as isolated sandboxes show it; the host has a private folder instead
SANDBOX_UID = 64100


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one sandbox. What the machine cannot enforce is named in ``Sandbox.enforcement``.

    ``memory_mb`` and ``pids`` hold for the whole sandbox, ``cpus`` is a quota in cores, ``disk_mb`` bounds
    each writable file system (never more than an eighth of the memory, which they live in), ``output_bytes`` is what is kept of each stream of a command (half head, half
    tail).
    """

    memory_mb: int = 2048
    pids: int = 128
    cpus: float = 1.0
    disk_mb: int = 256
    output_bytes: int = 16_000


@dataclass(frozen=True, slots=True)
class Bind:
    """A host path shown read-only in the sandbox."""

    source: Path
    target: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The Python a paper needs. ``python`` is the venv's interpreter; ``digest`` hashes the locked packages."""

    name: str
    python: Path
    packages: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Container:
    """What containers are made from: an image (name or id) for each runtime (by name), and the engine's program that runs them
    (``--runtime`` of docker; empty: the engine's own choice)."""

    images: Mapping[str, str] = field(default_factory=dict)
    engine_runtime: str = ""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox is opened from.

    ``files`` (relative path -> bytes) are written below ``WORKDIR`` before the first command. ``sockets`` are
    file descriptors of the harness that every command gets as 3, 4, ... ``env`` is added to the allow list.
    ``container`` is for sandboxes that are containers; None: the images of the default base image.
    """

    runtime: Runtime
    files: Mapping[str, bytes] = field(default_factory=dict)
    binds: tuple[Bind, ...] = ()
    sockets: tuple[int, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What one command did.

    ``exit_code`` is the status, 128 + n when signal n ended it. ``stdout`` and ``stderr`` hold head and tail,
    with a line naming the bytes dropped between them; ``truncated`` is the number of bytes dropped from both.
    ``killed`` names the limit that ended it ("time", "memory") or is empty; ``survivors`` counts processes
    that were still alive when the main process ended and were killed. ``seconds`` is wall time measured by
    the supervisor.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    truncated: int
    timed_out: bool
    seconds: float
    killed: str = ""
    survivors: int = 0

    def text(self, limit: int = 16_000) -> str:
        """Return stdout and stderr as one text of at most about ``limit`` characters, head and tail."""
        out = self.stdout.decode("utf-8", "replace")
        err = self.stderr.decode("utf-8", "replace")
        both = f"{out}{'' if not out or out.endswith(chr(10)) else chr(10)}{err}" if err else out
        if len(both) <= limit:
            return both
        half = limit // 2
        return f"{both[:half]}\n[... {len(both) - 2 * half} characters dropped ...]\n{both[-half:]}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name below the workspace. ``kind``: file, dir, symlink, or other (FIFO, socket, device).

    ``sha256`` is set for regular files up to the limit asked for, else None. ``path`` may hold surrogate
    escapes for bytes that are not UTF-8.
    """

    path: str
    kind: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """One annotated file as it was left. ``kind`` is "file" with ``data``, else missing, symlink, dir, other,
    too_large or unreadable, with ``data`` None."""

    path: str
    kind: str
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """One line found by ``Sandbox.search``; ``line`` is 1-based, ``text`` without its line ending."""

    path: str
    line: int
    text: str


class Sandbox(Protocol):
    """One place to run commands in, isolated unless its ``enforcement`` says otherwise.

    Every path is relative to ``WORKDIR`` and resolved inside the sandbox; one that leads out of it (dots,
    absolute, links) raises SandboxFileError, as does a file that is not there. After each ``run`` every
    other process in the sandbox is dead. A sandbox that no longer answers raises SandboxLost.
    """

    @property
    def kind(self) -> str: ...
    @property
    def enforcement(self) -> Mapping[str, str]:
        """For user, network, memory, pids, cpu, disk and syscalls: how it is enforced, or "not enforced"."""

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult: ...
    def read(self, path: str, *, limit: int = 8 << 20) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def scan(self, *, hash_limit: int = 0) -> tuple[Entry, ...]:
        """List everything below WORKDIR except ``.git``; hash regular files up to ``hash_limit`` bytes."""

    def search(self, pattern: str, *, path: str = ".", limit: int = 200) -> tuple[Match, ...]:
        """Lines matching a Python regular expression in text files; raises SandboxFileError on a bad one."""

    def collect(self, paths: Sequence[str], *, limit: int = 2 << 20) -> tuple[Collected, ...]:
        """Kill everything else in the sandbox, then take the named files, following no link."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What differs from the first commit: ``files`` path -> sha256 of kept bytes (annotated files always),
    ``listed`` names too large or not regular, ``deleted`` names gone. The bytes are in the run's ``blobs/``.

    All names together are bounded; a last line of ``listed`` or ``deleted`` counts those left out, which annotated
    files never are."""

    files: Mapping[str, str]
    listed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """The annotated files after the last step; ``diff`` is a unified diff against what the agent was given."""

    files: tuple[Collected, ...]
    diff: str


class Workspace(Protocol):
    """A task's checkout inside an open sandbox."""

    @property
    def sandbox(self) -> Sandbox: ...
    def snapshot(self) -> Snapshot:
        """Compare with the first commit and hand the bytes of kept files to the blob keeper."""

    def submission(self) -> Submission:
        """Kill everything else in the sandbox and take the annotated files as they are."""
