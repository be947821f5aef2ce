"""Keeps a conversation valid for the next request, whatever the last reply looked like.

Providers refuse a history whose assistant message holds arguments that are no JSON, a tool name with odd letters, two
calls of one id, or a lone surrogate. The model's own words are in the journal and in ``calls/``; here they are made
fit to be sent again, visibly.
"""

import json
import re
from dataclasses import replace

from rcb_agent.agents.arguments import ArgumentsError, cap, clean, parse_object
from rcb_agent.agents.base import Message, Reply, ToolCall

MAX_KEPT = 1 << 20
"""Characters of one text or one call's arguments that are kept; a whole file written by write_file fits."""

_MALFORMED_SHOWN = 2_000
_ODD_LETTERS = re.compile(r"[^A-Za-z0-9_-]")


def bound_text(text: str) -> str:
    """Return a text fit to be sent and recorded: no lone surrogates, not endless."""
    return cap(clean(text), MAX_KEPT)


class CallIds:
    """Gives every call of a conversation an id of its own; the first to use one keeps it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def make_unique(self, reply: Reply) -> Reply:
        """Return the reply with empty and repeated ids replaced."""
        return replace(reply, tool_calls=tuple(replace(one, id=self._claim(one.id)) for one in reply.tool_calls))

    def _claim(self, wanted: str) -> str:
        wanted = clean(wanted) or "call"
        number, free = 1, wanted
        while free in self._seen:
            number += 1
            free = f"{wanted}-{number}"
        self._seen.add(free)
        return free


def assistant_message(reply: Reply) -> Message:
    """Return the reply as it stands in the history."""
    message: Message = {"role": "assistant", "content": bound_text(reply.text)}
    if reply.tool_calls:
        message["tool_calls"] = [_stored_call(call) for call in reply.tool_calls]
    return message


def _stored_call(call: ToolCall) -> Message:
    name = _ODD_LETTERS.sub("_", call.name)[:64] or "unnamed"
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": _stored_arguments(call)}}


def _stored_arguments(call: ToolCall) -> str:
    if not call.arguments.strip():
        return "{}"
    if len(call.arguments) <= MAX_KEPT:
        try:
            parse_object(call.arguments)
        except ArgumentsError:
            pass
        else:
            return clean(call.arguments)
    return json.dumps({"malformed_arguments": cap(clean(call.arguments), _MALFORMED_SHOWN)})


def tool_message(call: ToolCall, text: str) -> Message:
    """Return the answer to a call."""
    return {"role": "tool", "tool_call_id": call.id, "content": text}
