"""Guards: failures, groups and copies that are shown as something else than the records say."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.base import Arm, trial_name
from rcb_agent.runs.breakdowns import BY, size_of
from rcb_agent.runs.config import digest_tasks
from rcb_agent.runs.copies import added_lines
from rcb_agent.runs.store import open_store
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import filled_files
from rcb_agent.tasks.published import load_published
from rcb_agent.tasks.suites import load_suite
from rcb_agent.tasks.weights import classify_weights
from tests.runs.command import Done, rcb_agent
from tests.runs.command import rcb_agent_within as within
from tests.runs.conftest import config, grade_record, trial_record
from tests.runs.published_runs import make_run, published_passes, results_of, write_json


def show(run: Path, *words: str) -> Done:
    return within("show", run, *words)


def make_mini_run(path: Path, tasks: tuple[Task, ...], code: dict[str, str], *, agent: str = "react") -> Path:
    """Write a run over tasks of mini whose submissions hold ``code`` in the blank: task id -> code."""
    facts = {t.id: {"paper": t.info.id, "loc": t.problem.loc, "depth": t.depth} for t in tasks}
    settings = config(
        tasks=tuple(facts), arms=(Arm("a", agent, "scripted/demo"),), suite_digest=digest_tasks(tasks), attempts=1
    )
    with open_store(path, settings, {"task_facts": facts, "faults": []}, path.parent) as store:
        for task in tasks:
            name, files = trial_name("a", task.id, 1), filled_files(task.problem, code[task.id])
            kept = [{"path": file, "kind": "file", "sha256": store.add_blob(data)} for file, data in files.items()]
            submission = {"files": kept, "diff": hashlib.sha256(b"").hexdigest()}
            store.add_trial(trial_record(task.id, trial=name, submission=submission))
            for scope in ("diff", "blank"):
                store.add_grade(grade_record(task.id, scope, trial=name))
    return path


def mini_tasks(paper: str = "silt") -> tuple[Task, ...]:
    return tuple(task for task in load_suite("mini").tasks if task.info.id == paper)


def test_a_copy_of_a_long_blank_is_flagged_and_a_short_one_is_not(tmp_path: Path) -> None:
    """Comments, blank lines and indentation hide nothing; other code is no copy; nothing else is said of either."""
    tasks = mini_tasks()
    lines = {task.id: len([x for x in task.answer.gold.splitlines() if x.strip()]) for task in tasks}
    longest, shortest = max(tasks, key=lambda t: t.problem.loc), min(tasks, key=lambda t: t.problem.loc)
    code = dict.fromkeys(lines, "pass\n")
    code[longest.id] = "# mine\n\n" + "".join(f"  {line}\n" for line in longest.answer.gold.splitlines())
    code[shortest.id] = shortest.answer.gold
    document = show(make_mini_run(tmp_path / "run", tasks, code), "--copies", "--json").document
    found = {trial["task"]: trial for trial in document["trials"]}
    assert (found[longest.id]["equal"], found[longest.id]["look"], found[longest.id]["overlap"]) == (True, True, 100.0)
    assert (found[shortest.id]["equal"], found[shortest.id]["look"]) == (True, shortest.problem.loc >= 6)
    assert not any(trial["equal"] for name, trial in found.items() if name not in (longest.id, shortest.id))
    assert document["suite_unchanged"]
    assert document["trials"][0]["task"] == longest.id


def test_a_line_that_was_given_is_no_copy() -> None:
    """What stood in the file before is not the submission's; a second one of it is."""
    given = {"m.py": "def f(x):\n    return x\n"}
    assert added_lines(given, given).total() == 0
    twice = {"m.py": given["m.py"] + "  return x  # again\n  # only said: return x\n    return x\n"}
    assert added_lines(given, twice) == {"return x": 1, "return x  # again": 1}


def test_an_oracle_is_expected_to_be_equal(tmp_path: Path) -> None:
    """Its copies are counted, and nobody is asked to look."""
    tasks = mini_tasks()
    run = make_mini_run(tmp_path / "run", tasks, {task.id: task.answer.gold for task in tasks}, agent="oracle")
    arm = show(run, "--copies", "--json").document["arms"][0]
    assert (arm["equal"], arm["mean_overlap"], arm["look"], arm["control"]) == (len(tasks), 100.0, 0, True)
    assert "- (control)" in show(run, "--copies").out


def test_copies_of_a_suite_that_changed_say_so(tmp_path: Path) -> None:
    tasks = mini_tasks()
    run = make_mini_run(tmp_path / "run", tasks, {task.id: "pass\n" for task in tasks})
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace(digest_tasks(tasks), "0" * 64))
    assert "The suite is not what it was" in show(run, "--copies").out


