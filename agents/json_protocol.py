"""Lets a model without tool calls use the same tools: it answers with a JSON object under a schema.

To the agent this is a model like any other: calls come out as native ones do, their results go in as text. What the
agent sees, does and records is the same; only ``calls/`` shows the other form.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any

from rcb_agent.agents.arguments import ArgumentsError, parse_object
from rcb_agent.agents.base import Message, Model, Reply, Sampling, ToolCall
from rcb_agent.agents.prompts import render

MALFORMED = "reply_is_not_one_json_object_with_calls"
"""Name of the call that stands for a reply that is no such object; every toolbox refuses it, and repeats the name."""

_ATTEMPT = re.compile(r'"(calls|tool)"\s*:')
_BEGINNINGS = 100
"""Braces of one reply at which an object is looked for."""


class JsonToolsModel:
    """A model that is offered tools in words and answers in JSON."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self._model.name

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Complete; without tools nothing is translated."""
        if not tools:
            return self._model.complete(messages, tools, sampling)
        schema = reply_schema(tools)
        ordinal = sum(message["role"] == "assistant" for message in messages) + 1
        reply = self._model.complete(translate(messages, tools), (), replace(sampling, reply_schema=schema))
        return read_calls(reply, ordinal)


def reply_schema(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON Schema of a reply: a thought, and calls of these tools with the arguments each takes.

    A server that holds a weak model to the schema thereby holds it to arguments that exist.
    """
    calls = [
        _closed(tool={"enum": [tool["function"]["name"]]}, arguments=tool["function"]["parameters"]) for tool in tools
    ]
    return _closed(thought={"type": "string"}, calls={"type": "array", "items": {"anyOf": calls}})


def _closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def translate(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return a conversation without tool messages: calls as JSON, the results of one reply as one user message."""
    listed = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
    return [{"role": "system", "content": render("json_tools", tools=listed)}, *_translated(messages)]


def _translated(messages: Sequence[Message]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for is_result, group in groupby(messages, lambda message: message["role"] == "tool"):
        if is_result:
            parts = [f"Result of {names.get(one['tool_call_id'], 'a call')}:\n{one['content']}" for one in group]
            yield {"role": "user", "content": "\n\n".join(parts)}
            continue
        for message in group:
            calls = message.get("tool_calls", ())
            names |= {call["id"]: call["function"]["name"] for call in calls}
            yield _as_json(message) if message["role"] == "assistant" else message


def _as_json(message: Message) -> Message:
    calls = [
        {"tool": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    content = json.dumps({"thought": message["content"], "calls": calls}, ensure_ascii=False)
    return {"role": "assistant", "content": content}


def read_calls(reply: Reply, ordinal: int) -> Reply:
    """Return the reply with its JSON read as calls; text that is no object at all is an answer without a call.

    Without a schema models put words and fences around the one object, which is read all the same.
    """
    text = _unfenced(reply.text)
    if not text.startswith("{"):
        within = list(_objects_within(text))
        if not within and not _ATTEMPT.search(text):
            return reply
        text = within[0] if len(within) == 1 else text
    try:
        data = parse_object(text)
        calls = tuple(_read_call(call, f"json-{ordinal}-{index}") for index, call in enumerate(data["calls"] or (), 1))
    except (ArgumentsError, TypeError, KeyError, AttributeError):
        return replace(reply, text="", tool_calls=(ToolCall(f"json-{ordinal}-1", MALFORMED, text),))
    finish = "tool_calls" if calls and reply.finish == "stop" else reply.finish
    # An empty list is what ends the task, so it is no silence, thought or not.
    thought = str(data.get("thought") or "") or ("" if calls else text)
    return replace(reply, text=thought, tool_calls=calls, finish=finish)


def _objects_within(text: str) -> Iterator[str]:
    """Yield the objects with calls among other words."""
    decoder, begin = json.JSONDecoder(), text.find("{")
    for _ in range(_BEGINNINGS):
        if begin < 0:
            return
        end = begin + 1
        with suppress(ValueError, RecursionError):
            value, end = decoder.raw_decode(text, begin)
            if "calls" in value:
                yield text[begin:end]
        begin = text.find("{", end)


def _read_call(call: Any, id_: str) -> ToolCall:
    arguments = call["arguments"]
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id_, str(call["tool"]), raw)


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.removeprefix("```").removeprefix("json").removesuffix("```").strip()
    return text
