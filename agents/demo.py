"""The moves of ``scripted/demo``: what it does next, from the conversation so far.

Every decision follows from the calls it made and the results it got. It finds the blank by reading the file,
it knows that its draft is wrong only when its own test says so, and so it loses that knowledge with the tool. Without
tools it answers with its draft, and with its second answer when it is told that its tests do not pass, or when answers are
drawn (temperature above 0) and it is asked a second time.
"""

import json
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.agents.base import Message

TEST_PATH = "test_demo.py"
_NOTICE = "(scripted, not a language model)"
_MARKER = re.compile(r"#\s*<(?P<end>/?)paper2code\s+name=")
_NUMBERED = re.compile(r"\s*(\d+)\t(.*)")
_NEXT_PAGE = re.compile(r"^\[.* more lines: read_file with start=(\d+)\]$", re.MULTILINE)
_GREEN = "exit code 0 "
_RED = "Its own tests do not pass"


@dataclass(frozen=True, slots=True)
class Script:
    """What is done for one task: ``data/demo.yaml`` explains the fields."""

    behaviour: str
    draft: str
    repair: str = ""
    test: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """One call that the script makes."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """One call of the past and what it returned."""

    move: Move
    result: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What a move is chosen from."""

    prompt: str
    offered: Collection[str]
    script: Script | None
    past: tuple[Done, ...]

    def did(self, name: str, **arguments: Any) -> tuple[Done, ...]:
        """Return the past calls of a tool, with these arguments where given."""
        wanted = arguments.items()
        return tuple(one for one in self.past if one.move.name == name and wanted <= one.move.arguments.items())

    def find(self, label: str) -> str:
        """Return what follows ``label:`` at the start of a line in the prompt."""
        match = re.search(rf"^{label}: (.*)$", self.prompt, re.MULTILINE)
        return match[1].strip() if match else ""

    @property
    def target(self) -> str:
        """The path of the file with the blank."""
        return self.find("File")


def next_move(
    messages: Sequence[Message], offered: Collection[str], scripts: Mapping[str, Script], draft: int = 1
) -> tuple[str, Move | None]:
    """Return the text and the call of the next reply; no call ends the conversation.

    ``draft``: the how manieth answer to one prompt without tools this is, where answers are drawn; else 1.
    """
    prompt = next((str(one["content"]) for one in messages if one["role"] == "user"), "")
    before = Situation(prompt, offered, None, _recall(messages))
    situation = Situation(prompt, offered, scripts.get(before.find("Task")), before.past)
    if not offered:
        return _answer_directly(situation, messages, draft), None
    for choose in _CHOICES:
        move = choose(situation)
        if move is not None:
            return f"{_NOTICE} calling {move.name}", move
    return f"{_NOTICE} nothing left to do", None


def _recall(messages: Sequence[Message]) -> tuple[Done, ...]:
    results = {one["tool_call_id"]: str(one["content"]) for one in messages if one["role"] == "tool"}
    calls = (call for one in messages for call in one.get("tool_calls") or ())
    return tuple(
        Done(
            Move(call["function"]["name"], json.loads(call["function"]["arguments"])),
            results.get(call["id"], ""),
        )
        for call in calls
    )


def _answer_directly(situation: Situation, messages: Sequence[Message], draft: int) -> str:
    script = situation.script
    if script is None:
        return f"{_NOTICE} no script for this task"
    if situation.find("Wanted") == "a test file":
        return f"{_NOTICE}\n```python\n{script.test}```\n" if script.test else f"{_NOTICE} no test for this task"
    todo = re.search(r"^([ \t]*)#.*\bTODO\b", situation.prompt, re.MULTILINE)
    knows_better = bool(script.repair) and (draft % 2 == 0 or _RED in str(messages[-1]["content"]))
    code = indent(script.repair if knows_better else script.draft, todo[1] if todo else "")
    return f"{_NOTICE}\n```python\n{code}```\n"


def indent(code: str, indentation: str) -> str:
    """Return code of ``demo.yaml`` at the indentation of its blank."""
    text = textwrap.indent(textwrap.dedent(code), indentation)
    return text if text.endswith("\n") else f"{text}\n"


def _look_around(situation: Situation) -> Move | None:
    return Move("list_files") if _first_time(situation, "list_files") else None


def _first_time(situation: Situation, name: str) -> bool:
    return name in situation.offered and not situation.did(name)


