"""The commands about tasks: what there is, what it is worth, where its answers lie, and for authors how to add some."""

import sys
from typing import Any

import click

from rcb_agent.cli_options import as_json, filters, suite


@click.group()
def tasks() -> None:
    """List, show, pull, audit, validate and write tasks.

    \b
    Examples:
      rcb-agent tasks list
      rcb-agent tasks show 'silt/filling of the last block'
      rcb-agent tasks pull researchcodebench
    """  # noqa: D301


@tasks.command("list")
@suite
@click.option("--tasks", "patterns", multiple=True, metavar="PATTERN", help="Only tasks whose id fits; repeatable.")
@filters
@as_json
def list_tasks(**options: Any) -> None:
    """List the tasks of a suite with size, depth, venue and dates, and whether a model can have read the paper.

    \b
    Exit codes: 0 done; 3 a faulty paper (left out), or a suite, pattern or venue that is not there.
    \b
    Examples:
      rcb-agent tasks list --suite researchcodebench --safe-for gpt-4.1 --outermost
      rcb-agent tasks list --suite researchcodebench --hard --ids
    """  # noqa: D301
    from rcb_agent.runs.listing import print_tasks

    sys.exit(print_tasks(options))


@tasks.command("show")
@click.argument("task_id", metavar="ID")
@suite
@click.option("--answer", is_flag=True, help="Also what no agent may see: gold code, hidden tests, references.")
@as_json
def show_task(**options: Any) -> None:
    """Show what an agent sees of a task.

    \b
    rcb-agent tasks show 'silt/filling of the last block'
    """  # noqa: D301
    from rcb_agent.runs.inspection import print_task

    print_task(options)


@tasks.command("validate")
@suite
@click.option("--tasks", "patterns", multiple=True, metavar="PATTERN", help="Only tasks whose id fits; repeatable.")
@click.option("--quick", is_flag=True, help="Gold once, two mutants, no trivial answers.")
@click.option("--mutants", type=click.IntRange(0, 10_000), help="Mutants of each blank.  [default: 5, with --quick 2]")
@click.option("--afresh", is_flag=True, help="Try again what is in the cache.")
@click.option("--strict", is_flag=True, help="Exit 3 when a task is not sound.")
@click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker"]),
    default="bubblewrap",
    show_default=True,
    help="Where code is run.",
)
@click.option("--workers", type=click.IntRange(1, 512), help="Tasks at once.  [default: one per core]")
@as_json
def validate_tasks(**options: Any) -> None:
    """Find out what the hidden tests of each task are worth.

    The gold code runs in fresh processes with other hash seeds; then an empty answer, zeros, a constant, the input handed
    back, and mutants of the gold code must all fail. Interrupted, the same command goes on.

    \b
    sound: so it is     weak: something wrong passes     vacuous: an empty blank passes
    flaky: the gold code passes sometimes                broken: it never does
    \b
    Exit codes: 0 done; 1 some tasks could not be measured; 3 a faulty paper, or with --strict a task that is not sound.
    \b
    Examples:
      rcb-agent tasks validate
      rcb-agent tasks validate --suite researchcodebench --tasks 'minp/*' --json
      rcb-agent tasks validate --suite ./my-suite --quick --strict
    """  # noqa: D301
    from rcb_agent.runs.validating import validate

    sys.exit(validate(options))


@tasks.command("pull")
@click.argument("name", metavar="SUITE")
@click.option(
    "--from",
    "source",
    metavar="PATH|URL",
    help="A clone, a bare mirror or another address.  [default: the published one]",
)
@click.option("--commit", metavar="SHA", help="Another commit than the published one: differences are warnings then.")
@click.option("--force", is_flag=True, help="Pull again although it is there.")
@as_json
def pull_tasks(**options: Any) -> None:
    """Fetch a suite that is not shipped, and check each of its tasks by id and size.

    \b
    Examples:
      rcb-agent tasks pull researchcodebench
      rcb-agent tasks pull researchcodebench --from ~/ResearchCodeBench
      rcb-agent run --suite researchcodebench --tasks 'LEN/*' --agent oracle --agent null
    """  # noqa: D301
    from rcb_agent.runs.pulling import pull

    pull(options)


@tasks.command()
@suite
@click.option("--tasks", "patterns", multiple=True, metavar="PATTERN", help="Only tasks whose id fits; repeatable.")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="[NAME=]PATH",
    help="As for `run`: whose packages are searched; repeatable.",
)
@as_json
def audit(**options: Any) -> None:
    """Say where the answers of a suite lie about: in workspaces as they are built, in packages, in git objects.

    For each task: what was withheld because it holds at least half of the blank's lines, and what can be seen all the same.

    \b
    Exit codes: 0 nothing could have been withheld that was not; 3 something could, or a faulty paper; 4 machine.
    \b
    rcb-agent tasks audit --suite researchcodebench --json
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.auditing import print_audit

    sys.exit(print_audit(options))


@tasks.command()
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


@tasks.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False))
@click.option("--static", is_flag=True, help="Run nothing: only schemas, markers, places to fill in, leaks.")
@click.option("--quick", is_flag=True, help="Gold once, two mutants of each blank, no trivial answers.")
@click.option("--mutants", type=click.IntRange(0, 10_000), help="Mutants of each blank.  [default: 5, with --quick 2]")
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
