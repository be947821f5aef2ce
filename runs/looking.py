"""What an arm may learn about its own code while it works: does it parse, does its module import, do its own tests pass.

Everything happens in the arm's sandbox, with fixed commands, and on files that the arm may see. Nothing hidden is there,
so nothing hidden can be told. A program that hangs, exits or prints at will changes its own findings and no verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rcb_agent.agents.base import FEEDBACKS, Feedback, Findings, ToolCall
from rcb_agent.agents.tools import Toolbox, ToolLimits
from rcb_agent.environments.base import CommandResult, Workspace
from rcb_agent.tasks.base import Problem
from rcb_agent.tasks.folders import module_name

_PARSE = "import ast, sys; ast.parse(open(sys.argv[1], 'rb').read(), sys.argv[1])"
_IMPORT = "import importlib, sys; importlib.import_module(sys.argv[1])"
_SECONDS = 20.0
_TEST_SECONDS = 60.0
_SHOWN = 4_000
_GREEN = "exit code 0 "
_NO_TESTS = "error: there is no test file"


@dataclass(frozen=True, slots=True)
class SandboxFeedback:
    """Looks at a problem's file in a workspace, as far as ``kind`` (one of FEEDBACKS) says."""

    kind: str
    problem: Problem
    workspace: Workspace
    seconds_left: Callable[[], float]

    def __call__(self) -> Findings:
        """Look once. Raises SandboxLost."""
        parsed = self._run("-c", _PARSE, self.problem.path)
        if self.kind == "none":
            return Findings(parsed.exit_code == 0, report="Nothing of it was run.")
        if parsed.exit_code != 0:
            return Findings(parses=False, imports=False, report=_say("It does not parse", parsed))
        imported = self._run("-c", _IMPORT, module_name(self.problem.path))
        if imported.exit_code != 0:
            return Findings(parses=True, imports=False, report=_say("Importing the file fails", imported))
        if self.kind == "import":
            return Findings(parses=True, imports=True, report="It parses, and the file imports.")
        return self._test()

    def _run(self, *arguments: str) -> CommandResult:
        seconds = min(_SECONDS, max(1.0, self.seconds_left()))
        return self.workspace.sandbox.run(["python", "-B", *arguments], timeout=seconds)

    def _test(self) -> Findings:
        limits = ToolLimits(output_characters=_SHOWN, test_seconds=_TEST_SECONDS)
        toolbox = Toolbox(("run_tests",), self.workspace, limits, seconds_left=self.seconds_left)
        result = toolbox.call(ToolCall("look", "run_tests", "{}"))
        if result.text.startswith(_NO_TESTS):
            return Findings(
                parses=True, imports=True, report="It parses, and the file imports. There are no own tests."
            )
        green = result.text.startswith(_GREEN)
        words = "pass" if green else "do not pass"
        return Findings(True, True, green, f"It parses, and the file imports. Its own tests {words}:\n{result.text}")


def _say(what: str, result: CommandResult) -> str:
    end = f"stopped after {result.seconds:.0f} s" if result.timed_out else f"exit code {result.exit_code}"
    return f"{what} ({end}):\n{result.text(_SHOWN)}".rstrip()


def open_feedback(
    kind: str, problem: Problem, workspace: Workspace | None, seconds_left: Callable[[], float]
) -> Feedback | None:
    """Return the feedback of an arm, None for an agent that has no workspace to look at."""
    if kind not in FEEDBACKS:
        raise ValueError(f"feedback {kind!r} is none of {', '.join(FEEDBACKS)}")
    return None if workspace is None else SandboxFeedback(kind, problem, workspace, seconds_left)
