"""Guards: the path of a real provider: a leaked key, a dead endpoint recorded as a result, a fault as a score."""

import json
from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from tests.agents.loopback import Answer, Request, calls, serve, status, text
from tests.runs.command import Done, rcb_agent, records

pytestmark = pytest.mark.sandbox

TASK = "silt/filling of the last block"
KEY = "sk-planted-7f3a9c1e"


def gold_edit() -> Answer:
    """Return the tool call that puts the gold code between the markers, as a model that knows it would."""
    task = next(task for task in load_suite("mini").tasks if task.id == TASK)
    todo = next(line for line in task.problem.target.text.split("\n") if "TODO: implement" in line)
    arguments = {"path": task.problem.path, "old": todo, "new": task.answer.gold.rstrip("\n")}
    return calls(("edit_file", json.dumps(arguments)))


LOOK = "import os\nprint(dict(os.environ), open('/proc/self/environ').read())"
SOLVE = [
    calls(("read_file", '{"path": "packing.py"}')),
    calls(("run_python", json.dumps({"code": LOOK}))),
    gold_edit(),
    calls(("submit", "{}")),
]


def run(folder: Path, url: str, *words: str) -> Done:
    environment = {"OPENAI_API_BASE": url, "OPENAI_API_KEY": KEY}
    return rcb_agent(
        "run", "--agent", "react", "--model", "openai/x", "--json", "--out", "run", *words, cwd=folder, env=environment
    )


def files_with_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_scripted_endpoint_solves_a_task_and_the_key_stays_outside(tmp_path: Path) -> None:
    """The whole loop over HTTP passes; the key reaches the endpoint and nothing else."""
    with serve(SOLVE) as server:
        done = run(tmp_path, server.url, "--tasks", TASK)
    assert done.code == 0, done.err
    arm = done.arm("react@openai-x")
    assert (arm["passed"], arm["steps"], arm["cost"]) == (1, 4, None)
    assert len(server.requests) == 4
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
    events = records(
        tmp_path / "run", next((tmp_path / "run").glob("trajectories/*")).relative_to(tmp_path / "run").as_posix()
    )
    assert [event["kind"] for event in events].count("tool") == 4
    seen = next(event["text"] for event in events if event["kind"] == "tool" and event["name"] == "run_python")
    assert "PYTHONHASHSEED" in seen
    assert "OPENAI" not in seen
    assert not files_with_key(tmp_path)
    assert KEY not in done.out + done.err


def test_endpoint_that_echoes_the_key_cannot_get_it_into_a_file(tmp_path: Path) -> None:
    """A hostile or careless endpoint repeats what it was sent: replies, errors and files are written without it."""

    def echo(request: Request) -> Answer:
        if len(request.body["messages"]) > 4:
            return text(f"your key is {KEY}")
        return calls(("write_file", json.dumps({"path": "notes.txt", "content": request.headers["authorization"]})))

    with serve(echo) as server:
        done = run(tmp_path, server.url, "--tasks", TASK)
    assert done.code == 0, done.err
    assert not files_with_key(tmp_path)


def test_nothing_listening_is_one_line_exit_5_and_no_folder(tmp_path: Path) -> None:
    """A wrong endpoint is known at the first call: nothing is recorded as solved or failed."""
    with serve([]) as server:
        dead = server.url
    done = run(tmp_path, dead)
    assert done.code == 5
    assert "OPENAI_API_BASE" in done.err.splitlines()[-1]
    assert "nothing was recorded" in done.err.splitlines()[-2]
    assert "Traceback" not in done.err
    assert done.out == ""
    assert not (tmp_path / "run").exists()


def test_wrong_key_stops_the_run_and_is_not_repeated(tmp_path: Path) -> None:
    """401 names the variable, never its value."""
    with serve([status(401, f"Incorrect API key provided: {KEY}")]) as server:
        done = run(tmp_path, server.url)
    assert done.code == 5
    assert "OPENAI_API_KEY" in done.err
    assert KEY not in done.err
    assert not files_with_key(tmp_path)


def test_provider_fault_is_not_measured_and_is_retried_by_the_same_command(tmp_path: Path) -> None:
    """A bad request ends that trial as not_measured (exit 1); the next start tries it again and keeps the rest."""
    with serve([status(400, "something odd")]) as server:
        first = run(tmp_path, server.url, "--tasks", TASK)
    assert first.code == 1
    assert first.arm("react@openai-x")["not_measured"] == 1
    assert records(tmp_path / "run", "grades.jsonl")[0]["reason"] == "model"
    with serve(SOLVE) as server:
        second = run(tmp_path, server.url, "--tasks", TASK)
    assert second.code == 0, second.err
    assert second.arm("react@openai-x")["passed"] == 1
