"""Guards: tools that work on a plain folder and not in the sandbox they are made for."""

import json
import shutil
import venv
from collections.abc import Iterator

import pytest

from rcb_agent.agents.base import Budget, ToolCall
from rcb_agent.agents.react import ReactAgent
from rcb_agent.agents.tools import TOOL_NAMES, Toolbox
from rcb_agent.environments.base import Limits, Runtime
from rcb_agent.environments.workspace import LiveWorkspace, WorkspaceSpec, open_workspace
from tests.agents.samples import MODEL, PROBLEM, TODO, Talker, call, make_session, says
from tests.agents.test_hostile_arguments import HOSTILE, HUGE, PATHS

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not on PATH"),
]

TEST = """\
import unittest
from model import mean

class Mean(unittest.TestCase):
    def test_three(self):
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_other(self):
        self.assertEqual(mean([1]), 2)
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    folder = tmp_path_factory.mktemp("runtime") / "venv"  # as pip makes it: others may enter
    venv.create(folder, symlinks=True)
    return Runtime("plain", folder / "bin" / "python", (), "0" * 64)


@pytest.fixture
def workspace(runtime: Runtime) -> Iterator[LiveWorkspace]:
    spec = WorkspaceSpec("bubblewrap", runtime, Limits(), "file", lambda _digest, _data: None)
    with open_workspace(PROBLEM, spec) as opened:
        yield opened


def test_hostile_arguments_are_answered_in_text(workspace: LiveWorkspace) -> None:
    """The same attacks as on a folder, in one sandbox that has to survive them all."""
    toolbox = Toolbox(TOOL_NAMES, workspace)
    workspace.sandbox.run(["ln", "-s", "/etc/passwd", "f.txt"], timeout=5)
    workspace.sandbox.run(["ln", "-s", "/tmp", "lnk"], timeout=5)
    workspace.sandbox.run(["mkfifo", "pipe"], timeout=5)
    for name, arguments in HOSTILE:
        if arguments is not HUGE:
            assert toolbox.call(ToolCall("c1", name, json.dumps(arguments))).error, (name, arguments)
    for path in [*PATHS.values(), "/dev/zero", "/dev/stdin", "pipe", "lnk/x"]:
        for name, more in (
            ("read_file", {}),
            ("write_file", {"content": "X"}),
            ("edit_file", {"old": "a", "new": "b"}),
        ):
            result = toolbox.call(ToolCall("c1", name, json.dumps({"path": path, **more})))
            assert "Traceback" not in result.text
            assert "root:" not in result.text
    assert toolbox.call(call("read_file", path="model.py")).text.endswith('"mean of values">')


def test_an_edit_is_run_and_tested_where_it_was_made(workspace: LiveWorkspace) -> None:
    """Edit, own test, a single test by name, code: all of it in the sandbox."""
    toolbox = Toolbox(TOOL_NAMES, workspace)
    assert not toolbox.call(
        call("edit_file", path="model.py", old=TODO, new="    return sum(values) / len(values)\n")
    ).error
    assert "no test file" in toolbox.call(call("run_tests")).text
    assert not toolbox.call(call("write_file", path="tests/test_own.py", content=TEST)).error
    red = toolbox.call(call("run_tests"))
    assert not red.error
    assert red.text.startswith("exit code 1 ")
    assert "test_other" in red.text
    one = call("run_tests", paths=["tests/test_own.py"], names=["Mean.test_three"])
    assert toolbox.call(one).text.startswith("exit code 0 ")
    code = toolbox.call(call("run_python", code="import model; print(model.mean([4]))")).text
    assert code.endswith("\n4.0\n")
    assert "exit code 0" in toolbox.call(call("run_python", path="model.py")).text


def test_undecodable_names_go_round(workspace: LiveWorkspace) -> None:
    """A name that is not UTF-8 is listed, read and edited by what the list shows."""
    toolbox = Toolbox(TOOL_NAMES, workspace)
    make = "import os; open(b'bad\\xff.py', 'wb').write(b'\\xfeold'); open('a\\nb', 'w').write('found')"
    toolbox.call(call("run_python", code=make))
    listed = toolbox.call(call("list_files")).text
    assert "bad\\udcff.py" in listed
    assert "found" in toolbox.call(ToolCall("c", "read_file", '{"path": "a\\u000ab"}')).text
    edited = toolbox.call(ToolCall("c", "edit_file", '{"path": "bad\\udcff.py", "old": "old", "new": "new"}'))
    assert not edited.error
    assert workspace.sandbox.read("bad\udcff.py") == b"\xfenew"


def test_a_trial_ends_with_what_stands_in_the_workspace(workspace: LiveWorkspace) -> None:
    """The loop over a real workspace: snapshots name what changed, the submission holds it."""
    model = Talker(
        [
            says(
                call("edit_file", path="model.py", old=TODO, new="    return 1\n"), call("run_python", "c2", code="1")
            ),
            says(call("submit", "c3")),
        ]
    )
    session, log = make_session(model, workspace)
    assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
    assert [sorted(event["snapshot"]["files"]) for event in log.of("snapshot")] == [["model.py", "other.py"]] * 2
    files = {item.path: item.data for item in workspace.submission().files}
    assert files == {"model.py": MODEL.replace(TODO, "    return 1\n").encode(), "other.py": b"X = 1\n"}


def test_a_sandbox_killed_by_its_own_command_ends_the_trial(workspace: LiveWorkspace) -> None:
    """Closed under the agent's feet: sandbox_lost, no exception."""
    model = Talker([says(call("list_files"))])
    session, _ = make_session(model, workspace, budget=Budget(max_steps=3))
    workspace.close()
    assert ReactAgent().solve(PROBLEM, session).stop == "sandbox_lost"
