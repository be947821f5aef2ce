"""A real docker engine for tests: is one there, and a base image made of this machine's own files."""

import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
from filelock import FileLock

from rcb_agent.environments.engine import connect
from rcb_agent.environments.images import BASE_VARIABLE, default_base, find_base
from rcb_agent.errors import EnvironmentFault

SCRIPT = Path(__file__).parent.parent / "scripts" / "base_image.sh"
BASE = "rcb-agent-base:tests"


@lru_cache(maxsize=1)
def silence() -> str:
    """Why no engine answers; empty if one does."""
    try:
        connect()
    except EnvironmentFault as fault:
        return str(fault)
    return ""


def skip_without_engine(items: list[pytest.Item]) -> None:
    """Tests that need an engine are skipped only where none answers."""
    for item in items:
        if item.get_closest_marker("docker") and (why := silence()):
            item.add_marker(pytest.mark.skip(reason=why))


def provide_base(shared: Path) -> str:
    """Return the name of a base image, making one unless it is there; several workers wait for the first."""
    with FileLock(shared / "base-image.lock"):
        for name in (default_base(), BASE):
            try:
                find_base(name)
            except EnvironmentFault:
                continue
            return name
        subprocess.run([SCRIPT, BASE], check=True, timeout=240)
    return BASE


__all__ = ["BASE", "BASE_VARIABLE", "provide_base", "silence", "skip_without_engine"]
