"""Frames between the trusted and the candidate's side: two lengths, a JSON object, raw blobs.

This file also runs inside sandboxes: standard library only. Whatever arrives is a claim of the other side; a frame
that breaks a rule raises WireError, and nothing is allocated for more than what was announced and allowed.
"""

import json
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic  # by name: a grade may count the module's clocks
from typing import Any

HEADER = struct.Struct("<II")
_CHUNK = 1 << 20
_LARGE = 1 << 18
MAX_BLOBS = 1 << 16


class WireError(Exception):
    """The other side sent what no honest one sends, or a value cannot cross."""


class PeerGone(WireError):
    """The other process ended or closed its end."""


class PeerSlow(WireError):
    """The other process did not answer in time."""


class OverLimit(WireError):
    """The other side used more than one grade may: the message names what, and how much there may be."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """Bounds of one frame (``json_bytes``, ``blob_bytes``) and of everything sent and received."""

    json_bytes: int = 8 << 20
    blob_bytes: int = 128 << 20
    total_bytes: int = 1 << 30


class Channel:
    """One end of a socket pair. ``deadline`` (monotonic seconds) bounds every operation; None waits for ever."""

    def __init__(self, end: socket.socket, limits: WireLimits) -> None:
        self.deadline: float | None = None
        self.total = 0
        self._end = end
        self._limits = limits

    def send(self, head: Mapping[str, Any], blobs: Iterable[bytes] = ()) -> None:
        """Send one frame."""
        parts = list(blobs)
        text = json.dumps({**head, "b": [len(part) for part in parts]}, separators=(",", ":")).encode("ascii")
        size = sum(map(len, parts))
        self._admit(len(text), size, OverLimit)
        try:
            for piece in _pieces([HEADER.pack(len(text), size), text, *parts]):
                self._end.settimeout(self._left())
                self._end.sendall(piece)
        except TimeoutError:
            raise PeerSlow("the other side did not read in time") from None
        except OSError as error:
            raise PeerGone(f"the other side is gone ({error.strerror})") from None

    def receive(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return the next frame: its JSON object without the lengths, and its blobs."""
        text_size, blob_size = HEADER.unpack(self._read(HEADER.size))
        self._admit(text_size, blob_size, WireError)  # the other side's own channel would have refused it
        head = parse_head(self._read(text_size))
        return head, _cut(self._read(blob_size), head.pop("b", None))

    def _admit(self, text_size: int, blob_size: int, kind: type[WireError]) -> None:
        if text_size > self._limits.json_bytes or blob_size > self._limits.blob_bytes:
            raise kind(f"a frame of {text_size} + {blob_size} bytes is over the limit")
        if self.total + text_size + blob_size > self._limits.total_bytes:
            raise OverLimit(f"more than {self._limits.total_bytes} bytes were exchanged")
        self.total += text_size + blob_size

    def _left(self) -> float | None:
        if self.deadline is None:
            return None
        left = self.deadline - monotonic()
        if left <= 0:
            raise PeerSlow("the time is up")
        return left

    def _read(self, size: int) -> bytearray:
        """Return so many bytes; room is made as they come, at most for as many again."""
        buffer, filled = bytearray(min(size, _CHUNK)), 0
        while filled < size:
            if filled == len(buffer):
                buffer += bytes(min(filled, size - filled))
            try:
                self._end.settimeout(self._left())
                with memoryview(buffer) as room:
                    count = self._end.recv_into(room[filled:])
            except TimeoutError:
                raise PeerSlow("no answer in time") from None
            except OSError as error:
                raise PeerGone(f"the other side is gone ({error.strerror})") from None
            if not count:
                raise PeerGone("the other side is gone")
            filled += count
        return buffer


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts in as few pieces as do not copy what is large; none is empty: to send nothing may fail or wait."""
    small: list[bytes] = []
    for part in filter(None, parts):
        if len(part) < _LARGE:
            small.append(part)
            continue
        if small:
            yield b"".join(small)
            small = []
        yield part
    if small:
        yield b"".join(small)


def parse_head(text: bytes | bytearray) -> dict[str, Any]:
    """Return the JSON object of a frame. Floats never travel as JSON numbers, so one is an error."""
    try:
        head = json.loads(text, parse_float=_refuse_number, parse_constant=_refuse_number)
    except (ValueError, RecursionError):
        raise WireError("not JSON") from None
    if type(head) is not dict:
        raise WireError("not a JSON object")
    return head


def _refuse_number(text: str) -> float:
    raise ValueError(text)


def _cut(body: bytearray, lengths: Any) -> list[bytes]:
    """Return the blobs; the body is taken apart, so that it is not there twice."""
    if type(lengths) is not list or not all(type(length) is int and length >= 0 for length in lengths):
        raise WireError("no blob lengths")
    if len(lengths) > MAX_BLOBS:
        raise OverLimit(f"more than {MAX_BLOBS} blobs in a frame")
    if sum(lengths) != len(body):
        raise WireError("the blob lengths do not add up")
    blobs = []
    for length in reversed(lengths):
        start = len(body) - length
        blobs.append(bytes(memoryview(body)[start:]))
        del body[start:]
    return blobs[::-1]
