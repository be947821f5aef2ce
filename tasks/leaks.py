"""The one rule by which a text is said to hold the answer of a blank.

Lines are compared without whitespace and comments; those of fewer than LEAST_LINE characters then, and keywords alone, are
trivial and do not count.
A text that holds at least half of a blank's lines is a copy: upstream's references hold all of them, while a shared
import or two makes no leak. A paraphrase is not found.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

LEAST_LINE = 5
_ALONE = frozenset({"else:", "break", "return", "continue", "finally:", "except:"})


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many of a blank's ``of`` lines a text holds."""

    held: int
    of: int

    @property
    def is_copy(self) -> bool:
        """At least half of the lines."""
        return self.held > 0 and self.held * 2 >= self.of

    @property
    def is_whole(self) -> bool:
        """All of the lines."""
        return self.is_copy and self.held == self.of

    def __str__(self) -> str:
        return f"holds {self.held} of the blank's {self.of} lines"


def telling_lines(text: str) -> frozenset[str]:
    """Return the lines of a text that are compared, each without whitespace and comment."""
    return frozenset(line for _, line in numbered_lines(text))


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the compared form of each line that is not trivial."""
    for number, line in enumerate(text.split("\n"), 1):
        code = "".join((without_comment(line) if "#" in line else line).split())
        if len(code) >= LEAST_LINE and code not in _ALONE:
            yield number, code


def without_comment(line: str) -> str:
    """Cut a line at the first ``#`` that stands in no string of this line."""
    quote = ""
    escaped = False
    for place, character in enumerate(line):
        if escaped:
            escaped = False
        elif quote:
            escaped = character == "\\"
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "#":
            return line[:place]
    return line


def compare(wanted: AbstractSet[str], text: str) -> Overlap:
    """Say how many of the ``wanted`` telling lines stand in a text."""
    return Overlap(len(wanted & telling_lines(text)), len(wanted))


def compare_bytes(wanted: AbstractSet[str], data: bytes) -> Overlap:
    """The same for data that is no text: lines as they are written, wherever they stand; what is compressed is not found."""
    squeezed = b"".join(data.split())
    return Overlap(sum(line.encode("utf-8", "surrogateescape") in squeezed for line in wanted), len(wanted))


def first_line_of(wanted: AbstractSet[str], text: str) -> int:
    """Return the number of the first line of a text that is one of ``wanted``; 0 without one."""
    return next((number for number, line in numbered_lines(text) if line in wanted), 0)
