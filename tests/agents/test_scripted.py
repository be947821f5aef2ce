"""Guards: a demo whose outcomes do not depend on the tools, or that passes for a language model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.agents.base import Budget, Sampling, Solution
from rcb_agent.agents.demo import Script, next_move
from rcb_agent.agents.direct import DirectAgent
from rcb_agent.agents.react import ReactAgent
from rcb_agent.agents.registry import load_agent, open_model, select_tools
from rcb_agent.agents.scripted import DemoModel, check_scripts, load_scripts
from rcb_agent.errors import ModelError, UsageError
from tests.agents.samples import PROBLEM, TODO, Log, make_session, open_sample

WRONG, RIGHT = "return 7", "total = sum(values)\nreturn total / len(values)"
TEST = """\
import unittest
from model import mean

class Mean(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 6]), 3)
"""
SCRIPTS = {
    "solve": Script("solve", RIGHT, test=TEST),
    "repair": Script("repair", WRONG, RIGHT, TEST),
    "wrong": Script("wrong", WRONG),
    "loop": Script("loop", RIGHT),
    "needless": Script("repair", RIGHT, WRONG, TEST),
}


class Demo(DemoModel):
    """The demo with a script of the test's own."""

    def __init__(self, script: Script) -> None:
        self._scripts = {PROBLEM.task_id: script}

    def scripts(self) -> Mapping[str, Script]:
        return self._scripts


def play(root: Path, behaviour: str, without: tuple[str, ...] = (), max_steps: int = 20) -> tuple[Solution, Log, Any]:
    workspace = open_sample(root)
    session, log = make_session(
        Demo(SCRIPTS[behaviour]), workspace, budget=Budget(max_steps), tools=select_tools(None, without)
    )
    solution = ReactAgent().solve(PROBLEM, session)
    text = (root / "model.py").read_text()
    if TODO in text:
        return solution, log, None
    scope: dict[str, Any] = {}
    exec(text, scope)  # noqa: S102 - the sample's own text
    return solution, log, scope["mean"]([1, 2, 6])


@pytest.mark.parametrize(
    ("behaviour", "without", "outcome"),
    [
        ("solve", (), 3),
        ("repair", (), 3),
        ("repair", ("run_tests",), 7),
        ("repair", ("write_file",), 7),
        ("repair", ("edit_file",), 3),
        ("repair", ("submit", "list_files", "search"), 3),
        ("solve", ("read_file",), None),
        ("solve", ("edit_file", "write_file"), None),
        ("wrong", (), 7),
        ("needless", (), 3),
        ("loop", (), 3),
    ],
)
def test_what_a_tool_is_worth(tmp_path: Path, behaviour: str, without: tuple[str, ...], outcome: object) -> None:
    """Taking run_tests away turns the repaired task from passed to failed; the others have their own effect."""
    solution, log, got = play(tmp_path, behaviour, without)
    assert got == outcome
    expected = "max_steps" if behaviour == "loop" else "no_tool_call" if "submit" in without else "submitted"
    assert solution.stop == expected
    assert not [event for event in log.of("tool") if event["error"]]


def test_it_reads_before_it_writes(tmp_path: Path) -> None:
    """The calls of a whole repair, in order."""
    _, log, _ = play(tmp_path, "repair")
    assert [event["name"] for event in log.of("tool")] == [
        "list_files",
        "read_file",
        "read_file",
        "edit_file",
        "write_file",
        "run_tests",
        "edit_file",
        "run_tests",
        "submit",
    ]


def test_a_blank_on_a_later_page_is_found(tmp_path: Path) -> None:
    """It follows the page hints like everybody else."""
    workspace = open_sample(tmp_path)
    path = tmp_path / "model.py"
    path.write_text("# line\n" * 900 + path.read_text())
    session, _ = make_session(Demo(SCRIPTS["solve"]), workspace)
    assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
    assert TODO not in path.read_text()
    assert path.read_text().count("# line\n") == 900


def test_the_direct_agent_gets_the_draft() -> None:
    """Without tools there is nothing to learn from."""
    session, _ = make_session(Demo(SCRIPTS["repair"]), None, paper="prompt")
    solution = DirectAgent().solve(PROBLEM, session)
    assert solution.files is not None
    assert b"\n    return 7\n" in solution.files["model.py"]
    session, _ = make_session(DemoModel(), None, paper="prompt")
    assert DirectAgent().solve(PROBLEM, session).stop == "no_answer"


