"""Frames between the harness and a supervisor, each exchange with a deadline.

Whatever the supervisor does, sending nothing, too much or what is no frame, ends in SandboxLost, after the deadline at
the latest, and never takes more memory than an answer may have.
"""

import os
import select
import time
from collections.abc import Callable
from typing import Any

from rcb_agent.environments import frames
from rcb_agent.environments.relay import CHUNK, Relay, RelayError
from rcb_agent.errors import SandboxFileError, SandboxLost

READ_BYTES = 1 << 20
RELAYED_META = 1 << 16  # a command's answer, or a frame of a relay
SETTLE_SECONDS = 2.0
ENDED = select.POLLHUP | select.POLLERR


class Channel:
    """The two descriptors of a supervisor, both non-blocking; ``decode`` as in Carrier."""

    def __init__(self, inlet: int, outlet: int, decode: Callable[[bytes], bytes]) -> None:
        self._to = inlet
        self._from = outlet
        self._decode = decode

    def exchange(self, meta: dict[str, Any], blob: bytes, deadline: float) -> tuple[dict[str, Any], bytes]:
        """Send a request and wait for its answer. Raises SandboxLost; SandboxFileError for what cannot be sent."""
        request = memoryview(pack_request(meta, blob))
        while request:
            wait_for({self._to: select.POLLOUT}, deadline)
            request = request[self._write(request) :]
        reader = frames.FrameReader()
        while True:
            wait_for({self._from: select.POLLIN}, deadline)
            if (answer := self._read(reader)) is not None:
                return answer

    def converse(
        self, meta: dict[str, Any], blob: bytes, deadline: float, *, relay: Relay, answer_bytes: int
    ) -> tuple[dict[str, Any], bytes]:
        """Send a request and carry sockets until its answer is there and all that came for them is passed on."""
        relay.out += pack_request(meta, blob)
        reader = frames.FrameReader(RELAYED_META, max(answer_bytes, CHUNK))
        answer: tuple[dict[str, Any], bytes] | None = None
        while answer is None:
            for fd, event in wait_for(self._wants(relay), deadline):
                if fd == self._from and event & (select.POLLIN | ENDED):
                    answer = self._hear(reader, relay)
                if fd == self._to and event & select.POLLOUT:
                    del relay.out[: self._write(memoryview(bytes(relay.out[:CHUNK])))]
                if fd not in (self._to, self._from):
                    move(relay, fd)
        self._settle(relay, deadline)
        return answer

    def _wants(self, relay: Relay) -> dict[int, int]:
        wanted = relay.wants()
        wanted[self._from] = select.POLLIN
        if relay.out:
            wanted[self._to] = wanted.get(self._to, 0) | select.POLLOUT
        return wanted

    def _hear(self, reader: frames.FrameReader, relay: Relay) -> tuple[dict[str, Any], bytes] | None:
        """Read once; return the answer if it is whole now."""
        frame = self._read(reader)
        if frame is None or "relay" not in frame[0]:
            return frame
        try:
            relay.take(*frame)
        except RelayError as error:
            raise SandboxLost(f"the sandbox sent garbage: {error}") from None
        return None

    def _settle(self, relay: Relay, deadline: float) -> None:
        """After an answer: pass on what came before it, send what is begun; nothing more is expected.

        A reader that is too slow for that loses it, as no answer may depend on one.
        """
        deadline = min(deadline, time.monotonic() + SETTLE_SECONDS)
        while (relay.is_passing_on() or relay.out) and time.monotonic() < deadline:
            wanted = {fd: mask & select.POLLOUT for fd, mask in relay.wants().items() if mask & select.POLLOUT}
            if relay.out:
                wanted[self._to] = select.POLLOUT
            for fd, _ in poll_for(wanted, deadline):
                if fd == self._to:
                    del relay.out[: self._write(memoryview(bytes(relay.out[:CHUNK])))]
                else:
                    move(relay, fd)

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._to, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise SandboxLost(f"the sandbox has ended ({error.strerror})") from None

    def _read(self, reader: frames.FrameReader) -> tuple[dict[str, Any], bytes] | None:
        """Read once; return a frame if one is whole now."""
        try:
            part = os.read(self._from, min(reader.missing(), READ_BYTES))
        except BlockingIOError:
            return None
        except OSError as error:
            raise SandboxLost(f"the sandbox has ended ({error.strerror})") from None
        if not part:
            raise SandboxLost("the sandbox has ended")
        try:
            return reader.add(self._decode(part))
        except frames.FrameError as error:
            raise SandboxLost(f"the sandbox sent garbage: {error}") from None


def pack_request(meta: dict[str, Any], blob: bytes) -> bytes:
    """Return the bytes of a request, or raise SandboxFileError."""
    try:
        return frames.pack_frame(meta, blob)
    except frames.FrameError as error:
        raise SandboxFileError(f"this cannot be sent to the sandbox: {error}") from None


def move(relay: Relay, fd: int) -> None:
    """Move bytes of a carried socket; SandboxLost if there is no room for more."""
    try:
        relay.ready(fd)
    except RelayError as error:
        raise SandboxLost(f"the sandbox sent garbage: {error}") from None


def wait_for(wanted: dict[int, int], deadline: float) -> list[tuple[int, int]]:
    """Wait until one of these descriptors is ready; SandboxLost at the deadline."""
    ready = poll_for(wanted, deadline)
    if not ready:
        raise SandboxLost("the sandbox no longer answers")
    return ready


def poll_for(wanted: dict[int, int], deadline: float) -> list[tuple[int, int]]:
    """Wait until one of these descriptors is ready; nothing is at the deadline."""
    poll = select.poll()
    for fd, mask in wanted.items():
        poll.register(fd, mask)
    left = deadline - time.monotonic()
    return poll.poll(left * 1000 + 1) if left > 0 else []
