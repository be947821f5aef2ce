"""The commands that ask which part made the difference, and from what spending on: ``curve`` and ``ablate``."""

import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

import click

from rcb_agent.cli_options import ONE_ARM, as_csv, as_json, as_latex, cold, results, reworded
from rcb_agent.errors import UsageError

_NOT_VARIED = {"arms": (), "preset": None, "prompt": "standard", "grading": "split", "cheats": None}
"""Options of ``run`` that ``ablate`` does not have, as they are where they are not given."""


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--arm", "arms", multiple=True, metavar="ARM", help="Only this arm of the run; repeatable.  [default: all]"
)
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
@as_csv
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

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).

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


def add_experiments(group: click.Group, run: click.Command) -> None:
    """Add both commands to a group; ``ablate`` runs what it plans, so it has all other options of ``run``."""
    ablate.params += reworded([param for param in run.params if param.name not in _NOT_VARIED], ONE_ARM)
    for command in (ablate, curve):
        group.add_command(command)


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--leave-one-out",
    "parts",
    type=click.Choice(["tools", "paper", "context", "feedback"]),
    multiple=True,
    help="tools: an arm without each of them but submit; paper, context, feedback: an arm without it; repeatable.",
)
@click.option(
    "--grid",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Arms from a YAML file instead: baseline, arms, cross (runs/schema/grid.json). It names agent and model itself, "
    "so --agent and --model are refused.",
)
@click.option("--against", metavar="ARM", help="With RUN: the baseline.  [default: its first arm]")
@click.option("--dry-run", is_flag=True, help="Only show arms, trials and the estimate.")
@as_csv
@as_latex
def ablate(**options: Any) -> None:
    """Say what each tool, the paper, its context or feedback is worth: leave one out, run, compare with the baseline.

    Plans the arms, runs them in one run folder (as `run` does: --out goes on, `resume` too) and prints the effects: paired by
    task, clustered by paper, adjusted for the number of arms (Holm), beside how often and when the baseline used what was left
    out on the tasks that it turned. With RUN it prints the table of a finished run. RUN is a run folder, a unique beginning
    of an id in --results, or latest (the run that began last).

    \b
    Examples:
      rcb-agent ablate --agent react --model openai/gpt-4.1 --leave-one-out tools --dry-run
      rcb-agent ablate --agent react --leave-one-out tools --leave-one-out paper --out results/ablation
      rcb-agent ablate --grid grid.yaml
      rcb-agent ablate latest --latex
    \b
    A grid file, keys as for `run --arm`; the combinations of cross are arms:
      baseline: {agent: react, model: openai/gpt-4.1}
      cross: {paper: [file, none], max-steps: [10, 30]}
    """  # noqa: D301
    from rcb_agent.runs.ablation import ablate as carry_out
    from rcb_agent.runs.scratch import release_scratch

    if options["run_id"] is not None and (strays := _said(_WITH_RUN)):
        raise UsageError(f"{min(strays)} is for a new run: RUN is one that is there")
    _, unmeasured = carry_out({**_NOT_VARIED, **options})
    release_scratch()
    sys.exit(1 if unmeasured > options["allow_unmeasured"] else 0)


_WITH_RUN = {"run_id", "against", "as_csv", "as_latex", "as_json", "results", "allow_unmeasured"}


def _said(less: Container[str]) -> set[str]:
    """Return the options that stand on the command line, as they are written, less some of them by name."""
    context, line = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    params = [param for param in context.command.params if param.name is not None and param.name not in less]
    return {param.opts[0] for param in params if context.get_parameter_source(str(param.name)) is line}
