"""Moving the bytes of one child process: bounded head-and-tail capture, input, and a deadline.

Runs inside sandboxes: standard library only.
"""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Callable
    from typing import Protocol

    class Mover(Protocol):
        """Moves bytes between descriptors of its own."""

        def wants(self) -> dict[int, int]:
            """Return what to poll for, by descriptor."""

        def ready(self, number: int) -> None:
            """Move what can be moved on a descriptor."""


CHUNK = 1 << 16


class Capture:
    """Keeps the first and the last half of ``limit`` bytes of a stream and counts what lies between."""

    def __init__(self, limit: int) -> None:
        self.half = limit // 2
        self.limit = limit
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream; memory stays bounded whatever comes."""
        self.total += len(data)
        room = self.half - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if len(self.tail) > 2 * self.limit + CHUNK:
            del self.tail[: -self.limit]

    def result(self) -> tuple[bytes, int]:
        """Return what is kept, a line naming the gap included, and the number of bytes dropped."""
        if self.total <= self.limit:
            return bytes(self.head + self.tail), 0
        dropped = self.total - 2 * self.half
        tail = self.tail[-self.half :] if self.half else bytearray()
        return bytes(self.head + b"\n[... %d bytes dropped ...]\n" % dropped + tail), dropped


def do_nothing() -> None:
    """Nothing."""


class Pump:
    """Reads the streams of a child and feeds its input until told to stop.

    ``watch`` is called for each other descriptor that becomes ready; ``alive`` is asked after each round. A ``mover``
    has descriptors of its own, which change from round to round; ``after_round`` is called when all are served.
    """

    def __init__(self, sinks: dict[int, Callable[[bytes], None]], feed: tuple[int, bytes] | None) -> None:
        self.sinks = sinks
        self.input = feed[0] if feed else -1
        self.rest = memoryview(feed[1] if feed else b"")
        self.mover: Mover | None = None
        self.after_round: Callable[[], None] = do_nothing
        self.armed: dict[int, int] = {}
        self.poll = select.poll()
        for fd in sinks:
            os.set_blocking(fd, False)
            self.poll.register(fd, select.POLLIN)
        if feed:
            os.set_blocking(self.input, False)
            self.poll.register(self.input, select.POLLOUT)

    def run(self, alive: Callable[[], bool], deadline: float, watch: dict[int, Callable[[], None]]) -> bool:
        """Move bytes while ``alive()``; False when the deadline came first."""
        for fd in watch:
            self.poll.register(fd, select.POLLIN)
        while alive():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.arm()
            for fd, _ in self.poll.poll(left * 1000 + 1):
                if self.mover is not None and fd in self.armed:
                    self.mover.ready(fd)
                elif fd in watch:
                    watch[fd]()
                elif fd == self.input:
                    self.push()
                else:
                    self.pull(fd)
            self.after_round()
        return True

    def arm(self) -> None:
        """Wait for what the mover waits for now, and for nothing else of it."""
        if self.mover is None:
            return
        wanted = self.mover.wants()
        for fd in self.armed.keys() - wanted.keys():
            self.poll.unregister(fd)
        for fd, mask in wanted.items():
            if self.armed.get(fd) != mask:
                self.poll.register(fd, mask)
        self.armed = wanted

    def pull(self, fd: int) -> bool:
        """Read once; False when nothing is there now, or ever again."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if data:
            self.sinks[fd](data)
            return True
        self.poll.unregister(fd)
        del self.sinks[fd]
        os.close(fd)
        return False

    def push(self) -> None:
        """Write once; close the input when all is written or nobody reads."""
        try:
            self.rest = self.rest[os.write(self.input, self.rest[:CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.rest = self.rest[:0]
        if not self.rest:
            self.poll.unregister(self.input)
            os.close(self.input)
            self.input = -1

    def finish(self) -> None:
        """Take what is left in the pipes after every writer has died, then close everything."""
        for fd in list(self.sinks):
            while self.pull(fd):
                pass
            if fd in self.sinks:
                os.close(fd)
        if self.input >= 0:
            os.close(self.input)
