"""Guards: the promises of the command line, as a user sees them: rates, exit codes, resume, one JSON document."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from tests.runs.command import rcb_agent, records

pytestmark = pytest.mark.sandbox

SOME = ["--tasks", "tidal/*", "--tasks", "ripple/*"]  # papers on which the demo solves, repairs, errs and loops


def verdicts(run: Path) -> set[tuple[str, str, str]]:
    return {(g["arm"], g["task"], g["verdict"]) for g in records(run, "grades.jsonl") if g["scope"] == "diff"}


def test_oracle_scores_everything_and_null_nothing(tmp_path: Path) -> None:
    """The two controls show that the grader is alive: 100.0 and 0.0 on both rates, in both scopes."""
    done = rcb_agent("run", "--agent", "oracle", "--agent", "null", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    count = len(load_suite("mini").tasks)
    for name, rate in (("oracle", 100.0), ("null", 0.0)):
        arm = done.arm(name)
        assert (arm["trials"], arm["not_measured"]) == (count, 0)
        assert arm["passed"] == (count if rate else 0)
        for scope in ("diff", "blank"):
            rates = arm["scopes"][scope]
            assert (rates["pass_rate"], rates["scaled_pass_rate"]) == (rate, rate)


def test_two_runs_agree_and_taking_run_tests_away_costs_passes(tmp_path: Path) -> None:
    """The demo is deterministic, and its results follow from what its tools tell it."""
    words = [
        "run",
        *SOME,
        "--agent",
        "react",
        "--agent",
        "direct",
        "--arm",
        "react,without=run_tests,name=blind",
        "--json",
    ]
    first = rcb_agent(*words, "--out", "one", cwd=tmp_path)
    second = rcb_agent(*words, "--out", "two", cwd=tmp_path)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "two")
    assert first.arm("blind")["passed"] < first.arm("react@scripted-demo")["passed"] < first.arm("blind")["trials"]
    assert first.arm("direct@scripted-demo")["passed"] > 0


def test_json_is_the_whole_of_standard_output_and_show_agrees(tmp_path: Path) -> None:
    """One document, the same from ``run`` and from ``show``; the table is for people."""
    task = load_suite("mini").tasks[0].id
    done = rcb_agent("run", "--agent", "react", "--tasks", task, "--json", "--out", "run", cwd=tmp_path)
    shown = rcb_agent("show", "run", "--json", cwd=tmp_path)
    assert shown.document == done.document
    assert {"run", "path", "suite", "arms"} <= done.document.keys()
    table = rcb_agent("show", "run", cwd=tmp_path)
    assert task in table.out.replace("\n", "")
    story = rcb_agent("show", "run", task, cwd=tmp_path)
    assert "step 1" in story.out
    assert "grade, diff: " in story.out
    patch = rcb_agent("diff", "run", task, cwd=tmp_path)
    assert patch.out.startswith("--- a/")
    trial = rcb_agent("show", "run", task, "--json", cwd=tmp_path).document
    assert [grade["scope"] for grade in trial["grades"]] == ["diff", "blank"]


def start_run(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rcb_agent", "run", *words]

    def heed_interrupts() -> None:  # a shell's background job, and with it this test run, may have them ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - nothing else runs in this process
    )


def wait_for_records(path: Path, count: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} never had {count} records")


def test_killed_run_goes_on_and_no_trial_is_done_twice(tmp_path: Path) -> None:
    """Kill -9 half way, the same command again: each trial once, nothing of the first process left."""
    words = [
        *SOME,
        "--agent",
        "react",
        "--agent",
        "direct",
        "--attempts",
        "2",
        "--workers",
        "2",
        "--out",
        "run",
        "--json",
    ]
    process = start_run(tmp_path, *words)
    try:
        wait_for_records(tmp_path / "run" / "trials.jsonl", 5)
    finally:
        process.kill()
        process.communicate()
    before = [record["trial"] for record in records(tmp_path / "run", "trials.jsonl")]
    done = rcb_agent("run", *words, cwd=tmp_path)
    assert done.code == 0, done.err
    after = [record["trial"] for record in records(tmp_path / "run", "trials.jsonl")]
    assert after[: len(before)] == before
    tasks = [task for task in load_suite("mini").tasks if task.info.id in ("tidal", "ripple")]
    assert len(after) == len(set(after)) == 4 * len(tasks)
    keys = [(g["trial"], g["scope"]) for g in records(tmp_path / "run", "grades.jsonl")]
    assert len(keys) == len(set(keys)) == 2 * len(after)
    again = rcb_agent("run", *words, cwd=tmp_path)
    assert again.document == done.document
    assert len(records(tmp_path / "run", "trials.jsonl")) == len(after)


def test_killed_run_leaves_no_process(tmp_path: Path) -> None:
    """Sandboxes end when the harness does, however it ends."""
    code = "import time\nwhile True: time.sleep(1)"
    replies = [{"text": "", "tool_calls": [{"name": "run_python", "arguments": {"code": code}}]}]
    (tmp_path / "sleep.json").write_text(json.dumps(replies))
    words = [
        "run",
        "--agent",
        "react",
        "--model",
        f"scripted/file:{tmp_path}/sleep.json",
        "--out",
        "run",
        "--workers",
        "3",
    ]
    process = subprocess.Popen([sys.executable, "-m", "rcb_agent", *words], cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while len(sandboxes := children_of(process.pid)) < 3:  # counted and kept at one moment: some are short-lived
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    end = time.monotonic() + 10
    while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in sandboxes):
        time.sleep(0.05)
    assert not [pid for pid in sandboxes if Path(f"/proc/{pid}").exists()]


def children_of(pid: int) -> set[int]:
    """Return the live descendants of a process that are not threads."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    found, todo = set[int](), [pid]
    while todo:
        parent = todo.pop()
        new = {child for child, its_parent in parents.items() if its_parent == parent} - found
        found |= new
        todo += new
    return found


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_keeps_its_records_and_says_how_to_go_on(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """Ctrl-C and SIGTERM: the conventional exit code within seconds, what is recorded stays readable."""
    process = start_run(tmp_path, "--agent", "react", "--attempts", "3", "--workers", "2", "--out", "run")
    wait_for_records(tmp_path / "run" / "trials.jsonl", 2)
    os.kill(process.pid, number)
    begin = time.monotonic()
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begin < 10
    assert process.returncode == code
    assert "rcb-agent resume RUN" in err.splitlines()[-1]
    assert len(records(tmp_path / "run", "trials.jsonl")) >= 2


def test_resume_command_finishes_a_run_and_refuses_a_changed_one(tmp_path: Path) -> None:
    """``resume RUN`` is the same as the same command again."""
    task = load_suite("mini").tasks[0].id
    rcb_agent("run", "--agent", "oracle", "--tasks", task, "--out", "results/abc", cwd=tmp_path)
    grades = tmp_path / "results" / "abc" / "grades.jsonl"
    grades.write_bytes(grades.read_bytes().splitlines(keepends=True)[0])
    done = rcb_agent("resume", "abc", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.arm("oracle")["passed"] == 1
    other = rcb_agent("run", "--agent", "null", "--tasks", task, "--out", "results/abc", cwd=tmp_path)
    assert other.code == 2
    assert "arms.0.agent" in other.err
    assert len(records(tmp_path / "results" / "abc", "trials.jsonl")) == 1


USAGE = {
    "unknown agent": (["--agent", "raect"], 2, "raect"),
    "unknown tool": (["--without", "grep"], 2, "grep"),
    "unknown sandbox": (["--sandbox", "chroot"], 2, "chroot"),
    "model without provider": (["--model", "gpt-4"], 2, "gpt-4"),
    "bad arm": (["--arm", "react,stepps=3"], 2, "stepps"),
    "arm that leaves the folder": (["--arm", "react,name=../../x"], 2, "../../x"),
    "arm with a slash": (["--arm", "react,name=a/b"], 2, "a/b"),
    "no tool left": (["--tools", "submit", "--without", "submit"], 2, "no tool is left"),
    "not a number": (["--max-seconds", "nan"], 2, "max-seconds"),
    "equal arms": (["--arm", "react", "--arm", "react"], 2, "name="),
    "no steps": (["--max-steps", "0"], 2, "max-steps"),
    "unknown task": (["--tasks", "nope/*"], 3, "nope/*"),
    "unknown suite": (["--suite", "nope"], 3, "nope"),
    "paper file for direct": (["--agent", "direct", "--paper", "file"], 2, "paper"),
    "unknown option": (["--stepps", "3"], 2, "--stepps"),
}


@pytest.mark.parametrize("kind", USAGE)
def test_bad_words_are_one_line_and_leave_nothing(kind: str, tmp_path: Path) -> None:
    """What, where, what to do; the exit code of its kind; no traceback, no folder."""
    words, code, named = USAGE[kind]
    done = rcb_agent("run", *words, cwd=tmp_path)
    assert done.code == code
    assert named in done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.iterdir())


def test_missing_bubblewrap_or_runtime_is_an_environment_fault(tmp_path: Path) -> None:
    """No silent fallback to the host: exit 4, the missing thing named, nothing written."""
    bare = rcb_agent("run", "--agent", "oracle", cwd=tmp_path, env={"PATH": "/nonexistent"})
    assert (bare.code, "bubblewrap" in bare.err) == (4, True)
    unbuilt = rcb_agent("run", "--agent", "oracle", cwd=tmp_path, env={"RCB_AGENT_CACHE": str(tmp_path / "cache")})
    assert (unbuilt.code, "rcb-agent env build mini" in unbuilt.err) == (4, True)
    assert not (tmp_path / "results").exists()


def test_faulty_paper_is_warned_of_and_the_others_run(attack_suite: Path, tmp_path: Path) -> None:
    """One bad paper costs its own tasks only, and ``tasks list`` exits 3."""
    import shutil

    suite = tmp_path / "suite"
    shutil.copytree(attack_suite, suite)
    (suite / "np" / "model.py").write_text("x = 1\n")
    done = rcb_agent("run", "--suite", suite, "--agent", "oracle", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.arm("oracle")["trials"] == 2
    assert "np/model.py: is annotated but holds no blank" in done.err
    listing = rcb_agent("tasks", "list", "--suite", suite, "--json", cwd=tmp_path)
    assert listing.code == 3
    assert [fault["file"] for fault in listing.document["faults"]] == ["np/model.py"]


def test_gold_that_fails_is_not_measured_and_exits_1(attack_suite: Path, tmp_path: Path) -> None:
    """A broken task is nobody's failure: not_measured, exit 1 unless allowed."""
    import shutil

    suite = tmp_path / "suite"
    shutil.copytree(attack_suite, suite)
    reference = suite / "np" / "model_ref.py"
    reference.write_text(reference.read_text().replace("1.0 +", "2.0 +"))
    words = ["run", "--suite", str(suite), "--tasks", "np/*", "--agent", "oracle", "--agent", "null", "--json"]
    done = rcb_agent(*words, cwd=tmp_path)
    assert done.code == 1
    assert [done.arm(name)["not_measured"] for name in ("oracle", "null")] == [1, 1]
    assert rcb_agent(*words, "--allow-unmeasured", "2", cwd=tmp_path).code == 0
    grades = records(next((tmp_path / "results").iterdir()), "grades.jsonl")
    assert {grade["reason"] for grade in grades} == {"gold_fails"}


def test_task_view_hides_the_answer_unless_asked(tmp_path: Path) -> None:
    """``tasks show`` prints what an agent sees; gold and tests only with ``--answer``."""
    task = load_suite("mini").tasks[0]
    gold = max((line.strip() for line in task.answer.gold.splitlines()), key=len)
    plain = rcb_agent("tasks", "show", task.id, cwd=tmp_path)
    assert plain.code == 0
    assert gold not in plain.out
    assert "TODO" in plain.out
    assert gold in rcb_agent("tasks", "show", task.id, "--answer", cwd=tmp_path).out
    document = rcb_agent("tasks", "show", task.id, "--json", cwd=tmp_path).document
    assert "answer" not in document
    assert gold not in json.dumps(document)
