"""Tells the errors that LiteLLM raises apart: what may pass, what never will, what only ends the trial.

Wordings are those of OpenAI, Anthropic and Azure; LiteLLM hands some of them on as plain bad requests.
"""

import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

_OVERFLOW = re.compile(
    r"context (length|limit|window)|context_length_exceeded|tokens? exceeds? the (configured )?limit|prompt is too long"
    r"|maximum (context|input) length|too many tokens",
    re.IGNORECASE,
)
_REFUSED_PARAMETER = re.compile(
    r"unsupported[ _](parameter|value)|not supported with this model|unrecognized request argument", re.IGNORECASE
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


def is_refused_parameter(error: BaseException) -> bool:
    """Say whether the endpoint refuses a parameter of the request: every other request would be refused as well."""
    return getattr(error, "status_code", None) == 400 and bool(_REFUSED_PARAMETER.search(str(error)))


def is_refused_format(error: BaseException) -> bool:
    """Say whether the endpoint does not take the form of reply that it was asked for; some say so with a 500."""
    status = getattr(error, "status_code", None)
    return status in {400, 415, 422, 500, 501} and bool(_REPLY_FORMAT.search(str(error)))
