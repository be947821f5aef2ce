"""Tells the errors that LiteLLM raises apart: what may pass, what never will, what only ends the trial.

Wordings are those of the providers and local servers; LiteLLM hands some of them on as plain bad requests, and what it
or the client finds wrong before anything is sent as faults of a server.
"""

import re
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime

_OVERFLOW = re.compile(
    r"context (length|limit|window)|context_length_exceeded|tokens? exceeds? the (configured )?limit|prompt is too long"
    r"|maximum (context|input|prompt) length|too many tokens|input is too long|longer than the maximum model length"
    r"|reduce the length of the messages",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"ContentPolicyViolation|content_filter|content[ _](management )?policy|content filtering|safety system"
    r"|usage policy|input was flagged",
    re.IGNORECASE,
)
_NO_KEY = re.compile(
    r"missing \S* ?(api key|credentials)|API_KEY is not set|(incorrect|invalid) api key|api key not valid"
    r"|unable to locate credentials|default credentials were not found|cloud sdk not found"
    r"|must provide one of the `base_url`",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient[_ ](quota|credits|balance)|credit balance is too low", re.IGNORECASE)
_NO_MODEL = re.compile(r"model \S+ (does not exist|not found)|not a valid model", re.IGNORECASE)
_REFUSED_PARAMETER = re.compile(
    r"unsupported[ _](parameter|value)|not supported with this model|unrecognized request argument"
    r"|cannot both be specified|may only be set to|max_\w*tokens\W.{0,20}(too large|>)|maximum allowed number of output",
    re.IGNORECASE,
)
_REFUSED_TOOLS = re.compile(
    r"not support (tool|function)|tool choice requires|tool use is not supported", re.IGNORECASE
)
_REPLY_FORMAT = re.compile(r"response_format|json_schema|json_object|structured output|guided decoding", re.IGNORECASE)
_BUSY = {408, 409, 425, 429}


def library_errors() -> type[Exception]:
    """Return the base of LiteLLM's exceptions, which is the OpenAI client's."""
    import openai

    return openai.OpenAIError


def may_pass(error: BaseException) -> bool:
    """Say whether the same request may succeed later; 529 is how Anthropic says busy."""
    status = getattr(error, "status_code", None)
    return status is None or status in _BUSY or status >= 500


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def is_refused(error: BaseException) -> bool:
    """Say whether nothing listens at the endpoint or its host is unknown."""
    return any(type(one).__name__ == "ConnectError" or isinstance(one, ConnectionRefusedError) for one in _chain(error))


def is_overflow(error: BaseException) -> bool:
    """Say whether the conversation was too long; some wordings reach us as plain bad requests."""
    import litellm.exceptions as kinds

    if isinstance(error, kinds.ContextWindowExceededError):
        return True
    return getattr(error, "status_code", None) == 400 and bool(_OVERFLOW.search(str(error)))


def is_misnamed(error: BaseException) -> bool:
    """Say whether there is no such model, or LiteLLM does not let it take a parameter."""
    import litellm.exceptions as kinds

    text = str(error)
    unknown = "LLM Provider NOT provided" in text or "model_not_found" in text
    unknown = unknown or (getattr(error, "status_code", None) == 400 and bool(_NO_MODEL.search(text)))
    return unknown or isinstance(error, kinds.LiteLLMUnknownProvider | kinds.UnsupportedParamsError)


def _words(error: BaseException) -> str:
    """Return the message with the code that stands beside it in OpenAI's form of an error."""
    body = getattr(error, "body", None)
    return f"{error} {body.get('code') or ''}" if isinstance(body, dict) else str(error)


def is_filtered(error: BaseException) -> bool:
    """Say whether a content filter refuses the conversation; 403 is how OpenRouter says so."""
    return getattr(error, "status_code", None) in {400, 403} and bool(_FILTERED.search(_words(error)))


def lacks_key(error: BaseException) -> bool:
    """Say whether a key is missing or refused; what LiteLLM misses it reports as a fault of the server."""
    return getattr(error, "status_code", None) in {400, 401, 403, 500} and bool(_NO_KEY.search(str(error)))


def lacks_credit(error: BaseException) -> bool:
    """Say whether the account is used up, which no wait mends: OpenAI says 429, Anthropic 400, others 402."""
    return getattr(error, "status_code", None) == 402 or bool(_NO_CREDIT.search(_words(error)))


def is_unsendable(error: BaseException) -> bool:
    """Say whether no request can be made of the endpoint's address or the key, so that none left."""
    kinds = {type(one).__name__ for one in _chain(error)}
    odd = {"UnsupportedProtocol", "LocalProtocolError", "InvalidURL", "UnicodeEncodeError"}
    return bool(kinds & odd) or "Invalid IPv6 URL" in str(error) or "Request URL is missing" in str(error)


def is_timeout(error: BaseException) -> bool:
    """Say whether the answer was too slow, ours (no status) or LiteLLM's."""
    return getattr(error, "status_code", None) in {None, 408}


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


def is_refused_parameter(error: BaseException) -> bool:
    """Say whether the endpoint refuses a parameter of the request: every other request would be refused as well."""
    return getattr(error, "status_code", None) in {400, 422} and bool(_REFUSED_PARAMETER.search(str(error)))


def is_refused_tools(error: BaseException) -> bool:
    """Say whether the model or its server takes no tool calls."""
    return getattr(error, "status_code", None) in {400, 404, 422} and bool(_REFUSED_TOOLS.search(str(error)))


def is_refused_format(error: BaseException) -> bool:
    """Say whether the endpoint does not take the form of reply that it was asked for; some say so with a 500."""
    status = getattr(error, "status_code", None)
    return status in {400, 415, 422, 500, 501} and bool(_REPLY_FORMAT.search(str(error)))


def why_unavailable(error: BaseException, *, answered: bool) -> str:
    """Say why no call can succeed, empty where one may; ``{key}`` and ``{base}`` stand for variables.

    An endpoint that has ``answered`` before is not given up for what may be one request's own fault.
    """
    rules = _FOR_GOOD if answered else (*_FOR_GOOD, *_AT_FIRST)
    return next((words for holds, words in rules if holds(error)), "")


def _has_status(*codes: int) -> Callable[[BaseException], bool]:
    return lambda error: getattr(error, "status_code", None) in codes


_Rules = tuple[tuple[Callable[[BaseException], bool], str], ...]
_FOR_GOOD: _Rules = (
    (_has_status(401, 403), "no key, or the endpoint refuses it ({key})"),
    (_has_status(404), "no such model at the endpoint ({base})"),
    (lacks_credit, "the account has no credit left"),
    (is_misnamed, "no such model at the endpoint ({base})"),
)
_AT_FIRST: _Rules = (
    (is_refused, "nothing answers at the endpoint ({base})"),
    (lacks_key, "no key, or the endpoint refuses it ({key})"),
    (is_unsendable, "no request can be made with {base} and {key}: no http://, a space or a line break in one of them"),
    (is_refused_tools, "the endpoint takes no tool calls, say --tool-protocol json"),
    (is_refused_parameter, "the endpoint refuses a parameter"),
)
