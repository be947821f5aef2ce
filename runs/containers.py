"""What the containers of a run are made from: part of its config, because another image or engine program may measure
something else.

``{"base": name, "base_id": id, "images": {runtime: name}, "engine_runtime": name}``, empty for other sandboxes. An image's
name is a hash of all that it is made of, its id another one each time it is built: so the name is what a run is about,
and the ids are kept beside the config.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rcb_agent.environments.base import Container, Runtime
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json

DOCKER = "docker"


@dataclass(frozen=True, slots=True)
class ContainerWish:
    """What the command line says about containers."""

    base: str | None = None
    engine_runtime: str = ""


def check_wish(sandbox: str, wish: ContainerWish, pythons: Mapping[str, str]) -> None:
    """See that options fit together. Raises UsageError."""
    if sandbox == DOCKER:
        if pythons:
            raise UsageError(
                f"--sandbox docker runs the Python of an image, not {next(iter(pythons.values()))}: leave out --python "
                "(and RCB_AGENT_RUNTIME_*), or choose --sandbox bubblewrap"
            )
        return
    for option, value in (("--docker-base", wish.base), ("--docker-runtime", wish.engine_runtime)):
        if value:
            raise UsageError(f"{option} is for --sandbox docker, not {sandbox}")


def choose_container(sandbox: str, wish: ContainerWish, runtimes: Mapping[str, Runtime]) -> Json:
    """Find the images of these runtimes. Raises EnvironmentFault with the command that builds what is missing."""
    if sandbox != DOCKER:
        return {}
    from rcb_agent.environments.images import default_base, find_base, find_image

    name = wish.base or default_base()
    images = {runtime.name: find_image(runtime, name).name for runtime in runtimes.values()}
    return {"base": name, "base_id": find_base(name), "images": images, "engine_runtime": wish.engine_runtime}


def image_ids(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the ids of a run's images, by name. Raises EnvironmentFault."""
    if not record:
        return {}
    from rcb_agent.environments.images import inspect_image

    return {name: str(inspect_image(name)["Id"]) for name in record["images"].values()}


def check_base_is_the_same(recorded: Mapping[str, Any]) -> None:
    """Refuse to go on with a run whose base image is another one now. Raises UsageError."""
    from rcb_agent.environments.images import find_base

    if recorded and find_base(recorded["base"]) != recorded["base_id"]:
        raise UsageError(
            f"the run was made on another base image {recorded['base']} ({recorded['base_id']}), so it cannot be resumed"
        )


def read_container(record: Mapping[str, Any]) -> Container | None:
    """Return what a sandbox is opened with."""
    if not record:
        return None
    return Container(dict(record["images"]), record["engine_runtime"])
