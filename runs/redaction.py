"""Takes secrets out of everything that is written: the one place between a run and its files."""

import os
import re
from collections.abc import Mapping
from typing import Any

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_LEAST = 6


class Redactor:
    """Replaces the value of every environment variable whose name looks secret by ``[NAME]``."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        source = os.environ if environment is None else environment
        named = {v.strip(): k for k, v in source.items() if _SECRET_NAME.search(k) and len(v.strip()) >= _LEAST}
        self._names = {value: name for value, name in named.items() if not value.isdigit()}
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, value: str) -> str:
        """Return ``value`` without secrets."""
        return self._pattern.sub(lambda m: f"[{self._names[m[0]]}]", value) if self._pattern else value

    def data(self, value: bytes) -> bytes:
        """Return bytes without secrets; everything else stays as it is."""
        if self._pattern is None:
            return value
        return self.text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def json(self, value: Any) -> Any:
        """Return a JSON value with every string in it redacted."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return value
