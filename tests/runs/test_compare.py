"""Guards: arms compared that were not measured alike, numbers that say more than the run can, edges that print NaN."""

import csv
import io
import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.base import Arm, trial_name
from rcb_agent.runs.compare import CompareRequest, make_comparison
from rcb_agent.runs.depth import FULL
from rcb_agent.runs.latex import escape_latex
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import run_table
from rcb_agent.runs.soundness import records_folder
from rcb_agent.runs.store import open_store
from rcb_agent.runs.summary import summarise_run
from tests.runs.command import Done
from tests.runs.command import rcb_agent_within as rcb_agent
from tests.runs.conftest import config, grade_record, trial_record
from tests.runs.published_runs import published_passes, results_of, write_json

GEMINI, O3, O4, GPT = (
    f"published:{name}" for name in ("Gemini-2.5-Pro-Preview-05-06", "O3 (High)", "O4-Mini (High)", "GPT-4.1")
)
MARKS = {"1": "passed", "0": "failed", "?": "not_measured"}


def make_run(path: Path, arms: Mapping[str, str], papers: str, *, attempts: int = 1, **changes: Any) -> Path:
    """Write a run: arm -> a mark per task and attempt (1, 0, ? not measured, - not run); ``papers`` a letter per task.

    Marks of attempt 1 of all tasks come first, then those of attempt 2. Each task has 2 lines, each trial costs 0.5
    dollars, 110 tokens, 2 steps, 3 seconds.
    """
    tasks = [f"{paper}/{place}" for place, paper in enumerate(papers)]
    facts = {
        task: {"paper": task[0], "loc": 2, "depth": place % 2, "digest": f"{place:064x}"[::-1]}
        for place, task in enumerate(tasks)
    }
    made = tuple(Arm(name, "react", "scripted/demo", max_steps=10 + n) for n, name in enumerate(arms))
    settings = config(tasks=tuple(tasks), arms=made, attempts=attempts, **changes)
    with open_store(path, settings, {"task_facts": facts, "faults": []}, path.parent) as store:
        for arm, marks in arms.items():
            for place, mark in enumerate(marks.replace(" ", "")):
                attempt, task = place // len(tasks) + 1, tasks[place % len(tasks)]
                if mark == "-":
                    continue
                head = {"trial": trial_name(arm, task, attempt), "arm": arm, "attempt": attempt}
                usage = {"input_tokens": 100, "output_tokens": 10}
                store.add_trial(trial_record(task, **head, cost=0.5, usage=usage, steps=2, seconds=3.0))
                for scope in ("diff", "blank"):
                    store.add_grade(grade_record(task, scope, **head, verdict=MARKS[mark]))
    return path


def compare(*words: str | Path) -> Done:
    return rcb_agent("compare", *words)


def no_number_is_none(document: Any) -> None:
    """Fail on NaN and infinity, which JSON has no word for."""
    json.loads(json.dumps(document), parse_constant=pytest.fail)


