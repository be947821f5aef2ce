"""The harness's side of a supervisor: a Sandbox whose every call has an outer limit.

What carries the supervisor (bubblewrap, a container, a plain process) is a ``Carrier``; this file knows none
of them. A supervisor that does not answer in time is killed with all it holds, and the call raises SandboxLost.
"""

import __future__

import marshal
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from importlib.util import MAGIC_NUMBER
from types import CodeType
from typing import Any, Self

from rcb_agent.environments import frames
from rcb_agent.environments.base import SANDBOX_UID, WORKDIR, Collected, CommandResult, Entry, Match, SandboxSpec
from rcb_agent.environments.channel import Channel
from rcb_agent.environments.relay import Relay
from rcb_agent.errors import EnvironmentFault, SandboxFileError, SandboxLost

PARTS = ("frames", "capture", "seccomp", "jail", "ending", "beneath", "filework", "supervisor")
RELAYING_PARTS = ("frames", "relay", *PARTS[1:])
START_SECONDS = 30.0
GRACE_SECONDS = 20.0
FILE_SECONDS = 15.0
SEARCH_SECONDS = 5.0
SCAN_SECONDS = 60.0
WRITE_BATCH = 32 << 20
GAP_BYTES = 100  # of the line that names what was dropped from an output
MATCH_WIDTH = 500
OPEN_FILES = 4096
MORE_ENTRIES = "[... more entries, not listed ...]"

# Reads one frame (lengths, JSON, sources and what they compile to), makes the modules, hands over. An interpreter with
# other byte code than the harness's (as CPython's own caches tell it) compiles them itself, which costs time, also later:
# what compiling leaves behind is forked with each command. Visible in /proc/1/cmdline, so short and without names.
BOOTSTRAP = """\
import __future__,json,marshal,os,sys,types
from importlib._bootstrap_external import MAGIC_NUMBER
def g(n):
    b=b''
    while len(b)<n:
        c=os.read(0,n-len(b))
        if not c:os._exit(0)
        b+=c
    return b
h=g(8)
j=json.loads(g(int.from_bytes(h[:4],'big')))
s=g(int.from_bytes(h[4:],'big'))
k=j['compiled']==[sys.implementation.cache_tag,MAGIC_NUMBER.hex()]
for p,n,y,z in j['parts']:
    m=sys.modules[n]=types.ModuleType(n)
    q=sys.modules.setdefault(p,types.ModuleType(p))
    setattr(q,n[len(p)+1:],m)
    c=marshal.loads(s[y:y+z])if k else compile(s[:y],'<part>','exec',__future__.annotations.compiler_flag,True)
    exec(c,m.__dict__)
    s=s[y+z:]
m.main(j['config'])
"""
INTERPRETER_OPTIONS = ("-I", "-S", "-B", "-c", BOOTSTRAP)


@dataclass(frozen=True, slots=True)
class Carrier:
    """What holds a supervisor.

    ``inlet`` and ``outlet`` are non-blocking descriptors: what is written to the one is the supervisor's input, its
    output is read from the other; they may be the same. ``kill`` ends it and everything in it at once, so that a
    waiting reader meets the end; ``release`` closes both descriptors and removes what is left on the machine,
    after ``kill`` and when nobody uses them any more; ``memory_kills`` counts processes the kernel has ended for
    lack of memory. All three may be called from any thread, ``kill`` and ``release`` more than once. ``pid`` is
    the supervisor's process as the machine numbers it, 0 where that is not known. ``decode`` turns what was read
    from ``outlet`` into what the supervisor has written, never into more bytes than it was given; it raises
    FrameError. ``sockets`` are those of the spec where commands cannot inherit them and the supervisor carries them.
    """

    kind: str
    inlet: int
    outlet: int
    enforcement: Mapping[str, str]
    kill: Callable[[], None]
    release: Callable[[], None]
    memory_kills: Callable[[], int]
    pid: int = 0
    decode: Callable[[bytes], bytes] = bytes
    sockets: tuple[int, ...] = ()


@lru_cache(maxsize=4)
def supervisor_sources(parts: tuple[str, ...]) -> tuple[list[list[Any]], bytes]:
    """Return names of a program's modules with the lengths of source and compiled code, and all of these joined.

    The last module's ``main`` takes over.
    """
    package = "rcb_agent.environments"
    folder = resources.files(package)
    sources = [folder.joinpath(f"{part}.py").read_bytes() for part in parts]
    compiled = [marshal.dumps(compile_part(text)) for text in sources]
    rows = zip(parts, sources, compiled, strict=True)
    table = [[package, f"{package}.{part}", len(text), len(code)] for part, text, code in rows]
    return table, b"".join(text + code for text, code in zip(sources, compiled, strict=True))


