"""Puts the markers of blanks into code that has none yet: the opposite of ``markers.strip_markers``."""

from collections.abc import Sequence
from dataclasses import dataclass

from rcb_agent.tasks.markers import MarkerError, find_blanks, is_marker, split_lines


@dataclass(frozen=True, slots=True)
class Span:
    """The lines of a blank to be, ``first`` to ``last``, counted from 1 and both included."""

    name: str
    first: int
    last: int


def insert_markers(text: str, spans: Sequence[Span]) -> str:
    """Return the text with a pair of markers around each span; spans may lie within each other.

    Raises MarkerError, whose ``line`` is one of the text as given, for spans that leave the file, cross each other, share
    a name or hold no line of code.
    """
    lines = split_lines(text)
    for span in spans:
        _check_span(span, lines)
    outermost_first = sorted(spans, key=lambda span: (span.first, -span.last))
    _refuse_crossing(outermost_first)
    before: dict[int, list[str]] = {}
    after: dict[int, list[str]] = {}
    for span in outermost_first:
        indent = least_indent(lines[span.first - 1 : span.last])
        before.setdefault(span.first, []).append(f'{indent}# <paper2code name="{span.name}">\n')
        after.setdefault(span.last, []).insert(0, f'{indent}# </paper2code name="{span.name}">\n')
    marked: list[str] = []
    for number, line in enumerate(lines, 1):
        whole = line if line.endswith("\n") or number not in after else f"{line}\n"
        marked += [*before.get(number, ()), whole, *after.get(number, ())]
    result = "".join(marked)
    find_blanks(result)
    return result


def least_indent(lines: Sequence[str]) -> str:
    """Return the shortest indentation of lines that are not blank."""
    indents = [line[: len(line) - len(line.lstrip(" \t"))] for line in lines if line.strip() and not is_marker(line)]
    return min(indents, key=len, default="")


def _check_span(span: Span, lines: Sequence[str]) -> None:
    if not 1 <= span.first <= span.last <= len(lines):
        raise MarkerError(span.first, f'"{span.name}" is lines {span.first}-{span.last} of a file of {len(lines)}')
    if not span.name.strip() or '"' in span.name or "\n" in span.name:
        raise MarkerError(span.first, f"{span.name!r} cannot be a name: it is empty or holds a quotation mark")
    if not any(line.strip() and not line.lstrip().startswith("#") for line in lines[span.first - 1 : span.last]):
        raise MarkerError(span.first, f'"{span.name}" holds no line of code')


def _refuse_crossing(spans: Sequence[Span]) -> None:
    """Spans may follow each other or lie within each other, in the order given here: outer ones first."""
    opened: list[Span] = []
    for span in spans:
        opened = [other for other in opened if other.last >= span.first]
        for other in opened:
            if span.last > other.last:
                raise MarkerError(
                    span.first,
                    f'"{span.name}" begins in "{other.name}" (lines {other.first}-{other.last}) and ends after it',
                )
        opened.append(span)
