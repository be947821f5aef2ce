"""Reads what LiteLLM returns into a Reply: calls as the model wrote them, tokens and dollars, or unknown.

LiteLLM fills gaps with zeros, and passes a reply that the provider broke off as finished: neither is believed here.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from rcb_agent.agents.base import Price, Reply, ToolCall, Usage
from rcb_agent.agents.redaction import redact

_BROKEN_OFF = {"error", "abort", "insufficient_system_resource"}
"""Finish reasons of OpenRouter, SGLang and vLLM, DeepSeek for a reply that broke; LiteLLM turns each into ``stop``."""

_CONVERSATION = {
    "messages",
    "tools",
    "contents",
    "system",
    "system_instruction",
    "systemInstruction",
    "prompt",
    "inputs",
}
_NO_PARAMETER = re.compile("key|header|credential|schema", re.IGNORECASE)
_LONGEST_PARAMETER = 200


class BrokenReply(Exception):
    """A response of status 200 that holds no whole message; ``usage`` and ``cost`` are what it took all the same."""

    status_code = 200

    def __init__(self, message: str, usage: Usage | None = None, cost: float | None = None) -> None:
        super().__init__(message)
        self.usage, self.cost = usage or Usage(), cost


def read_response(name: str, response: Any, price: Price | None = None) -> Reply:
    """Return LiteLLM's response as a reply. Raises BrokenReply."""
    dumped = json.dumps(response.model_dump(mode="json", warnings=False), default=str)
    raw = json.loads(redact(dumped))
    choice = response.choices[0] if response.choices else None
    message = getattr(choice, "message", None)
    usage = _read_usage(response, said=bool(message and (message.content or message.tool_calls)))
    cost = price.cost(usage) if price else _read_cost(name, response, usage)
    if choice is None or message is None:
        raise BrokenReply("the endpoint answered without a message", usage, cost)
    if (native := _native_finish(choice)) in _BROKEN_OFF:
        raise BrokenReply(f"the provider broke the reply off: {native}", usage, cost)
    text = message.content or ""
    unfinished = text.lstrip().startswith("<think>") and "</think>" not in text
    return Reply(
        "" if unfinished else redact(text),
        tuple(_read_call(call) for call in message.tool_calls or ()),
        usage,
        cost,
        "refusal" if _is_refusal(message) else str(choice.finish_reason or ""),
        raw,
        thinking=unfinished or bool(getattr(message, "reasoning_content", None)),
    )


def _native_finish(choice: Any) -> str:
    fields = getattr(choice, "provider_specific_fields", None) or {}
    return str(fields.get("native_finish_reason") or "").lower()


def _is_refusal(message: Any) -> bool:
    fields = getattr(message, "provider_specific_fields", None) or {}
    return bool(getattr(message, "refusal", None) or fields.get("refusal"))


def _read_call(call: Any) -> ToolCall:
    # A call of another type than ours is handed on as well: the toolbox refuses it, and the model is told.
    asked = getattr(call, "function", None) or getattr(call, "custom", None)
    arguments = getattr(asked, "arguments", None) or getattr(asked, "input", None) or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(str(call.id or ""), str(getattr(asked, "name", None) or ""), redact(text))


def _read_usage(response: Any, *, said: bool) -> Usage:
    usage = getattr(response, "usage", None)
    sent, made = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    # LiteLLM puts zeros where the provider said nothing; no real call has a prompt of no token.
    if not sent or sent < 0:
        return Usage()
    if said and not (made and made > 0):  # nor has a text
        made = None
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    return Usage(sent, made, cached, _detail(usage, "completion_tokens_details", "reasoning_tokens"))


def _detail(usage: Any, group: str, name: str) -> int | None:
    value = getattr(getattr(usage, group, None), name, None)
    return value if isinstance(value, int) else None


def _read_cost(name: str, response: Any, usage: Usage) -> float | None:
    import litellm

    if usage.total is None:
        return None
    try:
        cost = float(litellm.completion_cost(completion_response=response, model=name))
    except Exception:  # noqa: BLE001 - whatever its table lacks, the reply is paid for and must not be lost
        return None
    return cost if cost > 0 else None  # some providers' unmapped models cost 0.0


def read_parameters(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the short plain values of a request as it went out, at whatever depth, without conversation and keys."""
    kept: dict[str, Any] = {}
    for name, value in whole.items():
        if name in _CONVERSATION or _NO_PARAMETER.search(name):
            continue
        plain = read_parameters(value) if isinstance(value, Mapping) else value
        if isinstance(plain, bool | int | float) or (
            isinstance(plain, str | dict) and 0 < len(plain) < _LONGEST_PARAMETER
        ):
            kept[name] = plain
    return kept
