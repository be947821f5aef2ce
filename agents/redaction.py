"""Takes the values of keys out of text: what a provider said, and all that a run writes.

What counts is a variable of the harness's environment whose name looks secret, and the password or key inside an
address that any variable holds. Short values stay where answers are concerned: a local server's key may be the word
"anything", and code that holds that word must not be changed.
"""

import json
import os
import re
from collections.abc import Iterator

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
    # Longest first: a secret that begins with another one must not leave its tail.
    for value, name in sorted(_secrets(), key=lambda one: -len(one[0])):
        if len(value) >= shortest:
            text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
    return text


def _secrets() -> Iterator[tuple[str, str]]:
    for name, whole in os.environ.items():
        value = whole.strip()  # a line break at its end is not repeated by a server
        if _SECRET_NAME.search(name):
            yield value, name
        elif "://" in value:
            yield from ((found[found.lastgroup or 0], name) for found in _IN_ADDRESS.finditer(value))


def redact_bytes(data: bytes) -> bytes:
    """Return bytes without such values; every other byte stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean == text else clean.encode("utf-8", "surrogateescape")
