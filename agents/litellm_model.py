"""The adapter to LiteLLM: any ``provider/model`` it knows, and every OpenAI-compatible endpoint.

LiteLLM is imported at the first call (it costs seconds), offline: its price table comes from the package, nothing but
the endpoint is contacted. Retries are ours, so that each is counted and bounded: its own are switched off. One attempt
takes at most its timeout from the first byte sent to the last received; what comes later is dropped, never used. Values
of keys never reach a record, an error or the screen.

``RCB_AGENT_PATIENCE`` (``timeout=300,attempts=6,first_wait=1,longest_wait=60``, any of them) says how long is waited.
"""

import json
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar

from rcb_agent.agents.base import Message, Price, Reply, Sampling
from rcb_agent.agents.deadline import Overdue, call_within
from rcb_agent.agents.litellm_errors import (
    asked_wait,
    is_filtered,
    is_overflow,
    is_refused,
    is_refused_format,
    is_timeout,
    library_errors,
    may_pass,
    why_unavailable,
)
from rcb_agent.agents.litellm_replies import BrokenReply, read_parameters, read_response
from rcb_agent.agents.redaction import LENGTH_IN_ERRORS, redact
from rcb_agent.errors import ContextFull, ModelError, ModelUnavailable, NoAnswer, OutOfTime, UsageError

_MESSAGE_CHARACTERS = 300
REPLY_FORMATS = ("json_schema", "json_object", "")
"""How a reply under a schema is asked for: the first that the endpoint takes; the last is in words only."""

_GRACE = 1.0
"""Seconds by which LiteLLM's own timeout, which closes its connection, comes before ours."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call is tried: seconds per attempt, attempts, and seconds waited between them."""

    timeout: float = 300.0
    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 60.0


def read_patience() -> Patience:
    """Return the patience that RCB_AGENT_PATIENCE asks for. Raises UsageError."""
    text = os.environ.get("RCB_AGENT_PATIENCE", "")
    kinds = {one.name: int if one.name == "attempts" else float for one in fields(Patience)}
    changes: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        try:
            changes[key] = kinds[key](value)
        except (KeyError, ValueError):
            raise UsageError(f"RCB_AGENT_PATIENCE: {part!r} is none of {', '.join(kinds)} with a number") from None
    patience = replace(Patience(), **changes)
    if not (patience.timeout > 0 and patience.attempts > 0 and patience.first_wait >= 0 and patience.longest_wait >= 0):
        raise UsageError("RCB_AGENT_PATIENCE: timeout and attempts must be above 0, waits at least 0")
    return patience


