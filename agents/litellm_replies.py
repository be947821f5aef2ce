"""Reads what LiteLLM returns into a Reply: calls as the model wrote them, tokens and dollars, or unknown."""

import json
from typing import Any

from rcb_agent.agents.base import Price, Reply, ToolCall, Usage
from rcb_agent.agents.redaction import redact


class BrokenReply(Exception):
    """A response of status 200 that holds no message."""


def read_response(name: str, response: Any, price: Price | None = None) -> Reply:
    """Return LiteLLM's response as a reply. Raises BrokenReply."""
    dumped = json.dumps(response.model_dump(mode="json", warnings=False), default=str)
    raw = json.loads(redact(dumped))
    choice = response.choices[0] if response.choices else None
    message = getattr(choice, "message", None)
    if choice is None or message is None:
        raise BrokenReply("the endpoint answered without a message")
    usage = _read_usage(response)
    return Reply(
        redact(message.content or ""),
        tuple(_read_call(call) for call in message.tool_calls or ()),
        usage,
        price.cost(usage) if price else _read_cost(name, response, usage),
        "refusal" if _is_refusal(message) else str(choice.finish_reason or ""),
        raw,
        thinking=bool(getattr(message, "reasoning_content", None)),
    )


def _is_refusal(message: Any) -> bool:
    fields = getattr(message, "provider_specific_fields", None) or {}
    return bool(getattr(message, "refusal", None) or fields.get("refusal"))


def _read_call(call: Any) -> ToolCall:
    arguments = call.function.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(call.id or "", call.function.name or "", redact(text))


def _read_usage(response: Any) -> Usage:
    usage = getattr(response, "usage", None)
    sent, made = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
    # LiteLLM puts zeros where the provider said nothing; no real call has a prompt of no token.
    if not sent:
        return Usage()
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    return Usage(sent, made, cached, _detail(usage, "completion_tokens_details", "reasoning_tokens"))


def _detail(usage: Any, group: str, name: str) -> int | None:
    value = getattr(getattr(usage, group, None), name, None)
    return value if isinstance(value, int) else None


def _read_cost(name: str, response: Any, usage: Usage) -> float | None:
    import litellm
    from litellm.exceptions import ModelNotMappedError

    if usage.input_tokens is None:
        return None
    try:
        return float(litellm.completion_cost(completion_response=response, model=name))
    except ModelNotMappedError:
        return None
