"""Where the two programs of a split grade run: each in a sandbox of its own, started cold or forked warm.

A cold side is any sandbox in which the runtime's Python is started anew. A warm side is forked from a process that has
loaded packages and program already (``environments.warm``). Both give the program the same user, files, environment,
random state and descriptors, so that a verdict does not depend on the start; how it was started is recorded.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rcb_agent.environments.base import CommandResult, Sandbox, SandboxSpec
from rcb_agent.environments.warm import Program, WarmSandbox, WarmSandboxes
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import programs

OpenSandbox = Callable[[SandboxSpec], Sandbox]
START = "start"
ENVIRONMENT_IS_SET = "a file sets an environment variable before packages are imported"
_SETTING = re.compile(
    rb"^(os\s*\.\s*)?(environ\s*(\[[^\]\n]*\]\s*=[^=]|\.\s*(update|setdefault|pop|clear)\b)|(putenv|unsetenv)\b)"
    rb"|^del\s+(os\s*\.\s*)?environ\b",
    re.MULTILINE,
)


class Side(Protocol):
    """One sandbox with one program. Raises as a Sandbox does."""

    @property
    def enforcement(self) -> Mapping[str, str]:
        """As of a Sandbox, with START: "warm", "cold" or "cold: why"."""

    def run(self, settings: Mapping[str, Any], *, seconds: float) -> CommandResult:
        """Run the program to its end with these settings."""

    def close(self) -> None:
        """End the sandbox; again is fine."""


class Sides(Protocol):
    """Opens sides. Raises EnvironmentFault when none can be opened."""

    def open(self, spec: SandboxSpec, program: Program) -> Side:
        """Open a sandbox for a program; nothing of the candidate runs in it before ``run``."""


class ColdSides:
    """A fresh interpreter for each side."""

    def __init__(self, open_sandbox: OpenSandbox, reason: str = "") -> None:
        self._open_sandbox = open_sandbox
        self._start = f"cold: {reason}" if reason else "cold"

    def open(self, spec: SandboxSpec, program: Program) -> Side:
        """Open a sandbox; nothing runs in it before ``run``."""
        return _ColdSide(self._open_sandbox(spec), program, self._start)


class _ColdSide:
    def __init__(self, box: Sandbox, program: Program, start: str) -> None:
        self._box = box
        self._program = program
        self._start = start

    @property
    def enforcement(self) -> Mapping[str, str]:
        return {**self._box.enforcement, START: self._start}

    def run(self, settings: Mapping[str, Any], *, seconds: float) -> CommandResult:
        text = {"modules": self._program.modules, "settings": settings}
        return self._box.run(programs.command(), timeout=seconds, stdin=json.dumps(text).encode("ascii"))

    def close(self) -> None:
        self._box.close()


class WarmSides:
    """Forked sides; where this machine or what they are given does not allow them cold ones, whose record says why.

    Safe for threads.
    """

    def __init__(self, warm: WarmSandboxes, open_sandbox: OpenSandbox) -> None:
        self._warm = warm
        self._open_sandbox = open_sandbox

    def open(self, spec: SandboxSpec, program: Program) -> Side:
        """Fork a side, or start one cold."""
        if sets_environment(spec.files):
            return ColdSides(self._open_sandbox, ENVIRONMENT_IS_SET).open(spec, program)
        try:
            return _WarmSide(self._warm.open(spec, program))
        except EnvironmentFault as fault:  # what holds for a machine is kept there: one odd spec makes one side cold
            return ColdSides(self._open_sandbox, str(fault)).open(spec, program)


def sets_environment(files: Mapping[str, bytes]) -> bool:
    """Say whether a module sets an environment variable when it is imported: packages read theirs at their own import."""
    return any(_SETTING.search(data) for path, data in files.items() if path.endswith(".py"))


class _WarmSide:
    def __init__(self, box: WarmSandbox) -> None:
        self._box = box

    @property
    def enforcement(self) -> Mapping[str, str]:
        return self._box.enforcement

    def run(self, settings: Mapping[str, Any], *, seconds: float) -> CommandResult:
        return self._box.call(settings, timeout=seconds)

    def close(self) -> None:
        self._box.close()
