"""The secret by which the seeds of hidden tests are salted: kept beside the caches, never in a run folder.

A record holds its hash; the salt that a paper got from it stands in its grades, where it is no secret any more.
"""

import hashlib
import os
import secrets
from contextlib import suppress

from rcb_agent.errors import UsageError
from rcb_agent.tasks.cache import cache_folder

AUTO = "auto"
VARIABLE = "RCB_AGENT_SALT"


def keep_secret(word: str) -> tuple[str, str]:
    """Return the secret of ``--salt`` and its hash; ``auto`` draws one, "" is none. What is kept only its owner can read."""
    if not word:
        return "", ""
    secret = secrets.token_hex(16) if word == AUTO else word
    name = _hash(secret)
    folder = cache_folder() / "salts"
    with suppress(OSError):  # where it cannot be kept, resuming needs it again
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secret)
    return secret, name


def find_secret(name: str) -> str:
    """Return the secret of a hash, for a run that is resumed. Raises UsageError where it is kept nowhere."""
    if not name:
        return ""
    given = os.environ.get(VARIABLE, "")
    if given and _hash(given) == name:
        return given
    try:
        return (cache_folder() / "salts" / name).read_text()
    except (OSError, ValueError):
        raise UsageError(f"the seeds of this run are salted: name its secret in {VARIABLE} to resume it here") from None


def _hash(secret: str) -> str:
    return hashlib.sha256(f"salt of a run\0{secret}".encode()).hexdigest()[:32]
