"""The commands about runtimes: ``env build``, ``list``, ``check`` and ``remove``."""

from typing import Any

import click

from rcb_agent.cli_options import as_json, docker_base

_names = click.argument("names", nargs=-1, metavar="[NAME...]")


@click.group()
def env() -> None:
    """Build, list, check and remove the runtimes (Python environments) that papers need.

    \b
    Examples:
      rcb-agent env list
      rcb-agent env build mini
      rcb-agent env check
    """  # noqa: D301


@env.command("build")
@_names
@click.option("--all", "all_of_them", is_flag=True, help="All runtimes that are known (`env list`).")
@click.option("--index", metavar="URL", help="Where torch comes from.  [default: PyTorch's index of CPU wheels]")
@click.option(
    "--find-links", multiple=True, metavar="DIR", help="A folder of wheels at hand (as pip's option); repeatable."
)
@click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker"]),
    default="bubblewrap",
    show_default=True,
    help="docker: also an image with the same packages.",
)
@docker_base
def build_env(**options: Any) -> None:
    """Build runtimes; NAME is a runtime or the id of a paper that needs it. What cannot be built does not stop the others.

    \b
    Examples:
      rcb-agent env build mini
      rcb-agent env build --all
      rcb-agent env build LEN minp --find-links ~/wheels
      rcb-agent env build --sandbox docker --docker-base debian-python:3.11 mini
    """  # noqa: D301
    from rcb_agent.runs.furnishing import build_runtimes

    build_runtimes(options)


@env.command("list")
@click.option(
    "--sandbox",
    type=click.Choice(["bubblewrap", "docker"]),
    default="bubblewrap",
    show_default=True,
    help="docker: also the images.",
)
@docker_base
@as_json
def list_env(**options: Any) -> None:
    """List the known runtimes, where they are, their sizes and the papers they are for.

    \b
    Examples:
      rcb-agent env list
      rcb-agent env list --sandbox docker --json
    """  # noqa: D301
    from rcb_agent.runs.furnishing import print_runtimes

    print_runtimes(options)


@env.command("check")
@_names
@as_json
def check_env(**options: Any) -> None:
    """Import every package of the runtimes that are named, or without names of all that are built, for real.

    NAME is a runtime or the id of a paper that needs it.

    \b
    Exit codes: 0 all work; 4 one does not.
    \b
    Examples:
      rcb-agent env check
      rcb-agent env check mini LEN
    """  # noqa: D301
    from rcb_agent.runs.furnishing import check_runtimes

    check_runtimes({**options, "all_of_them": False})


@env.command("remove")
@_names
@click.option("--all", "all_of_them", is_flag=True, help="All runtimes that are in the cache.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def remove_env(**options: Any) -> None:
    """Remove runtimes from the cache, those of older locks included; a run that uses one is not measured from then on.

    NAME is a runtime or the id of a paper that needs it.

    \b
    Examples:
      rcb-agent env remove mini
      rcb-agent env remove --all --dry-run
    """  # noqa: D301
    from rcb_agent.runs.furnishing import remove_runtimes

    remove_runtimes(options)