def _read_target(situation: Situation) -> Move | None:
    if "read_file" not in situation.offered:
        return None
    pages = situation.did("read_file", path=situation.target)
    if not pages:
        return Move("read_file", {"path": situation.target})
    more = _NEXT_PAGE.search(pages[-1].result)
    if more is None or _find_blank(_target_lines(situation)) is not None:
        return None
    return Move("read_file", {"path": situation.target, "start": int(more[1])})


def _read_paper(situation: Situation) -> Move | None:
    # The prompt has "Paper: <path> (<n> characters)" when the paper is a file.
    path, _, size = situation.find("Paper").partition(" (")
    if not size or "read_file" not in situation.offered or situation.did("read_file", path=path):
        return None
    return Move("read_file", {"path": path})


def _write_draft(situation: Situation) -> Move | None:
    script = situation.script
    if script is None or _answers_written(situation):
        return None
    return _replace_blank(situation, script.draft)


def _write_test(situation: Situation) -> Move | None:
    script = situation.script
    if script is None or not script.test or not {"write_file", "run_tests"} <= set(situation.offered):
        return None
    if situation.did("write_file", path=TEST_PATH):
        return None
    return Move("write_file", {"path": TEST_PATH, "content": script.test})


def _run_test(situation: Situation) -> Move | None:
    written = situation.did("write_file", path=TEST_PATH)
    runs = len(situation.did("run_tests"))
    if not written or runs >= len(_answers_written(situation)):
        return None
    return Move("run_tests", {"paths": [TEST_PATH]})


def _repair(situation: Situation) -> Move | None:
    script, runs = situation.script, situation.did("run_tests")
    if script is None or not script.repair or not runs or runs[-1].result.startswith(_GREEN):
        return None
    return _replace_blank(situation, script.repair) if len(_answers_written(situation)) == 1 else None


def _loop(situation: Situation) -> Move | None:
    if situation.script is None or situation.script.behaviour != "loop":
        return None
    # Whatever looks and changes nothing: the budget has to end it.
    looks = {"read_file": {"path": situation.target}, "list_files": {}, "search": {"pattern": "TODO"}}
    return next((Move(name, looks[name]) for name in looks if name in situation.offered), None)


def _submit(situation: Situation) -> Move | None:
    return Move("submit") if _first_time(situation, "submit") else None


_CHOICES: Sequence[Callable[[Situation], Move | None]] = (
    _look_around,
    _read_target,
    _read_paper,
    _write_draft,
    _write_test,
    _run_test,
    _repair,
    _loop,
    _submit,
)


def _answers_written(situation: Situation) -> tuple[Done, ...]:
    path = situation.target
    return situation.did("edit_file", path=path) + situation.did("write_file", path=path)


def _replace_blank(situation: Situation, code: str) -> Move | None:
    lines = _target_lines(situation)
    blank = _find_blank(lines)
    if blank is None:
        return None
    start, end = blank
    todo = lines[start]
    # With the markers around it, what is replaced stands once in the file even if the code does not.
    before, after = f"{lines[start - 1]}\n", f"{lines[end]}\n"
    new = before + indent(code, todo[: len(todo) - len(todo.lstrip())]) + after
    written = _answers_written(situation)
    if "edit_file" in situation.offered:
        old = str(written[-1].move.arguments["new"]) if written else _join(lines[start - 1 : end + 1])
        return Move("edit_file", {"path": situation.target, "old": old, "new": new})
    if "write_file" in situation.offered:
        whole = _join(lines[: start - 1]) + new + _join(lines[end + 1 :])
        return Move("write_file", {"path": situation.target, "content": whole})
    return None


def _join(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _target_lines(situation: Situation) -> list[str]:
    """Return the lines of the target as first read (pages joined, before any answer was written)."""
    numbered: dict[int, str] = {}
    for page in situation.did("read_file", path=situation.target):
        for line in page.result.split("\n")[1:]:
            if match := _NUMBERED.match(line):
                numbered.setdefault(int(match[1]), match[2])
    return [numbered[number] for number in sorted(numbered)]


def _find_blank(lines: Sequence[str]) -> tuple[int, int] | None:
    """Return the half-open range of lines between the markers; None before both have been read."""
    markers = [index for index, line in enumerate(lines) if _MARKER.search(line)]
    return (markers[0] + 1, markers[1]) if len(markers) > 1 else None
