"""The commands about records that are there: ``regrade`` and ``verify``."""

import json
import sys
from typing import Any

import click

from rcb_agent.cli_options import as_json, results


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--tasks", "patterns", multiple=True, metavar="PATTERN", help="Only tasks whose id fits; repeatable.")
@click.option(
    "--sandbox",
    help="Where candidates run: bubblewrap, docker, host (no isolation at all), a plug-in's name, or module:callable.  "
    "[default: as the run]",
)
@click.option("--grading", type=click.Choice(["split", "upstream"]), help="The mode.  [default: as the run]")
@click.option("--workers", type=click.IntRange(1, 512), help="Grades at once.  [default: one per core]")
@click.option("--dry-run", is_flag=True, help="Grade and compare; write nothing.")
@results
@as_json
def regrade(**options: Any) -> None:
    """Grade the stored submissions of a run again with the present grader, and list every verdict that moved.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).

    New grades are appended and count from then on; one that cannot be measured now leaves the earlier one in place.
    Interrupted, the same command goes on.

    \b
    Exit codes: 0 nothing moved, all measured; 6 verdicts moved; 1 some not measured (whatever moved).
    \b
    Examples:
      rcb-agent regrade latest --dry-run
      rcb-agent regrade RUN --tasks 'silt/*' --grading upstream
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.regrading import regrade as carry_out
    from rcb_agent.runs.scratch import release_scratch

    document, code = carry_out(options)
    release_scratch()
    if options["as_json"]:
        click.echo(json.dumps(document))
    sys.exit(code)


@click.command()
@click.argument("run_id", metavar="RUN")
@results
@as_json
def verify(**options: Any) -> None:
    """Check a run folder: hashes, formats, and that its records belong together. Nothing is written.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).

    One line per finding: file, line, what. Whoever gets a run folder from somebody else begins here.

    \b
    Exit codes: 0 nothing found; 3 findings; 2 no such run folder.
    \b
    Examples:
      rcb-agent verify latest
      rcb-agent verify ~/received/RUN --json
    """  # noqa: D301
    from rcb_agent.runs.verification import print_findings

    sys.exit(print_findings(options))
