"""Guards: ``--sandbox host`` that hides what it is, needs bubblewrap after all, or grades otherwise."""

import os
import shutil
from pathlib import Path

from rcb_agent.tasks.suites import load_suite
from tests.runs.command import rcb_agent, records

TASKS = [task.id for task in load_suite("mini").tasks[:2]]


def test_the_host_grades_as_a_sandbox_does_and_says_what_it_is(tmp_path: Path) -> None:
    """Without any bwrap: 100.0 and 0.0, an agent that works, one warning, and a remark in each record and table."""
    programs, temporary = tmp_path / "bin", tmp_path / "temporary"
    for folder in (programs, temporary):
        folder.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    words = ["run", "--sandbox", "host", "--agent", "oracle", "--agent", "null", "--agent", "react"]
    words += [word for task in TASKS for word in ("--tasks", task)]
    here = {"PATH": str(programs), "TMPDIR": str(temporary), "OPENAI_API_KEY": "sk-not-to-be-seen"}
    done = rcb_agent(*words, "--out", "run", "--json", cwd=tmp_path, env=here)
    assert done.code == 0, done.err
    for name, rate in (("oracle", 100.0), ("null", 0.0)):
        assert (done.arm(name)["pass_rate"], done.arm(name)["not_measured"]) == (rate, 0)
    agent = done.arm("react@scripted-demo")
    assert (agent["not_measured"], agent["stops"]) == (0, {"submitted": 2})
    assert len([line for line in done.err.splitlines() if "--sandbox host isolates nothing" in line]) == 1
    assert list(temporary.iterdir()) == []

    trials = [one for one in records(tmp_path / "run", "trials.jsonl") if one["arm"] == "react@scripted-demo"]
    assert {(one["sandbox"]["kind"], one["sandbox"]["enforcement"]["network"]) for one in trials} == {
        ("host", "not enforced")
    }
    for grade in records(tmp_path / "run", "grades.jsonl"):
        assert grade["details"]["enforcement"]["user"] == f"not enforced: uid {os.getuid()}, the harness's own"
    assert done.document["sandbox"] == "host"

    remark = "nothing was isolated; agents and candidates could read the hidden tests"
    assert remark in rcb_agent("show", "run", cwd=tmp_path).out
    assert f"sandbox: host: {remark}" in rcb_agent("show", "run", trials[0]["trial"], cwd=tmp_path).out


def test_bubblewrap_that_is_missing_does_not_become_the_host(tmp_path: Path) -> None:
    """The default sandbox is a fault where it cannot be opened; nothing is run, nothing is written."""
    done = rcb_agent(
        "run", "--agent", "null", "--tasks", TASKS[0], "--out", "run", cwd=tmp_path, env={"PATH": "/nowhere"}
    )
    assert done.code == 4
    assert "bwrap is not installed" in done.err
    assert not (tmp_path / "run").exists()
