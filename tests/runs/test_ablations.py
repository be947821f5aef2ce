"""Guards: an ablation that leaves out what ends a trial, repeats trials, or shows an effect without what caused it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.runs.ablation_arms import describe_change, plan_arms
from rcb_agent.runs.config import ArmOptions
from tests.agents.loopback import serve, text
from tests.runs.command import rcb_agent, rcb_agent_within, records


def arms(*parts: str, agent: str = "react", **common: Any) -> dict[str, str]:
    baseline, *others = planned = plan_arms(ArmOptions((agent,), (), (), common), parts, None)
    assert len({arm.id for arm in planned}) == len(planned)
    return {arm.id: describe_change(baseline.as_json(), arm.as_json()) for arm in others}


def test_each_thing_is_left_out_once_and_nothing_else_changes() -> None:
    """``submit`` never: without it a trial ends otherwise."""
    tools = arms("tools")
    assert len(tools) == 7
    assert "without-submit" not in tools
    assert tools["without-run_tests"] == "without run_tests"
    assert arms("tools", "paper", "tools", without=["search", "run_python", "list_files", "edit_file"]) == {
        "without-read_file": "without read_file",
        "without-write_file": "without write_file",
        "without-run_tests": "without run_tests",
        "without-paper": "paper none",
    }
    assert arms("context", "feedback", agent="self-repair") == {
        "without-context": "context target",
        "feedback-import": "feedback import",
        "feedback-none": "feedback none",
    }


@pytest.mark.parametrize(
    ("parts", "fields", "said"),
    [
        (("tools",), {"agent": "direct"}, "direct has no tools"),
        (("tools",), {"tools": ["submit"]}, "react has no tools"),
        (("paper",), {"paper": "none"}, "has no paper"),
        (("context",), {"context": "target"}, "has no context files"),
        (("feedback",), {}, "react has no feedback"),
        ((), {}, "say what is left out"),
    ],
)
def test_what_is_not_there_cannot_be_left_out(parts: tuple[str, ...], fields: dict[str, Any], said: str) -> None:
    """One line that says what is missing."""
    with pytest.raises(UsageError, match=said):
        arms(*parts, **fields)


def grid(folder: Path, content: str) -> dict[str, str]:
    (folder / "grid.yaml").write_text(content)
    baseline, *others = plan_arms(ArmOptions(), (), folder / "grid.yaml")
    return {arm.id: describe_change(baseline.as_json(), arm.as_json()) for arm in others}


BASE = "baseline: {agent: react, model: scripted/demo, max-steps: 9}\n"


def test_a_grid_names_arms_and_crosses_fields(tmp_path: Path) -> None:
    """The combination that is the baseline again is left out."""
    named = BASE + "arms:\n  - {name: blind, without: [run_tests, run_python], paper: none}\n"
    assert grid(tmp_path, named) == {"blind": "without run_tests, run_python; paper none"}
    crossed = grid(tmp_path, BASE + "cross: {paper: [file, none], max-steps: [9, 3]}\n")
    assert crossed == {
        "paper-file-max-steps-3": "max_steps 3",
        "paper-none-max-steps-9": "paper none",
        "paper-none-max-steps-3": "paper none; max_steps 3",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("baseline: [", "grid.yaml:1: is not YAML"),
        ("", "None is not of type 'object'"),
        ("baseline: {agent: react, model: scripted/demo}\n", "not valid under any of the given schemas"),
        (BASE + "arms: [{name: a, widthout: [search]}]\n", "grid.yaml:2: arms.0: 'widthout' is not one of"),
        (BASE + "arms: [{without: [search]}]\n", "'name' is a required property"),
        (BASE + "arms: [{name: a, without: search}]\n", "grid.yaml:2: arms.0.without: 'search' is not of type 'array'"),
        (BASE + "arms: [{name: a, without: [hammer]}]\n", "unknown tool 'hammer'"),
        (BASE + "arms: [{name: a, paper: none}, {name: a, paper: prompt}]\n", "two arms are called 'a'"),
        (
            BASE + "arms: [{name: react@scripted-demo, paper: none}]\n",
            "is called 'react@scripted-demo', as the baseline is",
        ),
        (BASE + "cross: {temperature: [hot]}\n", "cross: temperature: 'hot' is not of type 'number', 'null'"),
        (BASE + "cross: {paper: [file]}\n", "no arm is left beside the baseline"),
        (
            "baseline: {agent: reaktor, model: scripted/demo}\narms: [{name: a, paper: none}]\n",
            "unknown agent 'reaktor'",
        ),
    ],
)
def test_a_wrong_grid_is_named_by_line_and_key(tmp_path: Path, content: str, said: str) -> None:
    """Before anything is run."""
    with pytest.raises(UsageError) as found:
        grid(tmp_path, content)
    assert said in str(found.value)


GRID = """\
baseline: {agent: react, model: scripted/demo, max-steps: 12}
arms:
  - {name: blind, without: [run_tests]}
  - {name: unread, without: [read_file]}
  - {name: paperless, paper: none}
