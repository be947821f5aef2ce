"""Takes the values of keys out of text: what a provider said, and all that a run writes.

What counts is a variable of the harness's environment whose name looks secret. Short values stay where answers are
concerned: a local server's key may be the word "anything", and code that holds that word must not be changed.
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

_SECRET_NAME = re.compile(r"API_?KEY|ACCESS_KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)

LENGTH_IN_ERRORS = 6
LENGTH_IN_CONTENT = 12


def redact(text: str, shortest: int = LENGTH_IN_CONTENT) -> str:
    """Return ``text`` with the value of every secret-looking variable replaced by the variable's name in brackets.

    Values under ``shortest`` characters stay; a value is also found in the form it has inside JSON.
    """
    for name, value in _secrets.current().items():
        if len(value) >= shortest:
            text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
    return text


class _Secrets:
    """The secret-looking variables of the environment as it is now, looked for again only when it has changed.

    Every line of a run passes here, and reading ``os.environ`` costs as much as all else that is done to a line.
    """

    def __init__(self) -> None:
        self._known: tuple[Mapping[Any, Any], Mapping[str, str]] = ({}, {})

    def current(self) -> Mapping[str, str]:
        """Return name and value of each."""
        raw = getattr(os.environ, "_data", None)  # a plain dict, which compares in a microsecond
        seen, found = self._known
        if raw is None or raw != seen:
            seen = dict(raw or {})
            found = {name: value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
            self._known = (seen, found)
        return found


_secrets = _Secrets()


def redact_bytes(data: bytes) -> bytes:
    """Return bytes without such values; every other byte stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean == text else clean.encode("utf-8", "surrogateescape")
