"""Guards: a reply of status 200 that is read as more than it says: whole, free of charge, an answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rcb_agent.agents.base import Price, Reply, Sampling, ToolCall, Usage
from rcb_agent.agents.litellm_model import LiteLLMModel, Patience
from rcb_agent.agents.litellm_replies import read_parameters
from rcb_agent.errors import ModelError
from tests.agents.loopback import Answer, message, serve, text

QUICK = Patience(timeout=5.0, attempts=2, first_wait=0.01, longest_wait=0.05)
ASK = [{"role": "user", "content": "hello"}]

# LiteLLM and what it uses leave sockets to the garbage collector, and warn of their own types.
pytestmark = pytest.mark.filterwarnings(
    "default::ResourceWarning", "default::pytest.PytestUnraisableExceptionWarning", "ignore::UserWarning"
)


def ask(
    monkeypatch: pytest.MonkeyPatch,
    script: Sequence[Answer],
    name: str = "openai/loopback",
    price: Price | None = None,
    sampling: Sampling | None = None,
) -> Reply:
    provider = name.partition("/")[0].upper()
    monkeypatch.setenv(f"{provider}_API_KEY", "planted-key-0123456789")
    with serve(script) as server:
        monkeypatch.setenv(f"{provider}_API_BASE", server.url)
        return LiteLLMModel(name, QUICK, price=price).complete(ASK, (), sampling or Sampling())


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_a_reply_that_the_provider_broke_off_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, finish: str) -> None:
    """LiteLLM says that it stopped; its text is no answer, its tokens are paid for all the same."""
    reply = ask(monkeypatch, [text("half an ans", finish), text("whole")], price=Price(1e6, 0))
    assert (reply.text, reply.retried[0]["status"]) == ("whole", 200)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.cost) == (22, 14, 22.0)
    with pytest.raises(ModelError, match=f"broke the reply off: {finish}"):
        ask(monkeypatch, [text("half an ans", finish)])


def test_a_reply_without_a_choice_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says no usage either, which does not make that of the next one unknown."""
    empty = Answer(body=json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": []}).encode())
    assert ask(monkeypatch, [empty, text("whole")]).usage == Usage(11, 7)


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ({"id": 5, "type": "function", "function": {"name": "f", "arguments": "{}"}}, ToolCall("5", "f", "{}")),
        ({"id": "a", "type": "function", "function": {"name": None, "arguments": "{}"}}, ToolCall("a", "", "{}")),
        ({"id": "a", "type": "function", "function": {"name": "f", "arguments": None}}, ToolCall("a", "f", "")),
        (
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
            ToolCall("a", "f", '{"x": 1}'),
        ),
        ({"id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}, ToolCall("a", "f", "x")),
    ],
    ids=["number as id", "no name", "no arguments", "object", "custom"],
)
def test_an_odd_call_is_no_fault_of_the_harness(
    monkeypatch: pytest.MonkeyPatch, call: Mapping[str, Any], read: ToolCall
) -> None:
    """It is handed on, and the toolbox refuses what it does not know."""
    assert ask(monkeypatch, [message({"tool_calls": [call]}, "tool_calls")]).tool_calls == (read,)


def test_tokens_that_are_not_said_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of no token, a prompt of fewer than none: then the price is unknown as well."""
    for usage, known in (({"prompt_tokens": 11}, Usage(11, None)), ({"prompt_tokens": -1}, Usage())):
        reply = ask(monkeypatch, [text("hi", usage=usage)], "openai/gpt-4o-mini")
        assert (replace(reply.usage, cached_tokens=None, reasoning_tokens=None), reply.cost) == (known, None)


def test_a_price_of_nothing_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM prices unknown models of some providers at 0.0; a price of nothing can be said."""
    assert ask(monkeypatch, [text("hi")], "huggingface/a/llama-of-nobody").cost is None
    assert ask(monkeypatch, [text("hi")], "huggingface/a/llama-of-nobody", Price(0, 0)).cost == 0.0


def test_a_thought_without_an_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output limit cut it before the answer began; drafts in it must not be taken."""
    cut = text("<think>perhaps\n```python\nx = 1\n```", "length")
    assert [ask(monkeypatch, [cut]).kind, ask(monkeypatch, [cut]).text] == ["thinking_only", ""]
    assert ask(monkeypatch, [text("<think>perhaps</think>x = 1")]).text == "x = 1"


def test_what_was_sent_is_recorded_where_the_provider_nests_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemini's own names; no conversation, no key, no schema."""
    answer = {"candidates": [{"content": {"parts": [{"text": "hi"}], "role": "model"}, "finishReason": "STOP"}]}
    body = json.dumps({**answer, "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7}}).encode()
    sampling = Sampling(temperature=0.5, max_output_tokens=9)
    reply = ask(monkeypatch, [Answer(body=body)], "gemini/gemini-2.5-pro", sampling=sampling)
    assert reply.raw["sent"] == {"generationConfig": {"temperature": 0.5, "max_output_tokens": 9}}
    whole = {
        "api_key": "k",
        "messages": [1],
        "system": {"text": "x"},
        "prompt": "x",
        "top_k": 1,
        "a": {"json_schema": {}},
    }
    assert read_parameters({**whole, "extra_headers": {"x": "k"}, "long": "x" * 999}) == {"top_k": 1}
