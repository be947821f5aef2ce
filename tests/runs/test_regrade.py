"""Guards: a regrade that moves a verdict unsaid, loses one, or does its work twice."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runs.command import Done, rcb_agent, rcb_agent_within, records

pytestmark = pytest.mark.sandbox

TASKS = ("parley/shortlist", "parley/heat after a choice")
SOME = [word for task in TASKS for word in ("--tasks", task)]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of both controls over two tasks."""
    folder = tmp_path_factory.mktemp("regrade")
    done = rcb_agent("run", *SOME, "--agent", "oracle", "--agent", "null", "--out", folder / "run", cwd=folder)
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def run(graded: Path, tmp_path: Path) -> Path:
    """Return a copy of it, for a test of its own."""
    import shutil

    return Path(shutil.copytree(graded, tmp_path / "run"))


def regrade(run: Path, *words: str) -> Done:
    return rcb_agent("regrade", run, *words, "--json", cwd=run.parent)


def forge(run: Path, arm: str, **fields: Any) -> None:
    """Let the recorded grades of an arm say something else."""
    lines = records(run, "grades.jsonl")
    changed = [{**line, **fields} if line["arm"] == arm else line for line in lines]
    (run / "grades.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))


def test_the_same_grader_says_the_same(run: Path) -> None:
    """Nothing moved: exit code 0, the new grades are there, and the folder is whole."""
    done = regrade(run, "--tasks", TASKS[0])
    assert (done.code, done.document["moved"], done.document["grades"]) == (0, [], 4)
    assert len(records(run, "grades.jsonl")) == 12
    assert rcb_agent_within("verify", run).code == 0
    shown = rcb_agent_within("show", run, "--json").document["arms"]
    assert [arm["passed"] for arm in shown] == [2, 0]


def test_a_dry_run_writes_nothing(run: Path) -> None:
    """Moved verdicts are listed with where, from, to and why; no byte of the folder is another."""
    forge(run, "null", verdict="passed", reason="")
    before = {str(p): p.read_bytes() for p in run.rglob("*") if p.is_file()}
    done = regrade(run, "--dry-run", "--tasks", TASKS[0])
    assert done.code == 6
    assert {str(p): p.read_bytes() for p in run.rglob("*") if p.is_file()} == before
    moved = done.document["moved"]
    assert [(move["task"], move["arm"], move["attempt"], move["scope"]) for move in moved] == [
        (TASKS[0], "null", 1, "blank"),
        (TASKS[0], "null", 1, "diff"),
    ]
    assert {(move["from"], move["to"], move["reason"]) for move in moved} == {("passed", "failed", "tests_failed")}


def test_moved_verdicts_count_from_then_on(run: Path) -> None:
    """The latest grade of a key counts; the record says which grader gave it, and the old one stays in the file."""
    forge(run, "oracle", verdict="failed", reason="form", grader="split-0")
    done = regrade(run, "--tasks", TASKS[0])
    assert (done.code, len(done.document["moved"])) == (6, 2)
    assert {move["from_grader"] for move in done.document["moved"]} == {"split-0"}
    assert rcb_agent_within("show", run, "--json").arm("oracle")["passed"] == 1
    graders = [line["grader"] for line in records(run, "grades.jsonl") if line["arm"] == "oracle"]
    assert graders == ["split-0"] * 4 + [done.document["grader"]] * 2


def test_an_interrupted_regrade_goes_on(run: Path) -> None:
    """Killed after some grades: the same command does the rest only, and says what moved in both parts."""
    forge(run, "null", verdict="passed", reason="")
    command = [sys.executable, "-m", "rcb_agent", "regrade", str(run), "--workers", "1"]
    process = subprocess.Popen(command, cwd=run.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(records(run, "grades.jsonl")) < 9 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 143
    assert 8 < len(records(run, "grades.jsonl")) < 16
    done = regrade(run)
    assert done.code == 6
    assert len(done.document["moved"]) == 4
    assert len(records(run, "grades.jsonl")) == 16
    assert len({line["details"]["regrade"] for line in records(run, "grades.jsonl")[8:]}) == 1


def test_a_machine_that_cannot_measure_takes_nothing_away(run: Path) -> None:
    """A blob that is gone is not measured: exit code 1, and the earlier grade stays in place."""
    trial = next(record for record in records(run, "trials.jsonl") if record["arm"] == "oracle")
    sha256 = next(file["sha256"] for file in trial["submission"]["files"])
    (run / "blobs" / sha256[:2] / sha256).unlink()
    done = regrade(run, "--tasks", trial["task"])
    assert (done.code, done.document["not_measured"], done.document["moved"]) == (1, 2, [])
    assert rcb_agent_within("show", run, "--json").arm("oracle")["passed"] == 2
    assert [line["kind"] for line in records(run, "regrades.jsonl")] == ["start"]


def test_another_mode_is_a_grade_of_its_own(run: Path) -> None:
    """Grades of ``upstream`` stand beside those of ``split``; the run's own table is as before."""
    before = rcb_agent_within("show", run, "--json").document
    done = regrade(run, "--grading", "upstream", "--tasks", TASKS[0])
    assert (done.code, done.document["new"], done.document["mode"]) == (0, 4, "upstream")
    assert rcb_agent_within("show", run, "--json").document == before
    assert rcb_agent_within("verify", run).code == 0


def test_what_cannot_be_regraded_is_said_in_a_line(run: Path, tmp_path: Path) -> None:
    """Tasks that fit nothing, a suite that lost a task, a run that is being written, results of another program."""
    assert "no task of suite mini matches" in regrade(run, "--tasks", "nothing/*").err
    assert "--tasks: no task of run fits" in regrade(run, "--tasks", "silt/*").err
    config = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**config, "imported": {"file": "x", "sha256": "", "by": "y"}}))
    done = regrade(run)
    assert done.code == 2
    assert "was imported from x: no code is recorded" in done.err
    config["config"]["tasks"].append("parley/nothing")
    (run / "run.json").write_text(json.dumps(config))
    done = regrade(run)
    assert done.code == 3
    assert "parley/nothing is there no more" in done.err


def test_a_run_that_is_being_written_is_left_alone(run: Path) -> None:
    """The lock of a live writer is respected; a dry run needs none."""
    from filelock import FileLock

    with FileLock(run / ".lock"):
        done = regrade(run, "--tasks", TASKS[0])
        assert done.code == 2
        assert "another process is writing" in done.err
        assert regrade(run, "--tasks", TASKS[0], "--dry-run").code == 0
