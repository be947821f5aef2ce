"""Runs the trusted and the candidate's process, each in a sandbox of its own, and brings the verdict out.

The socket pair between them is all they share. The verdict has a socket pair of its own, of which the candidate's
sandbox never gets an end. When one side ends, the other is told at once: a supervisor may still hold the descriptor,
so the harness shuts the connection itself.
"""

import contextlib
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.environments.base import CommandResult, Limits, Runtime, SandboxSpec
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import programs
from rcb_agent.scoring.sides import Side, Sides
from rcb_agent.scoring.wire import Channel, WireError, WireLimits

START_SECONDS = 15.0
END_SECONDS = 0.2
VERDICT_BYTES = 64 << 20
_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What one run of the pair needs; ``seconds`` bounds the whole of it, start-up aside. ``environment`` is added to what
    both sides have anyway."""

    runtime: Runtime
    trusted_files: Mapping[str, bytes]
    candidate_files: Mapping[str, bytes]
    trusted_settings: Mapping[str, Any]
    candidate_settings: Mapping[str, Any]
    seconds: float
    limits: Limits
    environment: Mapping[str, str] = field(default_factory=dict)


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


def run_pair(sides: Sides, plan: PairPlan) -> PairResult:
    """Run both sides until T ends. Raises EnvironmentFault when a sandbox cannot be opened."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=2))
        trusted_end, candidate_end = _socket_pair(stack)
        verdict_reader, verdict_writer = _socket_pair(stack)
        opening = threads.submit(_open, stack, sides, plan, "candidate", (candidate_end,))
        try:
            trusted_side = _open(stack, sides, plan, "trusted", (trusted_end, verdict_writer))
        finally:
            wait([opening])
        candidate_side = opening.result()
        seconds = plan.seconds + 2 * START_SECONDS  # T's own clock is shorter, C's life is longer
        candidate_seconds = seconds + START_SECONDS
        candidate = threads.submit(_run, candidate_side, plan.candidate_settings, candidate_seconds, candidate_end)
        verdict = threads.submit(_read_verdict, verdict_reader, seconds + START_SECONDS)
        trusted = _run(trusted_side, plan.trusted_settings, seconds, verdict_writer)
        lost = candidate.result() if candidate.done() else None
        _shut(trusted_end)
        wait([candidate], timeout=END_SECONDS)  # an honest one ends by itself when its channel closes
        candidate_side.close()
        return PairResult(
            verdict.result(),
            trusted if isinstance(trusted, CommandResult) else None,
            ended if isinstance(ended := candidate.result(), CommandResult) else None,
            lost if isinstance(lost, str) else "",
            dict(candidate_side.enforcement),
            time.monotonic() - started,
        )


def _open(
    stack: contextlib.ExitStack,
    sides: Sides,
    plan: PairPlan,
    name: str,
    ends: tuple[socket.socket, ...],
) -> Side:
    files = plan.candidate_files if name == "candidate" else plan.trusted_files
    sockets = tuple(end.fileno() for end in ends)
    environment = {**_ENVIRONMENT, **plan.environment}
    spec = SandboxSpec(plan.runtime, files, sockets=sockets, env=environment, limits=plan.limits)
    side = sides.open(spec, programs.program(name))
    stack.callback(side.close)
    return side


def _run(side: Side, settings: Mapping[str, Any], seconds: float, end: socket.socket) -> CommandResult | str:
    """Run a program to its end, then shut an end of its sockets, so that whoever waits for it knows.

    A lost sandbox is returned as text, because only the caller knows whose doing it was.
    """
    try:
        return side.run(settings, seconds=seconds)
    except EnvironmentFault as fault:
        return str(fault)
    finally:
        _shut(end)


def _read_verdict(end: socket.socket, seconds: float) -> Mapping[str, Any] | None:
    """Take the one frame that T sends at its end; anything else is no verdict."""
    channel = Channel(end, WireLimits(json_bytes=VERDICT_BYTES))
    channel.deadline = time.monotonic() + seconds
    with contextlib.suppress(WireError):
        return channel.receive()[0]
    return None


def _socket_pair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    first, second = socket.socketpair()
    stack.callback(first.close)
    stack.callback(second.close)
    return first, second


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
