"""A repository in the benchmark's form, made on the spot, with the facts that are known of it."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from rcb_agent.tasks.origins import Origin, read_origin

SIZES = [["good", "double it", 2], ["good", "give it back", 1]]


@dataclass
class Heard:
    """A watch that remembers."""

    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def progress(self, done: float, total: float) -> None:
        assert done >= 0 <= total


def git(place: Path, *words: str) -> str:
    """Run git without anybody's configuration."""
    author = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    env = {**os.environ, **author, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-C", str(place), *words]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


def commit_all(place: Path) -> str:
    """Commit everything in a checkout and return the hash."""
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "--message=as it is")
    return git(place, "rev-parse", "HEAD")


def facts_file(place: Path, commit: str, sizes: list[list[object]] | None = None) -> Path:
    """Write the facts of a tiny suite."""
    path = place / "facts.json"
    tasks = SIZES if sizes is None else sizes
    path.write_text(json.dumps({"url": str(place / "up"), "commit": commit, "folder": "pset", "tasks": tasks}))
    return path


def tiny_origin(place: Path, commit: str, sizes: list[list[object]] | None = None) -> Origin:
    """Return the origin of a tiny suite, whose own address is the checkout ``up``."""
    return read_origin("tiny", facts_file(place, commit, sizes))
