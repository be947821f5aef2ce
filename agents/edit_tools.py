"""The tools that change files: edit_file and write_file.

They work on bytes. A one-line edit is a one-line diff: line endings, a BOM, form feeds and bytes that are not UTF-8
stay as they are everywhere else. The model never sees carriage returns, so what it sends is matched and written with
the line endings of the place it goes to.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rcb_agent.agents.arguments import ArgumentsError, Parameter
from rcb_agent.agents.file_tools import number_lines, split_lines
from rcb_agent.agents.tool_base import Scope, Tool, check_path, encode_text, show_path
from rcb_agent.errors import SandboxFileError

_BOM = b"\xef\xbb\xbf"
_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_MARKER = re.compile(rb"^[ \t]*#[ \t]*</?paper2code[ \t]+name=.*$", re.MULTILINE)
_COUNTED_PLACES = 20
_SHOWN_LINES = 12
_COMPARED_LINES = 2_000
_COMPARED_CHARACTERS = 200


def edit_file(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Replace the one place where ``old`` stands by ``new``."""
    path = check_path(arguments["path"])
    old, new = encode_text(arguments["old"], "old"), encode_text(arguments["new"], "new")
    if not old:
        raise ArgumentsError("old is empty: copy the text to be replaced from the file (write_file makes new files)")
    if old == new:
        raise ArgumentsError("old and new are the same")
    before = scope.sandbox.read(path)
    position, length = _find_once(before, old, show_path(path))
    new = _BARE_LINE_FEED.sub(_line_ending_at(before, position), new)
    after = before[:position] + new + before[position + length :]
    scope.sandbox.write(path, after)
    first = before.count(b"\n", 0, position) + 1
    return _describe_edit(path, after, first, new) + _warn_about_markers(before, after)


def _find_once(data: bytes, old: bytes, name: str) -> tuple[int, int]:
    with_returns = _BARE_LINE_FEED.sub(b"\r\n", old)
    variants = [old] if with_returns == old else [old, with_returns]
    places = [(position, len(variant)) for variant in variants for position in _positions(data, variant)]
    if not places:
        raise ArgumentsError(f"old is not in {name}{_hint_at_near_lines(data, old)}")
    if len(places) > 1:
        numbers = sorted({data.count(b"\n", 0, position) + 1 for position, _ in places})
        count = f"{len(places)} times" if len(places) <= _COUNTED_PLACES else f"more than {_COUNTED_PLACES} times"
        lines = ", ".join(map(str, numbers[:_COUNTED_PLACES]))
        raise ArgumentsError(f"old is in {name} {count} (lines {lines}); add lines around it until it is unique")
    return places[0]


def _positions(data: bytes, old: bytes) -> Iterator[int]:
    position, count = data.find(old), 0
    while position >= 0 and count <= _COUNTED_PLACES:
        yield position
        position, count = data.find(old, position + 1), count + 1


def _line_ending_at(data: bytes, position: int) -> bytes:
    end = data.find(b"\n", position)
    if end < 0:
        end = data.rfind(b"\n", 0, position)
    return b"\r\n" if end > 0 and data[end - 1 : end] == b"\r" else b"\n"


def _hint_at_near_lines(data: bytes, old: bytes) -> str:
    wanted = [line.strip() for line in split_lines(old) if line.strip()]
    if not wanted:
        return ""
    if all(re.match(r"\s*\d+\t", line) for line in split_lines(old)):
        return "; it seems to hold the line numbers of read_file: leave them out"
    lines = [line.strip() for line in split_lines(data)]
    same = [number for number, line in enumerate(lines, 1) if line == wanted[0]]
    if same:
        return f"; its first line, with other spaces or other lines after it, is at line {_join(same[:3])}"
    key = wanted[0][:_COMPARED_CHARACTERS]
    short = [line[:_COMPARED_CHARACTERS] for line in lines[:_COMPARED_LINES]]
    near = difflib.get_close_matches(key, [line for line in short if line], n=2)
    if not near:
        return ""
    numbers = [short.index(line) + 1 for line in dict.fromkeys(near)]
    return f"; the nearest is line {_join(numbers)}: {lines[numbers[0] - 1][:_COMPARED_CHARACTERS]}"


def _join(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))


def _describe_edit(path: str, after: bytes, first: int, new: bytes) -> str:
    count = new.count(b"\n") + 1
    begin = max(0, first - 3)
    shown = split_lines(after)[begin : min(first + count + 1, begin + _SHOWN_LINES)]
    return f"edited {show_path(path)} at line {first}; it now reads\n{number_lines(shown, begin + 1)}"


def write_file(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Write a whole file."""
    path = check_path(arguments["path"])
    content = encode_text(arguments["content"], "content")
    before = _read_if_there(scope, path)
    after = _keep_conventions(before, content)
    scope.sandbox.write(path, after)
    done = f"wrote {show_path(path)} ({len(after):,} bytes)"
    return done if before is None else done + _warn_about_markers(before, after)


def _read_if_there(scope: Scope, path: str) -> bytes | None:
    try:
        return scope.sandbox.read(path)
    except SandboxFileError:
        return None


def _keep_conventions(before: bytes | None, content: bytes) -> bytes:
    if not before:
        return content
    if b"\n" in before and not _BARE_LINE_FEED.search(before):
        content = _BARE_LINE_FEED.sub(b"\r\n", content)
    if before.startswith(_BOM) and not content.startswith(_BOM):
        content = _BOM + content
    return content


def _warn_about_markers(before: bytes, after: bytes) -> str:
    gone = Counter(_marker_lines(before)) - Counter(_marker_lines(after))
    if not gone:
        return ""
    lines = "\n".join(line.decode("utf-8", "replace") for line in gone)
    return f"\nwarning: a marker line of the blank is gone; put it back as it was:\n{lines}"


def _marker_lines(data: bytes) -> list[bytes]:
    return [line.strip() for line in _MARKER.findall(data)]


EDIT_FILE = Tool(
    "edit_file",
    "Replace a piece of text that stands exactly once in a file.",
    (
        Parameter("path", str, "The file, relative to the workspace."),
        Parameter("old", str, "The text to be replaced, exactly as in the file (without line numbers)."),
        Parameter("new", str, "What stands there afterwards."),
    ),
    edit_file,
)
WRITE_FILE = Tool(
    "write_file",
    "Write a whole file: a new one, or over one that exists.",
    (
        Parameter("path", str, "The file, relative to the workspace."),
        Parameter("content", str, "Everything that shall stand in it."),
    ),
    write_file,
)
