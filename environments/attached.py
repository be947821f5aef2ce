"""The output of an attached container: stdout and stderr of its first process in one stream, cut into records.

A record is one byte that names the stream, three zero bytes, a length (big endian) and that many bytes, as the
engine's interface describes it for containers without a terminal.
"""

from rcb_agent.environments.frames import FrameError

STDOUT, STDERR = 1, 2
HEADER_BYTES = 8
WORDS_BYTES = 2000


class Records:
    """Takes the stream in pieces and gives back what is stdout; the end of stderr is kept for messages."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        self._words = bytearray()

    def decode(self, data: bytes) -> bytes:
        """Return the part of ``data`` that is stdout, never more than that; FrameError if it is no such stream."""
        found = bytearray()
        while data:
            if not self._left:
                data = self._read_header(data)
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            if self._header[0] == STDOUT:
                found += piece
            else:
                self._words = (self._words + piece)[-WORDS_BYTES:]
        return bytes(found)

    def _read_header(self, data: bytes) -> bytes:
        if len(self._header) == HEADER_BYTES:
            self._header.clear()
        missing = HEADER_BYTES - len(self._header)
        self._header += data[:missing]
        if len(self._header) == HEADER_BYTES:
            if self._header[0] not in (STDOUT, STDERR) or any(self._header[1:4]):
                raise FrameError(f"no record of a container's output: {bytes(self._header)!r}")
            self._left = int.from_bytes(self._header[4:], "big")
        return data[missing:]

    def last_words(self) -> str:
        """Return the last line of stderr."""
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "no message"
