"""Warm sandboxes: forked from a process that has already imported a runtime's packages and a program of ours.

Opening one costs some milliseconds where a cold start with PyTorch costs more than a second. What it may see, write
and call is that of a cold one of the same kind; the process it is forked from (``zygote.py``) has seen nothing but read-only
packages and our own source. Where the kernel refuses what that needs, opening raises EnvironmentFault, and whoever
opened decides what to do instead.
"""

import json
import os
import select
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rcb_agent.environments import frames
from rcb_agent.environments.base import SANDBOX_UID, CommandResult, Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import make_config
from rcb_agent.environments.cgroups import ControlGroup, open_group
from rcb_agent.environments.layout import writable_places
from rcb_agent.environments.preloads import imports_of
from rcb_agent.environments.shells import BubblewrapShell, ZygoteShell
from rcb_agent.environments.supervised import PARTS, WRITE_BATCH, Carrier, SupervisedSandbox, program_frame
from rcb_agent.errors import EnvironmentFault, SandboxFileError, SandboxLost

ZYGOTE_PARTS = (*PARTS, "namespaces", "pages", "zygote")
LOSSES = 5  # of one runtime and program in a run: loading it again costs seconds each time
LOAD_SECONDS = 120.0
FORK_SECONDS = 20.0
ANSWER_BYTES = 1 << 12
FIRST_SOCKET = 3  # what a forked supervisor is handed comes after its own three descriptors


@dataclass(frozen=True, slots=True)
class Program:
    """Modules (name, source) in the order in which they are made; the last one's ``main`` takes the settings."""

    name: str
    modules: tuple[tuple[str, str], ...]


class WarmSandbox(SupervisedSandbox):
    """A SupervisedSandbox that can also run the program it was forked with."""

    def begin(self, config: dict[str, Any], files: Mapping[str, bytes]) -> None:
        """Configure the supervisor and write the first files."""
        table = [[path, len(data)] for path, data in files.items()]
        at_once = sum(map(len, files.values())) <= WRITE_BATCH
        first = (table, b"".join(files.values())) if at_once else ([], b"")
        ready, _ = self._exchange({"config": config, "files": first[0]}, first[1], FORK_SECONDS)
        if "ready" not in ready:
            raise EnvironmentFault(f"the sandbox cannot be made ready: {ready.get('broken') or ready.get('refused')}")
        if not ready.get("filtered"):
            self._enforcement["syscalls"] = "not enforced"
        if not at_once:
            self._write_files(files)

    def call(self, settings: Mapping[str, Any], *, timeout: float) -> CommandResult:
        """Run the program in a forked copy, with its settings as JSON on its standard input."""
        return self._run({"argv": [], "inside": True, "environment": {}}, json.dumps(settings).encode(), timeout)


