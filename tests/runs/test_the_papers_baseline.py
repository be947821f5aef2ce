"""Guards: a "published baseline" that asks, reads or grades in another way, or hides that it is unprotected."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from rcb_agent.tasks.upstream_prompt import read_published_prompt
from tests.agents.loopback import serve, text
from tests.runs.command import rcb_agent, records
from tests.tasks.conftest import FILES, write_files
from tests.tasks.own_wording import SUITE

GOLD = "```python\nz = 0\n```\nno:\n```python\n\t\ty = x + x\n\t\treturn y\n```"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite whose authors have words of their own."""
    return write_files(tmp_path_factory.mktemp("tiny") / "suite", {**FILES, **SUITE})


@pytest.mark.sandbox
def test_preset_paper_is_the_published_procedure(tmp_path: Path, suite: Path) -> None:
    """One user message in the authors' words, nothing else sent; last fence as it is; no fence is an empty blank, graded."""
    words: list[str | Path] = ["--suite", suite, "--model", "openai/x", "--price", "1,2"]
    with serve([text("I see no fence."), text(GOLD)]) as server:
        env = {"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "x"}
        run = ["run", "--preset", "paper", *words, "--out", "run", "--workers", "1"]
        done = rcb_agent(*run, "--tasks", "*/give it back", "--tasks", "*/double it", cwd=tmp_path, env=env)
    assert done.code == 0, done.err
    assert "grading upstream: unprotected" in done.err
    assert "grading upstream: unprotected" in done.out
    assert done.err.splitlines()[0].startswith("rcb-agent: estimate: 2 trials: $0.00")
    loaded = load_suite(str(suite))
    prompt = read_published_prompt(loaded.name, loaded.root)
    asked = [prompt.write(loaded.root, task, with_paper=True) for task in loaded.tasks]
    bodies = [request.body for request in server.requests]
    assert [body["messages"] for body in bodies] == [[{"role": "user", "content": one}] for one in asked]
    assert all(set(body) <= {"model", "messages", "temperature"} and body["temperature"] == 0 for body in bodies)
    grades = {(grade["task"], grade["scope"]): grade for grade in records(tmp_path / "run", "grades.jsonl")}
    assert {name: grade["verdict"] for name, grade in grades.items()} == {
        ("good/double it", "diff"): "failed",
        ("good/double it", "blank"): "failed",
        ("good/give it back", "diff"): "passed",
        ("good/give it back", "blank"): "passed",
    }
    stops = {trial["task"]: trial["stop"] for trial in records(tmp_path / "run", "trials.jsonl")}
    assert stops == {"good/double it": "no_answer", "good/give it back": "answered"}
    assert all(grade["mode"] == "upstream" and grade["details"]["protected"] is False for grade in grades.values())
    shown = rcb_agent("show", "run", "good/double it", cwd=tmp_path)
    assert "grade, diff, upstream (unprotected): failed" in shown.out
    words = ["--suite", suite, "--agent", "direct", "--prompt", "upstream"]
    printed = rcb_agent("prompt", "good/double it", *words, cwd=tmp_path)
    assert printed.out == asked[0]


@pytest.mark.sandbox
def test_controls_hold_under_the_published_rule(tmp_path: Path, suite: Path) -> None:
    """Both scopes; the document says that the grading protects nothing."""
    words: list[str | Path] = [
        "--suite",
        suite,
        "--agent",
        "oracle",
        "--agent",
        "null",
        "--grading",
        "upstream",
        "--json",
        "--out",
        "run",
    ]
    done = rcb_agent("run", *words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.document["grading"] == {"mode": "upstream", "protected": False}
    for name, passed in (("oracle", 2), ("null", 0)):
        arm = done.arm(name)
        assert [arm["scopes"][scope]["passed"] for scope in ("diff", "blank")] == [passed, passed]
    split = rcb_agent("run", *words, "--grading", "split", cwd=tmp_path)
    assert split.code == 2
    assert "mode" in split.err


REFUSED = {
    "another agent": (["run", "--preset", "paper", "--agent", "react"], 2, "leave out --agent"),
    "several at once": (
        [
            "run",
            "--preset",
            "paper",
            "--temperature",
            "1",
            "--grading",
            "split",
            "--attempts",
            "2",
            "--extract",
            "strict",
        ],
        2,
        "leave out --extract, --grading, --temperature, --attempts,",
    ),
    "arms": (["run", "--preset", "paper", "--arm", "direct"], 2, "leave out --arm"),
    "a suite without words": (["run", "--preset", "paper"], 3, "suite mini has none"),
    "an agent with tools": (["run", "--prompt", "upstream"], 2, "only the agent direct takes it, not react"),
    "an arm with tools": (["run", "--arm", "react,prompt=upstream"], 2, "only the agent direct takes it, not react"),
    "a prompt of a control": (["prompt", "silt/filling of the last block", "--agent", "oracle"], 2, "asks no model"),
    "prompts of two arms": (["prompt", "x/y", "--agent", "direct", "--agent", "react"], 2, "one arm"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """One line, before anything is written."""
    words, code, said = REFUSED[name]
    done = rcb_agent(*words, cwd=tmp_path)
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


OFFLINE = """\
import json, sys
asked = []
sys.addaudithook(lambda event, _: asked.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
from rcb_agent.cli import cli
cli.main(sys.argv[1:], standalone_mode=False)
print(asked, file=sys.stderr)
"""


def test_estimates_need_no_network(tmp_path: Path) -> None:
    """Not even for the models whose tokenizers LiteLLM would look up; direct has a floor that its prompts set."""
    words = ["estimate", "--agent", "direct", "--agent", "react", "--model", "openai/gpt-4.1", "--json"]
    words += ["--model", "groq/llama-3.3-70b-versatile", "--agent", "null", "--tasks", "silt/*", "--attempts", "3"]
    command = [sys.executable, "-c", OFFLINE, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"
    arms = {arm["arm"]: arm for arm in json.loads(done.stdout)["arms"]}
    trials = 3 * sum(task.info.id == "silt" for task in load_suite("mini").tasks)
    assert {arm["trials"] for arm in arms.values()} == {trials}
    direct, react = arms["direct@openai-gpt-4.1"], arms["react@openai-gpt-4.1"]
    tokens = direct["input_tokens"]
    assert tokens["low"] == tokens["high"] > 1000 * trials
    assert direct["counted_by"] == "o200k_base"
    dollars = tokens["low"] * 2e-6 + direct["output_tokens"]["middle"] * 8e-6
    assert direct["cost"]["middle"] == pytest.approx(dollars)
    for arm in (direct, react):
        for band in (arm["output_tokens"], arm["cost"], arm["minutes"]):
            assert 0 < band["low"] < band["middle"] < band["high"]
    assert react["input_tokens"]["low"] > tokens["low"] * 0.5
    assert react["cached_tokens"]["high"] == 0 < react["cached_tokens"]["middle"] < react["input_tokens"]["middle"]
    assert arms["direct@groq-llama-3.3-70b-versatile"]["counted_by"] == "o200k_base, a stand-in"
    assert arms["null"]["cost"]["high"] == 0