def headline(done: Done, place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = done.document["pairs"][place]["views"][0]["scaled"]
    return found


@pytest.mark.parametrize(
    ("pair", "difference", "mcnemar", "detectable", "words"),
    [
        ((GEMINI, O3), (5.2, -1.6, 12.2), 0.10, 10.4, "solved 20 tasks that O3 (High) did not and lost 10"),
        ((O3, O4), (1.4,), 0.87, 8.7, "This run cannot tell them apart; it would have seen 8.8."),
        ((GEMINI, GPT), (9.8, 3.1, 14.5), 9e-6, 8.7, "They differ (sign flips over 20 papers: p = 0.019)."),
    ],
)
def test_published_models_compare_as_elsewhere(
    pair: tuple[str, str], difference: tuple[float, ...], mcnemar: float, detectable: float, words: str
) -> None:
    """Through the command, without a pulled suite; the values were computed by another program with other draws."""
    done = compare(*pair, "--json")
    assert done.code == 0, done.err
    record = headline(done)
    assert record["difference"] == pytest.approx(difference[0], abs=0.05)
    assert record["interval"][: len(difference) - 1] == pytest.approx(list(difference[1:]), abs=0.3)
    assert record["detectable"] == pytest.approx(detectable, abs=0.15)
    assert done.document["pairs"][0]["mcnemar"]["p"] == pytest.approx(mcnemar, rel=0.05)
    assert words in done.document["pairs"][0]["sentence"]


def test_an_imported_file_compares_as_the_published_models_do(tmp_path: Path) -> None:
    """The same passes, by way of a run folder: the same numbers, and alike enough to be compared with the published."""
    models = {"GEMINI_2_5_PRO_PREVIEW_05_06": GEMINI, "O3_HIGH": O3}
    file = write_json(tmp_path / "results.json", results_of({name: published_passes(name) for name in models}))
    assert rcb_agent("import-upstream", file, "--out", tmp_path / "theirs").code == 0
    imported = compare(tmp_path / "theirs", "--json")
    assert headline(imported) == headline(compare(GEMINI, O3, "--json"))
    assert compare(f"{tmp_path / 'theirs'}:o3-high", GEMINI, "--json").code == 0


def test_one_run_is_compared_with_what_it_took(tmp_path: Path) -> None:
    """Sums and costs per solved line; what was varied is named, and nothing else."""
    run = make_run(tmp_path / "run", {"a": "1110 1110", "b": "1000 0000"}, "ppppqqqq")
    done = compare(run, "--json")
    a, b = done.document["arms"]
    assert a["effort"] == {"cost": 4.0, "tokens": 880, "steps": 16, "seconds": 24.0}
    assert a["per_solved_line"] == pytest.approx({"cost": 1 / 3, "tokens": 880 / 12, "steps": 16 / 12, "seconds": 2.0})
    assert b["per_solved_line"]["cost"] == 2.0
    assert done.document["varied"] == {"max_steps": {"a": 10, "b": 11}}
    table = done.document["pairs"][0]["table"]
    assert (table["both"], table["first_only"], table["second_only"], table["neither"]) == (1, 5, 0, 2)
    assert table["second_only_tasks"] == []
    views = [(view["scope"], view["view"], view["tasks"]) for view in done.document["pairs"][0]["views"]]
    assert views == [("diff", "all", 8), ("diff", "outermost", 4), ("blank", "all", 8), ("blank", "outermost", 4)]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"suite_digest": "9" * 64}, "suite_digest"),
        ({"mode": "upstream"}, "mode"),
        ({"limits": {"memory_mb": 1024}}, "limits"),
        ({"runtimes": {"mini": "7" * 64}}, "runtimes"),
        ({"sandbox": "host"}, "sandbox"),
        ({"salt": "x"}, "salt"),
        ({"pythons": {"mini": "/usr/bin/python3"}}, "pythons"),
    ],
)
def test_what_was_not_measured_alike_is_refused_and_named(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    one = make_run(tmp_path / "one", {"a": "10"}, "pq")
    other = make_run(tmp_path / "other", {"b": "01"}, "pq", **changes)
    done = compare(one, other)
    assert done.code == 2
    assert f"{named} (" in done.err
    forced = compare(one, other, "--force")
    assert forced.code == 0
    assert f"NOT MEASURED ALIKE (--force): {named}" in forced.out.replace("\n", " ")
    assert named in compare(one, other, "--force", "--json").document["measured_unlike"]
    tex = compare(one, other, "--force", "--latex").out
    assert tex.count(f"NOT MEASURED ALIKE (forced): {escape_latex(named)}}}") == 2
    rows = csv.DictReader(io.StringIO(compare(one, other, "--force", "--csv").out))
    assert {row["measured_unlike"] for row in rows} == {named}


def test_grades_of_another_grader_are_named(tmp_path: Path) -> None:
    """A regrade leaves the config as it was: what counts is who gave the grades that count."""
    one = make_run(tmp_path / "one", {"a": "10"}, "pq")
    other = make_run(tmp_path / "other", {"a": "10"}, "pq")
    lines = (other / "grades.jsonl").read_text().replace('"grader": "1"', '"grader": "2"')
    (other / "grades.jsonl").write_text(lines)
    assert "graders (['1'], ['2'])" in compare(one, other).err


def test_other_tasks_are_refused_and_forced_over_the_common_ones(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", {"a": "110"}, "pqr")
    other = make_run(tmp_path / "other", {"b": "01"}, "pq")
    assert "tasks (3 tasks" in compare(one, other).err
    forced = compare(one, other, "--force", "--json").document
    assert (forced["tasks"], forced["arms"][0]["effort"]["steps"]) == (2, 4)
    apart = make_run(tmp_path / "apart", {"c": "1"}, "z")
    assert "no task in common" in compare(one, apart, "--force").err


EDGES: Mapping[str, tuple[dict[str, str], str, str]] = {
    "all not measured": ({"a": "????", "b": "????"}, "ppqq", "Nothing of a and b was measured"),
    "one arm not measured": ({"a": "????", "b": "1010"}, "ppqq", "Nothing of a was measured"),
    "not run yet": ({"a": "----", "b": "1010"}, "ppqq", "Nothing of a was measured"),
    "one paper": ({"a": "1100", "b": "0100"}, "pppp", "one paper, which shows no spread"),
    "identical": ({"a": "1100", "b": "1100"}, "ppqq", "did the same on all 4 tasks: +0.0 points"),
    "all passed": ({"a": "1111", "b": "1111"}, "ppqq", "did the same on all 4 tasks"),
    "tie": ({"a": "10", "b": "01"}, "pq", "solved 1 task that b did not and lost 1: +0.0 points"),
    "one task": ({"a": "1", "b": "0"}, "p", "solved 1 task that b did not and lost 0: +100.0 points"),
    "everything": ({"a": "1111", "b": "0000"}, "ppqq", "Every paper agrees on that exactly"),
}


@pytest.mark.parametrize("edge", EDGES)
def test_edges_say_what_cannot_be_said(tmp_path: Path, edge: str) -> None:
    """A clear line on top, numbers or nothing below, in every form."""
    arms, papers, words = EDGES[edge]
    run = make_run(tmp_path / "run", arms, papers)
    screen, document = compare(run), compare(run, "--json").document
    assert screen.code == 0, screen.err
    assert words in " ".join(screen.out.split())
    assert words in document["pairs"][0]["sentence"]
    no_number_is_none(document)
    for form in ("--csv", "--latex"):
        done = compare(run, form)
        assert done.code == 0, done.err
        assert "nan" not in (screen.out + done.out).lower()


def test_what_was_not_measured_is_a_bracket(tmp_path: Path) -> None:
    """Counted against the arm in the headline; the sentence gives both ends, and measured tasks have a line."""
    run = make_run(tmp_path / "run", {"a": "1?00 1100", "b": "0010 1?00"}, "ppppqqqq")
    done = compare(run, "--json")
    assert headline(done)["bracket"] == [0.0, 25.0]
    assert "anything from +0.0 to +25.0" in done.document["pairs"][0]["sentence"]
    views = {(view["scope"], view["view"]): view["tasks"] for view in done.document["pairs"][0]["views"]}
    assert views["diff", "measured"] == 6


def test_what_was_not_measured_can_unsettle_what_was(tmp_path: Path) -> None:
    """Seven papers all for one arm would be a difference; with as much not measured of the other it is none yet."""
    clear = make_run(tmp_path / "clear", {"a": "11111110" * 2, "b": "0" * 16}, "ppqqrrsstuvwxyzz")
    assert compare(clear, "--json").document["pairs"][0]["verdict"] == "different"
    turned = make_run(tmp_path / "turned", {"a": "11111110" * 2, "b": "0" + "?" * 15}, "ppqqrrsstuvwxyzz")
    pair = compare(turned, "--json").document["pairs"][0]
    assert pair["verdict"] == "not_settled"
    assert "could turn it" in pair["sentence"]
    assert "(15 n/m)" in compare(turned).out


def test_pass_at_k_is_shown_for_ks_that_all_arms_have(tmp_path: Path) -> None:
    """Three attempts against one: means are compared, no pass@k; three against two: k = 2 in both."""
    three = make_run(tmp_path / "three", {"a": "10 01 00"}, "pq", attempts=3)
    two = make_run(tmp_path / "two", {"b": "11 00"}, "pq", attempts=2)
    one = make_run(tmp_path / "one", {"c": "10"}, "pq")
    done = compare(three, one, "--json").document
    assert [arm["pass_at_k"] for arm in done["arms"]] == [{}, {}]
    assert any("Attempts differ (a 3, c 1)" in line for line in done["remarks"])
    both = compare(three, two, "--json").document
    assert [list(arm["pass_at_k"]) for arm in both["arms"]] == [["2"], ["2"]]
    assert both["pairs"][0]["views"][0]["plain"]["difference"] == pytest.approx(100 * (1 / 3 - 1 / 2))
    assert any("pass@k is shown up to k = 2" in line for line in both["remarks"])


def validate(verdicts: Mapping[int, str]) -> None:
    """Leave records of a full validation: task number -> verdict."""
    records_folder().mkdir(parents=True)
    for place, verdict in verdicts.items():
        digest = f"{place:064x}"[::-1]
        record = {"digest": digest, "time": 1, "verdict": verdict, "depth": asdict(FULL)}
        (records_folder() / f"{digest[:32]}.0.json").write_text(json.dumps(record))


def test_sound_tasks_are_a_line_of_their_own_once_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both scopes and beside each arm, with their number; without a validation the document says that it is not known."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path / "cache"))
    run = make_run(tmp_path / "run", {"a": "1100", "b": "0001"}, "ppqq")
    unknown = compare(run, "--json").document
    validate({0: "sound", 1: "weak", 2: "sound"})
    document = make_comparison(CompareRequest((str(run),)))
    views = {(view["scope"], view["view"]): view for view in document["pairs"][0]["views"]}
    assert (views["diff", "sound"]["tasks"], views["blank", "sound"]["plain"]["difference"]) == (2, 50.0)
    assert document["arms"][0]["scopes"]["diff"]["sound"]["passed"] == 1
    assert document["sound_tasks"] == 2
    assert any("Sound tasks only: 2 of 4" in line for line in document["remarks"])
    summary = summarise_run(RunReader(run))
    assert (summary["sound_tasks"], summary["not_validated"]) == (2, 1)
    assert "sound: over 2 of 4 tasks, 1 not validated" in str(run_table(summary).caption)
    assert unknown["sound_tasks"] is None
    assert any("Sound tasks only: not known" in line for line in unknown["remarks"])


def test_arms_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """By their run; a copied folder has the same run and arm, and must not be taken for one with its original."""
    one = make_run(tmp_path / "one", {"a": "11"}, "pq")
    other = make_run(tmp_path / "other", {"a": "00"}, "pq")
    assert [arm["id"] for arm in compare(one, other, "--json").document["arms"]] == ["one:a", "other:a"]
    copied = tmp_path / "copied"
    shutil.copytree(one, copied)
    document = compare(one, copied, other, "--json").document
    assert [arm["id"] for arm in document["arms"]] == ["one:a#1", "one:a#2", "other:a"]
    assert [pair["table"]["first_only"] for pair in document["pairs"]] == [0, 2, 2]


def test_many_pairs_are_counted_and_those_that_differ_told(tmp_path: Path) -> None:
    """Ten sentences would bury the one that matters."""
    papers = "pqrstuvwxyz"
    arms = {"a": "1" * 11, **dict.fromkeys("bcde", f"1{'0' * 10}")}
    done = compare(make_run(tmp_path / "run", arms, papers))
    assert done.out.startswith(
        "Of 10 pairs 4 differ, 0 cannot be told apart, 6 neither: not settled, not measured, or no spread between papers.\na solved"
    )
    assert done.out.count("They differ") == 4


def test_too_few_papers_to_speak_is_said(tmp_path: Path) -> None:
    """Three papers allow no p below 0.25, however clear it looks."""
    run = make_run(tmp_path / "run", {"a": "111110", "b": "000000", "c": "111110"}, "ppqqrr")
    assert "So few papers differ that no p of sign flips can be below 0.25" in compare(f"{run}:a", f"{run}:b").out
    assert "In 2 of 3 pairs so few papers differ" in compare(run).out


def test_a_difference_that_holm_leaves_open_is_not_called_visible() -> None:
    """9.8 points not settled beside "would have seen 8.7" is no sentence: the 8.7 are those of one pair."""
    documents = [
        compare(*arms, "--against", "GPT-4.1", "--json").document for arms in ((GEMINI, GPT), (GEMINI, O3, O4, GPT))
    ]
    assert compare(GEMINI, GPT, "--against", GPT, "--json").document == documents[0]  # as it is written beside it
    alone, among = (document["pairs"][0] for document in documents)
    assert alone["verdict"] == "different"
    assert among["verdict"] == "not_settled"
    assert "not settled after Holm; were this pair alone, 4 of 5 such runs would find a true" in among["sentence"]
    assert "would have seen" not in among["sentence"]


def test_a_run_that_sees_nothing_and_few_papers_are_said(tmp_path: Path) -> None:
    """Nothing differs by more than 100 points; an interval over two papers is no 95 %."""
    run = make_run(tmp_path / "run", {"a": "10", "b": "01"}, "pq")
    text = " ".join(compare(run).out.split())
    assert "it would take more than 100 points: this run can see nothing" in text
    assert "The interval rests on 2 papers: with fewer than 8 in common it is too narrow." in text
    assert "too narrow" not in compare(GEMINI, O3).out


def test_several_pairs_are_adjusted_and_one_can_be_the_baseline(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"a": "11111110", "b": "10000000", "c": "01100110"}, "pqrstuvw")
    every = compare(run, "--json").document["pairs"]
    assert [(pair["first"], pair["second"]) for pair in every] == [("a", "b"), ("a", "c"), ("b", "c")]
    flip = every[0]["views"][0]["scaled"]["sign_flip"]
    assert flip["holm"] == pytest.approx(min(1.0, 3 * flip["p"]))
    based = compare(run, "--against", "c", "--json").document["pairs"]
    assert [(pair["first"], pair["second"]) for pair in based] == [("a", "c"), ("b", "c")]
    assert compare(run, "--against", f"{run}:c", "--json").document["pairs"] == based
    assert "is none of these arms: a, b, c" in compare(run, "--against", "x").err
    other = make_run(tmp_path / "other", {"c": "11111110"}, "pqrstuvw")
    for wrong in (f"{other}:c", f"{tmp_path}/nowhere:c", GPT):  # another run's arm of that name is not this one
        refused = compare(run, "--against", wrong)
        assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((GEMINI,), "needs two different arms, here is 1"),
        ((GEMINI, GEMINI), "needs two different arms, here is 1"),
        ((GEMINI, "published:O3"), "fits 2 published models (O3-Mini (High), O3 (High))"),
        ((GEMINI, "published:Nobody"), "no published model is called so"),
        ((GEMINI, "published:"), "no published model is called so"),
        ((GEMINI, "/nowhere:arm"), "no run '/nowhere'"),
        ((GEMINI, O3, "--json", "--csv"), "choose one"),
        ((GEMINI, O3, "--out", "/nowhere/x.csv"), "cannot be written"),
    ],
)
def test_odd_words_are_one_line(words: tuple[str, ...], said: str) -> None:
    done = compare(*words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_cheater_is_left_out_by_name(tmp_path: Path) -> None:
    """Its score is about the grading; beside models it would only mislead."""
    run = make_run(tmp_path / "run", {"a": "10", "b": "01", "c": "11"}, "pq")
    record = json.loads((run / "run.json").read_text())
    record["config"]["arms"][2]["options"] = {"cheats": ["x"]}
    (run / "run.json").write_text(json.dumps(record))
    done = compare(run, "--json").document
    assert [arm["id"] for arm in done["arms"]] == ["a", "b"]
    assert done["left_out"][0]["id"].endswith(":c")


def test_files_are_written_in_the_form_of_their_name(tmp_path: Path) -> None:
    """.csv, .json, .tex; anything else is the tables as text."""
    for name in ("x.csv", "x.json", "x.tex", "x.txt"):
        assert compare(GEMINI, O3, "--out", tmp_path / name).out == ""
    rows = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text())))
    assert len(rows) == 8
    assert float(rows[0]["difference"]) == pytest.approx(5.176, abs=1e-3)
    assert rows[0]["lowest_without"] == "fractalgen"
    document = json.loads((tmp_path / "x.json").read_text())
    assert math.isclose(document["pairs"][0]["views"][0]["scaled"]["difference"], float(rows[0]["difference"]))
    assert (tmp_path / "x.txt").read_text().startswith("Gemini-2.5-Pro-Preview-05-06 solved 20 tasks")
    tex = (tmp_path / "x.tex").read_text()
    for word in ("toprule", "midrule", "bottomrule", "begin{tabular}", "end{tabular}", "begin{table}", "end{table}"):
        assert tex.count(f"\\{word}") >= 2
    assert "+5.2 [$-$1.6, +12.4]" in tex
    assert "published or imported, not measured by rcb-agent" in tex


