"""Guards: a ``doctor`` that calls a broken machine healthy, crashes on what is missing, or shows a key."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rcb_agent.environments.runtimes import load_runtime
from tests.runs.command import Done, rcb_agent

KEY = "sk-the-value-of-a-key"
NAMES = {
    "python",
    "git",
    "bubblewrap",
    "cgroups",
    "runtime mini",
    "cache folder",
    "results folder",
    "temporary folder",
    "keys",
}


def statuses(done: Done) -> dict[str, str]:
    return {check["name"]: check["status"] for check in done.document["checks"]}


def detail(done: Done, name: str) -> tuple[str, str]:
    """What a check says, and its fix."""
    return next((check["detail"], check["fix"]) for check in done.document["checks"] if check["name"] == name)


@pytest.mark.sandbox
def test_a_machine_that_works(tmp_path: Path) -> None:
    """A sandbox was really opened; nothing heavy was loaded; whatever is not ok has a fix; nothing is left."""
    code = (
        "import sys\nfrom rcb_agent.cli import cli\n"
        "try: cli(['doctor', '--json'])\nexcept SystemExit as end: print(end.code)\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    document, status, modules = done.stdout.splitlines()
    checks = json.loads(document)["checks"]
    assert status == "0", checks
    assert {check["name"] for check in checks} >= NAMES
    assert all(check.keys() == {"name", "status", "detail", "fix"} for check in checks)
    assert all(bool(check["fix"]) == (check["status"] != "ok") for check in checks)
    said = next(check for check in checks if check["name"] == "bubblewrap")
    assert "ran a command as uid 64100, network off" in said["detail"]
    assert not {"litellm", "langgraph", "jsonschema", "git"} & set(modules.split())
    assert list(tmp_path.iterdir()) == []


def test_programs_that_are_missing(tmp_path: Path) -> None:
    """No git, no bwrap: exit 4, each with its command, and the rest is looked at all the same."""
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.code == 4
    assert (statuses(done)["git"], statuses(done)["bubblewrap"]) == ("problem", "problem")
    assert detail(done, "bubblewrap")[1] == "apt-get install bubblewrap"
    assert statuses(done).keys() >= NAMES
    assert "Traceback" not in done.err
    table = rcb_agent("doctor", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert (table.code, "not ready: git, bubblewrap" in table.out) == (4, True)


@pytest.mark.parametrize(
    "script", ["echo 'bwrap: No permissions to create a new namespace' >&2; exit 1", "exit 0", 'exec "$@"']
)
def test_a_bubblewrap_that_is_there_and_does_not_work(tmp_path: Path, script: str) -> None:
    """Being installed is not enough."""
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bwrap").chmod(0o755)
    (tmp_path / "git").symlink_to(str(shutil.which("git")))
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert (done.code, statuses(done)["bubblewrap"]) == (4, "problem")
    assert detail(done, "bubblewrap")[1]


@pytest.mark.sandbox
def test_a_sandbox_that_shares_the_network(tmp_path: Path) -> None:
    """Opening is not enough either: the command inside looks at what it is given."""
    leave_out = 'for a; do shift; [ "$a" = --unshare-net ] || set -- "$@" "$a"; done'
    (tmp_path / "bwrap").write_text(f'#!/bin/sh\n{leave_out}\nexec {shutil.which("bwrap")} "$@"\n')
    (tmp_path / "bwrap").chmod(0o755)
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert (done.code, statuses(done)["bubblewrap"]) == (4, "problem")
    assert "does not isolate" in detail(done, "bubblewrap")[0]


@pytest.mark.sandbox
def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """It is in the way only while the runtime is not built."""
    here = {"RCB_AGENT_CACHE": "/dev/null/cache", "RCB_AGENT_RUNTIME_MINI": str(load_runtime("mini").python)}
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env=here)
    assert (done.code, statuses(done)["cache folder"], statuses(done)["runtime mini"]) == (0, "warning", "ok"), done.out
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env={**here, "RCB_AGENT_RUNTIME_MINI": ""})
    assert (done.code, detail(done, "runtime mini")[1]) == (4, "rcb-agent env build mini")
    assert statuses(done)["bubblewrap"] == "ok"
    done = rcb_agent("doctor", "--json", cwd=tmp_path, env={**here, "RCB_AGENT_RUNTIME_MINI": "/no/python"})
    assert (done.code, detail(done, "runtime mini")[1]) == (4, "unset RCB_AGENT_RUNTIME_MINI")


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    """Results that could not be kept, and a working folder that somebody has removed, are findings."""
    done = rcb_agent("doctor", "--json", "--results", "/proc/results", cwd=tmp_path)
    assert (done.code, statuses(done)["results folder"]) == (4, "problem")
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from rcb_agent.cli import main; sys.argv = ['x', 'doctor', '--json']; main()"
    ended = subprocess.run([sys.executable, "-c", code], cwd=gone, capture_output=True, text=True, check=False)
    found = Done(ended.returncode, ended.stdout, ended.stderr)
    assert (found.code, statuses(found)["results folder"]) == (4, "problem")
    assert "Traceback" not in found.err


@pytest.mark.parametrize("words", [["doctor"], ["doctor", "--json"]])
def test_keys_are_named_and_never_shown(tmp_path: Path, words: list[str]) -> None:
    """Names of variables only, of endpoints too; one that is empty is not set; white space is remarked."""
    here = {
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": f"{KEY}\n",
        "GEMINI_API_KEY": "",
        "OPENAI_API_BASE": f"http://user:{KEY}@127.0.0.1/v1",
    }
    done = rcb_agent(*words, cwd=tmp_path, env=here)
    assert KEY not in done.out + done.err
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE"):
        assert name in done.out
    assert "GEMINI_API_KEY" not in done.out
    assert "white space around the value of ANTHROPIC_API_KEY" in done.out
