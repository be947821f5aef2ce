"""Guards: a conversation that the provider refuses at the next request because of what the model said before."""

import json
from pathlib import Path

import pytest

from rcb_agent.agents.base import ToolCall
from rcb_agent.agents.react import ReactAgent
from tests.agents.samples import PROBLEM, Talker, call, check_conversation, make_session, open_sample, says

ODD = {
    "duplicate ids": (call("read_file", "c1", path="model.py"), call("read_file", "c1", path="other.py")),
    "empty ids": (call("list_files", ""), call("list_files", "")),
    "an id that a rename would take": (call("list_files", "a"), call("list_files", "a-2"), call("list_files", "a")),
    "malformed arguments": (ToolCall("c1", "read_file", '{"path": model.py}'),),
    "arguments that are no object": (ToolCall("c1", "read_file", '"model.py"'), ToolCall("c2", "read_file", "null")),
    "no arguments": (ToolCall("c1", "read_file", ""), ToolCall("c2", "list_files", "")),
    "unknown tool": (call("sudo_rm", path="/"),),
    "a name with odd letters": (call("read file; rm -rf /\x1b[2J", path="x"), call("", "c2"), call("n" * 500, "c3")),
    "lone surrogates": (ToolCall("\ud800", "read_file\udfff", '{"path": "\ud800"}'), call("read_file", path="\ud800")),
    "endless arguments": (ToolCall("c1", "write_file", json.dumps({"path": "a", "content": "x" * (32 << 20)})),),
    "deep nesting": (ToolCall("c1", "read_file", "[" * 200_000),),
}


@pytest.mark.parametrize("name", ODD)
def test_the_next_request_is_valid_whatever_was_called(tmp_path: Path, name: str) -> None:
    """Ids unique, one answer each in order, arguments JSON objects, everything encodable, nothing endless."""
    model = Talker([says(*ODD[name]), says(*ODD[name]), says(call("submit", "end"))])
    session, _ = make_session(model, open_sample(tmp_path))
    assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
    check_conversation(model.asked[-1])
    sent = json.dumps(model.asked[-1], ensure_ascii=False).encode("utf-8")
    assert len(sent) < 1 << 20


def test_duplicate_ids_are_answered_by_what_each_call_asked(tmp_path: Path) -> None:
    """Renamed in the message and in its answer alike."""
    model = Talker([says(*ODD["duplicate ids"]), says(call("submit", "end"))])
    session, _ = make_session(model, open_sample(tmp_path))
    ReactAgent().solve(PROBLEM, session)
    messages = model.asked[-1]
    assert [one["id"] for one in messages[2]["tool_calls"]] == ["c1", "c1-2"]
    answers = {one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"}
    assert "def mean" in answers["c1"]
    assert "X = 1" in answers["c1-2"]


def test_malformed_arguments_are_never_run_as_none(tmp_path: Path) -> None:
    """list_files would do something useful without arguments; broken ones are still refused."""
    model = Talker([says(ToolCall("c1", "list_files", '{"path": ')), says(call("submit", "end"))])
    session, log = make_session(model, open_sample(tmp_path))
    ReactAgent().solve(PROBLEM, session)
    assert log.of("tool")[0]["text"].startswith("error: the arguments are not valid JSON")
    stored = json.loads(model.asked[-1][2]["tool_calls"][0]["function"]["arguments"])
    assert stored == {"malformed_arguments": '{"path": '}
