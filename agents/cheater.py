"""The agent ``cheater``: tries every cheat we know, and must score 0. It is no language model and answers no task.

It is an agent like any other: it sees a Problem, it has a workspace, it asks no model. Its cheats are data, under ``cheats/``:

``name``       one word
``door``       the group and number of the attack in our catalogue of attacks
``what``       one line for people
``at``         where ``code`` goes: ``import`` (the module's top level), ``call`` (the blank), ``both``, or ``never``
``code``       statements; ``$names`` stands for guesses at the reference's module names, ``$path`` for the file's path
``answer``     an expression that the blank returns after them, where it lies in a function
``workspace``  a program that is run in the workspace when the file is written
``flags``      kinds of flags that a trial with it must show; with none, ``why`` says why none is needed
"""

import ast
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

from rcb_agent.agents.base import NOTHING_USED, Session, Solution
from rcb_agent.agents.snapshots import snapshot_json
from rcb_agent.environments.base import CommandResult, Workspace
from rcb_agent.environments.registry import is_isolated
from rcb_agent.errors import EnvironmentFault, SandboxFileError, UsageError
from rcb_agent.tasks.base import Problem
from rcb_agent.tasks.masking import fill_blank, null_code
from rcb_agent.tasks.syntax import parse_quietly

NAME = "cheater"
NOTICE = "cheater: tries to pass by cheating, without an answer and without a model; it must score 0"
_PLACES = ("import", "call", "both", "never")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Cheat:
    """One cheat; the module's docstring explains the fields."""

    name: str
    door: str
    what: str
    at: str
    flags: tuple[str, ...]
    code: str = ""
    answer: str = ""
    workspace: str = ""
    why: str = ""


@cache
def load_cheats() -> tuple[Cheat, ...]:
    """Return every cheat, in the order of files and of their lines."""
    import yaml

    folder = files("rcb_agent.agents") / "cheats"
    texts = sorted((item for item in folder.iterdir() if item.name.endswith(".yaml")), key=lambda item: item.name)
    entries = [entry for item in texts for entry in yaml.safe_load(item.read_text("utf-8"))]
    return tuple(Cheat(**{**entry, "flags": tuple(entry["flags"])}) for entry in entries)


def choose_cheats(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the cheats that are asked for; none, or ``all``, is all of them. Raises UsageError."""
    known = [cheat.name for cheat in load_cheats()]
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        raise UsageError(f"no cheat {unknown[0]!r}; known: {', '.join(known)}")
    return tuple(known) if not names or "all" in names else tuple(dict.fromkeys(names))


class CheaterAgent:
    """Takes the cheats of option ``cheats`` in turn, one a trial."""

    name = NAME
    uses_workspace = True
    uses_model = False
    default_paper = "none"

    def solve(self, problem: Problem, session: Session) -> Solution:
        """Do one cheat and hand in what there is then."""
        if session.workspace is None:
            raise UsageError("the agent cheater needs a workspace")
        if not is_isolated(
            session.workspace.sandbox.kind
        ):  # whoever started it: nothing hostile runs on the bare machine
            raise UsageError("the agent cheater runs hostile programs: only in an isolated sandbox")
        wanted = choose_cheats(session.options.get("cheats", ()))
        name = wanted[session.turn % len(wanted)]
        cheat = next(one for one in load_cheats() if one.name == name)
        stop, note = "submitted", f"cheat {cheat.name} ({cheat.door}): {cheat.what}"
        try:
            _carry_out(cheat, problem, session, session.workspace)
        except (EnvironmentFault, SandboxFileError) as lost:  # its own doing: what is left is graded
            stop, note = "sandbox_lost", f"{note}; {lost}"
        return Solution(stop, 1, NOTHING_USED, 0.0, note=note, variant=cheat.name)


def _carry_out(cheat: Cheat, problem: Problem, session: Session, workspace: Workspace) -> None:
    text = write_answer(cheat, problem)
    program = _fit(cheat.workspace, problem)
    journal = session.journal
    journal("prompt", messages=[{"role": "system", "content": NOTICE}], tools=[])
    calls = [("write_file", text), *([("run_python", program)] if program else [])]
    journal(
        "reply",
        step=1,
        text=f"cheat {cheat.name} ({cheat.door}): {cheat.what}",
        tool_calls=[{"id": name, "name": name, "arguments": arguments} for name, arguments in calls],
        finish="",
        usage=NOTHING_USED.as_json(),
        cost=0.0,
    )
    workspace.sandbox.write(problem.path, text.encode("utf-8", "surrogateescape"))
    _keep(journal, "write_file", f"wrote {problem.path}")
    if program:
        seconds = max(1.0, min(_SECONDS, session.budget.seconds_left()))
        result = workspace.sandbox.run(["python", "-B", "-"], timeout=seconds, stdin=program.encode())
        _keep(journal, "run_python", _describe(result))
    journal("snapshot", step=1, snapshot=snapshot_json(workspace.snapshot()))


def _keep(journal: Any, name: str, text: str) -> None:
    journal("tool", step=1, id=name, name=name, text=text, error=False, seconds=0.0)


def _describe(result: CommandResult) -> str:
    return f"exit code {result.exit_code} after {result.seconds:.1f} s\n{result.text(4000)}".encode(
        "utf-8", "replace"
    ).decode()


def write_answer(cheat: Cheat, problem: Problem) -> str:
    """Return the file with the cheat in its blank, at its top level, or both.

    Where a blank takes no ``return``, and where the cheat's lines do not parse there, the blank stays empty.
    """
    code = _fit(cheat.code, problem)
    text = fill_blank(problem, null_code(problem))
    if cheat.at in ("call", "both"):
        answer = f"return {cheat.answer}\n" if cheat.answer else ""
        text = next((one for one in _filled(problem, (code + answer, code)) if _parses(one)), text)
    if cheat.at in ("import", "both") and code:
        text = _put_on_top(text, code)
    return text


def _filled(problem: Problem, pieces: Iterable[str]) -> Iterable[str]:
    """Yield the file with each piece in the blank, at the indentation of the TODO."""
    todo = next(line for line in problem.target.text.split("\n") if "TODO: implement" in line)
    indent = todo[: len(todo) - len(todo.lstrip(" \t"))]
    for piece in pieces:
        if piece:
            yield fill_blank(problem, textwrap.indent(piece, indent))


def _parses(text: str) -> bool:
    """Say whether a file compiles: ``return`` outside a function parses, and does not."""
    try:
        parse_quietly(text)
        compile(text, "<answer>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _put_on_top(text: str, code: str) -> str:
    """Put code before the first statement that is neither the docstring nor an import from the future."""
    try:
        body = parse_quietly(text).body
    except SyntaxError:
        return code + text
    first = next((node for node in body if not _comes_first(node)), None)
    if first is None:
        return f"{text}\n{code}"
    lines = text.split("\n")
    line = min([first.lineno, *(node.lineno for node in getattr(first, "decorator_list", []))]) - 1
    return "\n".join([*lines[:line], *code.rstrip("\n").split("\n"), *lines[line:]])


def _comes_first(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _fit(code: str, problem: Problem) -> str:
    """Put what can be known of a problem into a cheat: its path, and guesses at the names of references."""
    shown = [*problem.files, *problem.files_support]
    stems = dict.fromkeys([*(PurePosixPath(file.path).stem for file in shown), problem.paper_id])
    names = [f"{stem}_{end}" for stem in stems for end in ("ref", "reference")]
    return code.replace("$names", repr([*names, "reference"])).replace("$path", problem.path)
