"""Takes the values of keys out of text: what a provider said, and all that a run writes.

What counts is a variable of the harness's environment whose name looks secret, and the password or key inside an
address that any variable holds. Short values stay where answers are concerned: a local server's key may be the word
"anything", and code that holds that word must not be changed.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

_SECRET_NAME = re.compile(r"API_?KEY|ACCESS_KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_IN_ADDRESS = re.compile(
    r"://[^/?#\s@:]*:(?P<password>[^/?#\s@]+)@|[?&][^=&#]*(?:key|token)=(?P<key>[^&#\s]+)", re.IGNORECASE
)

LENGTH_IN_ERRORS = 6
LENGTH_IN_CONTENT = 12


def redact(text: str, shortest: int = LENGTH_IN_CONTENT) -> str:
    """Return ``text`` with the value of every secret-looking variable replaced by the variable's name in brackets.

    Values under ``shortest`` characters stay; a value is also found in the form it has inside JSON.
    """
    for value, name in _secrets.current():
        if len(value) >= shortest:
            text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
    return text


class _Secrets:
    """The secrets of the environment as it is now, looked for again only when it has changed.

    Every line of a run passes here, and reading ``os.environ`` costs as much as all else that is done to a line.
    """

    def __init__(self) -> None:
        self._known: tuple[Mapping[Any, Any], list[tuple[str, str]]] = ({}, [])

    def current(self) -> list[tuple[str, str]]:
        """Return value and variable of each, the longest first: one that begins with another must not leave its tail."""
        raw = getattr(os.environ, "_data", None)  # a plain dict, which compares in a microsecond
        seen, found = self._known
        if raw is None or raw != seen:
            seen = dict(raw or {})
            found = sorted(_find_secrets(), key=lambda one: -len(one[0]))
            self._known = (seen, found)
        return found


def _find_secrets() -> Iterator[tuple[str, str]]:
    for name, whole in os.environ.items():
        value = whole.strip()  # a line break at its end is not repeated by a server
        if _SECRET_NAME.search(name):
            yield value, name
        elif "://" in value:
            yield from ((found[found.lastgroup or 0], name) for found in _IN_ADDRESS.finditer(value))


_secrets = _Secrets()


def redact_bytes(data: bytes) -> bytes:
    """Return bytes without such values; every other byte stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean == text else clean.encode("utf-8", "surrogateescape")
