"""Guards: a cap on tokens or dollars that is passed by, a price made up, a parameter left out in silence."""

from pathlib import Path

import pytest

from tests.runs.command import rcb_agent, records
from tests.runs.faulty import TASK, command, endpoint, run

pytestmark = pytest.mark.sandbox

ONE = 11 * 2e-6 + 7 * 8e-6
"""Dollars of one reply of the endpoint at a price of 2,8."""


def test_each_trial_ends_at_its_own_cap_and_is_graded(tmp_path: Path) -> None:
    """18 tokens a call: the cap is looked at before each; refusals count; sent parameters are recorded."""
    arms = {
        "tokens": "react@openai/loop,max-tokens=30,top-p=0.5,seed=3",
        "dollars": "react@openai/loop2,max-cost=0.0001",
        "refusals": "react@openai/refuses,max-tokens=18",
        "unknown": "react@openai/silent,max-tokens=100",
    }
    words = [word for name, arm in arms.items() for word in ("--arm", f"{arm},price=2+8,name={name}")]
    scripts = {"loop": "badargs", "loop2": "unknown_tool", "refuses": "refusal", "silent": "nousage"}
    with endpoint(scripts) as (url, models):
        done = command(tmp_path, url, "run", "--tasks", TASK, "--out", "run", "--json", *words)
    assert done.code == 0, done.err
    trials = {trial["arm"]: trial for trial in records(tmp_path / "run", "trials.jsonl")}
    assert {name: (trial["stop"], trial["steps"]) for name, trial in trials.items()} == {
        "tokens": ("max_tokens", 2),
        "dollars": ("max_cost", 2),
        "refusals": ("max_tokens", 0),
        "unknown": ("no_tool_call", 1),
    }
    assert trials["dollars"]["cost"] == pytest.approx(2 * ONE)
    assert trials["refusals"]["cost"] == pytest.approx(ONE)
    assert trials["unknown"]["cost"] is None
    assert len(models["refuses"].seen) == 1
    first = records(tmp_path / "run", f"calls/{trials['tokens']['trial']}.jsonl")[0]
    assert first["request"]["sampling"] == {"temperature": 0.0, "top_p": 0.5, "seed": 3}
    assert first["reply"]["raw"]["sent"] == {"model": "loop", "temperature": 0.0, "top_p": 0.5, "seed": 3}
    assert {"seed", "top_p"} <= set(models["loop"].seen[0]["keys"])


def test_a_run_ends_at_its_cap_and_goes_on_with_a_higher_one(tmp_path: Path) -> None:
    """What is not begun is not measured (exit 1); resume counts what was spent before."""
    names = ["a", "b", "c", "d"]
    with endpoint(dict.fromkeys(names, "ok")) as (url, models):
        done = run(tmp_path, url, names, "--run-max-tokens", "30", "--workers", "1")
        assert done.code == 1
        assert "--run-max-tokens: 36 of 30 used" in done.err
        assert [len(models[name].seen) for name in names] == [1, 1, 0, 0]
        again = command(tmp_path, url, "resume", "run", "--json", "--run-max-tokens", "36")
        assert again.code == 1
        assert [len(models[name].seen) for name in names] == [1, 1, 0, 0]
        last = command(tmp_path, url, "resume", "run", "--json", "--run-max-tokens", "1000")
    assert last.code == 0, last.err
    assert [len(models[name].seen) for name in names] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "openai/nobody", "--max-cost", "1"), "--price"),
        (("--model", "openai/nobody", "--run-max-cost", "1"), "--price"),
        (("--max-cost", "0"), "--max-cost 0: ends every trial before its first call"),
        (("--tools", ""), "--tools names no tool: name at least one"),
        (("--max-cost", "inf"), "--max-cost must be a number"),
        (("--run-max-cost", "nan"), "'nan' is not a number of dollars"),
        (("--run-max-cost", "inf"), "'inf' is not a number of dollars"),
        (("--model", "openai/nobody", "--price", "1"), "IN,OUT"),
        (("--model", "openai/o3"), "--temperature none"),
        (("--model", "openai/gpt-4.1", "--reasoning-effort", "low"), "--reasoning-effort"),
        (("--model", "anthropic/claude-sonnet-4-5", "--seed", "1"), "--seed"),
        (("--model", "openai/nobody", "--max-tokens", "0"), "--max-tokens"),
    ],
)
def test_what_cannot_be_held_or_sent_is_refused_before_the_first_call(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Exit 2, one line that says what to write, nothing recorded."""
    done = rcb_agent("run", "--out", "run", *words, cwd=tmp_path, env={"OPENAI_API_KEY": "x" * 20})
    assert done.code == 2, done.err
    assert said in done.err
    assert not (tmp_path / "run").exists()
