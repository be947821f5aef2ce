"""Sockets carried through the pipe of a supervisor, where they cannot be inherited.

Both ends of the pipe hold one ``Relay`` each, with a socket for each socket that is carried. What is read from a socket
goes to the other side as frames; so does its end, and so does the news that nobody reads it any more. For each socket a
side sends at most WINDOW bytes more than the other has passed on, so neither ever holds more than that, neither has to
stop reading the pipe, and a side that sends more, or anything else that no Relay sends, is known for a liar.
Runs inside sandboxes: standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket

from rcb_agent.environments import frames

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Sequence
    from typing import Any

WINDOW = 1 << 20  # bytes
CHUNK = 1 << 16
OUT_ENOUGH = 4 * CHUNK  # nothing more is read from a socket while so much waits for the pipe
OUT_LIMIT = 4 << 20
DATA, END, DEAF, ROOM = "data", "end", "deaf", "room"


class RelayError(Exception):
    """The other side sent what no Relay sends."""


class Carried:
    """One socket and what both sides know of it."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.credit = WINDOW  # bytes that may be sent
        self.allowed = WINDOW  # bytes that the other side may send
        self.waiting = bytearray()  # came from the other side, not yet passed on
        self.owed = 0  # passed on, not yet told
        self.reading = True  # until it ends, or the other side takes no more
        self.silenced = False  # the other side takes no more
        self.ended = False  # nothing more comes from the other side
        self.deaf = False  # nobody reads here

    def close_writing(self) -> None:
        """Let whoever reads here meet the end."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)


class Relay:
    """One side of it. ``out`` holds whole frames for the pipe; who owns the pipe writes and removes them."""

    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self.carried = [Carried(end) for end in sockets]
        self.out = bytearray()
        self._by_number = {each.socket.fileno(): each for each in self.carried}

    def wants(self) -> dict[int, int]:
        """Return what to poll for, by descriptor; other events than these must not be waited for."""
        found: dict[int, int] = {}
        for number, each in self._by_number.items():
            reads = each.reading and each.credit > 0 and len(self.out) < OUT_ENOUGH
            mask = (select.POLLIN if reads else 0) | (select.POLLOUT if each.waiting else 0)
            if mask:
                found[number] = mask
        return found

    def ready(self, number: int) -> None:
        """Move what can be moved on a descriptor that polling has named."""
        each = self._by_number[number]
        if each.waiting:
            self._pass_on(each)
        if each.reading and each.credit > 0 and len(self.out) < OUT_ENOUGH:
            self._read(each)

    def is_passing_on(self) -> bool:
        """Whether something that came has not reached its socket yet."""
        return any(each.waiting for each in self.carried)

    def credit(self) -> int:
        """Bytes that may be sent now, from all sockets together."""
        return sum(each.credit for each in self.carried)

    def drain(self) -> bool:
        """Read what lies in the sockets, as far as it may be sent; whether there is more."""
        more = False
        for each in self.carried:
            while each.reading and each.credit > 0 and self._read(each):
                pass
            more = more or (each.reading and each.credit == 0 and self._holds_something(each))
        return more

    def take(self, meta: dict[str, Any], blob: bytes) -> None:
        """Take a frame of the other side; RelayError if it makes no sense."""
        number, kind, count = meta.get("socket"), meta.get("relay"), meta.get("count")
        if type(number) is not int or not 0 <= number < len(self.carried):
            raise RelayError(f"a frame about socket {number!r}")
        each = self.carried[number]
        if kind == DATA:
            self._take_data(each, blob)
        elif kind == ROOM and type(count) is int and 0 < count <= WINDOW - each.credit:
            each.credit += count
        elif kind == END and not each.ended:
            each.ended = True
            if not each.waiting:
                each.close_writing()
        elif kind == DEAF and not each.silenced:
            each.silenced, each.reading = True, False
            with contextlib.suppress(OSError):
                each.socket.shutdown(socket.SHUT_RD)
        else:
            raise RelayError(f"{kind!r} of {count!r} about socket {number}")

    def close(self) -> None:
        """Close the sockets."""
        for each in self.carried:
            each.socket.close()

    def _take_data(self, each: Carried, blob: bytes) -> None:
        if each.ended or not 0 < len(blob) <= min(CHUNK, each.allowed):
            raise RelayError(f"{len(blob)} bytes where {0 if each.ended else each.allowed} are allowed")
        each.allowed -= len(blob)
        if not each.deaf:
            each.waiting += blob
            self._pass_on(each)

    def _read(self, each: Carried) -> bool:
        """Read once and send it on; whether there may be more."""
        try:
            data = each.socket.recv(min(CHUNK, each.credit), socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            each.reading = False
            self._send(each, END)
            return False
        each.credit -= len(data)
        self._send(each, DATA, blob=data)
        return True

    def _holds_something(self, each: Carried) -> bool:
        try:
            return bool(each.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK))
        except OSError:
            return False

    def _pass_on(self, each: Carried) -> None:
        """Write until the socket takes no more: polling calls it full long before it is."""
        while each.waiting:
            try:
                sent = each.socket.send(bytes(each.waiting[:CHUNK]), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:
                each.deaf = True
                each.waiting.clear()
                self._send(each, DEAF)
                return
            del each.waiting[:sent]
            self._tell_room(each, sent)

    def _tell_room(self, each: Carried, sent: int) -> None:
        each.owed += sent
        if each.owed >= WINDOW // 4:  # what is owed for good leaves three quarters of the window
            each.allowed += each.owed
            self._send(each, ROOM, count=each.owed)
            each.owed = 0
        if each.ended and not each.waiting:
            each.close_writing()

    def _send(self, each: Carried, kind: str, *, count: int = 0, blob: bytes = b"") -> None:
        if len(self.out) > OUT_LIMIT:
            raise RelayError("the other side sends and does not read")
        number = self.carried.index(each)
        self.out += frames.pack_frame({"relay": kind, "socket": number, "count": count}, blob)
