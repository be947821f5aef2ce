"""Carries out ``tasks pull``: progress for a person, plain lines elsewhere, one record at the end."""

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from rcb_agent.errors import UsageError
from rcb_agent.runs.screen import visible
from rcb_agent.tasks.origins import load_origin
from rcb_agent.tasks.pull import PullRequest, pull_suite


def pull(options: Mapping[str, Any]) -> None:
    """Pull the suite that the options name and say what is there now."""
    origin = load_origin(options["name"])
    if options["source"] is not None and not options["source"].strip():
        raise UsageError("--from is empty: give a path or an address, or leave it out for the published one")
    request = PullRequest(options["source"], options["commit"], options["force"])
    with _Screen() as screen:
        record = pull_suite(origin, request, screen)
    if options["as_json"]:
        sys.stdout.write(
            json.dumps({"suite": origin.name, "path": str(origin.home / record.folder), **record.as_json()})
        )
        sys.stdout.write("\n")
        return
    sys.stdout.write(f"{origin.name}: {record}\n{origin.home / record.folder}\n")


class _Screen(AbstractContextManager["_Screen"]):
    """Lines on standard error; a bar while git fetches where that is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task("fetching", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def remark(self, text: str) -> None:
        """Say a line."""
        self._bar.console.print(visible(f"rcb-agent: {text}"), markup=False, highlight=False, soft_wrap=True)

    def progress(self, done: float, total: float) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, total=total or None)
