"""The benchmark authors' own prompt, for an arm that has to ask in exactly their words.

Their words are not ours to ship: they are read out of their code, which a pull keeps beside the suite (a clone has it
there too). That code is parsed, never run: only constants, f-strings of plain names, ``+`` and branches on a flag are
understood, and anything else is refused by its line.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rcb_agent.errors import TaskError
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.origins import read_beside
from rcb_agent.tasks.syntax import parse_quietly
from rcb_agent.tasks.upstream_text import count_blank, flatten_context, mask_blank, read_lines, read_paper

ASKS = "core/annotation/utils/run_inference.py"
MASKS = "core/annotation/models/file.py"
_ASKING, _PROMPT, _NO_PAPER = "run_inference", "prompt", "wo_paper"
_MASKING, _TODO = "build_replaced_code", "placeholder_lines"


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for a value, named by the expression that stands there."""

    expression: str


Text = tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class PublishedPrompt:
    """The prompt with and without a paper, the lines that stand for a blank, and a hash of the code they come from."""

    with_paper: Text
    without_paper: Text
    todo: tuple[Text, ...]
    digest: str

    def write(self, root: Path, task: Task, *, with_paper: bool) -> str:
        """Return the whole prompt of a task of the suite at ``root``. Raises TaskError for a place we know no value of."""
        lines = read_lines(root / task.info.id / task.problem.path)
        name = task.problem.name
        size = str(count_blank(lines, name))
        todo = [_fill(line, {"snippet.name": name, "num_lines": size}) for line in self.todo]
        code = flatten_context(root, task) + mask_blank(lines, name, todo)
        if not with_paper:
            return _fill(self.without_paper, {"masked_code_str": code})
        return _fill(self.with_paper, {"masked_code_str": code, "paper_tex": read_paper(task)})


@lru_cache(maxsize=4)
def read_published_prompt(name: str, root: Path) -> PublishedPrompt:
    """Read the prompt of the authors of a suite, ``name``, that lies at ``root``. Raises TaskError where there is none, or none that we understand."""
    try:
        asks, masks = (read_beside(name, root, path) for path in (ASKS, MASKS))
    except TaskError as error:
        raise TaskError(f"--prompt upstream: {error}") from None
    asking, masking = _find_function(ASKS, asks, _ASKING), _find_function(MASKS, masks, _MASKING)
    digest = hashlib.sha256(b"%d " % len(asks) + asks + masks).hexdigest()
    return PublishedPrompt(_read_prompt(asking, False), _read_prompt(asking, True), _read_todo(masking), digest)


class _NotUnderstood(Exception):
    """An expression that is no text."""


def _find_function(path: str, source: bytes, name: str) -> ast.AST:
    try:
        tree = parse_quietly(source)
    except SyntaxError as error:
        raise TaskError(f"--prompt upstream: {path} is no Python that can be read: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return node
    raise TaskError(f"--prompt upstream: {path} has no function {name}: is it the published commit?")


def _read_prompt(function: ast.AST, flag: bool) -> Text:  # noqa: FBT001 - the flag's value, not a switch of ours
    known = _follow(getattr(function, "body", ()), flag, {})
    if _PROMPT not in known:
        raise TaskError(f"--prompt upstream: {ASKS}: how {_PROMPT} is put together is not understood")
    return known[_PROMPT]


def _follow(body: Iterable[ast.stmt], flag: bool, known: Mapping[str, Text]) -> dict[str, Text]:  # noqa: FBT001
    """Return what the names of a block hold after it, as far as they are texts."""
    known = dict(known)
    for statement in body:
        if isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and statement.test.id == _NO_PAPER:
            known = _follow(statement.body if flag else statement.orelse, flag, known)
            continue
        for name, value in _assignments(statement):
            known.pop(name, None)
            with suppress(_NotUnderstood):
                known[name] = tuple(_parts(value, known))
    return known


def _read_todo(function: ast.AST) -> tuple[Text, ...]:
    for statement in ast.walk(function):
        for name, value in _assignments(statement):
            if name == _TODO and isinstance(value, ast.List):
                with suppress(_NotUnderstood):
                    return tuple(tuple(_parts(item, {})) for item in value.elts)
    raise TaskError(f"--prompt upstream: {MASKS}: what stands for a blank is not understood")


def _assignments(statement: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value


def _parts(node: ast.expr, known: Mapping[str, Text]) -> Iterator[str | Slot]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _parts(value, known)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            yield Slot(ast.unparse(value))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _parts(left, known)
            yield from _parts(right, known)
        case ast.Name(id=name) if name in known:
            yield from known[name]
        case _:
            raise _NotUnderstood


def _fill(text: Sequence[str | Slot], values: Mapping[str, str]) -> str:
    try:
        return "".join(part if isinstance(part, str) else values[part.expression] for part in text)
    except KeyError as missing:
        raise TaskError(f"--prompt upstream: the published code puts in {missing}, which is not understood") from None
