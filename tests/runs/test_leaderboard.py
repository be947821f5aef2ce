"""Guards: rates beside each other that are over different tasks, or that are not the published ones."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.runs.leaderboard import SORTS, BoardRequest, make_board, rank_records
from rcb_agent.tasks.published import load_published
from tests.runs.command import rcb_agent, rcb_agent_within
from tests.runs.published_runs import make_run

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "published_rates.json").read_text())
DYT = [task.id for task in load_published().tasks.values() if task.paper == "DyT"]


def test_published_models_come_out_without_a_suite(tmp_path: Path) -> None:
    """Both rates to 1e-9 and the 13-paper rate to 0.005, with intervals around them, with nothing pulled."""
    done = rcb_agent("leaderboard", "--json", cwd=tmp_path, env={"RCB_AGENT_CACHE": str(tmp_path / "empty")})
    assert done.code == 0, done.err
    models = {record["id"]: record for record in done.document["models"]}
    assert models.keys() == GOLDEN.keys()
    for name, record in models.items():
        assert record["pass_rate"] == pytest.approx(GOLDEN[name]["task_rate"], abs=1e-9)
        assert record["scaled_pass_rate"] == pytest.approx(GOLDEN[name]["line_rate"], abs=1e-9)
        assert record["safe"]["scaled_pass_rate"] == pytest.approx(GOLDEN[name]["safe_line_rate"], abs=0.005)
        assert record["interval"][0] <= record["scaled_pass_rate"] <= record["interval"][1]
        views = [record[view]["tasks"] for view in ("outermost", "safe", "hard")]
        assert views == [77, 143, 109]
    assert models["GEMINI_2_5_PRO_PREVIEW_05_06"]["outermost"]["scaled_pass_rate"] == pytest.approx(34.2, abs=0.05)
    rates = [record["scaled_pass_rate"] for record in done.document["models"]]
    assert rates == sorted(rates, reverse=True)


def test_every_sort_keeps_every_model() -> None:
    """Sorting loses nothing and does what it says; the command line has the same words."""
    from rcb_agent.cli_published import SORTS as WORDS

    models = make_board(BoardRequest())["models"]
    for sort in SORTS:
        found = rank_records(models, sort)
        assert {record["id"] for record in found} == GOLDEN.keys()
        values = [SORTS[sort](record) for record in found]
        assert values == sorted(values, reverse=sort not in ("name", "developer", "cutoff"))
    assert set(WORDS) == set(SORTS)


def test_hard_and_safe_are_boards_of_their_own() -> None:
    """All numbers are then over those tasks, and the two can be had together."""
    hard, both = make_board(BoardRequest(hard=True)), make_board(BoardRequest(hard=True, safe=True))
    assert (hard["tasks"], {record["tasks"] for record in hard["models"]}) == (109, {109})
    assert both["tasks"] < 109
    assert all(record["tasks"] == record["safe"]["tasks"] == record["hard"]["tasks"] for record in both["models"])


def test_developer_and_top_choose_models() -> None:
    """The first two of one developer; an unknown one is answered with the known ones."""
    found = make_board(BoardRequest(developer="google", top=2))["models"]
    assert [record["id"] for record in found] == ["GEMINI_2_5_PRO_PREVIEW_05_06", "GEMINI_2_5_PRO_PREVIEW_03_25"]
    with pytest.raises(UsageError, match=r"known: .*Anthropic"):
        make_board(BoardRequest(developer="Gogle"))


def test_an_arm_over_some_tasks_is_partial_and_measured_against_the_same_tasks(tmp_path: Path) -> None:
    """Published models stand beside it over exactly its tasks, and it is not among those over all of them."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed") | {DYT[0]: "failed", DYT[1]: "not_measured"})
    board = make_board(BoardRequest(runs=(str(run),)))
    (arm,) = board["arms"]
    assert (arm["partial"], arm["tasks"], arm["passed"], arm["not_measured"]) == (True, 9, 7, 1)
    assert arm["pass_rate"] == pytest.approx(100 * 7 / 9)
    assert arm["pass_rate_upper"] == pytest.approx(100 * 8 / 9)
    assert arm["interval"] is None
    assert {record["tasks"] for record in board["models"]} == {212}
    beside = {record["id"]: record for record in arm["published_over_same_tasks"]}
    assert beside.keys() == GOLDEN.keys()
    for model in load_published().models:
        record = beside[model.id]
        assert (record["tasks"], record["passed"]) == (9, len(model.passed & set(DYT)))


