"""Runs the harness's pip for another Python."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.errors import EnvironmentFault

BUILD_SECONDS = 1800
QUIETLY = ("--disable-pip-version-check", "--no-input", "--quiet")
OPTIONS = ("--no-deps", "--no-compile", "--only-binary=:all:")


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a builder finds packages: ``index`` in place of the one a lock names, folders or pages with files."""

    index: str = ""
    find_links: tuple[str, ...] = ()


def links_of(sources: Sources) -> list[str]:
    """Return where else files may lie, for pip."""
    return [f"--find-links={place}" for place in sources.find_links]


def run_pip(home: Path, words: list[str]) -> str:
    """Run pip for the Python of a venv; an empty reason says that it went well."""
    command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), words[0], *QUIETLY, *words[1:]]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"pip could not be run: {error}") from None
    return reason_of(done.stderr) or f"exit status {done.returncode}" if done.returncode else ""


def reason_of(errors: str) -> str:
    """Return the line of pip's that says most: the last one that names an error, else the last one."""
    lines = [line.strip() for line in errors.splitlines() if line.strip() and not line.strip().startswith("WARNING")]
    named = [line for line in lines if re.match(r"(\w+Error|error|ERROR)\b", line) and "subprocess-exited" not in line]
    return next(reversed(named or lines), "")
