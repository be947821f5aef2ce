"""Guards: a fault that every trial would meet and that is retried in each, or one request's own that stops the run."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace

import pytest

from rcb_agent.agents.base import Sampling
from rcb_agent.agents.litellm_model import LiteLLMModel, Patience
from rcb_agent.errors import ContextFull, ModelError, ModelUnavailable, NoAnswer, OutOfTime
from tests.agents.loopback import Answer, serve, status, text

KEY = "planted-key-0123456789"
QUICK = Patience(timeout=5.0, attempts=3, first_wait=0.01, longest_wait=0.05)
ASK = [{"role": "user", "content": "hello"}]

# LiteLLM and what it uses leave sockets to the garbage collector, and warn of their own types.
pytestmark = pytest.mark.filterwarnings(
    "default::ResourceWarning", "default::pytest.PytestUnraisableExceptionWarning", "ignore::UserWarning"
)


def coded(code: int, words: str, name: str) -> Answer:
    return Answer(code, json.dumps({"error": {"message": words, "type": name, "code": name}}).encode())


def fail(
    monkeypatch: pytest.MonkeyPatch, fault: Answer, *, answered: bool = False, deadline: float | None = None
) -> tuple[ModelError, int]:
    """Return how the call ends that meets this fault for ever, and how many requests it took."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([text("hi"), fault] if answered else [fault]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        patience = QUICK if deadline is None else replace(QUICK, first_wait=9.0, longest_wait=9.0)
        model = LiteLLMModel("openai/loopback", patience, deadline=deadline)
        if answered:
            model.complete(ASK, (), Sampling())
        with pytest.raises(ModelError) as caught:
            model.complete(ASK, (), Sampling())
    return caught.value, len(server.requests) - answered


@pytest.mark.parametrize(
    ("name", "environment", "variable"),
    [
        ("anthropic/claude-sonnet-4-5", {}, "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-pro", {}, "GEMINI_API_KEY"),
        ("azure/deployment", {}, "AZURE_API_KEY"),
        ("azure/deployment", {"AZURE_API_KEY": KEY}, "AZURE_OPENAI_ENDPOINT"),
        ("fireworks_ai/x", {}, "FIREWORKS_API_KEY"),
        ("vertex_ai/gemini-2.5-pro", {}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("openai/x", {"OPENAI_API_KEY": f"{KEY}\n"}, "OPENAI_API_KEY"),
        ("openai/x", {"OPENAI_API_KEY": f"{KEY}é"}, "OPENAI_API_KEY"),
        ("openai/x", {"OPENAI_API_KEY": KEY, "OPENAI_API_BASE": f"127.0.0.1:1/v1?key={KEY}"}, "OPENAI_API_BASE"),
    ],
)
def test_a_key_or_address_that_is_missing_or_odd_stops_the_run(
    monkeypatch: pytest.MonkeyPatch, name: str, environment: Mapping[str, str], variable: str
) -> None:
    """Nothing can be sent: no second attempt, one line with the variable and without its value."""
    for known in ("ANTHROPIC", "GEMINI", "GOOGLE", "AZURE", "FIREWORKS", "OPENAI"):
        monkeypatch.delenv(f"{known}_API_KEY", raising=False)
    with serve([text("hi")]) as server:
        for key, value in {"OPENAI_API_BASE": server.url, **environment}.items():
            monkeypatch.setenv(key, value)
        with pytest.raises(ModelUnavailable, match=variable) as caught:
            LiteLLMModel(name, QUICK).complete(ASK, (), Sampling())
    assert not server.requests
    assert not caught.value.retried
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (status(400, "Incorrect API key provided"), "OPENAI_API_KEY"),
        (status(400, "x is not a valid model ID"), "OPENAI_API_BASE"),
        (status(400, "The model `x` does not exist"), "OPENAI_API_BASE"),
        (status(402, "pay"), "no credit"),
        (coded(429, "You exceeded your current quota.", "insufficient_quota"), "no credit"),
        (status(400, "Your credit balance is too low"), "no credit"),
        (status(400, '"auto" tool choice requires --enable-auto-tool-choice to be set'), "--tool-protocol json"),
        (status(400, "x does not support tools"), "--tool-protocol json"),
        (status(400, "`temperature` may only be set to 1 when thinking is enabled."), "parameter"),
        (status(400, "max_tokens is too large: 99999"), "parameter"),
    ],
)
def test_what_every_trial_would_meet_stops_the_run_at_once(
    monkeypatch: pytest.MonkeyPatch, fault: Answer, words: str
) -> None:
    """One request, and a line that says what to change."""
    error, requests = fail(monkeypatch, fault)
    assert isinstance(error, ModelUnavailable)
    assert words in str(error)
    assert requests == 1


def test_a_fault_of_one_request_does_not_stop_a_run_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an answer a refused parameter is the trial's; that the credit is used up is the run's all the same."""
    error, requests = fail(monkeypatch, status(400, "max_tokens is too large: 99999"), answered=True)
    assert not isinstance(error, ModelUnavailable)
    assert requests == 1
    error, _ = fail(monkeypatch, status(402, "pay"), answered=True)
    assert isinstance(error, ModelUnavailable)


@pytest.mark.parametrize(
    "fault",
    [
        coded(400, "The response was filtered", "content_filter"),
        status(400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
        status(400, "Output blocked by content filtering policy"),
        status(403, "This model requires moderation and your input was flagged"),
    ],
    ids=["azure", "openai", "anthropic", "openrouter"],
)
def test_a_filter_that_refuses_the_request_ends_the_trial_as_filtered(
    monkeypatch: pytest.MonkeyPatch, fault: Answer
) -> None:
    """Like one that takes the answer: neither a fault of the provider nor a refused key."""
    error, requests = fail(monkeypatch, fault)
    assert isinstance(error, NoAnswer)
    assert (error.stop, requests) == ("filtered", 1)


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
        "Please reduce the length of the messages or completion.",
        "Input is too long for requested model.",
        "The decoder prompt (length 9999) is longer than the maximum model length of 8192.",
        "request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it",
    ],
    ids=["xai", "groq", "bedrock", "vllm", "llama.cpp"],
)
def test_a_conversation_that_is_too_long_is_known_in_other_words(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """The trial ends with what is there."""
    assert isinstance(fail(monkeypatch, status(400, words))[0], ContextFull)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(status(429), ModelError), (status(500), ModelError), (Answer(delay=1.5), OutOfTime)],
    ids=["busy", "broken", "slow"],
)
def test_seconds_that_a_failing_provider_took_are_no_end_of_the_trial(
    monkeypatch: pytest.MonkeyPatch, fault: Answer, kind: type[ModelError]
) -> None:
    """A rate limit that outlasts the trial measures nothing; only a slow answer does. The attempts are recorded."""
    begin = time.monotonic()
    error, _ = fail(monkeypatch, fault, deadline=begin + 0.5)
    assert type(error) is kind
    assert time.monotonic() - begin < 8  # the wait of 9 seconds ends with the trial
    assert len(error.retried) == 1


def test_a_busy_endpoint_that_names_a_form_of_reply_is_only_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, not asked in a simpler form from then on."""
    _, requests = fail(monkeypatch, status(429, "at most 3 requests with json_schema a minute"))
    assert requests == QUICK.attempts
