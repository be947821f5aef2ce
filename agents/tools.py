"""The tools an agent may be given, and the box that answers a model's calls.

Whatever the model sends ends as a ToolResult: an unknown tool, arguments that are no JSON, a path outside the
workspace. Only a lost sandbox leaves as an exception, for the agent to stop on. No tool looks at words in what it
returns, and none touches a file but through the sandbox.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_agent.agents.arguments import (
    ArgumentsError,
    Parameter,
    cap,
    check_arguments,
    clean,
    describe_parameters,
    parse_object,
)
from rcb_agent.agents.base import ToolCall
from rcb_agent.agents.edit_tools import EDIT_FILE, WRITE_FILE
from rcb_agent.agents.file_tools import LIST_FILES, READ_FILE, SEARCH
from rcb_agent.agents.run_tools import RUN_PYTHON, RUN_TESTS
from rcb_agent.agents.tool_base import Scope, Tool, ToolLimits
from rcb_agent.environments.base import Workspace
from rcb_agent.errors import SandboxFileError, UsageError

SUBMIT = Tool(
    "submit",
    "Hand in the workspace as it is and end. Call it once, when the blank is filled; nothing can be changed afterwards.",
    (),
    lambda _scope, _arguments: "submitted",
)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool for tool in (LIST_FILES, READ_FILE, SEARCH, EDIT_FILE, WRITE_FILE, RUN_TESTS, RUN_PYTHON, SUBMIT)
}
TOOL_NAMES = tuple(TOOLS)
DEFAULT_TOOLS = TOOL_NAMES


def select_tools(tools: Sequence[str] | None = None, without: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the named tools (None: the default ones) less ``without``, in the order of TOOL_NAMES.

    Raises UsageError for an unknown name, and when no tool is left: an agent that can do nothing is a mistake.
    """
    if tools is not None and not tools:
        raise UsageError("--tools names no tool: name at least one, or choose an agent without tools, such as direct")
    unknown = sorted({name for name in (*(tools or ()), *without) if name not in TOOLS})
    if unknown:
        raise UsageError(f"unknown tool {', '.join(map(repr, unknown))}; known: {', '.join(TOOL_NAMES)}")
    chosen = tools or DEFAULT_TOOLS
    left = tuple(name for name in TOOL_NAMES if name in chosen and name not in without)
    if not left:
        raise UsageError(f"no tool is left without {', '.join(without)}: leave at least one in")
    return left


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call. ``error`` says that the call was refused or did not fit, not that a test is red."""

    text: str
    error: bool = False
    seconds: float = 0.0
    submit: bool = False


class Toolbox:
    """Some tools over one workspace."""

    def __init__(
        self,
        tools: Sequence[str],
        workspace: Workspace,
        limits: ToolLimits | None = None,
        *,
        seconds_left: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._tools = {name: TOOLS[name] for name in select_tools(tools)} if tools else {}
        self._limits = limits or ToolLimits()
        self._scope = Scope(workspace, self._limits, seconds_left)

    def specs(self) -> list[dict[str, Any]]:
        """Return the tools in OpenAI's function format."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": describe_parameters(tool.parameters),
                },
            }
            for tool in self._tools.values()
        ]

    def call(self, call: ToolCall) -> ToolResult:
        """Answer one call; only SandboxLost and the like are raised."""
        begin = time.monotonic()
        try:
            text, error = self._execute(call), False
        except (ArgumentsError, SandboxFileError) as refusal:
            text, error = f"error: {refusal}", True
        text = clean(cap(text, self._limits.output_characters))
        # Escapes are longer than what they stand for.
        text = cap(text, self._limits.output_characters)
        return ToolResult(text, error, time.monotonic() - begin, submit=call.name == "submit" and not error)

    def _execute(self, call: ToolCall) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            offered = ", ".join(self._tools) or "none"
            raise ArgumentsError(f"there is no tool {call.name[:60]!r}; the tools are: {offered}")
        # Some servers send nothing at all for a call that needs no argument.
        nothing = not call.arguments.strip() and not any(one.required for one in tool.parameters)
        given = {} if nothing else parse_object(call.arguments)
        return tool.handler(self._scope, check_arguments(tool.parameters, given))


__all__ = [
    "DEFAULT_TOOLS",
    "TOOLS",
    "TOOL_NAMES",
    "Parameter",
    "Tool",
    "ToolLimits",
    "ToolResult",
    "Toolbox",
    "select_tools",
]
