"""Takes the values of keys out of text: what a provider said, and all that a run writes.

What counts is a variable of the harness's environment whose name looks secret. Short values stay where answers are
concerned: a local server's key may be the word "anything", and code that holds that word must not be changed.
"""

import json
import os
import re

_SECRET_NAME = re.compile(r"API_?KEY|ACCESS_KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)

LENGTH_IN_ERRORS = 6
LENGTH_IN_CONTENT = 12


def redact(text: str, shortest: int = LENGTH_IN_CONTENT) -> str:
    """Return ``text`` with the value of every secret-looking variable replaced by the variable's name in brackets.

    Values under ``shortest`` characters stay; a value is also found in the form it has inside JSON.
    """
    for name, value in os.environ.items():
        if len(value) >= shortest and _SECRET_NAME.search(name):
            text = text.replace(value, f"[{name}]").replace(json.dumps(value)[1:-1], f"[{name}]")
    return text


def redact_bytes(data: bytes) -> bytes:
    """Return bytes without such values; every other byte stays as it is."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean == text else clean.encode("utf-8", "surrogateescape")