class LiteLLMModel:
    """One model through LiteLLM."""

    _answered: ClassVar[set[tuple[str, str]]] = set()  # models and endpoints that have answered in this process
    _refused_formats: ClassVar[dict[tuple[str, str], int]] = {}  # how many of REPLY_FORMATS an endpoint does not take

    def __init__(
        self,
        name: str,
        patience: Patience | None = None,
        *,
        deadline: float | None = None,
        price: Price | None = None,
    ) -> None:
        self.name = name
        self._price = price
        self._patience = patience or read_patience()
        self._deadline = math.inf if deadline is None else deadline

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Ask the provider, waiting out what passes; see ``Model`` for what is raised."""
        self._check_key()
        litellm = import_litellm()
        attempts: list[Mapping[str, object]] = []
        lost: list[BrokenReply] = []
        while True:
            refused = self._refused_formats.get(self._endpoint(), 0)
            request = build_request(self.name, messages, tools, sampling, reply_format=REPLY_FORMATS[refused])
            try:
                reply: Reply = self._retrying(attempts, lost)(self._ask, litellm, request)
            except (library_errors(), Overdue, BrokenReply, OutOfTime) as error:
                if "response_format" in request and is_refused_format(error):
                    known = self._refused_formats.get(self._endpoint(), 0)  # another trial may have got further
                    self._refused_formats[self._endpoint()] = max(known, refused + 1)
                    attempts.append(_describe_attempt(error, 0.0))
                    continue
                explained = self._explain(error, attempts)
                explained.retried = attempts
                raise explained from None
            self._answered.add(self._endpoint())
            return replace(charge(reply, lost), retried=attempts)

    def _ask(self, litellm: Any, request: Mapping[str, Any]) -> Reply:
        left = self._seconds_left()
        if left <= 0:
            raise OutOfTime(f"{self.name}: the trial's seconds ran out before the call")
        timeout = min(self._patience.timeout, left)
        ask = partial(litellm.completion, **request, timeout=timeout, num_retries=0, max_retries=0)
        sent: dict[str, Any] = {}
        ask = partial(ask, logger_fn=partial(_keep_parameters, sent))
        reply = read_response(self.name, call_within(timeout + _GRACE, ask), self._price)
        return replace(reply, raw={**reply.raw, "sent": dict(sent)})

    def _endpoint(self) -> tuple[str, str]:
        variable = f"{self.name.partition('/')[0].upper()}_API_BASE"
        return self.name, os.environ.get(variable, "")

    def _seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def _check_key(self) -> None:
        # LiteLLM reports a missing OpenAI key as a fault of the server, which would be tried again.
        if self.name.startswith("openai/") and not os.environ.get("OPENAI_API_KEY"):
            raise ModelUnavailable(f"{self.name}: OPENAI_API_KEY is not set (any text does for a local server)")

    def _retrying(self, attempts: list[Mapping[str, object]], lost: list[BrokenReply]) -> Any:
        import tenacity

        def note(state: tenacity.RetryCallState) -> None:
            error = _error_of(state)
            attempts.append(_describe_attempt(error, state.upcoming_sleep))
            lost.extend([error] if isinstance(error, BrokenReply) else [])

        return tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self._patience.attempts),
            wait=self._wait,
            retry=tenacity.retry_if_exception(self._is_worth_waiting),
            before_sleep=note,
            reraise=True,
        )

    def _is_worth_waiting(self, error: BaseException) -> bool:
        if isinstance(error, Overdue | BrokenReply):
            return True
        if not isinstance(error, library_errors()) or is_refused_format(error):
            return False
        answered = self._endpoint() in self._answered
        return (may_pass(error) or is_refused(error)) and not why_unavailable(error, answered=answered)

    def _wait(self, state: Any) -> float:
        # Trials that were turned away together must not come back together.
        backoff: float = self._patience.first_wait * 2.0 ** (state.attempt_number - 1) * random.uniform(1.0, 1.25)  # noqa: S311 - no secret
        asked: float = asked_wait(_error_of(state))
        return max(0.0, min(max(backoff, asked), self._patience.longest_wait, self._seconds_left()))

    def _explain(self, error: BaseException, attempts: Sequence[Mapping[str, object]]) -> ModelError:
        if is_overflow(error):
            return ContextFull(f"{self.name}: the conversation is longer than the model takes")
        message = _first_line(error)
        if is_filtered(error):
            return NoAnswer(
                f"{self.name}: the provider's content filter refuses the conversation: {message}", "filtered"
            )
        if why := why_unavailable(error, answered=self._endpoint() in self._answered):
            key, base = name_variables(self.name)
            return ModelUnavailable(f"{self.name}: {why.format(key=key, base=base)}: {message}")
        if self._seconds_left() <= 0:
            return self._out_of_time(error, attempts)
        return ModelError(f"{self.name}: {message}")

    def _out_of_time(self, error: BaseException, attempts: Sequence[Mapping[str, object]]) -> ModelError:
        """A slow answer is the trial's own end; a provider that was failing all the time measures nothing."""
        if isinstance(error, OutOfTime):
            slow = not attempts or attempts[-1]["status"] in {None, 408}
        else:
            slow = is_timeout(error)
        if slow:
            return OutOfTime(f"{self.name}: the trial's seconds ran out while it waited for an answer")
        last = attempts[-1]["error"] if isinstance(error, OutOfTime) else _first_line(error)
        return ModelError(f"{self.name}: the trial's seconds ran out while the provider failed: {last}")


_KEYS = {
    "bedrock": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "vertex_ai": "GOOGLE_APPLICATION_CREDENTIALS",
    "together_ai": "TOGETHERAI_API_KEY",
    "fireworks_ai": "FIREWORKS_API_KEY",
}


def name_variables(name: str) -> tuple[str, str]:
    """Return the names of the variables that a model's key and address are read from."""
    provider = name.partition("/")[0]
    plain = provider.removesuffix("_chat").upper()
    return _KEYS.get(provider, f"{plain}_API_KEY"), f"{plain}_API_BASE"


def _first_line(error: BaseException | None) -> str:
    text = str(error).partition("Traceback (most recent call last)")[0]  # LiteLLM puts its own into some messages
    return " ".join(redact(text, LENGTH_IN_ERRORS).split())[:_MESSAGE_CHARACTERS]


