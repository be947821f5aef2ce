"""Guards: a model without tool calls that gets other tools, other records, or another trial for the same decisions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.agents.base import Message, Reply, Sampling
from rcb_agent.agents.json_protocol import MALFORMED, JsonToolsModel, read_calls, translate
from rcb_agent.agents.litellm_model import build_request
from rcb_agent.agents.react import ReactAgent
from tests.agents.samples import PROBLEM, Log, Talker, call, make_session, open_sample, says

DECISIONS = [
    says(call("read_file", "c1", path="model.py"), call("list_files", "c2"), text="look"),
    says(call("sudo_rm", "c3"), text="odd"),
    says(call("write_file", "c4", path="note.txt", content='a "quoted" line\n'), text=""),
    says(call("submit", "c5"), text="done"),
]


@dataclass
class InJson:
    """Says what another model says natively, as JSON in its text."""

    inner: Talker
    name: str = "test/talker"
    asked: list[list[Message]] = field(default_factory=list)
    schemas: list[Any] = field(default_factory=list)

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        assert not tools
        self.asked.append(list(messages))
        self.schemas.append(sampling.reply_schema)
        reply = self.inner.complete(messages, tools, sampling)
        calls = [{"tool": one.name, "arguments": json.loads(one.arguments)} for one in reply.tool_calls]
        return Reply(json.dumps({"thought": reply.text, "calls": calls}), (), reply.usage, reply.cost, "stop")


def trajectory(log: Log) -> list[tuple[str, Any]]:
    """Return the events without ids and times."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if key not in {"id", "seconds"}}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return [(kind, plain(fields)) for kind, fields in log]


def test_the_same_decisions_make_the_same_trial(tmp_path: Path) -> None:
    """Prompt, replies, results, snapshots, stop, usage and cost are equal; only the calls' ids differ."""
    native, native_log = make_session(Talker(DECISIONS), open_sample(tmp_path / "native"))
    first = ReactAgent().solve(PROBLEM, native)
    model = InJson(Talker(DECISIONS))
    in_json, json_log = make_session(JsonToolsModel(model), open_sample(tmp_path / "json"))
    second = ReactAgent().solve(PROBLEM, in_json)
    assert first == second
    assert first.stop == "submitted"
    assert trajectory(native_log) == trajectory(json_log)
    assert {message["role"] for asked in model.asked for message in asked} == {"system", "user", "assistant"}
    assert "Result of read_file:" in model.asked[1][-1]["content"]
    assert "Result of list_files:" in model.asked[1][-1]["content"]
    offered = {
        one["properties"]["tool"]["enum"][0]: one["properties"]["arguments"]
        for one in model.schemas[0]["properties"]["calls"]["items"]["anyOf"]
    }
    assert {"read_file", "submit"} < set(offered)
    assert "path" in offered["read_file"]["required"]


@pytest.mark.parametrize(
    ("text", "calls", "shown"),
    [
        ("I am done.", [], "I am done."),
        ('{"thought": "t", "calls": []}', [], "t"),
        ('```json\n{"thought": "t", "calls": [{"tool": "submit", "arguments": {}}]}\n```', [("submit", "{}")], "t"),
        ('{"calls": [{"tool": "a", "arguments": "{oops"}]}', [("a", "{oops")], ""),
        ('{"thought": "t", "calls": [{"tool"', [(MALFORMED, '{"thought": "t", "calls": [{"tool"')], ""),
        ('{"calls": 3}', [(MALFORMED, '{"calls": 3}')], ""),
        ('{"calls": ["submit"]}', [(MALFORMED, '{"calls": ["submit"]}')], ""),
        ('Sure:\n{"thought": "t", "calls": [{"tool": "submit", "arguments": {}}]}\nDone.', [("submit", "{}")], "t"),
        ('For {x}:\n```json\n{"thought": "t", "calls": []}\n```', [], "t"),
        ('{"thought": "", "calls": []}', [], '{"thought": "", "calls": []}'),
        ('{"tool": "submit", "arguments": {}}', [(MALFORMED, '{"tool": "submit", "arguments": {}}')], ""),
        ('[{"tool": "submit"}]', [(MALFORMED, '[{"tool": "submit"}]')], ""),
        ('a {"calls": []} b {"calls": []}', [(MALFORMED, 'a {"calls": []} b {"calls": []}')], ""),
        ('I do: {"thought": "t", "calls": [{', [(MALFORMED, 'I do: {"thought": "t", "calls": [{')], ""),
        ("a set {x} is no call", [], "a set {x} is no call"),
        ('{"calls": [{"tool": "a", "arguments": null}]}', [("a", "null")], ""),
    ],
)
def test_what_is_no_call_is_never_carried_out(text: str, calls: list[tuple[str, str]], shown: str) -> None:
    """A cut or odd object becomes a call that every toolbox refuses, so that the model is told; words around are none."""
    reply = read_calls(Reply(text, finish="stop"), 1)
    assert reply.kind == "answer"
    assert [(one.name, one.arguments) for one in reply.tool_calls] == calls
    assert reply.text == shown


@pytest.mark.parametrize(("finish", "kind"), [("content_filter", "filtered"), ("length", "cut"), ("stop", "answer")])
def test_calls_in_a_filtered_or_cut_reply_stay_filtered_or_cut(finish: str, kind: str) -> None:
    """What the provider said of the reply holds for the calls in it."""
    whole = '{"thought": "", "calls": [{"tool": "submit", "arguments": {}}]}'
    assert read_calls(Reply(whole, finish=finish), 1).kind == kind


def test_a_malformed_reply_goes_back_as_a_valid_conversation(tmp_path: Path) -> None:
    """The next request still translates."""
    broken = Reply('{"calls": [', finish="length")
    model = Talker([broken, Reply('{"thought": "", "calls": [{"tool": "submit", "arguments": {}}]}', finish="stop")])
    session, log = make_session(JsonToolsModel(model), open_sample(tmp_path))
    assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
    assert "cut off" in log.of("tool")[0]["text"]
    assert all(isinstance(message["content"], str) for message in model.asked[1])


def test_the_schema_goes_out_as_a_response_format() -> None:
    """In OpenAI's form; a request without one has none."""
    request = build_request("openai/x", (), (), Sampling(reply_schema={"type": "object"}))
    assert request["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert "response_format" not in build_request("openai/x", (), (), Sampling())
    assert translate([{"role": "user", "content": "x"}], [])[0]["role"] == "system"
