"""Guards: a curve that asks a model, counts unknown costs as nothing, or disagrees with the run's own table at its end."""

import json
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.base import Arm
from rcb_agent.runs.curve_screen import value_at
from rcb_agent.runs.curves import UNITS, Change, Trace, draw_arm
from tests.agents.loopback import calls, serve, text
from tests.runs.command import rcb_agent, rcb_agent_within, records

ARM = Arm("a", "react", "scripted/demo").as_json()


def spent(steps: float, tokens: float | None = None) -> dict[str, float | None]:
    return {**dict.fromkeys(UNITS, 0.0), "steps": steps, "tokens": tokens}


def trace(task: str, *changes: tuple[int, str], loc: int = 1, tokens: float | None = 5.0) -> Trace:
    return Trace(task, loc, tuple(Change(spent(step, tokens), verdict) for step, verdict in changes))


def shape(traces: list[Trace], unit: str = "steps", name: str = "pass_rate") -> list[tuple[float, float]]:
    return [(point["x"], point[name]) for point in draw_arm(ARM, traces)["units"][unit]["points"]]


def test_a_trial_that_stopped_early_keeps_its_last_value() -> None:
    """One passes at step 2 and stops, one passes at 3 and spoils it at 5."""
    traces = [
        trace("a", (1, "failed"), (2, "passed"), (2, "passed")),
        trace("b", (3, "passed"), (5, "failed"), (9, "failed"), loc=3),
    ]
    assert shape(traces) == [(0, 0), (2, 50), (3, 100), (5, 50), (9, 50)]
    assert shape(traces, name="scaled_pass_rate") == [(0, 0), (2, 25), (3, 100), (5, 25), (9, 25)]


def test_attempts_are_averaged_and_what_is_not_measured_is_a_bracket() -> None:
    """A task weighs the same whatever its attempts; a trial without a grade could have passed from the start."""
    traces = [trace("a", (1, "passed")), trace("a", (1, "failed")), trace("b")]
    assert shape(traces) == [(1, 25)]
    many = [trace("a", (1, "failed"), (2, "passed")), trace("b")]
    assert shape(many) == [(0, 0), (2, 50)]
    assert shape(many, name="pass_rate_upper") == [(0, 50), (2, 100)]
    assert draw_arm(ARM, many)["not_measured"] == 1


def test_an_unknown_amount_is_unknown_and_nothing_is_a_number() -> None:
    """One trial without tokens makes the arm's curve over tokens unknown; no trial at all gives no rate, never NaN."""
    drawn = draw_arm(
        ARM, [trace("a", (1, "passed"), (2, "passed"), tokens=None), trace("b", (1, "passed"), (2, "passed"))]
    )
    assert (drawn["unknown"], drawn["units"]["tokens"]) == (["tokens"], None)
    nothing = draw_arm(ARM, [])
    assert nothing["units"]["steps"]["points"][-1]["pass_rate"] is None
    json.dumps([drawn, nothing], allow_nan=False)


