"""Guards: imported results that look like ours, lose a completion, or change a verdict."""

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rcb_agent.errors import TaskError
from rcb_agent.runs.leaderboard import BoardRequest, make_board
from rcb_agent.runs.upstream_results import read_upstream_results
from tests.runs.command import Done, rcb_agent_within, records
from tests.runs.published_runs import published_passes, results_of, write_json


def import_file(place: Path, document: Any, *words: str) -> Done:
    path = write_json(place / "stats.json", document)
    return rcb_agent_within("import-upstream", path, "--out", place / "run", *words)


def test_a_published_model_comes_out_as_published(tmp_path: Path) -> None:
    """overall_stats.json to a run folder, and its arm beside the published model: the same numbers, marked."""
    scores = {"GPT_4_1": {"llm_cfg": {"model": "gpt-4.1-2025-04-14", "client_kwargs": {}}, "line_rates": {"mean": 1}}}
    results = results_of({"GPT_4_1": published_passes("GPT_4_1")})
    done = import_file(tmp_path, {"results": results, "overall_scores": scores}, "--json")
    assert done.code == 0, done.err
    arm = done.arm("gpt-4-1")
    assert (arm["passed"], arm["trials"], arm["not_measured"], arm["flags"]) == (106, 212, 0, {"imported": 212})
    assert {arm[key] for key in ("cost", "tokens", "steps", "seconds")} == {None}
    assert done.document["imported"]["file"] == "stats.json"
    board = make_board(BoardRequest(developer="OpenAI", runs=(str(tmp_path / "run"),)))
    (mine,) = board["arms"]
    theirs = next(record for record in board["models"] if record["id"] == "GPT_4_1")
    views = ("interval", "scaled_pass_rate", "pass_rate", "outermost", "safe", "hard")
    assert {view: mine[view] for view in views} == {view: theirs[view] for view in views}
    assert (mine["partial"], mine["mode"], mine["imported"]["by"]) == (False, "upstream", "ResearchCodeBench")
    assert mine["blank_scope"]["scaled_pass_rate"] == mine["scaled_pass_rate"]


def test_every_record_fits_its_schema_and_is_shown(tmp_path: Path) -> None:
    """Several completions, one of them missing: attempts, a trial that was not measured, and the commands that look."""
    document = results_of(
        {"A B": lambda task, n: task.loc == 1, "a-b": lambda task, n: None if n and task.name == "init" else bool(n)},
        completions=2,
        papers=["DyT"],
    )
    document["DyT"]["results"]["A B"]["results"]["tanh"][0] |= {"passed": False, "exit_code": 124}
    document["DyT"]["results"]["A B"]["results"]["bias"][0] |= {"passed": False, "exit_code": 0}
    done = import_file(tmp_path, document, "--json")
    assert done.code == 0, done.err
    assert "1 of 36 completions are not in the file" in done.err
    run = tmp_path / "run"
    lines = {
        "run": [json.loads((run / "run.json").read_text())],
        "trial": records(run, "trials.jsonl"),
        "grade": records(run, "grades.jsonl"),
    }
    for name, found in lines.items():
        schema = json.loads((files("rcb_agent.runs") / "schema" / f"{name}.json").read_text())
        for line in found:
            Draft202012Validator(schema).validate(line)
    assert (len(lines["trial"]), len(lines["grade"])) == (36, 72)
    assert len({arm["arm"] for arm in done.document["arms"]}) == 2
    other = done.document["arms"][1]
    assert (other["passed"], other["failed"], other["not_measured"], other["not_run"]) == (8, 9, 1, 0)
    assert [g["task"] for g in lines["grade"] if g["reason"] == "time_limit"] == ["DyT/tanh"] * 2
    assert [t["error"]["reason"] for t in lines["trial"] if t["error"]] == ["model"]
    odd = [g for g in lines["grade"] if g["verdict"] == "failed" and g["details"] == {"exit_code": 0}]
    assert [grade["task"] for grade in odd] == ["DyT/bias"] * 2
    shown = rcb_agent_within("show", run)
    assert "imported from stats.json: measured by ResearchCodeBench, not by rcb-agent" in shown.out
    trial = lines["trial"][0]["trial"]
    assert "stop: imported" in rcb_agent_within("show", run, trial).out
    refused = rcb_agent_within("diff", run, trial)
    assert (refused.code, "no code is recorded" in refused.err) == (2, True)


