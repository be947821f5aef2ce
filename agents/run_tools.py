"""The tools that run code: run_tests and run_python.

The command is ours, as an argument list: the model gives files and names, which are looked up in the workspace
and checked, never options and never a shell line. What the command prints decides nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agent.agents.arguments import ArgumentsError, Parameter
from rcb_agent.agents.tool_base import Scope, Tool, check_path, encode_text, show_path
from rcb_agent.environments.base import CommandResult

PYTHON = "python"
_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_TEST_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_ASK_FOR_PYTEST = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pytest') is None)"
_MAX_TESTS = 200
_ROOM_FOR_NOTES = 300
_PROBE_SECONDS = 20.0


def run_tests(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Run tests that lie in the workspace."""
    files = _find_tests(scope, arguments.get("paths", []))
    names = arguments.get("names", [])
    wrong = [name for name in names if not _TEST_NAME.fullmatch(name)]
    if wrong:
        raise ArgumentsError(f"{wrong[0][:60]!r} is no test name; give Class, Class.method or a function's name")
    if names and len(files) != 1:
        raise ArgumentsError(f"names need exactly one test file in paths, not {len(files)}")
    if len(files) > _MAX_TESTS or len(names) > _MAX_TESTS:
        raise ArgumentsError(f"more than {_MAX_TESTS} files or names; give some of them")
    runner = _pytest_command if _has_pytest(scope) else _unittest_command
    return _run(scope, runner(files, names), scope.limits.test_seconds)


def _find_tests(scope: Scope, paths: Sequence[str]) -> list[str]:
    files = sorted(entry.path for entry in scope.sandbox.scan() if entry.kind == "file" and entry.path.isprintable())
    if not paths:
        found = [path for path in files if _TEST_FILE.search(path)]
        if not found:
            raise ArgumentsError("there is no test file (test_*.py or *_test.py) in the workspace; write one first")
        return found
    chosen = {file: None for path in paths for file in _match_tests(files, path)}
    return list(chosen)


def _match_tests(files: Sequence[str], path: str) -> list[str]:
    wanted = check_path(path).removeprefix("./").rstrip("/")
    below = "" if wanted == "." else f"{wanted}/"
    found = [file for file in files if file == wanted or (file.startswith(below) and _TEST_FILE.search(file))]
    if not found:
        raise ArgumentsError(f"{show_path(path)[:200]} is no test file and no folder with test files in the workspace")
    unsafe = next((file for file in found if file.startswith("-") or not file.endswith(".py")), None)
    if unsafe is not None:
        raise ArgumentsError(
            f"{show_path(unsafe)} cannot be run as a test: it must end in .py and not begin with a dash"
        )
    return found


def _has_pytest(scope: Scope) -> bool:
    if "pytest" not in scope.known:
        # Isolated mode: a file of that name in the workspace is no pytest.
        asked = scope.sandbox.run([PYTHON, "-I", "-c", _ASK_FOR_PYTEST], timeout=_PROBE_SECONDS)
        scope.known["pytest"] = asked.exit_code == 0
    return scope.known["pytest"]


def _pytest_command(files: Sequence[str], names: Sequence[str]) -> list[str]:
    chosen = [f"{files[0]}::{name.replace('.', '::')}" for name in names] or list(files)
    return [PYTHON, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]


def _unittest_command(files: Sequence[str], names: Sequence[str]) -> list[str]:
    module = files[0].removesuffix(".py").replace("/", ".")
    chosen = [f"{module}.{name}" for name in names] or list(files)
    return [PYTHON, "-B", "-m", "unittest", *chosen]


def run_python(scope: Scope, arguments: Mapping[str, Any]) -> str:
    """Run a piece of code or a file of the workspace."""
    if ("code" in arguments) == ("path" in arguments):
        raise ArgumentsError("give either code or path")
    if "code" in arguments:
        code = encode_text(arguments["code"], "code")
        return _run(scope, [PYTHON, "-B", "-"], scope.limits.python_seconds, stdin=code)
    path = check_path(arguments["path"])
    # Reading it first refuses what is not there or leads out of the workspace.
    scope.sandbox.read(path)
    return _run(scope, [PYTHON, "-B", f"./{path}"], scope.limits.python_seconds)


def _run(scope: Scope, argv: Sequence[str], limit: float, *, stdin: bytes = b"") -> str:
    result = scope.sandbox.run(argv, timeout=scope.bound_seconds(limit), stdin=stdin)
    output = result.text(scope.limits.output_characters - _ROOM_FOR_NOTES)
    return f"{_describe_end(result)}\n{output}" if output else f"{_describe_end(result)}, no output"


def _describe_end(result: CommandResult) -> str:
    text = f"exit code {result.exit_code} after {result.seconds:.1f} s"
    if result.timed_out:
        text += ", stopped: it took too long"
    elif result.killed:
        text += f", killed: {result.killed} limit"
    if result.survivors:
        text += f", {result.survivors} processes it left behind were ended"
    return text


RUN_TESTS = Tool(
    "run_tests",
    "Run test files of the workspace (pytest where it is installed, else unittest). The hidden tests that grade the task "
    "are not among them.",
    (
        Parameter("paths", list, "Test files or folders; default: every test_*.py and *_test.py.", required=False),
        Parameter("names", list, "Class, Class.method or function names within one test file.", required=False),
    ),
    run_tests,
)
RUN_PYTHON = Tool(
    "run_python",
    "Run Python code in the workspace's root, or a file of the workspace.",
    (
        Parameter("code", str, "Code to run; give this or path.", required=False),
        Parameter("path", str, "A Python file, relative to the workspace.", required=False),
    ),
    run_python,
)
