"""Counts tokens without network: by the tokenizers of OpenAI's models, which LiteLLM brings as files, else by length.

Only for a model whose tokenizer it is the count is its own; for any other it is a stand-in, and said to be one.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHARACTERS_PER_TOKEN = 3.3
"""Of the benchmark's papers and code, 22 million characters, by the newer of the two tokenizers."""

_STAND_IN = "o200k_base"
_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"  # names a file; nothing is fetched


@dataclass(frozen=True, slots=True)
class Count:
    """Tokens of some texts; ``by`` is the tokenizer or "characters", ``exact`` says whether it is the model's own."""

    tokens: int
    by: str
    exact: bool

    def __str__(self) -> str:
        return f"{'' if self.exact else 'about '}{self.tokens:,} tokens"


def count_tokens(texts: Sequence[str], model: str) -> Count:
    """Count the tokens of texts for a model, ``provider/model``."""
    own = _tokenizer_of(model)
    encoding = _open_encoding(own or _STAND_IN)
    if encoding is None:
        return guess_tokens(texts)
    total = sum(len(tokens) for tokens in encoding.encode_ordinary_batch(list(texts), num_threads=os.cpu_count() or 1))
    return Count(total, encoding.name, exact=own is not None)


def guess_tokens(texts: Sequence[str]) -> Count:
    """Estimate the tokens of texts by their length alone, which takes no time."""
    return Count(round(sum(map(len, texts)) / CHARACTERS_PER_TOKEN), "characters", exact=False)


def _tokenizer_of(model: str) -> str | None:
    """Return the name of a model's own tokenizer where it is one of those at hand."""
    try:
        from tiktoken.model import encoding_name_for_model

        provider, _, name = model.partition("/")
        return encoding_name_for_model(name) if provider in ("openai", "azure") else None
    except (ImportError, KeyError):
        return None


@lru_cache(maxsize=4)
def _open_encoding(name: str) -> Any:
    """Return a tokenizer that lies here as a file, else None."""
    spec = find_spec("litellm")
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers" if spec and spec.origin else Path()
    file = hashlib.sha1(_ADDRESS.format(name).encode(), usedforsecurity=False).hexdigest()
    if not (folder / file).is_file():
        return None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)  # as LiteLLM sets it when it is imported
    try:
        import tiktoken

        return tiktoken.get_encoding(name)
    except (ImportError, OSError, ValueError):
        return None
