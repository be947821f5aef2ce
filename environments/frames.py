"""Frames between the harness and a supervisor: two lengths, a JSON object, a blob.

``>II`` (JSON bytes, blob bytes), then both. Both lengths are capped before anything is allocated; whoever
reads garbage ends the conversation. This file also runs inside sandboxes: standard library only.
"""

from __future__ import annotations

import json
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading typing is a tenth of the start of a sandbox
    from typing import Any

HEADER = struct.Struct(">II")
META_LIMIT = 16 << 20
BLOB_LIMIT = 96 << 20


class FrameError(Exception):
    """What arrived is no frame, or a larger one than allowed."""


def pack_frame(meta: dict[str, Any], blob: bytes = b"") -> bytes:
    """Return the bytes of one frame; lone surrogates survive as JSON escapes."""
    text = json.dumps(meta).encode("ascii")
    if len(text) > META_LIMIT or len(blob) > BLOB_LIMIT:
        raise FrameError(f"a frame of {len(text)} + {len(blob)} bytes is too large to send")
    return HEADER.pack(len(text), len(blob)) + text + blob


def frame_lengths(header: bytes, most_meta: int = META_LIMIT, most_blob: int = BLOB_LIMIT) -> tuple[int, int]:
    """Return the lengths that a header announces, or raise FrameError."""
    if len(header) != HEADER.size:
        raise FrameError("the stream ended inside a header")
    meta, blob = HEADER.unpack(header)
    if meta > most_meta or blob > most_blob:
        raise FrameError(f"a frame of {meta} + {blob} bytes is larger than allowed")
    return meta, blob


def parse_meta(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a frame, or raise FrameError."""
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not JSON: {error}") from None
    if not isinstance(meta, dict):
        raise FrameError("not a JSON object")
    return meta


class FrameReader:
    """Puts frames together from pieces and never asks for a byte beyond the frame that it is at."""

    def __init__(self, most_meta: int = META_LIMIT, most_blob: int = BLOB_LIMIT) -> None:
        self._most = most_meta, most_blob
        self._lengths: tuple[int, int] | None = None
        self._data = bytearray()

    def missing(self) -> int:
        """Bytes that are wanted next: the rest of a header, or of what it announces."""
        return (HEADER.size if self._lengths is None else sum(self._lengths)) - len(self._data)

    def add(self, data: bytes) -> tuple[dict[str, Any], bytes] | None:
        """Take at most as many bytes as are missing; return the frame once it is whole. Raises FrameError."""
        self._data += data
        if self._lengths is None and not self.missing():
            self._lengths = frame_lengths(bytes(self._data), *self._most)
            self._data.clear()
        if self._lengths is None or self.missing():
            return None
        meta = parse_meta(bytes(self._data[: self._lengths[0]]))
        blob = bytes(self._data[self._lengths[0] :])
        self._lengths = None
        self._data.clear()
        return meta, blob
