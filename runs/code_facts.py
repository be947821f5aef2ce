"""What a piece of Python code does, as far as its syntax says: calls, commands, assignments, names. Nothing is run.

Facts are for flags, which are evidence for a person and decide nothing. Words in comments, docstrings and printed text are
no facts; code that does not parse has none.
"""

import ast
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rcb_agent.tasks.syntax import parse_quietly

CODE_CHARACTERS = 100_000
"""Larger code is not looked at."""

_RUNNERS = ("run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput", "getstatusoutput")
_SEPARATORS = {";", "&", "&&", "|", "||", "\n"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that code does. ``what`` is call, command, assign, define, import, name (an attribute), text or equal; ``value`` says which:
    a dotted path with aliases of imports resolved, or the words of a command. ``line`` is 1-based."""

    what: str
    value: str
    line: int


def find_facts(text: str) -> frozenset[Fact]:
    """Return the facts of Python code; none where it does not parse or is too large."""
    if len(text) > CODE_CHARACTERS:
        return frozenset()
    try:
        tree = parse_quietly(text)
        return frozenset(_Reader(tree).facts())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def shell_facts(line: str) -> frozenset[Fact]:
    """Return the commands of a shell line."""
    return frozenset(Fact("command", " ".join(words), 1) for words in _split_commands(line))


def _split_commands(line: str) -> Iterator[list[str]]:
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return
    command: list[str] = []
    for word in [*words, ";"]:
        if word in _SEPARATORS:
            if command:
                yield command
            command = []
        else:
            command.append(word)


class _Reader:
    """Walks one tree."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._names: dict[str, str] = {}
        self._quiet = set(_quiet_strings(tree))

    def facts(self) -> Iterator[Fact]:
        """Yield every fact, those of imports first: they say what names stand for."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._import(node)
        for node in ast.walk(self._tree):
            self._take_alias(node)
        for node in ast.walk(self._tree):
            yield from self._facts_of(node)

    def _take_alias(self, node: ast.AST) -> None:
        """Let ``kind = unittest.TestResult``, and a loop over such names, stand for what they were taken from."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple | ast.List) and node.iter.elts:
            target, value = node.target, node.iter.elts[0]
        else:
            return
        if isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and target.id not in self._names:
            path = self._path(value)
            if path.partition(".")[0] in {name.partition(".")[0] for name in self._names.values()}:
                self._names[target.id] = path

    def _import(self, node: ast.Import | ast.ImportFrom) -> Iterator[Fact]:
        base = "" if isinstance(node, ast.Import) else f"{node.module or ''}."
        for name in node.names:
            path = f"{base}{name.name}"
            bound = name.asname or (name.name.partition(".")[0] if not base else name.name)
            self._names[bound] = path if base or name.asname else bound
            yield Fact("import", path, node.lineno)

    def _facts_of(self, node: ast.AST) -> Iterator[Fact]:
        if isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from self._assignments(targets)
        elif isinstance(node, ast.Attribute):
            yield Fact("name", node.attr, node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield Fact("define", node.name, node.lineno)
            if node.name == "__eq__" and _always_true(node):
                yield Fact("equal", "__eq__", node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in self._quiet:
            yield Fact("text", node.value[:500], node.lineno)

    def _call(self, node: ast.Call) -> Iterator[Fact]:
        path = self._path(node.func)
        yield Fact("call", path, node.lineno)
        if path == "setattr" and node.args:
            yield Fact("assign", f"{self._path(node.args[0])}.*", node.lineno)
        if path.rpartition(".")[2] in _RUNNERS and node.args:
            yield from (Fact("command", " ".join(words), node.lineno) for words in _command(node.args[0]))

    def _assignments(self, targets: Iterable[ast.expr]) -> Iterator[Fact]:
        for target in targets:
            if isinstance(target, ast.Tuple | ast.List):
                yield from self._assignments(target.elts)
            elif isinstance(target, ast.Attribute):
                yield Fact("assign", self._path(target), target.lineno)
            elif isinstance(target, ast.Subscript):
                yield Fact("assign", f"{self._path(target.value)}[]", target.lineno)

    def _path(self, node: ast.expr) -> str:
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Subscript):
                parts.append("[]")
                node = node.value
            elif isinstance(node, ast.Call):
                parts.append("()")
                node = node.func
            else:
                break
        first = self._names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
        return ".".join([first, *reversed(parts)]).replace(".[]", "[]").replace(".()", "()")


def _quiet_strings(tree: ast.Module) -> Iterator[int]:
    """Yield the strings that only a person reads: docstrings, what is printed, logged or raised."""
    for node in ast.walk(tree):
        spoken: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spoken = [node.value]
        elif isinstance(node, ast.Raise):
            spoken = [node]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            spoken = [*node.args] if name in ("print", "warn", "info", "debug", "warning", "error") else []
        for root in spoken:
            yield from (id(one) for one in ast.walk(root) if isinstance(one, ast.Constant))


def _command(node: ast.expr) -> Iterator[list[str]]:
    """Yield the words of what is run, where they are written out."""
    if isinstance(node, ast.List | ast.Tuple):
        words = [one.value if isinstance(one, ast.Constant) else "*" for one in node.elts]
        yield [str(word) for word in words]
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _split_commands(node.value)


def _always_true(node: ast.FunctionDef | ast.ClassDef) -> bool:
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    if len(body) != 1 or not isinstance(body[0], ast.Return):
        return False
    value = body[0].value
    return isinstance(value, ast.Constant) and value.value is True
