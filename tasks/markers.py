r"""Finds the blanks of an annotated file: nested, same-indented pairs of ``paper2code`` comment lines.

A line is what ends in ``\n``: form feeds, ``\r`` and U+2028 are characters within a line here, so that every byte
of a file survives masking and filling.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

START = re.compile(r'^(?P<indent>[ \t]*)#\s*<paper2code\s+name="(?P<name>[^"]+)">\s*$')
END = re.compile(r'^(?P<indent>[ \t]*)#\s*</paper2code\s+name="(?P<name>[^"]+)">\s*$')
_LIKE_A_MARKER = re.compile(r"<\s*/?\s*paper2code\b")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class Blank:
    """One blank: ``start`` and ``end`` are the 0-based indices of its marker lines, ``loc`` its counted lines.

    ``depth`` is 0 for an outermost blank; ``parent`` names the enclosing one.
    """

    name: str
    start: int
    end: int
    indent: str
    depth: int
    parent: str | None
    loc: int


class MarkerError(ValueError):
    """Markers that do not pair up; ``line`` is 1-based."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def split_lines(text: str) -> list[str]:
    r"""Split at ``\n`` only, keeping line ends; ``"".join`` gives ``text`` back."""
    return _LINE.findall(text)


def is_marker(line: str) -> bool:
    """Say whether a line is a start or an end marker."""
    return bool(START.match(line) or END.match(line))


def strip_markers(text: str) -> str:
    """Return ``text`` without any marker line."""
    return "".join(line for line in split_lines(text) if not is_marker(line))


def count_code_lines(lines: Sequence[str]) -> int:
    """Count lines that are neither blank nor comment-only (the benchmark's LoC rule; docstrings count)."""
    return sum(1 for line in lines if line.strip() and not line.lstrip().startswith("#"))


def find_blanks(text: str) -> tuple[Blank, ...]:
    """Return the blanks of a file in the order of their start markers.

    Raises MarkerError on the first marker that is malformed, unmatched, wrongly nested or differently
    indented than its start, on a name used twice, and on a blank without a line of code.
    """
    lines = split_lines(text)
    opened: list[tuple[str, str, int]] = []
    blanks: list[Blank] = []
    names: set[str] = set()
    for index, line in enumerate(lines):
        if start := START.match(line):
            if start["name"] in names:
                raise MarkerError(index + 1, f'two blanks are named "{start["name"]}": rename one')
            names.add(start["name"])
            opened.append((start["name"], start["indent"], index))
        elif end := END.match(line):
            blanks.append(_close_blank(lines, opened, end, index))
        elif line.lstrip().startswith("#") and _LIKE_A_MARKER.search(line):
            raise MarkerError(index + 1, 'malformed marker: write # <paper2code name="..."> on a line of its own')
    if opened:
        name, _, index = opened[-1]
        raise MarkerError(index + 1, f'"{name}" is never closed: add # </paper2code name="{name}">')
    return tuple(sorted(blanks, key=lambda blank: blank.start))


def _close_blank(lines: list[str], opened: list[tuple[str, str, int]], end: re.Match[str], index: int) -> Blank:
    if not opened:
        raise MarkerError(index + 1, f'"{end["name"]}" is closed but was never opened')
    name, indent, start = opened.pop()
    if name != end["name"]:
        raise MarkerError(index + 1, f'"{end["name"]}" is closed while "{name}" (line {start + 1}) is open')
    if indent != end["indent"]:
        raise MarkerError(
            index + 1, f'the markers of "{name}" (lines {start + 1}, {index + 1}) are indented differently'
        )
    loc = count_code_lines(lines[start + 1 : index])
    if loc == 0:
        raise MarkerError(start + 1, f'"{name}" holds no line of code')
    return Blank(name, start, index, indent, len(opened), opened[-1][0] if opened else None, loc)