"""


@pytest.mark.sandbox
def test_an_interrupted_ablation_goes_on_and_shows_what_turned_tasks(tmp_path: Path) -> None:
    """Ctrl-C in the middle, the same command again: no trial twice, and the table of the run is the same afterwards."""
    (tmp_path / "grid.yaml").write_text(GRID)
    words = [
        "ablate",
        "--grid",
        "grid.yaml",
        "--tasks",
        "tidal/*",
        "--tasks",
        "ripple/*",
        "--out",
        "results/run",
        "--json",
    ]
    _interrupt(tmp_path, words)
    begun = len(records(tmp_path / "results" / "run", "trials.jsonl"))
    assert 0 < begun < 4 * 13
    done = rcb_agent(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    trials = records(tmp_path / "results" / "run", "trials.jsonl")
    assert len(trials) == len({trial["trial"] for trial in trials}) == 4 * 13
    effects = {effect["arm"]: effect for effect in done.document["effects"]}
    assert done.document["baseline"] == "react@scripted-demo"
    blind, unread = effects["blind"], effects["unread"]
    assert blind["won"] == unread["won"] == 0 < blind["lost"] == len(blind["turned"]) < unread["lost"]
    use = blind["tools"]["run_tests"]["turned"]
    assert use["used_in"] == use["trials"] == blind["lost"]
    assert use["calls"] == 2 * blind["lost"]  # red, repaired, green
    assert 4 < use["median_step"] <= 9
    assert blind["tools"]["run_tests"]["all"]["trials"] == 13
    assert (effects["paperless"]["tools"], effects["paperless"]["change"]) == ({}, "paper none")
    assert blind["scaled"]["difference"] < 0 < len(done.document["comparison"]["pairs"])
    _check_again(tmp_path, done.document)


def _interrupt(folder: Path, words: list[str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rcb_agent", *words],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    path, end = folder / "results" / "run" / "trials.jsonl", time.monotonic() + 120
    while time.monotonic() < end and not (path.exists() and path.read_text().count("\n") > 4):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "the same command with --out" in said


def _check_again(folder: Path, document: dict[str, Any]) -> None:
    run = folder / "results" / "run"
    again = rcb_agent_within("ablate", run, "--json").document
    assert again == document | {"path": again["path"]}
    screen = rcb_agent_within("ablate", run).out
    assert "a script played the model" in screen
    csv = rcb_agent_within("ablate", run, "--csv").out.splitlines()
    assert len(csv) == 1 + 3
    assert rcb_agent_within("ablate", run, "--latex").out.count(r"\toprule") == 1
    other = rcb_agent_within("ablate", run, "--against", "blind", "--json").document
    mine = next(effect for effect in other["effects"] if effect["arm"] == "react@scripted-demo")
    assert mine["won"] > 0 == mine["lost"]
    for words, said in (
        ((run, "--agent", "react"), "--agent is for a new run"),
        ((run, "--against", "nobody"), "is no arm of"),
        ((run, "--csv", "--json"), "choose one"),
        (("--leave-one-out", "tools", "--agent", "react", "--agent", "direct"), "one agent and one model"),
    ):
        wrong = rcb_agent_within("ablate", *words)
        assert wrong.code == 2, wrong.err
        assert said in wrong.err, (words, wrong.err)


@pytest.mark.sandbox
def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    """Arms, trials, estimate; no folder."""
    words = ["--agent", "react", "--leave-one-out", "tools", "--tasks", "tidal/*", "--attempts", "2", "--dry-run"]
    done = rcb_agent("ablate", *words, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert (len(done.document["arms"]), done.document["trials"]) == (8, 8 * 7 * 2)
    assert len(done.document["estimate"]["arms"]) == 8
    assert not list(tmp_path.iterdir())
    assert "8 arms, 112 trials" in rcb_agent_within("ablate", *words).out


@pytest.mark.sandbox
def test_a_budget_that_ends_in_the_middle_leaves_a_bracket_and_exit_code_1(attack_suite: Path, tmp_path: Path) -> None:
    """What was not begun counts for neither side; ``resume`` with more goes on."""
    words = ["ablate", "--suite", str(attack_suite), "--tasks", "plain/*", "--agent", "best-of-n", "--n", "1"]
    words += ["--model", "openai/x", "--leave-one-out", "feedback", "--workers", "1", "--out", "run", "--json"]
    with serve([text("```python\n    return 1\n```")]) as server:
        env = {"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "x"}
        done = rcb_agent(*words, "--run-max-tokens", "60", cwd=tmp_path, env=env)
        assert (done.code, len(server.requests)) == (1, 4), done.err
        (low, high), *_ = [effect["scaled"]["bracket"] for effect in done.document["effects"]]
        assert low < high
        rest = rcb_agent("resume", "run", "--json", cwd=tmp_path, env=env)
        assert (rest.code, len(server.requests)) == (0, 6), rest.err
    whole = rcb_agent_within("ablate", tmp_path / "run", "--json")
    assert whole.code == 0
    assert [effect["scaled"]["bracket"] for effect in whole.document["effects"]] == [[0.0, 0.0]] * 2
    json.dumps(whole.document, allow_nan=False)
