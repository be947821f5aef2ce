"""Runs the trusted and the candidate's process, each in a sandbox of its own, and brings the verdict out.

The socket pair between them is all they share. The verdict has a socket pair of its own, of which the candidate's
sandbox never gets an end. When one side ends, the other is told at once: a supervisor may still hold the descriptor,
so the harness shuts the connection itself.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rcb_agent.environments.base import CommandResult, Limits, Runtime, Sandbox, SandboxSpec
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import programs
from rcb_agent.scoring.wire import Channel, WireError, WireLimits

OpenSandbox = Callable[[SandboxSpec], Sandbox]

START_SECONDS = 15.0
END_SECONDS = 0.5
VERDICT_BYTES = 64 << 20
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What one run of the pair needs; ``seconds`` bounds the whole of it, start-up aside."""

    runtime: Runtime
    trusted_files: Mapping[str, bytes]
    candidate_files: Mapping[str, bytes]
    trusted_settings: Mapping[str, Any]
    candidate_settings: Mapping[str, Any]
    seconds: float
    limits: Limits


@dataclass(frozen=True, slots=True)
class PairResult:
    """What came of it. A result is None when its sandbox was lost, or stopped because T was done.

    ``candidate_lost`` is set only when the sandbox was lost while T still ran.
    """

    verdict: Mapping[str, Any] | None
    trusted: CommandResult | None
    candidate: CommandResult | None
    candidate_lost: str
    enforcement: Mapping[str, str]
    seconds: float


def run_pair(open_sandbox: OpenSandbox, plan: PairPlan) -> PairResult:
    """Run both sides until T ends. Raises EnvironmentFault when a sandbox cannot be opened."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        trusted_end, candidate_end = _socket_pair(stack)
        verdict_reader, verdict_writer = _socket_pair(stack)
        candidate_box = _open(stack, open_sandbox, plan, plan.candidate_files, (candidate_end,))
        trusted_box = _open(stack, open_sandbox, plan, plan.trusted_files, (trusted_end, verdict_writer))
        candidate, trusted = _sides(plan, (candidate_box, candidate_end), (trusted_box, verdict_writer))
        reader = _VerdictReader(verdict_reader, plan.seconds + 3 * START_SECONDS)
        for thread in (candidate, reader):
            thread.start()
        trusted.run()
        reader.join()
        lost = candidate.lost
        _shut(trusted_end)
        candidate.join(timeout=END_SECONDS)  # an honest one ends by itself when its channel closes
        candidate_box.close()
        candidate.join()
        enforcement = dict(candidate_box.enforcement)
    seconds = time.monotonic() - started
    return PairResult(reader.verdict, trusted.result, candidate.result, lost, enforcement, seconds)


def _open(
    stack: contextlib.ExitStack,
    open_sandbox: OpenSandbox,
    plan: PairPlan,
    files: Mapping[str, bytes],
    ends: tuple[socket.socket, ...],
) -> Sandbox:
    sockets = tuple(end.fileno() for end in ends)
    box = open_sandbox(SandboxSpec(plan.runtime, files, sockets=sockets, env=_ENVIRONMENT, limits=plan.limits))
    stack.callback(box.close)
    return box


def _sides(
    plan: PairPlan, candidate: tuple[Sandbox, socket.socket], trusted: tuple[Sandbox, socket.socket]
) -> tuple["_Side", "_Side"]:
    """Return both threads. T has a little longer than its own clock allows, C a little longer than T."""
    command = programs.command()
    texts = (
        programs.program(programs.CANDIDATE, plan.candidate_settings),
        programs.program(programs.TRUSTED, plan.trusted_settings),
    )
    seconds = plan.seconds + 2 * START_SECONDS
    return (
        _Side(candidate[0], command, texts[0], seconds=seconds + START_SECONDS, end=candidate[1]),
        _Side(trusted[0], command, texts[1], seconds=seconds, end=trusted[1]),
    )


class _Side(threading.Thread):
    """Runs one program to its end; then shuts an end of its sockets, so that whoever waits for it knows."""

    def __init__(self, box: Sandbox, command: list[str], stdin: bytes, *, seconds: float, end: socket.socket) -> None:
        super().__init__(daemon=True)
        self.result: CommandResult | None = None
        self.lost = ""
        self._box = box
        self._command = command
        self._stdin = stdin
        self._seconds = seconds
        self._end = end

    def run(self) -> None:
        """Run the program; a lost sandbox is kept as text, because only the caller knows whose doing it was."""
        try:
            self.result = self._box.run(self._command, timeout=self._seconds, stdin=self._stdin)
        except EnvironmentFault as fault:
            self.lost = str(fault)
        finally:
            _shut(self._end)


class _VerdictReader(threading.Thread):
    """Takes the one frame that T sends at its end; anything else is no verdict."""

    def __init__(self, end: socket.socket, seconds: float) -> None:
        super().__init__(daemon=True)
        self.verdict: Mapping[str, Any] | None = None
        self._channel = Channel(end, WireLimits(json_bytes=VERDICT_BYTES))
        self._channel.deadline = time.monotonic() + seconds

    def run(self) -> None:
        """Wait for the frame."""
        with contextlib.suppress(WireError):
            self.verdict, _ = self._channel.receive()


def _socket_pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    first, second = socket.socketpair()
    stack.callback(first.close)
    stack.callback(second.close)
    return first, second


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