def test_latex_rows_have_as_many_cells_as_columns(tmp_path: Path) -> None:
    """A name that holds what LaTeX acts on must not break a row."""
    run = make_run(tmp_path / "run", {"a_1": "10", "b@x.y": "01"}, "pq")
    tex = compare(run, "--latex").out
    assert "a\\_1" in tex
    for block in tex.split("\\begin{tabular}{")[1:]:
        columns = len(block.partition("}")[0])
        rows = [line for line in block.partition("\\end{tabular}")[0].splitlines() if line.endswith("\\\\")]
        assert rows
        assert all(line.replace("\\&", "").count("&") == columns - 1 for line in rows)


def test_what_latex_acts_on_is_escaped() -> None:
    assert escape_latex("50% of_it & {more} #1 $x$ ~^\\") == (
        r"50\% of\_it \& \{more\} \#1 \$x\$ \textasciitilde{}\textasciicircum{}\textbackslash{}"
    )
    assert escape_latex("-1.5 a-1 [-2.0]\x1b") == "$-$1.5 a-1 [$-$2.0]"


def test_nothing_drives_the_readers_terminal(tmp_path: Path) -> None:
    """A name in a foreign run folder may hold escape sequences."""
    run = make_run(tmp_path / "run", {"a": "10", "b": "01"}, "pq")
    text = (run / "run.json").read_text().replace('"model": "scripted/demo"', '"model": "\\u001b[31mx"', 1)
    (run / "run.json").write_text(text)
    assert "\x1b" not in compare(run).out
