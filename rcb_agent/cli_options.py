"""Options that several commands share."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Dollars(click.ParamType[float]):
    """A finite number of at least 0: click's own ranges let "nan" through, and no cap holds against it."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Fails with a usage error."""
        found = float(click.FLOAT.convert(value, param, ctx))
        if not (math.isfinite(found) and found >= 0):
            self.fail(f"{value!r} is not a number of dollars of at least 0.", param, ctx)
        return found


results = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where run folders lie.",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on standard output and nothing else there."
)
as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
as_latex = click.option("--latex", "as_latex", is_flag=True, help="Print LaTeX tables (booktabs).")
out_file = click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file; .json, .csv and .tex choose the form.  [default: standard output]",
)
cold = click.option(
    "--cold",
    is_flag=True,
    help="Start a new interpreter for every grade instead of forking one that has loaded its packages; changes no result.",
)
docker_base = click.option(
    "--docker-base",
    metavar="IMAGE",
    help="The image that docker's images are built on.  [default: $RCB_DOCKER_BASE, else python:3.x-bookworm]",
)
suite = click.option(
    "--suite",
    default="mini",
    show_default=True,
    help="mini, researchcodebench (once pulled), a plug-in's name, or a folder that holds papers.yaml.",
)

_FILTERS = (
    click.option(
        "--venue", multiple=True, metavar="WORD", help="Only papers of this venue, for instance ICLR; repeatable."
    ),
    click.option("--max-loc", type=click.IntRange(0), metavar="N", help="Only blanks of at most N lines."),
    click.option("--outermost", is_flag=True, help="Only blanks that lie in no other."),
    click.option(
        "--safe-for",
        metavar="MODEL|DATE",
        help="Only papers newer than the cutoff of a known model, or than a date (2025-03-31, or 2025-03).",
    ),
    click.option(
        "--rule",
        type=click.Choice(["first-commit", "arxiv"]),
        default="first-commit",
        show_default=True,
        help="What --safe-for compares: the first commit of the code, or the first version on arXiv.",
    ),
    click.option("--hard", is_flag=True, help="Only tasks that at most 10 of the 32 published models solved."),
    click.option("--since", metavar="DATE", help="Only papers whose code has its first commit on that day or later."),
    click.option("--ids", is_flag=True, help="Print ids only, one a line; not with --json."),
)


_VIEWS = (
    click.option(
        "--errors", is_flag=True, help="By which kind of mistake trials failed, the paper's categories beside."
    ),
    click.option(
        "--by",
        type=click.Choice(["venue", "area", "size", "depth", "tests", "paper", "model"]),
        help="Rates by what the tasks are; tests: kind of hidden tests, model: open or closed weights.",
    ),
    click.option("--copies", is_flag=True, help="How much of the gold code stands in each submission."),
)


def views(command: F) -> F:
    """Give a command the options that choose what of a run is shown."""
    for option in reversed(_VIEWS):
        command = option(command)
    return command


def filters(command: F) -> F:
    """Give a command the options that choose tasks."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


ONE_ARM = {
    "agents": "react, direct, best-of-n, self-repair, a plug-in's name, or module:Class; one only.  [default: react]",
    "models": "provider/model as LiteLLM names it, or scripted/demo; one only.  [default: scripted/demo]",
    "arms": "The arm in full, in place of --agent, written as for `run`; one only.",
}
"""What options of ``run`` say in commands that take one arm, and one that asks a model."""


def reworded(params: Iterable[click.Parameter], texts: Mapping[str, str]) -> list[click.Parameter]:
    """Return copies of a command's parameters for another one, those that ``texts`` names with its words as their help."""
    found = [copy.copy(param) for param in params]
    for param in found:
        if isinstance(param, click.Option) and param.name in texts:
            param.help = texts[param.name]
    return found