def charge(reply: Reply, lost: Sequence[BrokenReply]) -> Reply:
    """Return the reply with what broken ones before it took, as far as they said so."""
    for one in lost:
        if one.usage.total is not None:
            cost = None if reply.cost is None or one.cost is None else reply.cost + one.cost
            reply = replace(reply, usage=reply.usage.plus(one.usage), cost=cost)
    return reply


def import_litellm() -> Any:
    """Import LiteLLM without network, telemetry or words on the screen."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import logging

    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False  # what a model does not take is said, not left out in silence
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


def warm_up() -> None:
    """Load what LiteLLM loads at its first call, by one that nobody is asked for: a tenth of a second of all trials."""
    import_litellm().completion(model="openai/nobody", messages=[{"role": "user", "content": "-"}], mock_response="-")


def check_provider(name: str) -> None:
    """Raise UsageError when LiteLLM knows no such provider."""
    litellm = import_litellm()
    try:
        litellm.get_llm_provider(name)
    except library_errors():
        provider = name.partition("/")[0]
        raise UsageError(
            f"model {name!r}: LiteLLM knows no provider {provider!r}; an OpenAI-compatible server is openai/<model>"
        ) from None


def _response_format(schema: Mapping[str, Any] | None, kind: str) -> dict[str, Any] | None:
    if schema is None or not kind:
        return None
    return {"type": kind} | (
        {"json_schema": {"name": "reply", "schema": dict(schema)}} if kind == "json_schema" else {}
    )


def takes_tools(name: str) -> bool:
    """Say whether LiteLLM can hand tools on to this provider; what a server does with them is its own."""
    litellm = import_litellm()
    model, provider, *_ = litellm.get_llm_provider(name)
    return "tools" in (litellm.get_supported_openai_params(model=model, custom_llm_provider=provider) or ())


def _keep_parameters(sent: dict[str, Any], details: Mapping[str, Any]) -> None:
    """Take from LiteLLM's own log what really went out beside messages and tools, under the provider's names."""
    whole = details.get("additional_args", {}).get("complete_input_dict")
    if isinstance(whole, str) and whole.startswith("{"):  # Bedrock's is ready to be signed
        whole = json.loads(whole)
    if isinstance(whole, dict):
        sent |= read_parameters(whole)
        if isinstance(form := whole.get("response_format"), dict):
            sent["response_format"] = form.get("type")


def check_sampling(name: str, sampling: Sampling) -> None:
    """Raise UsageError when LiteLLM knows that the model does not take one of the parameters."""
    litellm = import_litellm()
    from litellm.utils import get_optional_params

    model, provider, *_ = litellm.get_llm_provider(name)
    for key, value in build_request(name, (), (), sampling).items():
        if key in {"model", "messages"}:
            continue
        try:
            get_optional_params(model=model, custom_llm_provider=provider, **{key: value})
        except litellm.UnsupportedParamsError:
            option = "max-output-tokens" if key == "max_tokens" else key.replace("_", "-")
            instead = "leave it out" if key != "temperature" else "say --temperature none"
            raise UsageError(f"model {name!r} does not take --{option} {value}: {instead}") from None


def check_price(name: str) -> None:
    """Raise UsageError when LiteLLM's table has no price for the model, so that a cap on dollars means nothing."""
    litellm = import_litellm()
    try:
        found = litellm.get_model_info(name)
    except Exception:  # noqa: BLE001 - LiteLLM raises a bare Exception for a model that it does not know
        found = {}
    if not found.get("input_cost_per_token") or not found.get("output_cost_per_token"):
        raise UsageError(f"model {name!r} has no known price, so a cap on dollars cannot be held: say --price IN,OUT")


def _error_of(state: Any) -> BaseException | None:
    error: BaseException | None = state.outcome.exception() if state.outcome else None
    return error


def _describe_attempt(error: BaseException | None, waited: float) -> Mapping[str, object]:
    status = getattr(error, "status_code", None)
    return {"status": status, "error": _first_line(error), "waited": round(waited, 3)}


def build_request(
    name: str,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    sampling: Sampling,
    *,
    reply_format: str = REPLY_FORMATS[0],
) -> dict[str, Any]:
    """Return the arguments of the call; what is None or empty is not sent."""
    optional = {
        "tools": list(tools) or None,
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_output_tokens,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "reasoning_effort": sampling.reasoning_effort,
        "response_format": _response_format(sampling.reply_schema, reply_format),
    }
    sent = {key: value for key, value in optional.items() if value is not None}
    return {"model": name, "messages": list(messages), **sent}
