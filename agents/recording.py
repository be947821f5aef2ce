"""Records every call of a model: what was asked, what came back, how long it took, or how it failed.

The key names one call for good: the whole request, the sampling, the arm, the task, the attempt and its number within the
trial. The record is handed over before the reply is used, so that nothing paid for is lost when the trial breaks.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rcb_agent.agents.base import Message, Model, Reply, Sampling
from rcb_agent.errors import ModelError, ModelUnavailable, TrialOver

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallScope:
    """The trial that a call belongs to."""

    arm: str
    task: str
    attempt: int


class RecordingModel:
    """A model that hands a record of each call (``runs/schema/call.json``) to ``keep``."""

    def __init__(self, model: Model, scope: CallScope, keep: Callable[[Record], None]) -> None:
        self._model = model
        self._scope = scope
        self._keep = keep
        self._ordinal = 0
        self._before: Record = {"messages": [], "tools": None}

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self._model.name

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Complete and record; a ModelError is recorded and raised again."""
        self._ordinal += 1
        request = describe_request(self.name, messages, tools, sampling)
        begin = time.monotonic()
        try:
            reply = self._model.complete(messages, tools, sampling)
        except ModelError as error:
            self._hand_over(request, error, begin)
            raise
        self._hand_over(request, reply, begin)
        return reply

    def _hand_over(self, request: Record, outcome: Reply | ModelError, begin: float) -> None:
        reply = outcome if isinstance(outcome, Reply) else None
        record = {
            "key": call_key(request, self._scope, self._ordinal),
            "ordinal": self._ordinal,
            "request": shorten_request(request, self._before),
            "kind": outcome.kind if isinstance(outcome, Reply) else describe_error(outcome),
            "reply": None if reply is None else describe_reply(reply),
            "error": str(outcome) if reply is None else None,
            "retried": [dict(attempt) for attempt in outcome.retried],
            "seconds": round(time.monotonic() - begin, 4),
        }
        self._before = request
        self._keep(record)


def describe_request(
    name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
) -> Record:
    """Return a request as JSON; sampling parameters that are not sent are not there."""
    sent = {key: value for key, value in asdict(sampling).items() if value is not None}
    return {"model": name, "messages": list(messages), "tools": list(tools), "sampling": sent}


def shorten_request(request: Record, before: Record) -> Record:
    """Leave out what the call before already holds: ``kept`` messages from its start, and equal tools (None).

    A conversation grows by a few messages a call; written whole each time, its record would grow with the square.
    """
    old, new = before["messages"], request["messages"]
    kept = len(old) if new[: len(old)] == old else 0
    same_tools = before["tools"] == request["tools"]
    return {**request, "kept": kept, "messages": new[kept:], "tools": None if same_tools else request["tools"]}


def restore_requests(records: Sequence[Record]) -> list[Record]:
    """Return the requests of one trial's calls, in order, as they were sent."""
    whole: list[Record] = []
    before: Record = {"messages": [], "tools": None}
    for record in records:
        short = dict(record["request"])
        kept = short.pop("kept")
        tools = before["tools"] if short["tools"] is None else short["tools"]
        before = {**short, "messages": before["messages"][:kept] + short["messages"], "tools": tools}
        whole.append(before)
    return whole


def describe_error(error: ModelError) -> str:
    """Return the kind of a call that got no reply: the stop word it leads to, ``unavailable`` or ``error``."""
    if isinstance(error, TrialOver):
        return error.stop
    return "unavailable" if isinstance(error, ModelUnavailable) else "error"


def describe_reply(reply: Reply) -> Record:
    """Return a reply as JSON."""
    return {
        "text": reply.text,
        "tool_calls": [asdict(call) for call in reply.tool_calls],
        "usage": reply.usage.as_json(),
        "cost": reply.cost,
        "finish": reply.finish,
        "raw": dict(reply.raw),
    }


def call_key(request: Record, scope: CallScope, ordinal: int) -> str:
    """Return the hash that names one call."""
    parts = [request, scope.arm, scope.task, scope.attempt, ordinal]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