def test_the_table_fits_and_says_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100 columns nothing is cut, and the partial table names its denominator."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed"), model="scripted/demo")
    monkeypatch.setenv("COLUMNS", "100")
    done = rcb_agent_within("leaderboard", "--run", run, "--top", "32")
    assert done.code == 0, done.err
    tables = [line for line in done.out.splitlines() if line.startswith("│")]
    assert max(map(len, tables)) <= 100
    assert "Gemini-2.5-Flash-Preview-04-17" in done.out
    assert "partial: 9 of 212 tasks" in done.out
    assert "scripted, not a language model" in done.out
    assert "no safe rate: its cutoff is not known" in done.out


def test_a_run_over_another_suite_has_no_place(tmp_path: Path) -> None:
    """Tasks of another id or size are no tasks of the benchmark: left out and counted, or refused when none is left."""
    with pytest.raises(UsageError, match="none of its tasks"):
        make_board(
            BoardRequest(
                developer="Amazon", runs=(str(make_run(tmp_path / "a", {DYT[0]: "passed"}, locs={DYT[0]: 99})),)
            )
        )
    run = make_run(tmp_path / "b", dict.fromkeys(DYT[:3], "passed"), locs={DYT[0]: 99})
    (arm,) = make_board(BoardRequest(developer="Amazon", runs=(str(run),)))["arms"]
    assert (arm["tasks"], arm["tasks_unknown"]) == (2, 1)


@pytest.mark.parametrize(
    ("cutoff", "reason"),
    [
        ("2024-11", ""),
        ("2025-03", "cutoff 2025-03: it may have read 10 of the 13 papers"),
        ("2025-06", "no paper is newer than its cutoff 2025-06"),
    ],
)
def test_a_safe_rate_needs_a_cutoff_before_the_papers(tmp_path: Path, cutoff: str, reason: str) -> None:
    """A model newer than the papers gets none and the reason; over safe papers only, it is left out."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed"), model="x/new")
    request: dict[str, Any] = {"developer": "Amazon", "runs": (f"{run}:a",), "cutoffs": (f"x/new={cutoff}",)}
    (arm,) = make_board(BoardRequest(**request))["arms"]
    assert (arm["safe"] is None, arm["safe_reason"]) == (bool(reason), reason)
    board = make_board(BoardRequest(**request, safe=True))
    assert [item["reason"] for item in board["left_out"]] == ([reason] if reason else [])


def test_an_arm_of_a_known_model_has_its_cutoff(tmp_path: Path) -> None:
    """openai/gpt-4.1 is in the table."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed"))
    (arm,) = make_board(BoardRequest(developer="Amazon", runs=(str(run),)))["arms"]
    assert (arm["cutoff"], arm["safe"]["tasks"]) == ("2023-12", 9)


@pytest.mark.parametrize("words", [("--run", "run:b"), ("--cutoff", "x"), ("--cutoff", "x=never"), ("--json", "--csv")])
def test_wrong_words_are_usage_errors(tmp_path: Path, words: tuple[str, ...]) -> None:
    """One line, exit code 2."""
    make_run(tmp_path / "run", {DYT[0]: "passed"})
    done = rcb_agent_within("leaderboard", "--results", tmp_path, *words)
    assert (done.code, len(done.err.splitlines())) == (2, 1), done.err


def test_csv_has_a_line_per_model_and_arm(tmp_path: Path) -> None:
    """With what a partial arm is set beside named as such."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed"))
    done = rcb_agent_within("leaderboard", "--run", run, "--developer", "Amazon", "--csv")
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert [(line["kind"], line["over"]) for line in lines] == [
        ("published", ""),
        ("arm", "run:a"),
        ("published", "run:a"),
    ]
    assert float(lines[1]["pass_rate"]) == 100


def test_what_an_arm_is_stands_in_latex_too(tmp_path: Path) -> None:
    """A scripted or partial arm in a paper's table is called so."""
    run = make_run(tmp_path / "run", dict.fromkeys(DYT, "passed"), model="scripted/demo")
    tex = rcb_agent_within("leaderboard", "--run", run, "--latex").out
    assert f"covers {len(DYT)} tasks" in tex
    assert "scripted, not a language model" in tex


def test_the_latex_table_holds_every_line_of_the_board(tmp_path: Path) -> None:
    """A row per model with as many cells as columns, written to the file by its suffix."""
    done = rcb_agent_within("leaderboard", "--top", "5", "--out", tmp_path / "board.tex")
    assert (done.code, done.out) == (0, "")
    tex = (tmp_path / "board.tex").read_text()
    rows = [line for line in tex.splitlines() if line.endswith("\\\\")]
    assert len(rows) == 6
    assert all(row.count("&") == 6 for row in rows)
    assert "Gemini-2.5-Pro-Preview-05-06 & 136/212 & 64.2 & 37.3 [" in tex
