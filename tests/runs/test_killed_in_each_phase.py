"""Guards: processes, containers, mounts or temporary folders that a killed run leaves, whatever it was doing."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from tests.engine import provide_base, silence
from tests.environments.test_killed_harness import wait_until
from tests.runs.test_runs_through_commands import children_of

pytestmark = pytest.mark.sandbox

TASK = "silt/filling of the last block"
SLEEP = "import time\nwhile True: time.sleep(1)"
PHASES = ("gold", "agent", "grade")


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The words that choose a sandbox."""
    if request.param == "bubblewrap":
        return ["--sandbox", "bubblewrap"]
    if why := silence():
        pytest.skip(why)
    base = provide_base(tmp_path_factory.getbasetemp().parent)
    build = [sys.executable, "-m", "rcb_agent", "env", "build", "mini", "--sandbox", "docker", "--docker-base", base]
    subprocess.run(build, check=True, capture_output=True)
    return ["--sandbox", "docker", "--docker-base", base]


def model(folder: Path, phase: str) -> str:
    """Replies that make a trial last: in a command of the agent, or in the grade of what it has written."""
    task = next(task for task in load_suite("mini").tasks if task.id == TASK)
    todo = next(line for line in task.problem.target.text.split("\n") if "TODO: implement" in line)
    edit = {"path": task.problem.path, "old": todo, "new": "    " * 2 + "import time; time.sleep(600)"}
    if phase == "agent":
        replies = [{"text": "", "tool_calls": [{"name": "run_python", "arguments": {"code": SLEEP}}]}]
    else:
        calls = [{"name": "edit_file", "arguments": edit}, {"name": "submit", "arguments": {}}]
        replies = [{"text": "", "tool_calls": calls}]
    (folder / "replies.json").write_text(json.dumps(replies))
    return f"scripted/file:{folder}/replies.json"


def has_reached(phase: str, process: "subprocess.Popen[bytes]", run: Path, *, in_docker: bool) -> Callable[[], bool]:
    """Return a check for the phase: sandboxes are there, and what came before is on disk."""

    def reached() -> bool:
        busy = bool(own_containers(process.pid) if in_docker else children_of(process.pid))
        calls = list(run.glob("calls/*"))
        trials = run / "trials.jsonl"
        solved = trials.exists() and trials.stat().st_size > 0
        assert process.poll() is None, "the run has ended"
        return busy and {"gold": not calls, "agent": bool(calls) and not solved, "grade": solved}[phase]

    return reached


def own_containers(pid: int) -> list[str]:
    """Containers that say they belong to a process."""
    if silence():
        return []
    from rcb_agent.environments.engine import connect
    from rcb_agent.environments.images import OWNER_LABEL

    found = connect().containers(all=True, filters={"label": OWNER_LABEL})
    return [one["Id"] for one in found if f".{pid}." in one["Labels"][OWNER_LABEL]]


def mounts() -> set[str]:
    """Mount points, but for those of an engine, which has containers of others."""
    places = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    return {place for place in places if "docker" not in place and "overlay2" not in place}


@pytest.fixture
def nothing_of(tmp_path: Path) -> Path:
    """A folder for temporary files of a run."""
    place = tmp_path / "tmp"
    place.mkdir()
    return place


@pytest.mark.parametrize("phase", PHASES)
def test_nothing_of_a_killed_run_is_left(sandbox: list[str], phase: str, tmp_path: Path, nothing_of: Path) -> None:
    """Ten seconds after kill -9: no process, no container, no mount, no temporary folder."""
    before = mounts()
    words = ["--agent", "react", "--model", model(tmp_path, phase), "--tasks", TASK, *sandbox, "--out", "run"]
    words += ["--memory-mb", str(1800 + os.getpid() % 200)]  # no kept gold run fits: it has to be done again
    environment = {**os.environ, "TMPDIR": str(nothing_of)}
    said = tmp_path / "said"
    with said.open("wb") as stderr:
        command = [sys.executable, "-m", "rcb_agent", "run", *words]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=stderr)
    try:
        assert wait_until(has_reached(phase, process, tmp_path / "run", in_docker="docker" in sandbox), 120), (
            said.read_text()
        )
        family = children_of(process.pid)
        containers = own_containers(process.pid)
        assert bool(containers) == ("docker" in sandbox)
    finally:
        process.kill()
        process.wait()
    assert wait_until(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()], 10)
    assert wait_until(lambda: not own_containers(process.pid), 10)
    assert wait_until(lambda: not list(nothing_of.iterdir()), 10)
    assert mounts() <= before
