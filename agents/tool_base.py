"""What every tool is made of: its description for the model, its limits, and the checks on paths and texts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.agents.arguments import ArgumentsError, Parameter
from rcb_agent.environments.base import WORKDIR, Sandbox, Workspace

MAX_PATH = 4096
MAX_CONTENT = 1 << 20
"""Bytes of one file that an agent may write or edit."""


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Bounds of one call: what the model sees of its result, and how long a command may take (wall)."""

    output_characters: int = 16_000
    page_lines: int = 400
    test_seconds: float = 120.0
    python_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Scope:
    """What a handler works on. ``seconds_left`` is what the trial's budget still has."""

    workspace: Workspace
    limits: ToolLimits
    seconds_left: Callable[[], float]
    known: dict[str, bool] = field(default_factory=dict)
    """Facts about the runtime that are asked once."""

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of the workspace: the only way to its files."""
        return self.workspace.sandbox

    def bound_seconds(self, limit: float) -> float:
        """Return ``limit`` or what is left of the budget; a command always gets a second."""
        return min(limit, max(1.0, self.seconds_left()))


Handler = Callable[[Scope, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: ``handler`` gets checked arguments and raises ArgumentsError or SandboxFileError to refuse."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    handler: Handler


def check_path(path: str) -> str:
    """Return a path for the sandbox, relative to the workspace.

    Links and dots are the sandbox's to resolve; here only what cannot be a path is refused, and ``.git``, which is
    no part of the task. Surrogates are accepted where they stand for a byte of a name that is not UTF-8.
    """
    if not path or "\0" in path:
        raise ArgumentsError("the path is empty or holds a NUL character")
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ArgumentsError("the path holds a character that cannot be in a file name") from None
    if len(raw) > MAX_PATH:
        raise ArgumentsError(f"the path is longer than {MAX_PATH} bytes")
    relative = path.removeprefix(f"{WORKDIR}/") if path != WORKDIR else "."
    if any(part.lower() == ".git" for part in relative.split("/")):
        raise ArgumentsError("the folder .git is not part of the task")
    return relative or "."


def encode_text(text: str, name: str) -> bytes:
    """Return text that shall stand in a file, or refuse it."""
    if "\0" in text:
        raise ArgumentsError(f"{name} holds a NUL character")
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ArgumentsError(f"{name} holds a lone surrogate, which cannot be written as UTF-8") from None
    if len(data) > MAX_CONTENT:
        raise ArgumentsError(f"{name} has {len(data):,} bytes; at most {MAX_CONTENT:,} are accepted")
    return data


def show_path(path: str) -> str:
    """Return a file name as the model can send it back: control characters and surrogates as JSON escapes."""
    if path.isprintable():
        return path
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in path)


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else letter