@pytest.mark.sandbox
def test_a_curve_ends_where_the_table_is_and_is_graded_once(tmp_path: Path) -> None:
    """Over a real run: its ends are the run's rates, a second look grades nothing, an interrupted one goes on."""
    words = [
        "--tasks",
        "tidal/*",
        "--agent",
        "react",
        "--agent",
        "direct",
        "--arm",
        "react,without=run_tests,name=blind",
    ]
    done = rcb_agent("run", *words, "--max-steps", "12", "--out", "run", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    before = rcb_agent_within("show", tmp_path / "run", "--json").document
    first = rcb_agent("curve", "run", "--json", cwd=tmp_path)
    assert first.code == 0, first.err
    _check_ends(first.document, done.document)
    grades = records(tmp_path / "run", "grades.jsonl")
    steps = [grade for grade in grades if grade["snapshot"] != "final"]
    trials = records(tmp_path / "run", "trials.jsonl")
    assert len(steps) == 2 * sum(len(trial["snapshots"]) for trial in trials)
    contents = {(t["task"], *sorted(s["files"].items())) for t in trials for s in t["snapshots"]}
    assert sum("graded_as" not in grade["details"] for grade in steps) <= 2 * len(contents)
    assert rcb_agent_within("show", tmp_path / "run", "--json").document == before
    assert "0 findings" in rcb_agent_within("verify", tmp_path / "run").out

    lines = (tmp_path / "run" / "grades.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "run" / "grades.jsonl").write_text("".join(lines[: len(lines) - 31]) + lines[-1][:40])
    again = rcb_agent("curve", "run", "--json", cwd=tmp_path)
    assert again.document == first.document
    assert len(records(tmp_path / "run", "grades.jsonl")) in (len(lines), len(lines) + 1)
    _check_views(tmp_path)


def _check_ends(curves: dict[str, Any], run: dict[str, Any]) -> None:
    for arm, table in zip(curves["arms"], run["arms"], strict=True):
        assert arm["arm"] == table["arm"]
        for unit in ("steps", "minutes"):
            last = arm["units"][unit]["points"][-1]
            assert [last[name] for name in ("pass_rate", "scaled_pass_rate")] == [
                pytest.approx(table[name]) for name in ("pass_rate", "scaled_pass_rate")
            ]
    react, direct, blind = curves["arms"]
    assert (direct["kind"], direct["units"]["steps"]["points"][0]["x"]) == ("point", 1)
    at = {x: value_at(react["units"]["steps"]["points"], x, "pass_rate") or 0.0 for x in (3, 5, 12)}
    assert at[3] == 0 < at[5] < at[12]
    assert value_at(blind["units"]["steps"]["points"], 12, "pass_rate") == at[5]
    assert react["unknown"] == ["tokens"]
    assert react["units"]["dollars"]["points"][-1]["x"] == 0


def _check_views(folder: Path) -> None:
    screen = rcb_agent_within("curve", folder / "run", "--by", "steps", "--by", "tokens", "--plot", folder / "c.png")
    assert screen.code == 0, screen.err
    assert "tokens unknown, not drawn: react@scripted-demo, direct@scripted-demo, blind" in screen.out
    assert "a script, not a language model" in screen.out
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    both = rcb_agent_within("curve", folder / "run", "--csv", "--json")
    assert (both.code, both.out, "choose one" in both.err) == (2, "", True)
    csv = rcb_agent_within("curve", folder / "run", "--csv").out.splitlines()
    assert csv[0].startswith("arm,kind,by,x,")
    assert "react@scripted-demo,curve,tokens,unknown,,,," in csv
    only = rcb_agent_within("curve", folder / "run", "--arm", "blind", "--json").document
    assert [arm["arm"] for arm in only["arms"]] == ["blind"]
    (folder / "no" / "matplotlib").mkdir(parents=True)
    (folder / "no" / "matplotlib" / "__init__.py").write_text("raise ImportError('gone')")
    missing = rcb_agent("curve", "run", "--plot", "c.pdf", cwd=folder, env={"PYTHONPATH": str(folder / "no")})
    assert (missing.code, "pip install 'rcb-agent[plots]'" in missing.err) == (2, True)
    for words, said in (
        (("--plot", folder / "c.gif"), ".png, .pdf, .svg"),
        (("--plot", folder / "nowhere" / "c.png"), "there is no folder"),
        (("--arm", "nobody"), "has no arm 'nobody'"),
    ):
        wrong = rcb_agent_within("curve", folder / "run", *words)
        assert (wrong.code, said in wrong.err) == (2, True), wrong.err


@pytest.mark.sandbox
def test_tokens_and_dollars_are_those_of_the_calls_so_far(attack_suite: Path, tmp_path: Path) -> None:
    """18 tokens a call, an unanswered one included; another grader's ends are not mixed with today's steps."""
    gold = (Path(__file__).parent.parent / "attacks" / "task" / "plain" / "solution.py").read_text()
    write = json.dumps({"path": "model.py", "content": gold})
    script = [calls(("list_files", "{}")), text(""), calls(("write_file", write)), calls(("submit", "{}"))]
    words = ["run", "--suite", str(attack_suite), "--tasks", "plain/smooth", "--agent", "react", "--model", "openai/x"]
    with serve(script) as server:
        env = {"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "x"}
        done = rcb_agent(*words, "--price", "2,8", "--out", "run", "--json", cwd=tmp_path, env=env)
        assert done.code == 0, done.err
        curve = rcb_agent("curve", "run", "--json", cwd=tmp_path, env=env)
        assert len(server.requests) == 4
    assert curve.code == 0, curve.err
    (arm,) = curve.document["arms"]
    one = 11 * 2e-6 + 7 * 8e-6
    for unit, places in (("steps", [0, 2, 3]), ("tokens", [0, 54, 72]), ("dollars", [0, 3 * one, 4 * one])):
        points = arm["units"][unit]["points"]
        assert [point["x"] for point in points] == [pytest.approx(place) for place in places]
        assert [point["pass_rate"] for point in points] == [0, 100, 100]
    path = tmp_path / "run" / "grades.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({**line, "grader": "split-0"}) + "\n" for line in lines if line["snapshot"] == "final")
    )
    old = rcb_agent("curve", "run", cwd=tmp_path)
    assert (old.code, "was graded by split-0" in old.err, "regrade" in old.err) == (2, True, True)
