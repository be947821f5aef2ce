"""Answers that know nothing: zeros, a constant, the input handed back. A test worth its name fails each of them.

Each is the gold code with what it answers put out of action: every value that is returned inside the blank, and the last
one that is assigned where that comes after them. So kind and shape are right and the content is not, which is
what a test with a loose comparison lets through. Candidates that are the gold code itself are left out.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rcb_agent.tasks.base import Task
from rcb_agent.tasks.markers import split_lines
from rcb_agent.tasks.masking import fill_blank
from rcb_agent.tasks.mutants import Mutant
from rcb_agent.tasks.syntax import parse_quietly

_STAND_IN = "# the blank stands here"
_NOTHING = (
    "(lambda each, value: each(each, value))(lambda each, value: "
    "type(value)(each(each, part) for part in value) if type(value) in (list, tuple) else "
    "{{key: each(each, part) for key, part in value.items()}} if type(value) is dict else "
    "{part}, ({value}))"
)
_ZEROS = "type(value)() if type(value) is str else value * 0"
_ONES = "type(value)() if type(value) is str else value * 0 + 1"
_OWN = ("self", "cls")

Places = Sequence[tuple[ast.expr, str]]
"""Expressions of the gold code, each with the first parameter of the function around it, or ""."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A file with the blank filled by the gold code: its bytes, where the blank is, where each line begins."""

    data: bytes
    first: int
    last: int
    lines: tuple[int, ...]

    def place(self, line: int, column: int) -> int:
        return self.lines[line - 1] + column

    def span(self, node: ast.expr) -> tuple[int, int]:
        end = self.place(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self.place(node.lineno, node.col_offset), end

    def holds(self, node: ast.stmt) -> bool:
        start = self.place(node.lineno, node.col_offset)
        return self.first <= start and self.place(node.end_lineno or node.lineno, node.end_col_offset or 0) <= self.last


def trivial_candidates(task: Task) -> tuple[Mutant, ...]:
    """Return zeros, a constant and the input for a task's blank, as far as its gold code gives a place for them."""
    before, _, rest = fill_blank(task.problem, _STAND_IN).partition(_STAND_IN)
    return make_trivial(task.answer.gold, before=before, after=rest.removeprefix("\r").removeprefix("\n"))


def make_trivial(gold: str, *, before: str, after: str) -> tuple[Mutant, ...]:
    """Return the trivial answers of a blank that stands between ``before`` and ``after`` in a file."""
    source = _read(gold, before, after)
    try:
        tree = parse_quietly(source.data)
    except SyntaxError:
        return ()
    places = _answers(tree, source)
    texts = {
        "zeros": [_NOTHING.format(part=_ZEROS, value=_text(source, node)) for node, _ in places],
        "a constant": [_NOTHING.format(part=_ONES, value=_text(source, node)) for node, _ in places],
        "the input": [first or _text(source, node) for node, first in places],
    }
    found, seen = [], {ast.dump(tree)}
    for what, replacements in texts.items():
        code = _replace(source, [node for node, _ in places], replacements)
        shape = _shape(source, code)
        if shape and shape not in seen:
            seen.add(shape)
            found.append(Mutant(code, f"what it answers became {what}"))
    return tuple(found)


def _answers(tree: ast.AST, source: _Source) -> Places:
    """Return what is returned inside the blank, and the last value that is assigned where that comes after it.

    A literal is left out: it is the same in the gold code and in a constant.
    """

    def start(place: tuple[ast.expr, str]) -> int:
        return source.span(place[0])[0]

    returned = list(_returned(tree, source, ""))
    last = max(map(start, returned), default=-1)
    assigned = [place for place in list(_assigned(tree, source))[-1:] if start(place) > last]
    return [place for place in (*returned, *assigned) if not isinstance(place[0], ast.Constant)]


def _read(gold: str, before: str, after: str) -> _Source:
    data = (before + gold + after).encode()
    starts = [0]
    for line in split_lines(data.decode()):
        starts.append(starts[-1] + len(line.encode()))
    return _Source(data, len(before.encode()), len(before.encode()) + len(gold.encode()), tuple(starts))


def _returned(node: ast.AST, source: _Source, first: str) -> Iterator[tuple[ast.expr, str]]:
    """Yield what is returned inside the blank, by whichever function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return) and child.value is not None and source.holds(child):
            yield child.value, first
        yield from _returned(child, source, _first_parameter(child) if _is_function(child) else first)


def _assigned(tree: ast.AST, source: _Source) -> Iterator[tuple[ast.expr, str]]:
    """Yield what is assigned inside the blank, in the order of the text."""

    def visit(node: ast.AST, first: str) -> Iterator[tuple[ast.expr, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign) and child.value and source.holds(child):
                yield child.value, first
            yield from visit(child, _first_parameter(child) if _is_function(child) else first)

    return iter(sorted(visit(tree, ""), key=lambda place: source.span(place[0])))


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _first_parameter(node: ast.AST) -> str:
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return ""
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    return next((name for name in names if name not in _OWN), "")


def _text(source: _Source, node: ast.expr) -> str:
    start, end = source.span(node)
    return source.data[start:end].decode()


def _replace(source: _Source, nodes: Sequence[ast.expr], texts: Sequence[str]) -> str:
    """Return the blank's lines with each expression replaced; of nested ones only the outer counts."""
    code, done = b"", source.first
    for node, text in sorted(zip(nodes, texts, strict=True), key=lambda pair: source.span(pair[0])):
        start, end = source.span(node)
        if start >= done:
            code += source.data[done:start] + text.encode()
            done = end
    return (code + source.data[done : source.last]).decode()


def _shape(source: _Source, code: str) -> str:
    try:
        return ast.dump(parse_quietly(source.data[: source.first] + code.encode() + source.data[source.last :]))
    except SyntaxError:
        return ""
