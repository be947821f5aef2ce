"""Records every call of a model: what was asked, what came back, how long it took, or how it failed.

The key names one call for good: the request, the sampling, the arm, the task, the attempt and its number within the
trial. The record is handed over before the reply is used, so that nothing paid for is lost when the trial breaks.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rcb_agent.agents.base import Message, Model, Reply, Sampling
from rcb_agent.errors import ModelError

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
            self._hand_over(request, None, str(error), begin)
            raise
        self._hand_over(request, reply, None, begin)
        return reply

    def _hand_over(self, request: Record, reply: Reply | None, error: str | None, begin: float) -> None:
        record = {
            "key": call_key(request, self._scope, self._ordinal),
            "ordinal": self._ordinal,
            "request": request,
            "reply": None if reply is None else describe_reply(reply),
            "error": error,
            "seconds": round(time.monotonic() - begin, 4),
        }
        self._keep(record)


def describe_request(
    name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
) -> Record:
    """Return a request as JSON; sampling parameters that are not sent are not there."""
    sent = {key: value for key, value in asdict(sampling).items() if value is not None}
    return {"model": name, "messages": list(messages), "tools": list(tools), "sampling": sent}


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
