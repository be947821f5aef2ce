"""Guards: what a model sends to a tool is run, raises, or touches something outside the workspace."""

import json
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.agents.base import ToolCall
from rcb_agent.agents.tools import TOOL_NAMES, TOOLS, Toolbox, ToolLimits, select_tools
from rcb_agent.errors import UsageError
from tests.agents.local_sandbox import FolderWorkspace, open_folder
from tests.agents.samples import call, open_sample

SECRET = "in-no-answer"

PATHS = {
    "dots": "../outside.txt",
    "dots in the middle": "a/../../outside.txt",
    "absolute": "{OUT}/outside.txt",
    "neighbour with the same prefix": "../ws-evil/x.txt",
    "link to a folder": "lnk/outside.txt",
    "link to a file": "f.txt",
    "dangling link": "newfile",
    "another root": "/proc/self/root{OUT}/outside.txt",
    "another cwd": "/proc/self/cwd/../outside.txt",
    "tilde": "~/x.txt",
    "variable": "$HOME/x.txt",
    "double slash": "//etc/hostname",
    "backslash": "..\\outside.txt",
    "url": "file:///etc/hostname",
    "NUL": "a\0b",
    "empty": "",
    "dot": ".",
    "trailing slash": "model.py/",
    "newline": "a\nb.py",
    "escape": "\x1b[2Jx.py",
    "256 letters": "x" * 256,
    "5,000 letters": "d/" * 2500 + "x",
    "NFD": "cafe\u0301.py",
    "bidi": "a\u202egp.py",
    "surrogate": "\ud800.py",
    "dash": "-rf",
    "into the workspace and out": "/workspace/../outside.txt",
}

HUGE = {"path": "model.py", "start": "a number of 5,001 digits"}
HOSTILE: list[tuple[str, Any]] = [
    ("read_file", {"path": "model.py", "start": -1, "end": 10**12}),
    ("read_file", {"path": "model.py", "start": "one"}),
    ("read_file", {"path": "model.py", "start": 0}),
    ("read_file", HUGE),
    ("read_file", {"path": "model.py", "start": 3, "end": 2}),
    ("read_file", {"path": "model.py", "start": 1.5}),
    ("read_file", {"path": "model.py", "start": True}),
    ("read_file", {"path": "model.py", "column": 10**6}),
    ("read_file", {"path": ["model.py"]}),
    ("read_file", {"path": None}),
    ("read_file", {}),
    ("read_file", None),
    ("read_file", "not an object"),
    ("read_file", [1]),
    ("read_file", {"path": "model.py", "surplus": 1}),
    ("read_file", {"path": "model.py", "\ud800": 1}),
    ("list_files", {"path": 3}),
    ("search", {"pattern": ""}),
    ("search", {"pattern": "("}),
    ("search", {"pattern": "a\0"}),
    ("search", {"pattern": "x", "path": "../.."}),
    ("edit_file", {"path": "model.py", "old": "", "new": "x"}),
    ("edit_file", {"path": "model.py", "old": "not there", "new": "x"}),
    ("edit_file", {"path": "model.py", "old": "\n", "new": "\r\n"}),
    ("edit_file", {"path": "model.py", "old": "def", "new": "\ud800"}),
    ("edit_file", {"path": "model.py", "old": "def", "new": "def"}),
    ("edit_file", {"path": "no_such_file.py", "old": "a", "new": "b"}),
    ("write_file", {"path": "model.py", "content": "x" * (32 << 20)}),
    ("write_file", {"path": "model.py", "content": "x" * (2 << 20)}),
    ("write_file", {"path": "model.py", "content": "\ud800"}),
    ("write_file", {"path": "model.py", "content": "a\0"}),
    ("write_file", {"path": "model.py", "content": {"a": 1}}),
    ("run_tests", {"args": "; touch /tmp/injected #"}),
    ("run_tests", {"args": ["--rootdir=/", "-p", "evil", "-c", "/dev/null"]}),
    ("run_tests", {"paths": ["--rootdir=/"]}),
    ("run_tests", {"paths": ["-p", "evil"]}),
    ("run_tests", {"paths": ["test_x.py; touch injected"]}),
    ("run_tests", {"paths": ["../test_outside.py"]}),
    ("run_tests", {"paths": "test_x.py"}),
    ("run_tests", {"paths": ["model.py"], "names": ["-k", "a or b"]}),
    ("run_tests", {"paths": ["test_x.py"], "names": ["A::b --co"]}),
    ("run_tests", {"names": ["A", "\0"]}),
    ("run_tests", {"paths": [1]}),
    ("run_python", {}),
    ("run_python", {"code": "1", "path": "model.py"}),
    ("run_python", {"path": "/etc/hostname"}),
    ("run_python", {"path": "-c"}),
    ("run_python", {"code": "\udfff"}),
    ("submit", {"note": "done"}),
    ("no_such_tool", {}),
    ("", {}),
    ("bash", {"command": "touch injected"}),
]


def numbered() -> list[Any]:
    return [pytest.param(name, arguments, id=f"{name}-{index}") for index, (name, arguments) in enumerate(HOSTILE)]


