"""Guards: a damaged or forged run folder that ``verify`` calls whole, and one that it changes."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.store import RunStore
from rcb_agent.runs.verification import Check
from tests.runs.command import rcb_agent_within

Open = Callable[..., RunStore]
Make = Callable[..., dict[str, Any]]
Fault = Callable[[Path], object]


@pytest.fixture
def run(open_run: Open, make_trial: Make, make_grade: Make) -> Path:
    """Return a whole run folder: two trials, their stories, their blobs, four grades."""
    with open_run() as store:
        for task in ("p/one", "p/two"):
            snapshot: dict[str, Any] = {"files": {"m.py": store.add_blob(task.encode())}, "listed": [], "deleted": []}
            diff = store.add_blob(f"diff of {task}".encode())
            files = [{"path": "m.py", "kind": "file", "sha256": snapshot["files"]["m.py"]}]
            record = make_trial(task, submission={"files": files, "diff": diff}, snapshots=[{"step": 1, **snapshot}])
            events = [
                {"kind": "start", "trial": record["trial"]},
                {"kind": "snapshot", "step": 1, "snapshot": snapshot},
                {"kind": "stop", "stop": "submitted", "error": None},
            ]
            for event in events:
                store.emit(record["trial"], "event", {**event, "time": 0.0})
            store.add_trial(record)
            for scope in ("diff", "blank"):
                store.add_grade(make_grade(task, scope))
        return store.path


def findings(run: Path) -> list[str]:
    return [str(finding) for finding in Check(run).run()]


def edit(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Fault:
    """Return a fault that changes the lines of a file."""

    def damage(run: Path) -> None:
        path = run / name
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))

    return damage


def append(name: str, data: bytes) -> Fault:
    return edit(name, lambda lines: [*lines, data])


def replace(name: str, old: str, new: str, *, times: int = 1) -> Fault:
    def damage(run: Path) -> None:
        path = run / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, times))

    return damage


def in_blob(change: Callable[[Path], object]) -> Fault:
    return lambda run: change(min(p for p in (run / "blobs").rglob("*") if p.is_file()))


def in_trajectory(change: Callable[[Path], object]) -> Fault:
    return lambda run: change(min((run / "trajectories").iterdir()))


def link_away(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def link_folder_away(run: Path) -> None:
    (run / "trajectories").rename(run / "real")
    (run / "trajectories").symlink_to("real")


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


TRIALS, GRADES = "trials.jsonl", "grades.jsonl"
FAULTS: dict[str, tuple[Fault, str]] = {
    "cut_last": (edit(GRADES, lambda lines: [*lines[:-1], lines[-1][:-40]]), r"grades.jsonl:4: torn"),
    "half_utf8": (append(TRIALS, b'{"task": "caf\xc3'), "trials.jsonl:3: torn"),
    "no_newline": (edit(TRIALS, lambda lines: [*lines[:-1], lines[-1].rstrip(b"\n")]), "trials.jsonl:2: torn"),
    "nul": (append(TRIALS, b"\0" * 4096), "trials.jsonl:3: torn"),
    "dup_last": (edit(GRADES, lambda lines: [*lines, lines[-1]]), "grades.jsonl:5: repeats the grade of line 4"),
    "doubled trial": (edit(TRIALS, lambda lines: [*lines, lines[0]]), "trials.jsonl:3: repeats"),
    "empty": (edit(TRIALS, lambda _: []), "which is not in trials.jsonl"),
    "nan": (append(TRIALS, b'{"score": NaN, "cost": Infinity}\n{}\n'), "trials.jsonl:3: is no strict JSON: NaN"),
    "unknown record": (append(TRIALS, b'{"task": "no-such-task", "passed": true}\n'), "trials.jsonl:3: does not fit"),
    "future_version": (append(GRADES, b'{"schema_version": 999, "passed": true}\n'), "grades.jsonl:5: does not fit"),
    "key twice": (replace(GRADES, '"scope"', '"verdict": "failed", "scope"'), "grades.jsonl:1: is no strict JSON: key"),
    "config_changed": (replace("run.json", '"max_steps": 30', '"max_steps": 99'), "config_hash is not the hash"),
    "run.json is no JSON": (lambda run: (run / "run.json").write_text("{"), "run.json: is no strict JSON"),
    "folder is a link": (
        link_folder_away,
        "trajectories: is a link, not followed",
    ),
    "a name that leads away": (
        edit(TRIALS, lambda lines: [line.replace(b"a.p.one", b"../../x") for line in lines]),
        "is no file's name",
    ),
    "unknown task": (replace(TRIALS, '"p/one"', '"p/other"'), "task 'p/other' is none of the run's"),
    "wrong name": (replace(TRIALS, '"attempt": 1', '"attempt": 7'), "is not the name of its arm, task and attempt"),
    "blob changed": (in_blob(lambda path: path.write_bytes(b"x")), "does not hold what its name says"),
    "blob gone": (in_blob(Path.unlink), "is not there, or is damaged"),
    "blob is a link": (in_blob(link_away), "cannot be read"),
    "blob is a FIFO": (in_blob(make_fifo), "is no regular file"),
    "stranger among blobs": (lambda run: (run / "blobs" / "x.py").write_text(""), "blobs/x.py: is no blob"),
    "trajectory gone": (in_trajectory(Path.unlink), "has no trajectory"),
    "trajectory of another": (
        lambda run: (
            shutil.copy(min((run / "trajectories").iterdir()), run / "trajectories" / "a.p.x-000000.1.jsonl") and None
        ),
        "is of a trial that is not in trials.jsonl",
    ),
    "trajectory says otherwise": (
        replace(TRIALS, '"stop": "submitted"', '"stop": "max_steps"'),
        "stops with submitted",
    ),
    "snapshots differ": (replace(TRIALS, '"listed": []', '"listed": ["x"]'), "snapshots are not those"),
    "a pass with a reason": (replace(GRADES, '"reason": ""', '"reason": "form"'), "is passed with reason 'form'"),
    "a pass with a red test": (
        replace(GRADES, '"tests": []', '"tests": [{"id": "t", "outcome": "failed", "message": "", "seconds": 0}]'),
        "is passed, but test t is not",
    ),
    "a grade of an error": (
        replace(TRIALS, '"error": null', '"error": {"reason": "model", "message": ""}'),
        "the trial has an error",
    ),
    "a grade of nothing known": (
        replace(GRADES, '"details": {}', '"details": {"regrade": "x"}'),
        "belongs to regrade x, which is not in regrades.jsonl",
    ),
    "deep": (append(TRIALS, b"[" * 100_000 + b"\n{}\n"), "trials.jsonl:3: is no strict JSON"),
}


def test_a_whole_folder_has_no_finding(run: Path) -> None:
    """The control: what the store wrote is whole, and the command says so with exit code 0."""
    done = rcb_agent_within("verify", run)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("2 trials, 4 grades, 4 blobs: 0 findings\n")


@pytest.mark.parametrize(("fault", "words"), FAULTS.values(), ids=FAULTS)
def test_each_fault_is_found(fault: Fault, words: str, run: Path) -> None:
    """By file, line and what is wrong; nothing that lies there is an exception."""
    fault(run)
    found = findings(run)
    assert [line for line in found if words in line], found


@pytest.mark.parametrize(
    "harmless",
    [
        edit(TRIALS, lambda lines: [b"\n", *lines, b"\n\n"]),
        lambda run: (run / "trials.jsonl.tmp").write_text("x"),
        lambda run: (run / ".lock").write_text("999999999"),
        lambda run: (run / "blobs" / "ab").mkdir() or ((run / "blobs" / "ab" / ".abc.12").write_text("")),
    ],
    ids=["blank", "tmp_left", "stale_lock", "broken-off blob"],
)
def test_what_is_no_fault_is_no_finding(harmless: Fault, run: Path) -> None:
    """Lines that hold nothing and what a killed writer leaves lose no result."""
    harmless(run)
    assert findings(run) == []


def test_what_a_resume_repeats_is_no_finding(run: Path, open_run: Open, make_trial: Make, make_grade: Make) -> None:
    """A trial that had an error is done again, and what was not measured is graded again: the latest counts."""
    name = make_trial()["trial"]
    failed = make_trial(error={"reason": "model", "message": ""}, stop="error", submission=None)
    lines = (run / TRIALS).read_bytes()
    (run / TRIALS).write_bytes(json.dumps(failed).encode() + b"\n" + lines)
    grade = make_grade(verdict="not_measured", reason="model")
    (run / GRADES).write_bytes(json.dumps(grade).encode() + b"\n" + (run / GRADES).read_bytes())
    assert name
    assert findings(run) == []


def test_half_a_grade_that_is_done_again_is_no_finding(run: Path) -> None:
    """A process that died between the two scopes of a trial left one, and a resume grades both."""
    lines = (run / GRADES).read_bytes().splitlines(keepends=True)
    (run / GRADES).write_bytes(b"".join([lines[0], *lines]))
    assert findings(run) == []


def test_an_interrupted_run_is_no_finding(run: Path) -> None:
    """A trial under way has a story without an end, and no record yet."""
    start = {"kind": "start", "time": 0.0, "trial": "a.p.three-000000.1"}
    (run / "trajectories" / "a.p.three-000000.1.jsonl").write_text(json.dumps(start) + "\n")
    assert findings(run) == []


def test_a_secret_taken_out_is_no_damage(run: Path, open_run: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob that is kept without a key has a mark beside it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    with open_run() as store:
        store.add_blob(b"key = 'sk-very-secret-1'")
    assert findings(run) == []


def state(run: Path) -> dict[str, tuple[int, int, int]]:
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size, p.lstat().st_mode) for p in [run, *run.rglob("*")]}


def test_a_foreign_folder_is_left_as_it_is(run: Path) -> None:
    """Read-only, torn, without a lock: nothing is mended, locked or made."""
    (run / ".lock").unlink(missing_ok=True)
    append(TRIALS, b'{"torn')(run)
    for folder in (run, run / "blobs", run / "trajectories", run / "calls"):
        folder.chmod(0o555)
    before = state(run)
    done = rcb_agent_within("verify", run, "--json")
    assert done.code == 3
    assert state(run) == before
    assert done.document["findings"] == [
        {"file": "trials.jsonl", "line": 3, "what": "torn: the last line is not whole, and is no record"}
    ]
    for folder in (run, run / "blobs", run / "trajectories", run / "calls"):
        folder.chmod(0o755)


def test_findings_do_not_drive_a_terminal(run: Path) -> None:
    """Names and words of a foreign folder are shown spelled out, one line each."""
    (run / "blobs" / "\x1b]0;owned\x07\n.py").write_text("")
    done = rcb_agent_within("verify", run)
    assert done.code == 3
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()) == 2


def test_no_run_is_a_usage_error(tmp_path: Path) -> None:
    """One line, exit code 2."""
    done = rcb_agent_within("verify", tmp_path / "nothing")
    assert done.code == 2
    assert "no run" in done.err