def test_an_unknown_task_is_looked_at_and_handed_in(tmp_path: Path) -> None:
    """A suite of one's own can be tried out without writing a script."""
    session, _ = make_session(open_model("scripted/demo"), open_sample(tmp_path))
    solution = ReactAgent().solve(PROBLEM, session)
    assert (solution.stop, solution.cost, solution.usage.input_tokens) == ("submitted", 0.0, None)
    assert TODO in (tmp_path / "model.py").read_text()


def test_every_reply_says_that_it_is_no_language_model(tmp_path: Path) -> None:
    """So that no trajectory can be mistaken for one."""
    _, log, _ = play(tmp_path, "repair")
    assert all("scripted, not a language model" in event["text"] for event in log.of("reply"))
    assert "scripted, not a language model" in next_move([{"role": "user", "content": ""}], (), {})[0]


def test_the_shipped_scripts_fit_their_schema() -> None:
    """demo.yaml is filled in by hand."""
    assert load_scripts()


@pytest.mark.parametrize(
    ("script", "place"),
    [
        ({"behaviour": "repair", "draft": "x", "test": "y"}, "repair"),
        ({"behaviour": "solve", "draft": ""}, "draft"),
        ({"behaviour": "guess", "draft": "x"}, "behaviour"),
        ({"behaviour": "solve", "draft": "x", "repair": "y"}, "p/t"),
        ({"behaviour": "solve", "draft": "x", "tests": "y"}, "p/t"),
    ],
)
def test_a_script_that_does_not_fit_names_its_place(script: dict[str, str], place: str) -> None:
    """The person who fills the file in needs the key."""
    with pytest.raises(UsageError, match=f"demo.yaml: tasks/p/t.*{place.split('/', maxsplit=1)[0]}"):
        check_scripts({"version": 1, "tasks": {"p/t": script}})


def test_replies_from_a_file_come_in_order_and_end(tmp_path: Path) -> None:
    """Raw arguments stay raw; after the last reply there is none."""
    path = tmp_path / "replies.json"
    path.write_text('[{"text": "a", "tool_calls": [{"name": "x", "arguments": "{oops"}]}, {"finish": "length"}]')
    model = open_model(f"scripted/file:{path}")
    first, second = model.complete([], [], Sampling()), model.complete([], [], Sampling())
    assert (first.text, first.tool_calls[0].arguments, first.finish) == ("a", "{oops", "tool_calls")
    assert (second.text, second.tool_calls, second.finish) == ("", (), "length")
    with pytest.raises(ModelError, match="no more replies after 2"):
        model.complete([], [], Sampling())


@pytest.mark.parametrize("content", ["", "{}", '[{"txt": "a"}]', '[{"tool_calls": [{"name": "x"}]}]'])
def test_a_faulty_file_of_replies_is_named(tmp_path: Path, content: str) -> None:
    """Before the first trial, not in the middle of one."""
    path = tmp_path / "replies.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"replies\.json"):
        open_model(f"scripted/file:{path}")


@pytest.mark.parametrize("name", ["gpt-4o", "", "/x", "openai/", "scripted/nothing", "scripted/file:"])
def test_model_names_that_mean_nothing_are_refused(name: str) -> None:
    """With an example of what would."""
    with pytest.raises(UsageError, match="scripted/demo"):
        open_model(name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("raect", "known: best-of-n, cheater, direct, react, self-repair, "),
        ("no.such.module:Agent", "cannot be loaded"),
        ("rcb_agent.agents.react:Nothing", "cannot be loaded"),
        (":", "cannot be loaded"),
        ("rcb_agent.agents.react:MAX_CALLS", "is no class"),
        ("rcb_agent.agents.base:Usage", "is no agent"),
    ],
)
def test_agent_names_that_mean_nothing_are_refused(name: str, words: str) -> None:
    """A misspelt name lists the known ones."""
    with pytest.raises(UsageError, match=words):
        load_agent(name)


def test_agents_are_found_by_short_name_and_by_path() -> None:
    """Any module:Class will do."""
    assert load_agent("react").uses_workspace
    assert load_agent("rcb_agent.agents.direct:DirectAgent").default_paper == "prompt"
