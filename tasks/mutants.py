"""Single-edit mutants of a blank's gold code: a good hidden test notices nearly all of them.

Every edit replaces one stretch of source text, found through the syntax tree of the whole file with the blank
filled; nothing is reformatted and nothing depends on ``ast.unparse``, hashes or ``random``, so a seed gives the
same mutants on every machine and Python. A mutant parses, and its tree differs from the gold's and from every
other mutant's. Edits that look equivalent (swapped arguments of ``max``, text of messages) are left out.
"""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import pairwise

from rcb_agent.tasks.base import Task
from rcb_agent.tasks.markers import split_lines
from rcb_agent.tasks.masking import fill_blank
from rcb_agent.tasks.syntax import parse_quietly

_STAND_IN = "# the blank stands here"

_OPERATORS: dict[type[ast.AST], tuple[str, tuple[str, ...]]] = {
    ast.Add: ("+", ("-",)),
    ast.Sub: ("-", ("+",)),
    ast.Mult: ("*", ("/", "+")),
    ast.Div: ("/", ("*",)),
    ast.FloorDiv: ("//", ("%",)),
    ast.Mod: ("%", ("//",)),
    ast.Pow: ("**", ("*",)),
    ast.BitAnd: ("&", ("|",)),
    ast.BitOr: ("|", ("&",)),
    ast.Lt: ("<", ("<=", ">")),
    ast.LtE: ("<=", ("<", ">=")),
    ast.Gt: (">", (">=", "<")),
    ast.GtE: (">=", (">", "<=")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
_TWINS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("amin", "amax"),
    ("floor", "ceil"),
    ("any", "all"),
    ("sin", "cos"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("sum", "mean"),
    ("exp", "exp2"),
    ("left", "right"),
)
_NAMES = {a: b for left, right in _TWINS for a, b in ((left, right), (right, left))}
_SYMMETRIC = frozenset({"min", "max", "minimum", "maximum", "allclose", "isclose", "gcd", "hypot", "dot", "zip"})
_MATTERS_ALONE = frozenset({"abs", "absolute", "sqrt", "log", "sign", "sorted", "sort", "reversed", "exp", "square"})
_MATTERS_AS_METHOD = frozenset({"mean", "sum", "max", "min"})
_FEEBLE_RIGHT = {ast.Add: "0", ast.Sub: "0", ast.Mult: "1", ast.Div: "1", ast.Pow: "1"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """``code`` replaces the blank's lines; ``description`` says on one line what was changed and where."""

    code: str
    description: str


@dataclass(frozen=True, slots=True)
class _Edit:
    """Replace the bytes ``start`` to ``end`` of the file by ``text``."""

    start: int
    end: int
    text: str
    what: str


def mutants_of(task: Task, *, seed: int = 0, count: int = 5) -> tuple[Mutant, ...]:
    """Return up to ``count`` mutants of a task's gold code."""
    before, _, rest = fill_blank(task.problem, _STAND_IN).partition(_STAND_IN)
    after = rest.removeprefix("\r").removeprefix("\n")
    return make_mutants(task.answer.gold, before=before, after=after, seed=seed, count=count)


def make_mutants(gold: str, *, before: str, after: str, seed: int, count: int) -> tuple[Mutant, ...]:
    """Return up to ``count`` mutants of ``gold``, whole lines that stand between ``before`` and ``after`` in a file.

    Sites are visited in an order that depends on the seed alone; a site gives its second mutant only after every
    site gave its first. A file that does not parse has no mutants.
    """
    data = (before + gold + after).encode()
    first, last = len(before.encode()), len(before.encode()) + len(gold.encode())
    try:
        tree = parse_quietly(data)
    except SyntaxError:
        return ()
    finder = _Finder(data, first, last)
    seen = {ast.dump(tree)}
    found: list[Mutant] = []
    for edit in _in_seeded_order(finder.edits(tree), seed, first):
        if len(found) == count:
            break
        mutant = _apply(data, edit, first, last)
        shape = _shape(data[:first] + mutant.code.encode() + data[last:])
        if shape is not None and shape not in seen:
            seen.add(shape)
            found.append(mutant)
    return tuple(found)


def _in_seeded_order(edits: Iterable[_Edit], seed: int, origin: int) -> list[_Edit]:
    def draw(edit: _Edit) -> str:
        place = f"{edit.start - origin}:{edit.end - origin}"
        return hashlib.sha256(f"{seed}:{place}:{edit.text}".encode()).hexdigest()

    turns: dict[tuple[int, int], int] = {}
    ordered: list[tuple[int, str, _Edit]] = []
    for edit in sorted(edits, key=draw):
        site = (edit.start, edit.end)
        turns[site] = turns.get(site, -1) + 1
        ordered.append((turns[site], draw(edit), edit))
    return [edit for _, _, edit in sorted(ordered, key=lambda item: item[:2])]


def _apply(data: bytes, edit: _Edit, first: int, last: int) -> Mutant:
    code = data[first : edit.start] + edit.text.encode() + data[edit.end : last]
    line = data.count(b"\n", first, edit.start) + 1
    column = edit.start - data.rfind(b"\n", 0, edit.start)
    return Mutant(code.decode(), f"line {line}, column {column}: {edit.what}")


def _shape(data: bytes) -> str | None:
    try:
        return ast.dump(parse_quietly(data))
    except SyntaxError:
        return None


class _Finder:
    """Finds the edits of all nodes that lie between two byte offsets of a file."""

    def __init__(self, data: bytes, first: int, last: int) -> None:
        self._data = data
        self._first = first
        self._last = last
        self._lines = [0]
        for line in split_lines(data.decode()):
            self._lines.append(self._lines[-1] + len(line.encode()))

    def edits(self, tree: ast.AST) -> Iterator[_Edit]:
        """Yield every edit; nothing below a ``raise`` is touched, for messages are nobody's concern."""
        for node in ast.iter_child_nodes(tree):
            if self._inside(node):
                yield from self._edits_of(node)
            if not isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
                yield from self.edits(node)

    @singledispatchmethod
    def _edits_of(self, _node: ast.AST) -> Iterator[_Edit]:
        return iter(())

    @_edits_of.register
    def _binary(self, node: ast.BinOp) -> Iterator[_Edit]:
        yield from self._operator(node.op, node.left, node.right)
        right = self._text(node.right)
        if _FEEBLE_RIGHT.get(type(node.op)) != right.removesuffix(".0"):
            yield self._replaced(node, self._text(node.left), f"`{_clip(right)}` dropped")
        if isinstance(node.op, ast.Add | ast.Mult | ast.MatMult | ast.BitAnd | ast.BitOr):
            yield self._replaced(node, right, f"`{_clip(self._text(node.left))}` dropped")

    @_edits_of.register
    def _comparison(self, node: ast.Compare) -> Iterator[_Edit]:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            yield from self._operator(operator, left, right)

    @_edits_of.register
    def _unary(self, node: ast.UnaryOp) -> Iterator[_Edit]:
        yield self._replaced(node, self._text(node.operand), "unary operator removed")

    @_edits_of.register
    def _slice(self, node: ast.Slice) -> Iterator[_Edit]:
        bound = node.lower or node.upper
        if bound is None or node.step or (node.lower and node.upper):
            return
        other = f":({self._text(bound)})" if node.lower else f"({self._text(bound)}):"
        yield _Edit(self._start(node), self._end(node), other, f"the other side of `{_clip(self._text(node))}`")

    @_edits_of.register
    def _choice(self, node: ast.IfExp) -> Iterator[_Edit]:
        yield self._swapped(node.body, node.orelse, "branches swapped")

    def _operator(self, operator: ast.AST, left: ast.expr, right: ast.expr) -> Iterator[_Edit]:
        if type(operator) not in _OPERATORS:
            return
        symbol, others = _OPERATORS[type(operator)]
        start, end = self._end(left), self._start(right)
        gap = self._data[start:end].decode()
        place = gap.find(symbol)
        if place < 0 or "#" in gap:
            return
        for other in others:
            yield _Edit(start + place, start + place + len(symbol), other, f"`{symbol}` became `{other}`")

    @_edits_of.register
    def _connective(self, node: ast.BoolOp) -> Iterator[_Edit]:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        start, end = self._end(node.values[0]), self._start(node.values[1])
        match = re.search(rf"\b{old}\b", self._data[start:end].decode())
        if match:
            yield _Edit(start + match.start(), start + match.end(), new, f"`{old}` became `{new}`")
        for value in node.values:
            yield self._replaced(value, "False" if new == "and" else "True", f"`{_clip(self._text(value))}` dropped")

    @_edits_of.register
    def _constant(self, node: ast.Constant) -> Iterator[_Edit]:
        for other in _other_constants(node.value):
            yield self._replaced(node, other, f"`{self._text(node)}` became `{other}`")

    @_edits_of.register
    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        name = _called_name(node)
        if name in _NAMES:
            end = self._end(node.func)
            yield _Edit(end - len(name), end, _NAMES[name], f"`{name}` became `{_NAMES[name]}`")
        plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
        if name not in _SYMMETRIC and len(plain) == len(node.args):
            for one, two in pairwise(plain):
                yield self._swapped(one, two, f"arguments of `{name}` swapped")
        if name in _MATTERS_ALONE and plain and len(plain) == len(node.args):
            yield self._replaced(node, self._text(plain[0]), f"`{name}` dropped")
        if name in _MATTERS_AS_METHOD and isinstance(node.func, ast.Attribute) and not node.args:
            yield self._replaced(node, self._text(node.func.value), f"`{name}` dropped")
        for keyword in node.keywords:
            yield from self._keyword(keyword)

    def _keyword(self, keyword: ast.keyword) -> Iterator[_Edit]:
        value = keyword.value
        if not isinstance(value, ast.Constant):
            return
        other = ""
        if keyword.arg == "axis" and value.value in {0, 1}:
            other = str(1 - value.value)
        elif isinstance(value.value, str) and value.value in _NAMES:
            other = f'"{_NAMES[value.value]}"'
        if other:
            yield self._replaced(value, other, f"`{keyword.arg}={self._text(value)}` became `{other}`")

    @_edits_of.register
    def _statement(self, node: ast.stmt) -> Iterator[_Edit]:
        if isinstance(node, ast.If | ast.While):
            yield self._replaced(node.test, f"not ({self._text(node.test)})", "condition negated")
        if isinstance(node, ast.Continue | ast.Break):
            other = "break" if isinstance(node, ast.Continue) else "continue"
            yield self._replaced(node, other, f"`{self._text(node)}` became `{other}`")
        if _can_be_dropped(node):
            yield self._replaced(node, "pass", f"`{_clip(self._text(node))}` dropped")

    def _swapped(self, one: ast.expr, two: ast.expr, what: str) -> _Edit:
        start, end = self._start(one), self._end(two)
        between = self._data[self._end(one) : self._start(two)].decode()
        return _Edit(start, end, f"{self._text(two)}{between}{self._text(one)}", what)

    def _replaced(self, node: ast.expr | ast.stmt, text: str, what: str) -> _Edit:
        guarded = f"({text})" if isinstance(node, ast.expr) and re.search(r"\W", text) else text
        return _Edit(self._start(node), self._end(node), guarded, what)

    def _inside(self, node: ast.AST) -> bool:
        if not isinstance(node, ast.expr | ast.stmt) or not hasattr(node, "lineno"):
            return False
        return self._first <= self._start(node) and self._end(node) <= self._last

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._data[self._start(node) : self._end(node)].decode()


def _other_constants(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (str(not value),)
    if isinstance(value, int):
        return (str(value + 1), str(value - 1)) if value else ("1",)
    if isinstance(value, float):
        return (repr(value * 2.0), repr(value + 1.0)) if value else ("1.0",)
    return ()


def _called_name(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _can_be_dropped(node: ast.stmt) -> bool:
    """Statements whose absence leaves a program that still runs: no fresh name is left undefined."""
    match node:
        case ast.AugAssign() | ast.Raise():
            return True
        case ast.Expr(value=ast.Call()):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(value))
    return False


def _clip(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 40 else f"{flat[:37]}..."
