"""The commands about runtimes: ``env build``, ``list``, ``check`` and ``remove``."""

from typing import Any

import click

from rcb_agent.cli_options import as_json, docker_base

_names = click.argument("names", nargs=-1, metavar="[NAME...]")
_all_of_them = click.option("--all", "all_of_them", is_flag=True, help="All that there are.")


@click.group()
def env() -> None:
    """Build, list, check and remove the runtimes (Python environments) that papers need."""


@env.command("build")
@_names
@_all_of_them
@click.option("--index", metavar="URL", help="Where torch comes from.  [default: PyTorch's index of CPU wheels]")
@click.option("--find-links", multiple=True, metavar="DIR", help="Wheels at hand (as pip's option); repeatable.")
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
@click.option("--sandbox", type=click.Choice(["bubblewrap", "docker"]), help="docker: also the images.")
@docker_base
@as_json
def list_env(**options: Any) -> None:
    """List the known runtimes, where they are, their sizes and the papers they are for."""
    from rcb_agent.runs.furnishing import print_runtimes

    print_runtimes(options)


@env.command("check")
@_names
@as_json
def check_env(**options: Any) -> None:
    """Import every package of the runtimes that are built, or of those named, for real."""
    from rcb_agent.runs.furnishing import check_runtimes

    check_runtimes({**options, "all_of_them": False})


@env.command("remove")
@_names
@_all_of_them
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def remove_env(**options: Any) -> None:
    """Remove runtimes from the cache, those of older locks included; a run that uses one is not measured from then on."""
    from rcb_agent.runs.furnishing import remove_runtimes

    remove_runtimes(options)
