r"""Annotated files as the benchmark authors' own code reads, masks and fills them, quirks included; for parity only.

It splits wherever ``str.splitlines`` does, so a form feed ends a line, joins with ``\n`` and leaves the last line
without an end. Ours (``markers``, ``masking``) keeps every byte.
"""

from collections.abc import Sequence
from pathlib import Path

from rcb_agent.tasks.base import Task
from rcb_agent.tasks.markers import END, START, count_code_lines, is_marker


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, without ends."""
    return path.read_text(encoding="utf-8").splitlines()


def split_at_blank(lines: Sequence[str], name: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines up to and with the start marker of a blank, those inside, those from its end marker on."""
    start = next(i for i, line in enumerate(lines) if (m := START.match(line)) and m["name"] == name) + 1
    end = next(i for i, line in enumerate(lines) if i >= start and (m := END.match(line)) and m["name"] == name)
    return list(lines[:start]), list(lines[start:end]), list(lines[end:])


def mask_blank(lines: Sequence[str], name: str, todo: Sequence[str]) -> str:
    """Return the file with ``todo`` in place of a blank and without any marker.

    Each line of ``todo`` brings an end of its own, so an empty line follows it; a tab in the indentation counts as one
    space.
    """
    before, inside, after = split_at_blank(lines, name)
    indent = " " * min((_width(line) for line in inside if line.strip()), default=0)
    masked = [*before, *(f"{indent}{line}\n" for line in todo), *after]
    return "\n".join(line for line in masked if not is_marker(line))


def count_blank(lines: Sequence[str], name: str) -> int:
    """Return the size of a blank."""
    return count_code_lines(split_at_blank(lines, name)[1])


def fill_original(lines: Sequence[str], name: str, code: str) -> str:
    """Return the file with the lines of a blank replaced; every marker stays, code that is empty leaves nothing."""
    before, _, after = split_at_blank(lines, name)
    return "\n".join([*before, *code.splitlines(), *after])


def flatten_context(root: Path, task: Task) -> str:
    """Return the context files of a paper, each under its path; lines are joined without anything between them."""
    texts = ((path, "".join(read_lines(root / task.info.id / path))) for path in task.problem.context_paths)
    return "".join(f"## {path}\n\n{text}\n\n" for path, text in texts)


def read_paper(task: Task) -> str:
    r"""Return the paper's text with every line end as ``\n``."""
    text = task.problem.paper.text if task.problem.paper else ""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _width(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
