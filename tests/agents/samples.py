"""A small problem, a session on it, and models that say what a test wants, shared by the tests of agents."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rcb_agent.agents.base import Budget, Message, Reply, Sampling, Session, ToolCall, Usage
from rcb_agent.agents.tools import DEFAULT_TOOLS
from rcb_agent.environments.base import Workspace
from rcb_agent.tasks.base import Problem, SourceFile
from tests.agents.local_sandbox import FolderWorkspace, open_folder

HEAD = "def mean(values):\n    # doc\n"
OPENING = '    # <paper2code name="mean of values">\n'
TODO = '    # TODO: implement "mean of values" here (about 1 line of code).\n'
CLOSING = '    # </paper2code name="mean of values">\n'
MODEL = f"{HEAD}{OPENING}{TODO}{CLOSING}"
PROMPT_TARGET = f'{HEAD}    # TODO: write the block "mean of values"\n    # (about 1 line of code)\n'

PROBLEM = Problem(
    task_id="sample/mean of values",
    paper_id="sample",
    name="mean of values",
    path="model.py",
    loc=1,
    files=(SourceFile("model.py", MODEL), SourceFile("other.py", "X = 1\n")),
    files_support=(SourceFile("helper.py", "def helper():\n    return 1\n"), SourceFile("needed.py", "Y = 2\n")),
    prompt_target=PROMPT_TARGET,
    paper=SourceFile("paper2code_paper.md", "# Means\n\nThe mean costs $n additions.\n"),
    runtime="plain",
    context_paths=("helper.py",),
)


class Log(list[tuple[str, dict[str, Any]]]):
    """A journal that keeps its events."""

    def __call__(self, kind: str, /, **fields: Any) -> None:
        json.dumps(fields)
        self.append((kind, fields))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self if name == kind]


@dataclass
class Talker:
    """A model that gives fixed replies, the last one again and again, and keeps what it was asked."""

    replies: Sequence[Reply]
    name: str = "test/talker"
    asked: list[list[Message]] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        self.asked.append(json.loads(json.dumps(messages)))
        self.offered = [tool["function"]["name"] for tool in tools]
        return self.replies[min(len(self.asked), len(self.replies)) - 1]


def call(name: str, id_: str = "c1", /, **arguments: Any) -> ToolCall:
    return ToolCall(id_, name, json.dumps(arguments))


def says(*calls: ToolCall, text: str = "", finish: str = "") -> Reply:
    return Reply(text, calls, Usage(10, 5), 0.25, finish or ("tool_calls" if calls else "stop"))


def workspace_files(problem: Problem = PROBLEM) -> dict[str, bytes]:
    papers = (problem.paper,) if problem.paper else ()
    return {file.path: file.encode() for file in (*problem.files, *problem.files_support, *papers)}


def open_sample(root: Path, *, lives: int = 1_000_000) -> FolderWorkspace:
    return open_folder(root, workspace_files(), lives=lives)


def make_session(
    model: Any,
    workspace: Workspace | None,
    *,
    budget: Budget | None = None,
    tools: tuple[str, ...] = (),
    paper: str = "file",
    options: Mapping[str, Any] | None = None,
) -> tuple[Session, Log]:
    log = Log()
    session = Session(
        workspace, model, budget or Budget(), log, tools=tools or DEFAULT_TOOLS, paper=paper, options=options or {}
    )
    return session, log


def check_conversation(messages: Sequence[Message]) -> None:
    """Assert what every provider demands: each call id once, answered once, in order, right after its message."""
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting, f"calls without an answer: {waiting}"
        for one in message.get("tool_calls", ()):
            assert one["id"]
            assert one["id"] not in seen
            seen.add(one["id"])
            waiting.append(one["id"])
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
            assert one["function"]["name"]
    assert not waiting
