"""The commands around whole suites: ``tasks audit``, and for authors ``tasks new`` and ``tasks check``."""

import sys
from typing import Any

import click

from rcb_agent.cli_options import as_json, suite


def add_task_commands(group: click.Group) -> None:
    """Add them to the group ``tasks``."""
    for command in (audit,):
        group.add_command(command)


@click.command()
@suite
@click.option("--tasks", "patterns", multiple=True, metavar="PATTERN", help="Only tasks whose id fits; repeatable.")
@click.option(
    "--python", "pythons", multiple=True, metavar="[NAME=]PATH", help="As for run: whose packages are searched."
)
@as_json
def audit(**options: Any) -> None:
    """Say where the answers of a suite lie about: in workspaces as they are built, in packages, in git objects.

    For each task: what was withheld because it holds at least half of the blank's lines, and what can be seen all the same.

    \b
    Exit codes: 0 nothing could have been withheld that was not; 3 something could; 4 machine.
    \b
    rcb-agent tasks audit --suite researchcodebench --json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.auditing import print_audit

    sys.exit(print_audit(options))