def tree(root: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize(("name", "arguments"), numbered())
def test_what_does_not_fit_is_a_short_answer_and_changes_nothing(tmp_path: Path, name: str, arguments: Any) -> None:
    """No exception, no traceback, no command, no file touched; the answer fits on a screen."""
    workspace = open_sample(tmp_path)
    before = tree(tmp_path)
    text = json.dumps(arguments) if arguments != HUGE else '{"path": "model.py", "start": 1%s}' % ("0" * 5000)
    result = Toolbox(TOOL_NAMES, workspace).call(ToolCall("c1", name, text))
    assert result.error
    assert not result.submit
    assert result.text.startswith("error: ")
    assert len(result.text) < 1000
    assert "Traceback" not in result.text
    assert tree(tmp_path) == before
    assert not [one for one in workspace.local.operations if one.startswith("run ") and "find_spec" not in one]


def laid_out(root: Path) -> FolderWorkspace:
    """Return the workspace of the attack: links out of it, a neighbour with the same prefix."""
    workspace = open_folder(root / "ws", {"model.py": b"x\n"})
    (root / "ws-evil").mkdir()
    (root / "ws-evil" / "x.txt").write_text(f"out {SECRET}")
    (root / "outside.txt").write_text(f"out {SECRET}")
    (root / "ws" / "lnk").symlink_to(root)
    (root / "ws" / "f.txt").symlink_to(root / "outside.txt")
    (root / "ws" / "newfile").symlink_to(root / "created.txt")
    return workspace


@pytest.mark.parametrize("name", PATHS)
def test_no_path_leads_out_of_the_workspace(tmp_path: Path, name: str) -> None:
    """Whatever is asked for by name is answered in text; nothing outside is read or written."""
    workspace = laid_out(tmp_path)
    toolbox = Toolbox(TOOL_NAMES, workspace)
    outside = {name: data for name, data in tree(tmp_path).items() if not name.startswith("ws/")}
    path = PATHS[name].replace("{OUT}", str(tmp_path))
    asked = (
        call("read_file", path=path),
        call("write_file", path=path, content="X"),
        call("edit_file", path=path, old="out", new="in"),
        call("list_files", path=path),
        call("search", pattern="out", path=path),
        call("run_tests", paths=[path]),
    )
    for one in asked:
        result = toolbox.call(one)
        # A test file may well print its own traceback.
        assert one.name == "run_tests" or "Traceback" not in result.text
        assert SECRET not in result.text
        result.text.encode("utf-8")
    assert {name: data for name, data in tree(tmp_path).items() if not name.startswith("ws/")} == outside


@pytest.mark.parametrize("path", [".git/config", "a/.GIT/hooks/pre-commit", "/workspace/.git/HEAD"])
def test_the_git_folder_is_out_of_bounds(tmp_path: Path, path: str) -> None:
    """The host runs git over this tree later; the tools do not help to prepare it."""
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    assert toolbox.call(call("write_file", path=path, content="[core]")).error
    assert toolbox.call(call("read_file", path=path)).error


def test_an_absolute_path_into_the_workspace_is_taken_for_what_it_means(tmp_path: Path) -> None:
    """Models like to write /workspace/model.py."""
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    assert "def mean" in toolbox.call(call("read_file", path="/workspace/model.py")).text


def test_null_stands_for_an_optional_argument_that_is_left_out(tmp_path: Path) -> None:
    """Several providers fill in every argument."""
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    result = toolbox.call(call("read_file", path="model.py", start=None, end=None))
    assert not result.error
    assert result.text == toolbox.call(call("read_file", path="model.py")).text


def test_a_tool_that_is_switched_off_does_not_answer(tmp_path: Path) -> None:
    """An ablation takes the tool away, not only its description."""
    toolbox = Toolbox(select_tools(None, ("run_python",)), open_sample(tmp_path))
    assert "run_python" not in [spec["function"]["name"] for spec in toolbox.specs()]
    result = toolbox.call(call("run_python", code="print(1)"))
    assert result.error
    assert "no tool 'run_python'" in result.text


def test_unknown_tool_names_are_refused_by_name() -> None:
    """A misspelt ablation must not run as the full arm."""
    with pytest.raises(UsageError, match=r"'runtests'.*run_tests"):
        select_tools(None, ("runtests",))
    with pytest.raises(UsageError, match="'bash'"):
        select_tools(("bash",))
    assert select_tools(("submit", "list_files")) == ("list_files", "submit")


def test_every_output_is_bounded_and_says_what_is_missing(tmp_path: Path) -> None:
    """Head and tail of a long output, and how much lies between."""
    limits = ToolLimits(output_characters=2_000)
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path), limits)
    text = toolbox.call(call("run_python", code="print('first'); print('x' * 100_000); print('last')")).text
    assert len(text) <= 2_000
    assert "first" in text
    assert "last" in text
    assert "characters dropped" in text


def test_descriptions_are_whole() -> None:
    """Each tool and each argument explains itself; the schema refuses surplus keys."""
    toolbox = Toolbox(TOOL_NAMES, FolderWorkspace.__new__(FolderWorkspace))
    for spec in toolbox.specs():
        function = spec["function"]
        assert function["description"].endswith((".", ")"))
        assert function["parameters"]["additionalProperties"] is False
        assert set(function["parameters"]["required"]) <= set(function["parameters"]["properties"])
        assert all(one["description"] for one in function["parameters"]["properties"].values())
    assert set(TOOLS) == set(TOOL_NAMES)
