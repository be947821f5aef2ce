"""The adapter to LiteLLM: any ``provider/model`` it knows, and every OpenAI-compatible endpoint.

LiteLLM is imported at the first call (it costs seconds), offline: its price table comes from the package, nothing but
the endpoint is contacted. Retries are ours, so that each is counted and bounded: its own are switched off. Values of
keys never reach a record, an error or the screen.
"""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from rcb_agent.agents.base import Message, Reply, Sampling, ToolCall, Usage
from rcb_agent.agents.redaction import LENGTH_IN_ERRORS, redact
from rcb_agent.errors import ContextFull, ModelError, ModelUnavailable, OutOfTime, UsageError

_OVERFLOW = re.compile(
    r"context (length|limit|window)|tokens? exceeds? the (configured )?limit|prompt is too long", re.IGNORECASE
)
_HOPELESS = {401, 403, 404}
_BUSY = {408, 409, 425, 429}
_MESSAGE_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is tried: seconds per attempt, attempts, and seconds waited between them."""

    timeout: float = 300.0
    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 60.0


@dataclass(slots=True)
class _Attempts:
    errors: list[str] = field(default_factory=list)


class LiteLLMModel:
    """One model through LiteLLM."""

    _answered: ClassVar[set[tuple[str, str]]] = set()  # models and endpoints that have answered in this process

    def __init__(self, name: str, patience: Patience | None = None, *, deadline: float | None = None) -> None:
        self.name = name
        self._patience = patience or Patience()
        self._deadline = math.inf if deadline is None else deadline

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Ask the provider, waiting out what passes; see ``Model`` for what is raised."""
        self._check_key()
        litellm = import_litellm()
        request = build_request(self.name, messages, tools, sampling)
        attempts = _Attempts()
        try:
            response = self._retrying(attempts)(self._ask, litellm, request)
        except _library_errors() as error:
            raise self._explain(error) from None
        self._answered.add(self._endpoint())
        return read_response(self.name, response, attempts.errors)

    def _ask(self, litellm: Any, request: Mapping[str, Any]) -> Any:
        left = self._seconds_left()
        if left <= 0:
            raise OutOfTime(f"{self.name}: the trial's seconds ran out before the call")
        return litellm.completion(**request, timeout=min(self._patience.timeout, left), num_retries=0, max_retries=0)

    def _endpoint(self) -> tuple[str, str]:
        variable = f"{self.name.partition('/')[0].upper()}_API_BASE"
        return self.name, os.environ.get(variable, "")

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def _check_key(self) -> None:
        # LiteLLM reports a missing OpenAI key as a fault of the server, which would be tried again.
        if self.name.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
            raise ModelUnavailable(f"{self.name}: OPENAI_API_KEY is not set (any text does for a local server)")

    def _retrying(self, attempts: _Attempts) -> Any:
        import tenacity

        def note(state: tenacity.RetryCallState) -> None:
            attempts.errors.append(redact(str(_error_of(state)), LENGTH_IN_ERRORS)[:_MESSAGE_CHARACTERS])

        return tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._patience.attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(self._may_pass),
            before_sleep=note,
            reraise=True,
        )

    def _may_pass(self, error: BaseException) -> bool:
        if not isinstance(error, _library_errors()):
            return False
        if is_refused(error):
            return self._endpoint() in self._answered
        status = getattr(error, "status_code", None)
        return status is None or status in _BUSY or status >= 500

    def _wait(self, state: Any) -> float:
        asked = asked_wait(_error_of(state))
        backoff: float = self._patience.first_wait * 2.0 ** (state.attempt_number - 1)
        return max(0.0, min(max(backoff, asked), self._patience.longest_wait, self._seconds_left()))

    def _explain(self, error: BaseException) -> ModelError:
        provider = self.name.partition("/")[0].upper()
        status = getattr(error, "status_code", None)
        if self._seconds_left() <= 0:
            return OutOfTime(f"{self.name}: the trial's seconds ran out while it waited for an answer")
        if _is_overflow(error):
            return ContextFull(f"{self.name}: the conversation is longer than the model takes")
        if is_refused(error) and self._endpoint() not in self._answered:
            return ModelUnavailable(f"{self.name}: nothing answers at the endpoint ({provider}_API_BASE)")
        message = " ".join(redact(str(error), LENGTH_IN_ERRORS).split())[:_MESSAGE_CHARACTERS]
        if status in {401, 403}:
            return ModelUnavailable(f"{self.name}: the endpoint refuses the key ({provider}_API_KEY): {message}")
        if status in _HOPELESS or _is_misnamed(error):
            return ModelUnavailable(f"{self.name}: no such model at the endpoint ({provider}_API_BASE): {message}")
        return ModelError(f"{self.name}: {message}")


