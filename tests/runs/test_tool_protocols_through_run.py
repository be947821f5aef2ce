"""Guards: a tool protocol that changes the trial, or that an endpoint without schemas turns into a fault."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.tasks.suites import load_suite
from tests.agents.loopback import Answer, Request, calls, serve, status, text
from tests.runs.command import Done, rcb_agent, records

pytestmark = pytest.mark.sandbox

TASK = "silt/filling of the last block"
Decision = list[tuple[str, dict[str, Any]]]


def decisions() -> list[Decision]:
    """Look, make a mistake, edit, see the tests, submit."""
    task = next(task for task in load_suite("mini").tasks if task.id == TASK)
    todo = next(line for line in task.problem.target.text.split("\n") if "TODO: implement" in line)
    edit = {"path": task.problem.path, "old": todo, "new": task.answer.gold.rstrip("\n")}
    return [
        [("list_files", {}), ("read_file", {"path": task.problem.path})],
        [("edit_file", {"path": "not there.py", "old": "a", "new": "b"}), ("no_such_tool", {"x": 1})],
        [("edit_file", edit)],
        [("run_python", {"code": "print('é', 6 * 7)"})],
        [("submit", {})],
    ]


def answerer(refuses: Callable[[dict[str, Any]], bool] = lambda _: False) -> Callable[[Request], Answer]:
    """Answer natively where tools are offered, else in JSON; the decision is the one whose turn it is."""
    plan = decisions()

    def answer(request: Request) -> Answer:
        form = request.body.get("response_format") or {}
        if refuses(form):
            return status(400, f"'response_format.type' must be one of text: {form['type']} is not supported")
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        if "tools" in request.body:
            return calls(*((name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in plan[turn]))
        chosen = [{"tool": name, "arguments": arguments} for name, arguments in plan[turn]]
        return text(json.dumps({"thought": "", "calls": chosen}))

    return answer


def run(folder: Path, url: str, protocol: str, out: str) -> Done:
    environment = {"OPENAI_API_BASE": url, "OPENAI_API_KEY": "x"}
    words = ["--agent", "react", "--model", "openai/x", "--tasks", TASK, "--tool-protocol", protocol]
    return rcb_agent("run", *words, "--json", "--out", out, cwd=folder, env=environment)


def trajectory(run_folder: Path) -> list[Any]:
    """Return the events of the one trial without what is no decision and no result: ids, times, cost."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in {"id", "seconds", "time", "at"}}
        if isinstance(value, str):
            return re.sub(r"after \d+\.\d s", "after some time", value)  # how long a command took is a time as well
        return [plain(item) for item in value] if isinstance(value, list) else value

    name = next((run_folder / "trajectories").iterdir()).relative_to(run_folder).as_posix()
    return [plain(event) for event in records(run_folder, name)]


def sent_formats(run_folder: Path) -> list[Any]:
    name = next((run_folder / "calls").iterdir()).relative_to(run_folder).as_posix()
    return [record["reply"]["raw"]["sent"].get("response_format") for record in records(run_folder, name)]


def test_the_same_decisions_make_the_same_trial_over_http(tmp_path: Path) -> None:
    """Natively and as JSON: equal events, verdict and submission; only what went over the wire differs."""
    with serve(answerer()) as server:
        native = run(tmp_path, server.url, "native", "native")
        in_json = run(tmp_path, server.url, "json", "json")
    assert (native.code, in_json.code) == (0, 0), native.err + in_json.err
    assert trajectory(tmp_path / "native") == trajectory(tmp_path / "json")
    assert native.arm("react@openai-x")["passed"] == in_json.arm("react@openai-x")["passed"] == 1
    submitted = [records(tmp_path / name, "trials.jsonl")[0]["submission"] for name in ("native", "json")]
    assert submitted[0] == submitted[1]
    asked = [("tools" in one.body, (one.body.get("response_format") or {}).get("type")) for one in server.requests]
    assert asked == [(True, None)] * 5 + [(False, "json_schema")] * 5
    assert sent_formats(tmp_path / "json") == ["json_schema"] * 5


@pytest.mark.parametrize(
    ("refused", "left"), [({"json_schema"}, "json_object"), ({"json_schema", "json_object"}, None)]
)
def test_an_endpoint_without_schemas_is_asked_in_the_next_simpler_way(
    tmp_path: Path, refused: set[str], left: str | None
) -> None:
    """The refusal costs one request each, is in the record, and is remembered for the calls after it."""
    with serve(answerer(lambda form: form.get("type") in refused)) as server:
        done = run(tmp_path, server.url, "json", "run")
    assert done.code == 0, done.err
    assert done.arm("react@openai-x")["passed"] == 1
    assert len(server.requests) == 5 + len(refused)
    assert sent_formats(tmp_path / "run") == [left] * 5
    name = next((tmp_path / "run" / "calls").iterdir()).relative_to(tmp_path / "run").as_posix()
    first, *others = records(tmp_path / "run", name)
    assert [attempt["status"] for attempt in first["retried"]] == [400] * len(refused)
    assert not any(record["retried"] for record in others)