class Zygote:
    """One process from which sandboxes are forked. Safe to use from several threads."""

    def __init__(self, shell: ZygoteShell, runtime: Runtime, program: Program) -> None:
        """Load runtime and program in a shell that has started, or raise EnvironmentFault saying in one line why not."""
        self._turn = threading.Lock()
        self._is_lost = False
        self._shell = shell
        self._control: socket.socket | None = None
        config = {
            **shell.config,
            "user": SANDBOX_UID,
            "folders": folders_of(Limits()),
            "imports": imports_of(runtime),
            "modules": [list(module) for module in program.modules],
        }
        try:
            shell.send(frames.pack_frame(*program_frame(ZYGOTE_PARTS, config)))
            self._control = shell.control()
            answer, _ = self._receive(LOAD_SECONDS)
        except (SandboxLost, OSError) as loss:
            message = f"a warm start is not possible here ({loss}): {shell.last_words()}"
            self.close()
            raise EnvironmentFault(message) from None
        except BaseException:
            self.close()
            raise
        if not answer.get("ready"):
            self.close()
            raise EnvironmentFault(f"a warm start is not possible here: {answer}")

    def _connection(self) -> socket.socket:
        if self._control is None:
            raise SandboxLost("it was never there")
        return self._control

    def _receive(self, seconds: float) -> tuple[dict[str, Any], list[int]]:
        connection = self._connection()
        if not has_something(connection, seconds):
            raise SandboxLost("no answer in time")
        data, descriptors, _, _ = socket.recv_fds(connection, ANSWER_BYTES, 1)
        if not data:
            raise SandboxLost("it has ended")
        return json.loads(data), descriptors

    @property
    def is_lost(self) -> bool:
        """Whether it has ended, or answers no more: all that was forked from it is dead or ends with it."""
        with self._turn:
            if not self._is_lost and self._control is not None:
                try:  # between requests there is nothing to be read but its end
                    self._is_lost = has_something(self._control, 0.0)
                except SandboxLost:
                    self._is_lost = True
            return self._is_lost

    def open(self, spec: SandboxSpec) -> WarmSandbox:
        """Fork a sandbox, or raise EnvironmentFault. Its runtime is the one of the zygote."""
        if spec.binds:
            raise EnvironmentFault("a warm sandbox cannot show further folders")
        group = open_group(spec.limits)
        try:
            child = self._fork(spec, group)
        except BaseException:
            if group is not None:
                group.remove()
            raise
        enforcement = self._shell.enforcement(group, spec.limits)
        carrier = Carrier(
            self._shell.kind,
            child.inlet,
            child.outlet,
            {**enforcement, "start": "warm"},
            child.kill,
            child.release,
            child.memory_kills,
            child.pid,
        )
        sandbox = WarmSandbox(carrier)
        try:
            if group is not None:
                group.add(child.pid)
            config = make_config(spec, group, as_root=False)
            config["relayed"] = 0
            config["sockets"] = list(range(FIRST_SOCKET, FIRST_SOCKET + len(spec.sockets)))
            sandbox.begin(config, spec.files)
        except (OSError, SandboxLost) as loss:
            sandbox.close()
            raise EnvironmentFault(f"a warm sandbox has ended before it began: {loss}") from None
        except BaseException:
            sandbox.close()
            raise
        return sandbox

    def _fork(self, spec: SandboxSpec, group: ControlGroup | None) -> "Child":
        their_in, inlet = os.pipe2(os.O_CLOEXEC)
        outlet, their_out = os.pipe2(os.O_CLOEXEC)
        request = {"user": SANDBOX_UID, "folders": folders_of(spec.limits)}
        try:
            handle = self._ask(json.dumps(request).encode(), [their_in, their_out, *spec.sockets])
            os.set_blocking(inlet, False)
            os.set_blocking(outlet, False)
            return Child(handle, inlet, outlet, group)
        except BaseException:
            os.close(inlet)
            os.close(outlet)
            raise
        finally:
            os.close(their_in)
            os.close(their_out)

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        """Have one forked; return its pidfd. What interrupts this leaves an answer on its way: nothing more is asked then."""
        with self._turn:
            if self._is_lost:
                raise EnvironmentFault("a warm sandbox could not be forked: it has ended")
            self._is_lost = True
            try:
                socket.send_fds(self._connection(), [request], descriptors)
                answer, handles = self._receive(FORK_SECONDS)
            except (OSError, SandboxLost) as loss:
                raise EnvironmentFault(f"a warm sandbox could not be forked: {loss}") from None
            self._is_lost = False
        if not handles:
            raise EnvironmentFault(f"a warm sandbox ended at once: {answer}")
        return handles[0]

    def close(self) -> None:
        """End it and everything that was forked from it; again is fine."""
        self._shell.close()  # whoever waits for an answer meets the end
        with self._turn:
            self._is_lost = True
            if self._control is not None:
                self._control.close()


def has_something(connection: socket.socket, seconds: float) -> bool:
    """Wait until there is something to be read, be it the end. Raises SandboxLost for a closed one."""
    poll = select.poll()  # select refuses the numbers of a process with many descriptors
    try:
        poll.register(connection, select.POLLIN)
    except ValueError:
        raise SandboxLost("it has been closed") from None
    return bool(poll.poll(seconds * 1000))