def import_litellm() -> Any:
    """Import LiteLLM without network, telemetry or words on the screen."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import logging

    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


def check_provider(name: str) -> None:
    """Raise UsageError when LiteLLM knows no such provider."""
    litellm = import_litellm()
    try:
        litellm.get_llm_provider(name)
    except _library_errors():
        provider = name.partition("/")[0]
        raise UsageError(
            f"model {name!r}: LiteLLM knows no provider {provider!r}; an OpenAI-compatible server is openai/<model>"
        ) from None


def _library_errors() -> type[Exception]:
    # LiteLLM's own exceptions are subclasses of the OpenAI client's.
    import openai

    return openai.OpenAIError


def _error_of(state: Any) -> BaseException | None:
    error: BaseException | None = state.outcome.exception() if state.outcome else None
    return error


def build_request(
    name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
) -> dict[str, Any]:
    """Return the arguments of the call; what is None or empty is not sent."""
    optional = {
        "tools": list(tools) or None,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_output_tokens,
    }
    sent = {key: value for key, value in optional.items() if value is not None}
    return {"model": name, "messages": list(messages), **sent}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_refused(error: BaseException) -> bool:
    """Say whether nothing listens at the endpoint or its host is unknown."""
    return any(type(one).__name__ == "ConnectError" or isinstance(one, ConnectionRefusedError) for one in _chain(error))


def _is_overflow(error: BaseException) -> bool:
    """Say whether the conversation was too long; some wordings reach us as plain bad requests."""
    import litellm.exceptions as kinds

    if isinstance(error, kinds.ContextWindowExceededError):
        return True
    return getattr(error, "status_code", None) == 400 and bool(_OVERFLOW.search(str(error)))


def _is_misnamed(error: BaseException) -> bool:
    import litellm.exceptions as kinds

    text = str(error)
    unknown = "LLM Provider NOT provided" in text or "model_not_found" in text
    return unknown or isinstance(error, kinds.LiteLLMUnknownProvider | kinds.UnsupportedParamsError)


def asked_wait(error: BaseException | None) -> float:
    """Return the seconds that a Retry-After header asks for, 0 where there is none."""
    for one in _chain(error):
        headers = getattr(getattr(one, "response", None), "headers", None) or {}
        if value := headers.get("retry-after"):
            return _read_wait(str(value))
    return 0.0


def _read_wait(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def read_response(name: str, response: Any, retried: Sequence[str] = ()) -> Reply:
    """Return LiteLLM's response as a reply; ``retried`` are the errors of the attempts before it."""
    dumped = json.dumps(response.model_dump(mode="json", warnings=False), default=str)
    raw = json.loads(redact(dumped))
    if retried:
        raw["retried"] = list(retried)
    if not response.choices:
        raise ModelError(f"{name}: the endpoint answered without a choice")
    choice = response.choices[0]
    message = choice.message
    usage = _read_usage(response)
    return Reply(
        redact(message.content or ""),
        tuple(_read_call(call) for call in message.tool_calls or ()),
        usage,
        _read_cost(name, response, usage),
        "refusal" if _is_refusal(message) else str(choice.finish_reason or ""),
        raw,
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
    return Usage(sent, made) if sent else Usage()


def _read_cost(name: str, response: Any, usage: Usage) -> float | None:
    import litellm
    from litellm.exceptions import ModelNotMappedError

    if usage.input_tokens is None:
        return None
    try:
        return float(litellm.completion_cost(completion_response=response, model=name))
    except ModelNotMappedError:
        return None
