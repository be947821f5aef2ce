r"""Writes tables for a paper: LaTeX with booktabs, every cell escaped. It needs \usepackage{booktabs} and nothing else."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


@dataclass(frozen=True, slots=True)
class LatexTable:
    """A table: heads and rows of plain text, ``align`` one of l, r, c per column; ``groups`` end with a rule."""

    caption: str
    label: str
    heads: Sequence[str]
    align: str
    groups: Sequence[Sequence[Sequence[str]]]
    notes: Sequence[str] = ()


def escape_latex(text: str) -> str:
    """Escape what LaTeX would act on; a minus sign before a number becomes a real one, control characters go."""
    kept = "".join(_SPECIAL.get(character, character) for character in text if character.isprintable())
    return re.sub(r"(?<![\w}$.])-(?=\d)", "$-$", kept)


def write_latex(tables: Iterable[LatexTable]) -> str:
    """Return the tables as one piece of LaTeX."""
    return "\n".join(["% \\usepackage{booktabs}", *(_write(table) for table in tables)])


def _write(table: LatexTable) -> str:
    body: list[str] = []
    for place, group in enumerate(table.groups):
        body += [r"\midrule"] if place else []
        body += [_row(cells) for cells in group]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(table.caption)}}}",
            rf"\label{{{table.label}}}",
            rf"\begin{{tabular}}{{{table.align}}}",
            r"\toprule",
            _row(table.heads),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *([r"\par\smallskip\footnotesize " + escape_latex(" ".join(table.notes))] if table.notes else []),
            r"\end{table}",
            "",
        ]
    )


def _row(cells: Sequence[str]) -> str:
    return " & ".join(_protect(escape_latex(cell)) for cell in cells) + r" \\"


def _protect(cell: str) -> str:
    """Keep a first cell that begins with a bracket from being read as an option of the row end before it."""
    return f"{{}}{cell}" if cell.startswith("[") else cell
