"""The tools that look: list_files, read_file, search.

Nothing of a file is out of reach: a long file is read in pages, a long line in columns, and each page says how the
next one is had. Lines end at a line feed and nowhere else, as the edit tools and the diff count them.
"""

from collections.abc import Mapping
from typing import Any

from rcb_agent.agents.arguments import ArgumentsError, Parameter
from rcb_agent.agents.tool_base import Scope, Tool, check_path, encode_text, show_path
from rcb_agent.environments.base import Entry, Match

LINE_CHARACTERS = 4_000
MATCH_CHARACTERS = 300
MAX_MATCHES = 200
MAX_LISTED = 500
_ROOM_FOR_NOTES = 400
_NUMBER_WIDTH = 8


def list_files(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Name the files of the workspace, or of a folder in it."""
    folder = check_path(arguments.get("path", ".")).strip("/")
    prefix = "" if folder in {"", "."} else f"{folder.removeprefix('./')}/"
    found = sorted((entry for entry in scope.sandbox.scan() if entry.path.startswith(prefix)), key=lambda one: one.path)
    files = [entry for entry in found if entry.kind != "dir"]
    if not files:
        where = f"below {show_path(folder)}" if prefix else "in the workspace"
        return f"no files {where}"
    lines = [_list_line(entry) for entry in files[:MAX_LISTED]]
    if len(files) > MAX_LISTED:
        lines.append(f"[{len(files) - MAX_LISTED:,} more files: list a folder with path]")
    return "\n".join(lines)


def _list_line(entry: Entry) -> str:
    size = f"{entry.size:,} bytes" if entry.kind == "file" else entry.kind
    return f"{show_path(entry.path)}  ({size})"


def split_lines(data: bytes) -> list[str]:
    """Return the lines of a file for display: no BOM, no line endings, undecodable bytes replaced visibly."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def number_lines(lines: list[str], first: int) -> str:
    """Return lines with their numbers, long ones cut with a note on how to read on."""
    return "\n".join(_number_line(line, first + index) for index, line in enumerate(lines))


def _number_line(line: str, number: int) -> str:
    rest = len(line) - LINE_CHARACTERS
    if rest > 0:
        note = f"[{rest:,} more characters: read_file with start={number}, column={LINE_CHARACTERS + 1}]"
        line = f"{line[:LINE_CHARACTERS]} {note}"
    return f"{number:>6}\t{line}"


def read_file(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Show a page of a file."""
    path = check_path(arguments["path"])
    lines = split_lines(scope.sandbox.read(path))
    name = show_path(path)
    if not lines:
        return f"{name} is empty"
    start, end = _check_range(arguments, len(lines))
    if "column" in arguments:
        return _read_columns(name, lines[start - 1], arguments, scope.limits.output_characters - _ROOM_FOR_NOTES)
    page = _cut_page(lines[start - 1 : end], scope)
    last = start + len(page) - 1
    text = f"{name}, lines {start}-{last} of {len(lines)}:\n{number_lines(page, start)}"
    if last < end:
        text += f"\n[{len(lines) - last:,} more lines: read_file with start={last + 1}]"
    return text


def _check_range(arguments: Mapping[str, Any], count: int) -> tuple[int, int]:
    start, end = arguments.get("start", 1), arguments.get("end", count)
    if start > count:
        raise ArgumentsError(f"start is {_shorten(start)}, but the file has {count} lines")
    if start < 1 or end < start:
        raise ArgumentsError("start must be at least 1 and end not before start")
    return start, min(end, count)


def _shorten(number: int) -> str:
    # Python refuses to print integers of more than 4,300 digits.
    return str(number) if number.bit_length() < 64 else "huge"


def _cut_page(lines: list[str], scope: Scope) -> list[str]:
    room = scope.limits.output_characters - _ROOM_FOR_NOTES
    page: list[str] = []
    for line in lines[: scope.limits.page_lines]:
        room -= len(_number_line(line, 0)) + 1
        if room < 0 and page:
            break
        page.append(line)
    return page


def _read_columns(name: str, line: str, arguments: Mapping[str, Any], room: int) -> str:
    start, column = arguments.get("start", 1), arguments["column"]
    if not 1 <= column <= max(1, len(line)):
        raise ArgumentsError(f"column must be between 1 and {max(1, len(line))} in line {start}")
    part = line[column - 1 : column - 1 + room]
    after = column + len(part)
    text = f"{name}, line {start}, characters {column}-{after - 1} of {len(line)}:\n{part}"
    if after <= len(line):
        text += f"\n[{len(line) - after + 1:,} more characters: read_file with start={start}, column={after}]"
    return text


def search(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Find the lines that match a regular expression."""
    pattern = arguments["pattern"]
    if not pattern:
        raise ArgumentsError("pattern is empty")
    encode_text(pattern, "pattern")
    path = check_path(arguments.get("path", "."))
    found = scope.sandbox.search(pattern, path=path, limit=MAX_MATCHES)
    if not found:
        return "no line matches"
    lines = [_match_line(match) for match in found]
    if len(found) >= MAX_MATCHES:
        lines.append(f"[stopped at {MAX_MATCHES} lines: narrow the pattern or give a path]")
    return "\n".join(lines)


def _match_line(match: Match) -> str:
    text = match.text
    if len(text) > MATCH_CHARACTERS:
        text = f"{text[:MATCH_CHARACTERS]} [{len(text) - MATCH_CHARACTERS:,} more characters]"
    return f"{show_path(match.path)}:{match.line}: {text}"


LIST_FILES = Tool(
    "list_files",
    "List the files of the workspace with their sizes.",
    (Parameter("path", str, "A folder, relative to the workspace; default: all of it.", required=False),),
    list_files,
)
READ_FILE = Tool(
    "read_file",
    "Read a text file with line numbers (they are no part of the file). A long file comes in pages of up to 400 lines; "
    "the page says how to get the next one.",
    (
        Parameter("path", str, "The file, relative to the workspace."),
        Parameter("start", int, "First line, counted from 1.", required=False),
        Parameter("end", int, "Last line.", required=False),
        Parameter(
            "column", int, "Read on in the line `start` from this character; for very long lines.", required=False
        ),
    ),
    read_file,
)
SEARCH = Tool(
    "search",
    "Find lines in the files of the workspace.",
    (
        Parameter("pattern", str, "A Python regular expression, matched within a line."),
        Parameter("path", str, "A file or folder to search in; default: the whole workspace.", required=False),
    ),
    search,
)
