"""Guards: an agent that breaks its sandbox and is not measured for it, or whose honest work before is lost."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runs.command import rcb_agent, records

pytestmark = pytest.mark.sandbox

TASK = "plain/smooth"
MANY_NAMES = (
    "import os\nos.mkdir(b'x')\nfor i in range(19000): open(b'x/' + b'\\xff' * 230 + str(i).encode(), 'w').close()\n"
)
FULL_MEMORY = (
    "import os\n"
    "for folder in ('/tmp', '/dev/shm', os.environ['HOME'], '.'):\n"
    "    try:\n"
    "        with open(folder + '/fill', 'wb') as f:\n"
    "            while True: f.write(bytes(1 << 20))\n"
    "    except OSError: pass\n"
)


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(("kind", "code"), [("names", MANY_NAMES), ("memory", FULL_MEMORY)])
def test_what_an_agent_does_to_its_sandbox_is_graded(kind: str, code: str, attack_suite: Path, tmp_path: Path) -> None:
    """A flooded listing and full file systems end as a grade of what was there, never as not_measured."""
    gold = (Path(__file__).parent.parent / "attacks" / "task" / "plain" / "solution.py").read_text()
    replies = [
        {"text": "", "tool_calls": [one]}
        for one in (call("write_file", path="model.py", content=gold), call("run_python", code=code), call("submit"))
    ]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    words = ["--arm", f"react@scripted/file:{tmp_path}/replies.json,name=flood", "--memory-mb", "512", "--json"]
    done = rcb_agent("run", "--suite", attack_suite, "--tasks", TASK, *words, "--out", tmp_path / "run", cwd=tmp_path)
    assert done.code == 0, (kind, done.err)
    assert done.arm("flood")["passed"] == 1
    trial = records(tmp_path / "run", "trials.jsonl")[0]
    assert trial["stop"] in ("submitted", "sandbox_lost")
    assert trial["error"] is None


def test_a_lost_second_file_is_no_part_of_the_blank_scope(tmp_path: Path) -> None:
    """Scope ``blank`` takes the lines of the one file; scope ``diff`` sees that the other is gone."""
    replies = [
        {"text": "", "tool_calls": [call("run_python", code="import os\nos.remove('readout.py')")]},
        {"text": "", "tool_calls": [call("submit")]},
    ]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    arm = f"react@scripted/file:{tmp_path}/replies.json,name=gone"
    words = ["--tasks", "ripple/centring*", "--arm", arm, "--out", "run", "--json"]
    done = rcb_agent("run", *words, cwd=tmp_path)
    assert done.code == 0, done.err
    found = {grade["scope"]: grade["reason"] for grade in records(tmp_path / "run", "grades.jsonl")}
    assert found == {"diff": "file_missing", "blank": "tests_failed"}


def test_killed_sandbox_leaves_the_last_snapshot_with_its_diff(attack_suite: Path, tmp_path: Path) -> None:
    """A sandbox that ends under the agent: what the last step left is graded and shown, nothing is repeated."""
    import os
    import signal
    import subprocess
    import sys
    import time

    gold = (Path(__file__).parent.parent / "attacks" / "task" / "plain" / "solution.py").read_text()
    wait = "import time\ntime.sleep(50)"
    replies = [
        {"text": "", "tool_calls": [call("write_file", path="model.py", content=gold)]},
        {"text": "", "tool_calls": [call("run_python", code=wait)]},
    ]
    (tmp_path / "replies.json").write_text(json.dumps(replies))
    arm = f"react@scripted/file:{tmp_path}/replies.json,name=lost"
    words = ["run", "--suite", str(attack_suite), "--tasks", TASK, "--arm", arm, "--out", "run", "--json"]
    process = subprocess.Popen([sys.executable, "-m", "rcb_agent", *words], cwd=tmp_path, stdout=subprocess.PIPE)
    trajectory = tmp_path / "run" / "trajectories"
    end = time.monotonic() + 60
    while time.monotonic() < end and not _is_waiting(trajectory):
        time.sleep(0.05)
    time.sleep(0.5)
    sandboxes = [pid for pid in _children(process.pid) if "bwrap" in Path(f"/proc/{pid}/comm").read_text()]
    assert sandboxes
    for pid in sandboxes:
        for inner in _children(pid):
            os.kill(inner, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 0
    (trial,) = records(tmp_path / "run", "trials.jsonl")
    assert (trial["stop"], trial["steps"], trial["error"]) == ("sandbox_lost", 2, None)
    assert {grade["verdict"] for grade in records(tmp_path / "run", "grades.jsonl")} == {"passed"}
    assert "+    y, out = None, []" in rcb_agent("diff", "run", "lost", cwd=tmp_path).out


def _is_waiting(trajectory: Path) -> bool:
    return any("time.sleep" in path.read_text() for path in trajectory.glob("*"))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found
