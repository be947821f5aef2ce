"""The commands around whole suites: ``tasks audit``, and for authors ``tasks new`` and ``tasks check``."""

import sys
from typing import Any

import click

from rcb_agent.cli_options import as_json, suite


def add_task_commands(group: click.Group) -> None:
    """Add them to the group ``tasks``."""
    for command in (audit, new, check):
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


@click.command()
@click.argument("paper", metavar="PAPER")
@click.option(
    "--from", "sources", multiple=True, required=True, metavar="FILE", help="Code that will hold blanks; repeatable."
)
@click.option(
    "--blank",
    "blanks",
    multiple=True,
    metavar="FILE:START-END:NAME",
    help="Put markers around these lines (both included); repeatable, also one within another.",
)
@click.option(
    "--suite", default=".", show_default=True, metavar="FOLDER", help="The suite; made where it is not there."
)
@click.option("--title", metavar="TEXT", help="The paper's title.  [default: PAPER]")
@click.option("--runtime", default="mini", show_default=True, metavar="NAME", help="The Python that its code needs.")
def new(**options: Any) -> None:
    """Begin a paper: its folder with code, tests, reference and text to write, and its entry in papers.yaml.

    The code is copied. Nothing that is there is overwritten, and nothing leaves this machine.

    \b
    rcb-agent tasks new evenlines --suite texts --from wrap.py --blank 'wrap.py:12-18:cost of a line'
    """  # noqa: D301
    from rcb_agent.runs.authoring import make_paper

    make_paper(options)


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option("--static", is_flag=True, help="Run nothing: only schemas, markers, places to fill in, leaks.")
@click.option("--quick", is_flag=True, help="Gold once, two mutants of each blank, no trivial answers.")
@click.option("--mutants", type=click.IntRange(0, 10_000), help="Mutants of each blank.  [default: 5]")
@click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker"]),
    default="bubblewrap",
    show_default=True,
    help="Where code is run.",
)
@as_json
def check(**options: Any) -> None:
    """Check a suite, or one paper of it, and say of each finding where, what, and what to do.

    Schemas, markers, places not yet filled in, answers that lie about; then the gold code must pass, and an empty answer,
    trivial ones and mutants must fail. Nothing leaves this machine.

    \b
    Exit codes: 0 nothing to mend (warnings may be left); 3 findings; 1 something could not be run here; 4 machine.
    \b
    rcb-agent tasks check texts/evenlines
    """  # noqa: D301
    from rcb_agent.runs.checking import check_folder

    sys.exit(check_folder(options))