class Child:
    """A forked supervisor, as the harness holds it."""

    def __init__(self, handle: int, inlet: int, outlet: int, group: ControlGroup | None) -> None:
        self.inlet = inlet
        self.outlet = outlet
        self.pid = process_of(handle)
        self._handle = handle
        self._group = group
        self._lock = threading.Lock()

    def kill(self) -> None:
        """End the first process of the namespace, with which the kernel ends all else, and wait for it."""
        with self._lock:
            if self._handle < 0:
                return
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            poll.poll(FORK_SECONDS * 1000)

    def release(self) -> None:
        """Give back the descriptors and the cgroup."""
        with self._lock:
            for fd in (self.inlet, self.outlet, self._handle):
                if fd >= 0:
                    os.close(fd)
            self.inlet = self.outlet = self._handle = -1
        if self._group is not None:
            self._group.remove()

    def memory_kills(self) -> int:
        """Count what the kernel has ended for lack of memory."""
        return self._group.memory_kills() if self._group else 0


def process_of(handle: int) -> int:
    """Return the number that a pidfd's process has on this machine; 0 for one that has ended."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return max(0, int(line.split()[1]))
    return 0


def folders_of(limits: Limits) -> list[list[str | int]]:
    """Return path, bytes and mode of what can be written to, as JSON."""
    return [[place.path, place.size, place.mode] for place in writable_places(limits)]


class WarmSandboxes:
    """Zygotes by runtime and program, started when first needed. Safe to use from several threads."""

    def __init__(self, open_shell: Callable[[Runtime], ZygoteShell] = BubblewrapShell) -> None:
        self._open_shell = open_shell
        self._guard = threading.Lock()
        self._locks: dict[tuple[str, str, str], threading.Lock] = {}
        self._zygotes: dict[tuple[str, str, str], Zygote] = {}
        self._refusals: dict[tuple[str, str, str], str] = {}
        self._losses: Counter[tuple[str, str, str]] = Counter()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self, spec: SandboxSpec, program: Program) -> WarmSandbox:
        """Fork a sandbox; EnvironmentFault where that is not possible, for the same reason every time."""
        key = (spec.runtime.digest, str(spec.runtime.python), program.name)
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        zygote = self._zygote(key, lock, spec.runtime, program)
        try:
            return zygote.open(spec)
        except SandboxFileError as refusal:
            raise EnvironmentFault(f"a warm sandbox cannot take its files: {refusal}") from None
        except EnvironmentFault:
            if zygote.is_lost:  # perhaps for lack of memory; else others run in what it has forked
                self._forget(key, lock, zygote)
        return self._zygote(key, lock, spec.runtime, program).open(spec)

    def _zygote(self, key: tuple[str, str, str], lock: threading.Lock, runtime: Runtime, program: Program) -> Zygote:
        with lock:
            if self._closed:
                raise EnvironmentFault("warm sandboxes are closed")
            if key in self._refusals:
                raise EnvironmentFault(self._refusals[key])
            if (zygote := self._zygotes.get(key)) is None:
                try:
                    zygote = Zygote(self._open_shell(runtime), runtime, program)
                except EnvironmentFault as fault:
                    self._refusals[key] = str(fault)
                    raise
                with self._guard:
                    was_closed = self._closed
                    if not was_closed:
                        self._zygotes[key] = zygote
                if was_closed:  # meanwhile
                    zygote.close()
                    raise EnvironmentFault("warm sandboxes are closed")
            return zygote

    def _forget(self, key: tuple[str, str, str], lock: threading.Lock, lost: Zygote) -> None:
        """Give up one that is lost, unless another thread has done so and started a new one."""
        with lock:
            if self._zygotes.get(key) is lost:
                del self._zygotes[key]
                self._losses[key] += 1
                if self._losses[key] >= LOSSES:
                    self._refusals[key] = f"a warm start has ended {LOSSES} times by itself"
        lost.close()

    def close(self) -> None:
        """End all of them."""
        with self._guard:
            self._closed = True
            zygotes = list(self._zygotes.values())
            self._zygotes.clear()
        for zygote in zygotes:
            zygote.close()