def test_an_imported_run_is_not_resumed(tmp_path: Path) -> None:
    """There is nothing to go on with, and nothing is written; importing the same file again is no other run."""
    document = results_of({"M": lambda task, n: True}, papers=["DyT"])
    assert import_file(tmp_path, document).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")}
    done = rcb_agent_within("resume", tmp_path / "run")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "imported from stats.json" in done.err
    assert import_file(tmp_path, document).code == 0
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")}
    other = import_file(tmp_path, results_of({"M": lambda task, n: False}, papers=["DyT"]))
    assert (other.code, "holds a run with another config" in other.err) == (2, True)


CELL = {"snippet_code_line_count": 1, "completion_idx": 0, "passed": True, "exit_code": 0}


def cells(*given: Any) -> dict[str, Any]:
    return {"DyT": {"results": {"M": {"results": {"tanh": list(given)}}}}}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ([], "the whole file"),
        ({"results": {}}, "results"),
        ({"results": {"DyT": {}}}, "results.DyT"),
        (cells({**CELL, "passed": "yes"}), "results.DyT.results.M.results.tanh.0.passed"),
        (cells({**CELL, "snippet_code_line_count": True}), "results.tanh.0.snippet_code_line_count"),
        (cells({**CELL, "completion_idx": -1}), "results.tanh.0.completion_idx"),
        (cells({"passed": True}), "results.DyT.results.M.results.tanh.0"),
        (cells(CELL, CELL), "results.tanh.1.completion_idx: a second completion 0"),
        (cells(CELL, {**CELL, "completion_idx": 1, "snippet_code_line_count": 2}), "tanh.1.snippet_code_line_count"),
        (cells(), "holds no completion"),
        ({"a/b": cells(CELL)["DyT"]}, "a/b"),
    ],
)
def test_a_malformed_file_is_named_with_its_key(tmp_path: Path, document: Any, key: str) -> None:
    """One line that says where."""
    path = write_json(tmp_path / "stats.json", document)
    with pytest.raises(TaskError) as caught:
        read_upstream_results(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1, "a": 2}', "\ud800", "[" * 100_000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    """Exit code 3 through the command, one line, no folder."""
    (tmp_path / "stats.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(TaskError, match="is not JSON"):
        read_upstream_results(tmp_path / "stats.json")


def test_a_malformed_file_ends_the_command_with_3(tmp_path: Path) -> None:
    """And leaves no run folder."""
    done = import_file(tmp_path, cells({**CELL, "passed": 1}))
    assert (done.code, len(done.err.splitlines()), (tmp_path / "run").exists()) == (3, 1, False)
    assert rcb_agent_within("import-upstream", tmp_path / "nowhere.json").code == 3


def test_tasks_that_are_not_the_benchmarks_are_taken_and_named(tmp_path: Path) -> None:
    """A fork's paper has no known depth: said, and no place on the leaderboard."""
    document = cells(CELL) | {"mine": {"results": {"M": {"results": {"x": [CELL]}}}}}
    done = import_file(tmp_path, document, "--json")
    assert (done.code, "1 tasks are not the benchmark's (first 'mine/x')" in done.err) == (0, True)
    (arm,) = make_board(BoardRequest(developer="Amazon", runs=(str(tmp_path / "run"),)))["arms"]
    assert (arm["tasks"], arm["tasks_unknown"]) == (1, 1)


@pytest.mark.upstream
def test_the_released_file_gives_the_published_rows(tmp_path: Path) -> None:
    """All 32 models, every number equal."""
    place = Path(os.environ.get("RCB_UPSTREAM") or "nowhere") / "outputs"
    found = list(place.glob("20llms_greedy/*/overall_stats.json"))
    if not found:
        pytest.skip("RCB_UPSTREAM is not set to a checkout of ResearchCodeBench with its released results")
    assert rcb_agent_within("import-upstream", found[0], "--out", tmp_path / "run").code == 0
    board = make_board(BoardRequest(runs=(str(tmp_path / "run"),)))
    views = ("cutoff", "interval", "passed", "scaled_pass_rate", "pass_rate", "outermost", "safe", "hard")
    mine, theirs = ([{view: r[view] for view in views} for r in board[key]] for key in ("arms", "models"))
    assert sorted(map(str, mine)) == sorted(map(str, theirs))
