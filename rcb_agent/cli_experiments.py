"""The commands that ask which part made the difference, and from what spending on: ``curve`` and ``ablate``."""

from pathlib import Path
from typing import Any

import click

from rcb_agent.cli_options import as_json, cold, results


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--arm", "arms", multiple=True, metavar="ARM", help="Only this arm of the run; repeatable.")
@click.option(
    "--by",
    "units",
    type=click.Choice(["steps", "tokens", "dollars", "minutes"]),
    multiple=True,
    help="What the terminal's plots are drawn against; repeatable.  [default: steps]",
)
@click.option(
    "--rate",
    type=click.Choice(["scaled", "plain"]),
    default="scaled",
    show_default=True,
    help="The rate that the terminal's plots show.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print one line per point: all arms, units and both rates.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a figure, .png, .pdf or .svg; needs matplotlib: pip install 'rcb-agent[plots]'.",
)
@click.option("--workers", type=click.IntRange(1, 512), help="Grades at once.  [default: one per core]")
@cold
@results
@as_json
def curve(**options: Any) -> None:
    """Show both rates against steps, tokens, dollars and minutes: had every trial been ended there, what would pass?

    Grades what the workspace held after each step of the run's trials, equal files once, and keeps the grades in the run
    folder. No model is asked. An arm of one step, such as direct, is a point. Interrupted, the same command goes on.

    \b
    Examples:
      rcb-agent curve latest
      rcb-agent curve RUN --by tokens --by minutes --plot curve.pdf
      rcb-agent curve RUN --csv > curve.csv
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.curve_screen import print_curve
    from rcb_agent.runs.scratch import release_scratch

    print_curve(options)
    release_scratch()
