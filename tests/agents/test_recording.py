"""Guards: a call that was paid for and is not in the records, two calls under one key."""

import json
from importlib.resources import files

import jsonschema
import pytest

from rcb_agent.agents.base import Message, Reply, Sampling
from rcb_agent.agents.recording import CallScope, Record, RecordingModel, restore_requests
from rcb_agent.errors import ModelError, ModelUnavailable
from tests.agents.samples import Talker, call, says

ASK = [{"role": "user", "content": "hello"}]
SCOPE = CallScope("react@x", "p/t", 1)


def record(
    scope: CallScope = SCOPE, sampling: Sampling | None = None, content: str = "hello", times: int = 1
) -> list[Record]:
    kept: list[Record] = []
    model = RecordingModel(Talker([says(call("submit"), text="done")]), scope, kept.append)
    for _ in range(times):
        model.complete([{"role": "user", "content": content}], [], sampling or Sampling())
    return kept


def test_a_record_fits_its_schema_and_holds_the_call() -> None:
    """Request, reply, usage, cost, seconds."""
    (kept,) = record(sampling=Sampling(None, 9))
    schema = json.loads((files("rcb_agent.runs") / "schema" / "call.json").read_text())
    jsonschema.validate(json.loads(json.dumps(kept)), schema)
    assert kept["request"] == {
        "model": "test/talker",
        "messages": ASK,
        "kept": 0,
        "tools": [],
        "sampling": {"max_output_tokens": 9},
    }
    assert kept["reply"]["text"] == "done"
    assert kept["reply"]["tool_calls"] == [{"id": "c1", "name": "submit", "arguments": "{}"}]
    assert (kept["reply"]["usage"], kept["reply"]["cost"]) == ({"input_tokens": 10, "output_tokens": 5}, 0.25)


def test_each_call_has_a_key_of_its_own() -> None:
    """Arm, task, attempt, number, request and sampling all count; the same call again has the same key."""
    keys = [
        *(one["key"] for one in record(times=3)),
        record(CallScope("other", "p/t", 1))[0]["key"],
        record(CallScope("react@x", "p/u", 1))[0]["key"],
        record(CallScope("react@x", "p/t", 2))[0]["key"],
        record(sampling=Sampling(1.0))[0]["key"],
        record(content="good bye")[0]["key"],
    ]
    assert len(set(keys)) == len(keys)
    assert record()[0]["key"] == keys[0]


@pytest.mark.parametrize("kind", [ModelError, ModelUnavailable])
def test_a_failed_call_is_recorded_before_it_is_raised(kind: type[ModelError]) -> None:
    """The error is the record's, the exception is the caller's, unchanged."""

    class Broken(Talker):
        def complete(self, *arguments: object) -> Reply:
            raise kind("out of order")

    kept: list[Record] = []
    with pytest.raises(kind, match="out of order"):
        RecordingModel(Broken([]), SCOPE, kept.append).complete(ASK, [], Sampling())
    assert (kept[0]["reply"], kept[0]["error"], kept[0]["ordinal"]) == (None, "out of order", 1)


def test_a_growing_conversation_is_written_once_and_can_be_read_whole() -> None:
    """Records hold what is new; put together they are the requests as sent, a changed beginning included."""
    kept: list[Record] = []
    model = RecordingModel(Talker([says(text="one"), says(text="two"), says(text="three")]), SCOPE, kept.append)
    ask: Message = {"role": "user", "content": "hello"}
    reply: Message = {"role": "assistant", "content": "one"}
    sent = [[ask], [ask, reply, ask], [reply]]
    tools = [{"type": "function", "function": {"name": "submit"}}]
    for messages in sent:
        model.complete(messages, tools, Sampling())
    assert [len(one["request"]["messages"]) for one in kept] == [1, 2, 1]
    assert [one["request"]["tools"] for one in kept] == [tools, None, None]
    whole = restore_requests(kept)
    assert [one["messages"] for one in whole] == sent
    assert [one["tools"] for one in whole] == [tools] * 3
