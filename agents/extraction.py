"""Takes the code out of a single-shot answer.

Two rules, an option of the arm. ``tolerant`` (default): the last fence named python, py, python3 or nothing; a block
that is indented as a whole by another amount than the blank is shifted to it; an answer that was cut inside its last
fence holds no code, half a block is no answer. ``upstream``: the benchmark authors' rule: the last fence named python in
lower case, taken as it is; without one the blank becomes nothing. ``strict`` is its older name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

EXTRACTIONS = ("tolerant", "upstream", "strict")

_OPENING = re.compile(r"[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
_PYTHON = {"", "py", "python", "python3"}
_PUBLISHED = re.compile(r"```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fence:
    """One fenced block; ``closed`` is False where the text ended before it did."""

    info: str
    code: str
    closed: bool


def find_fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of a Markdown text in order."""
    info, fence = "", ""
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if not fence:
            if opening := _OPENING.match(line):
                words = opening["info"].split()
                info, fence, lines = (words[0].lower() if words else ""), opening["fence"], []
        elif _closes(line, fence):
            yield Fence(info, "".join(f"{one}\n" for one in lines), closed=True)
            fence = ""
        else:
            lines.append(line)
    if fence:
        yield Fence(info, "\n".join(lines), closed=False)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def extract_tolerant(text: str, indentation: str, *, cut: bool = False) -> str | None:
    """Return the code of the last Python fence, shifted to ``indentation``; None when there is none."""
    fences = [fence for fence in find_fences(text) if fence.info in _PYTHON]
    if not fences or not fences[-1].code.strip() or (cut and not fences[-1].closed):
        return None
    return shift_to(fences[-1].code, indentation)


def extract_upstream(text: str) -> str | None:
    """Return what the benchmark authors' rule finds; None when there is none, which to them is an empty text."""
    found = _PUBLISHED.findall(text)
    return str(found[-1]) if found else None


def shift_to(code: str, indentation: str) -> str:
    """Shift a block so that its least indented line stands at ``indentation``, keeping relative indentation.

    Untouched: a block whose first line already stands there or deeper while later lines do not (text of a
    multi-line string at the left edge), and one whose leading spaces and tabs do not match the file's.
    """
    lines = code.split("\n")
    leads = [_lead(line) for line in lines if line.strip()]
    if not leads:
        return code
    least = min(leads, key=len)
    if len(leads[0]) >= len(indentation) > len(least) or not all(lead.startswith(least) for lead in leads):
        return code
    if not (indentation.startswith(least) or least.startswith(indentation)):
        return code
    return "\n".join(indentation + line[len(least) :] if line.strip() else line for line in lines)


def _lead(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
