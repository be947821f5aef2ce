"""Runs the real command line in a process of its own, as a user does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def arm(self, name: str) -> dict[str, Any]:
        """Return one arm of a run's document."""
        found: dict[str, Any] = next(arm for arm in self.document["arms"] if arm["arm"] == name)
        return found


def rcb_agent(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Done:
    """Carry out ``rcb-agent WORDS`` in ``cwd``."""
    command = [sys.executable, "-m", "rcb_agent", *map(str, words)]
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=280)
    return Done(done.returncode, done.stdout, done.stderr)


def rcb_agent_within(*words: str | Path) -> Done:
    """Carry out ``rcb-agent WORDS`` in this process, for commands that start nothing; paths must be absolute."""
    from click.testing import CliRunner

    from rcb_agent.cli import _explain, cli

    done = CliRunner().invoke(cli, [*map(str, words)], standalone_mode=False)
    if done.exception is None or isinstance(done.exception, SystemExit):
        return Done(done.exit_code, done.stdout, done.stderr)
    line, code = _explain(done.exception)
    return Done(code, done.stdout, f"{done.stderr}rcb-agent: {line}\n")


def records(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a run folder's file."""
    return [json.loads(line) for line in (run / name).read_text().splitlines()]