def program_frame(parts: tuple[str, ...], config: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return what BOOTSTRAP reads: modules of this package, by which version they were compiled, what to tell them."""
    table, sources = supervisor_sources(parts)
    return {"parts": table, "compiled": [sys.implementation.cache_tag, MAGIC_NUMBER.hex()], "config": config}, sources


def compile_part(source: bytes) -> CodeType:
    """Compile as BOOTSTRAP does. In brackets, the name is no file's: a traceback would look for it on all of sys.path."""
    code: CodeType = compile(
        source, "<part>", "exec", __future__.annotations.compiler_flag, dont_inherit=True, optimize=0
    )
    return code


def supervisor_config(
    spec: SandboxSpec,
    *,
    environment: Mapping[str, str],
    rlimits: Mapping[str, int],
    as_root: bool,
    owned: Sequence[str],
    uncounted: bool,
) -> dict[str, Any]:
    """Return what the supervisor is told at its start.

    ``as_root`` makes it become SANDBOX_UID for each command; ``uncounted`` allows memory that rlimits do not count.
    """
    return {
        "workdir": WORKDIR,
        "environment": {**environment, **spec.env},
        "sockets": list(spec.sockets),
        "uid": SANDBOX_UID if as_root else None,
        "gid": SANDBOX_UID if as_root else None,
        "owned": list(owned),
        "rlimits": [["CORE", 0], ["NOFILE", OPEN_FILES], *([name, value] for name, value in rlimits.items())],
        "uncounted": uncounted,
        "output_bytes": spec.limits.output_bytes,
    }


class SupervisedSandbox:
    """A Sandbox (see ``environments.base``) behind one supervisor; calls of several threads take turns."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._enforcement = dict(carrier.enforcement)
        self._channel = Channel(carrier.inlet, carrier.outlet, carrier.decode)
        own = [socket.socket(fileno=os.dup(fd)) for fd in carrier.sockets]
        self._relay = Relay(own) if own else None
        self._answer_bytes = 0
        self._turn = threading.Lock()
        self._ending = threading.Lock()
        self._lost = ""
        self._closed = False
        self._memory_kills = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kind(self) -> str:
        """Short name of the carrier."""
        return self._carrier.kind

    @property
    def enforcement(self) -> Mapping[str, str]:
        """How each limit is enforced, or "not enforced"."""
        return dict(self._enforcement)

    def start(self, config: dict[str, Any], files: Mapping[str, bytes]) -> None:
        """Send the supervisor its own source and configuration, then the first files."""
        self._answer_bytes = 2 * (int(config.get("output_bytes", 0)) + GAP_BYTES)
        parts = RELAYING_PARTS if self._relay else PARTS
        ready, _ = self._exchange(
            *program_frame(parts, {**config, "relayed": len(self._carrier.sockets)}), START_SECONDS
        )
        if not ready.get("filtered"):
            self._enforcement["syscalls"] = "not enforced"
        try:
            self._write_files(files)
        except SandboxFileError as refusal:
            raise EnvironmentFault(f"the sandbox cannot take the files it starts with: {refusal}") from None

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run one command; afterwards nothing else in the sandbox is alive."""
        return self._run({"argv": list(argv), "environment": dict(env or {})}, stdin, timeout)

    def _run(self, command: dict[str, Any], stdin: bytes, timeout: float) -> CommandResult:
        meta, blob = self._ask({"op": "run", **command}, stdin, timeout, relay=self._relay)
        return CommandResult(
            exit_code=meta["exit_code"],
            stdout=blob[: meta["stdout"]],
            stderr=blob[meta["stdout"] :],
            truncated=meta["truncated"],
            timed_out=meta["timed_out"],
            seconds=meta["seconds"],
            killed=self._limit_that_ended(meta),
            survivors=meta["survivors"],
        )

    def _limit_that_ended(self, meta: dict[str, Any]) -> str:
        kills = meta["memory_kills"] if "memory_kills" in meta else self._carrier.memory_kills()
        before, self._memory_kills = self._memory_kills, kills
        if meta["timed_out"]:
            return "time"
        return "memory" if self._memory_kills > before and meta["exit_code"] else ""

    def read(self, path: str, *, limit: int = 8 << 20) -> bytes:
        """Return a file's bytes; a larger one is refused."""
        return self._ask({"op": "read", "path": path, "limit": limit}, b"", FILE_SECONDS)[1]

    def write(self, path: str, data: bytes) -> None:
        """Replace a file, making the folders it lies in and keeping its mode."""
        if len(data) > WRITE_BATCH:
            raise SandboxFileError(f"{path}: {len(data)} bytes are more than can be written at once")
        self._write_files({path: data})

    def _write_files(self, files: Mapping[str, bytes]) -> None:
        batch: list[tuple[str, bytes]] = []
        size = 0
        for path, data in files.items():
            if batch and size + len(data) > WRITE_BATCH:
                self._write_batch(batch)
                batch, size = [], 0
            batch.append((path, data))
            size += len(data)
        if batch:
            self._write_batch(batch)

    def _write_batch(self, batch: Sequence[tuple[str, bytes]]) -> None:
        table = [[path, len(data)] for path, data in batch]
        self._ask({"op": "write", "files": table}, b"".join(data for _, data in batch), SCAN_SECONDS)

    def scan(self, *, hash_limit: int = 0) -> tuple[Entry, ...]:
        """List everything below WORKDIR except ``.git``; a last entry MORE_ENTRIES says that some are missing."""
        meta, _ = self._ask({"op": "scan", "hash_limit": hash_limit}, b"", SCAN_SECONDS)
        entries = [Entry(*row) for row in meta["entries"]]
        return (*entries, Entry(MORE_ENTRIES, "other", 0)) if meta["more"] else tuple(entries)

    def search(self, pattern: str, *, path: str = ".", limit: int = 200) -> tuple[Match, ...]:
        """Lines that match a Python regular expression, the first MATCH_WIDTH characters of each."""
        request = {"op": "search", "pattern": pattern, "path": path, "limit": limit, "width": MATCH_WIDTH}
        return tuple(Match(*row) for row in self._ask(request, b"", SEARCH_SECONDS)[0]["matches"])

    def collect(self, paths: Sequence[str], *, limit: int = 2 << 20) -> tuple[Collected, ...]:
        """Kill everything else, then take the named files, following no link."""
        found: list[Collected] = []
        step = max(1, frames.BLOB_LIMIT // max(limit, 1))
        for start in range(0, len(paths), step):
            request = {"op": "collect", "paths": list(paths[start : start + step]), "limit": limit}
            meta, blob = self._ask(request, b"", SCAN_SECONDS)
            for path, kind, size in meta["files"]:
                found.append(Collected(path, kind, blob[:size] if kind == "file" else None))
                blob = blob[size:]
        return tuple(found)

    def close(self) -> None:
        """Kill the sandbox and remove what it left; again is fine, from any thread."""
        with self._ending:
            if self._closed:
                return
            self._closed = True
            self._lost = self._lost or "the sandbox is closed"
            self._carrier.kill()
            with self._turn:  # whoever was waiting for an answer has its error by now
                self._carrier.release()
                if self._relay is not None:
                    self._relay.close()

    def _ask(
        self, request: dict[str, Any], blob: bytes, seconds: float, *, relay: Relay | None = None
    ) -> tuple[dict[str, Any], bytes]:
        meta, answer = self._exchange({**request, "timeout": seconds}, blob, seconds + GRACE_SECONDS, relay=relay)
        if "refused" in meta:
            raise SandboxFileError(meta["refused"])
        if "broken" in meta:
            raise EnvironmentFault(f"the sandbox could not do its work: {meta['broken']}")
        return meta, answer

    def _exchange(
        self, meta: dict[str, Any], blob: bytes, seconds: float, *, relay: Relay | None = None
    ) -> tuple[dict[str, Any], bytes]:
        deadline = time.monotonic() + seconds
        with self._turn:
            if self._lost:
                raise SandboxLost(self._lost)
            try:
                if relay is None:
                    return self._channel.exchange(meta, blob, deadline)
                size = self._answer_bytes
                return self._channel.converse(meta, blob, deadline, relay=relay, answer_bytes=size)
            except SandboxLost as loss:
                self._lost = self._lost or str(loss)
                self._carrier.kill()
                raise


def open_pipes(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Return the harness's ends of a process's input and output, which stay the process object's own, made non-blocking."""
    if process.stdin is None or process.stdout is None:
        raise EnvironmentFault("a supervisor needs pipes for its input and output")
    ends = process.stdin.fileno(), process.stdout.fileno()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    """Close the harness's ends."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
