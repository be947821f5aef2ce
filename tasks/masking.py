"""The views of an annotated file: what an agent gets, what the direct prompt shows, what counts as filled.

One blank is open at a time; every other blank stays filled, as the benchmark's authors do it.
"""

from rcb_agent.tasks.base import Problem, SourceFile
from rcb_agent.tasks.markers import END, START, Blank, is_marker, split_lines, strip_markers
from rcb_agent.tasks.syntax import parse_quietly


def agent_view(text: str, blank: Blank) -> str:
    """Return the workspace file: the blank's two markers with a TODO between them, all other markers gone."""
    before, _, after = _cut(text, blank)
    lines = split_lines(text)
    todo = f'{_least_indent(text, blank)}# TODO: implement "{blank.name}" here ({_size(blank.loc)}).\n'
    return before + lines[blank.start] + _with_ending_of(lines[blank.start], todo) + lines[blank.end] + after


def prompt_view(text: str, blank: Blank) -> str:
    """Return the file of the direct prompt: two comment lines in place of the blank, no markers."""
    before, _, after = _cut(text, blank)
    indent = _least_indent(text, blank)
    todo = f'{indent}# TODO: write the block "{blank.name}"\n{indent}# ({_size(blank.loc)})\n'
    return before + _with_ending_of(split_lines(text)[blank.start], todo) + after


def gold_view(text: str, blank: Blank) -> tuple[str, str]:
    """Return (the complete file with only this blank's markers, the text strictly between them)."""
    before, inside, after = _cut(text, blank)
    lines = split_lines(text)
    return before + lines[blank.start] + inside + lines[blank.end] + after, inside


def fill_blank(problem: Problem, code: str) -> str:
    """Return the target file of the workspace with the lines between its two markers replaced by ``code``.

    A missing final newline is added and line endings follow the file's.
    """
    lines = split_lines(problem.target.text)
    start, end = _marker_lines(lines, problem.name)
    if code and not code.endswith("\n"):
        code += "\n"
    return "".join([*lines[: start + 1], _with_ending_of(lines[start], code), *lines[end:]])


def filled_files(problem: Problem, code: str) -> dict[str, bytes]:
    """Return all annotated files as the workspace has them, with ``code`` in the blank."""
    files = {file.path: file.encode() for file in problem.files}
    return files | {problem.path: SourceFile(problem.path, fill_blank(problem, code)).encode()}


def null_code(problem: Problem) -> str:
    """Return the empty answer: nothing, or ``pass`` where the file does not parse without a statement."""
    try:
        parse_quietly(fill_blank(problem, ""))
    except SyntaxError:
        start, _ = _marker_lines(split_lines(problem.target.text), problem.name)
        match = START.match(split_lines(problem.target.text)[start])
        return f"{match['indent'] if match else ''}pass\n"
    return ""


def blank_lines(problem: Problem, text: str) -> str | None:
    """Return what stands between the blank's two markers in a submitted file.

    None when not each marker occurs exactly once, in order: then the scope ``blank`` cannot be graded.
    """
    lines = split_lines(text)
    starts = [i for i, line in enumerate(lines) if (m := START.match(line)) and m["name"] == problem.name]
    ends = [i for i, line in enumerate(lines) if (m := END.match(line)) and m["name"] == problem.name]
    if len(starts) != 1 or len(ends) != 1 or starts[0] > ends[0]:
        return None
    return "".join(lines[starts[0] + 1 : ends[0]])


def _cut(text: str, blank: Blank) -> tuple[str, str, str]:
    lines = split_lines(text)
    parts = lines[: blank.start], lines[blank.start + 1 : blank.end], lines[blank.end + 1 :]
    before, inside, after = (strip_markers("".join(part)) for part in parts)
    return before, inside, after


def _marker_lines(lines: list[str], name: str) -> tuple[int, int]:
    start = next(i for i, line in enumerate(lines) if (m := START.match(line)) and m["name"] == name)
    end = next(i for i, line in enumerate(lines) if (m := END.match(line)) and m["name"] == name)
    return start, end


def _least_indent(text: str, blank: Blank) -> str:
    inside = split_lines(text)[blank.start + 1 : blank.end]
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in inside if line.strip() and not is_marker(line)]
    return min(indents, key=len, default=blank.indent)


def _size(loc: int) -> str:
    return f"about {loc} line{'' if loc == 1 else 's'} of code"


def _with_ending_of(model: str, text: str) -> str:
    if not model.endswith("\r\n"):
        return text
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