def test_groups_hold_every_task_once(tmp_path: Path) -> None:
    """Venue, area, size, depth, tests, paper: tasks and lines of the groups add up to those of the run."""
    facts = load_published()
    run = make_run(tmp_path / "run", {task: "passed" if n % 2 else "failed" for n, task in enumerate(facts.tasks)})
    for by in (word for word in BY if word != "model"):
        groups = show(run, "--by", by, "--json").document["groups"]
        assert (sum(group["tasks"] for group in groups), sum(group["lines"] for group in groups)) == (212, 1449)
        assert sum(group["arms"]["a"]["passed"] for group in groups) == 106
        assert "unknown" not in [group["group"] for group in groups]
    sizes = {group["group"]: group["tasks"] for group in show(run, "--by", "size", "--json").document["groups"]}
    assert sizes == {"1 line": 54, "2": 23, "3-5": 66, "6-10": 36, "11-20": 18, "21-50": 13, "over 50": 2}
    depths = [group["tasks"] for group in show(run, "--by", "depth", "--json").document["groups"]]
    assert depths == [77, 101, 26, 7, 1]
    venues = {group["group"]: group["papers"] for group in show(run, "--by", "venue", "--json").document["groups"]}
    assert venues["ICLR2025"] == 10
    kinds = {group["group"]: group["papers"] for group in show(run, "--by", "tests", "--json").document["groups"]}
    assert kinds == {"reference": 16, "constants": 4}


def test_sizes_fall_into_their_group() -> None:
    assert [size_of(loc) for loc in (1, 2, 3, 5, 6, 72)] == ["1 line", "2", "3-5", "3-5", "6-10", "over 50"]


def test_a_suite_that_is_gone_gives_unknown_groups_and_says_so(tmp_path: Path) -> None:
    """Size and depth stand in the run; venue and area do not."""
    run = make_run(tmp_path / "run", _first_tasks(3), model="x/y")
    record = json.loads((run / "run.json").read_text())
    record["config"]["suite"] = str(tmp_path / "nowhere")
    (run / "run.json").write_text(json.dumps(record))
    document = show(run, "--by", "venue", "--json").document
    assert [group["group"] for group in document["groups"]] == ["unknown"]
    assert "unknown" in document["remarks"][0]
    assert show(run, "--by", "size").code == 0


def _first_tasks(count: int) -> dict[str, str]:
    return dict.fromkeys(list(load_published().tasks)[:count], "passed")


def test_open_and_closed_models_are_told_apart() -> None:
    """By id, by the name that is shown, by a provider's name; another model is unknown, not closed."""
    assert classify_weights("DEEPSEEK_R1") == classify_weights("DeepSeek-R1") == "open"
    assert classify_weights("", "openai/gpt-4.1") == classify_weights("GPT_4_1") == "closed"
    assert classify_weights("scripted/demo", "react") == "unknown"
    known = [classify_weights(model.id) for model in load_published().models]
    assert (known.count("open"), known.count("closed")) == (8, 24)


def test_imported_results_have_times_and_unknowns(tmp_path: Path) -> None:
    """Nothing is known of why they failed but the exit code: that is said, not counted as functional."""
    file = write_json(
        tmp_path / "r.json", results_of({name: published_passes(name) for name in ("GPT_4_1", "O3_HIGH")})
    )
    assert within("import-upstream", file, "--out", tmp_path / "run").code == 0
    document = show(tmp_path / "run", "--errors", "--json").document
    assert document["classes"]["unknown"] == document["failed"] == 106 + 86
    assert show(tmp_path / "run", "--by", "model", "--json").document["groups"][0]["group"] == "closed"
    assert "holds no code" in show(tmp_path / "run", "--copies").err


@pytest.mark.parametrize("words", [("--errors", "--copies"), ("--by", "size", "--errors"), ("x", "--errors")])
def test_two_views_at_once_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    run = make_run(tmp_path / "run", _first_tasks(1))
    done = show(run, *words)
    assert (done.code, done.out) == (2, "")
    assert "choose one" in done.err


BROKEN: dict[str, str] = {
    "syntax": "return ((",
    "name": "return not_there(1)",
    "attribute": "import math\nreturn math.not_there",
    "index/key": "return [][3]",
    "import": "import not_there_at_all",
}


@pytest.mark.sandbox
def test_real_failures_are_sorted_by_what_they_raise(tmp_path: Path) -> None:
    """Graded for real: each broken answer comes out as its own class."""
    task = next(t for t in load_suite("mini").tasks if t.info.id == "silt" and t.depth == 0)
    indent = next(line for line in task.answer.gold.splitlines() if line.strip())
    spaces = indent[: len(indent) - len(indent.lstrip())]
    words: list[str] = []
    for number, code in enumerate(BROKEN.values()):
        body = "\n".join(spaces + line for line in code.split("\n"))
        reply = [{"text": f"```python\n{body}\n```"}]
        (tmp_path / f"{number}.json").write_text(json.dumps(reply))
        words += ["--arm", f"direct,model=scripted/file:{tmp_path}/{number}.json,name=arm{number}"]
    run = rcb_agent("run", *words, "--tasks", task.id, "--out", tmp_path / "run", cwd=tmp_path)
    assert run.code == 0, run.err
    found: dict[str, Any] = {
        arm["arm"]: arm["classes"] for arm in show(tmp_path / "run", "--errors", "--json").document["arms"]
    }
    for number, kind in enumerate(BROKEN):
        assert found[f"arm{number}"][kind] == 1, (kind, found[f"arm{number}"])
