"""What killed harnesses have left with a docker engine, and removing it.

Only containers with our label whose owner is known to be dead, and images with our label. Nothing is ever pruned.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rcb_agent.environments.engine import connect, engine_address, engine_errors
from rcb_agent.environments.images import OWNER_LABEL, REPOSITORY, RUNTIME_LABEL
from rcb_agent.environments.owners import is_dead, own_mark
from rcb_agent.errors import EnvironmentFault

_swept: set[int] = set()
_sweeping = threading.Lock()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A container or an image: what a person calls it, and what the engine does."""

    kind: str
    name: str
    id: str


def dead_containers() -> Iterator[Leftover]:
    """Find containers of ours, running or not, whose owner is dead."""
    engine = connect()
    with engine_errors("list containers"):
        found = engine.containers(all=True, filters={"label": OWNER_LABEL})
    for container in found:
        if is_dead((container.get("Labels") or {}).get(OWNER_LABEL, "")):
            name = (container.get("Names") or [container["Id"][:12]])[0].lstrip("/")
            yield Leftover("container", name, container["Id"])


def own_images() -> Iterator[Leftover]:
    """Find images of runtimes, of every base image."""
    engine = connect()
    with engine_errors("list images"):
        found = engine.images(filters={"label": RUNTIME_LABEL})
    for image in found:
        for name in image.get("RepoTags") or ():
            if name.startswith(f"{REPOSITORY}/"):  # an image that somebody has made of one of ours has its label too
                yield Leftover("image", name, name)


def remove(leftover: Leftover) -> None:
    """Remove one; one that is gone is fine. Raises EnvironmentFault, for instance for an image in use."""
    import docker

    engine = connect()
    with engine_errors(f"remove the {leftover.kind} {leftover.name}"), suppress(docker.errors.NotFound):
        if leftover.kind == "image":
            engine.remove_image(leftover.id)
            return
        try:
            engine.remove_container(leftover.id, force=True, v=True)
        except docker.errors.APIError as error:
            if "already in progress" not in str(error):
                raise


@lru_cache(maxsize=4)
def watch_over(address: str, owner: int) -> "subprocess.Popen[bytes]":
    """Start what removes the containers of this process, ``owner``, when it has ended; once for each engine."""
    del owner  # part of the key: a forked copy needs one of its own
    program = str(Path(__file__).with_name("afterwards.py"))
    command = [sys.executable, "-I", "-S", "-B", program, address, f"{OWNER_LABEL}={own_mark()}"]
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)


def sweep_once(engine: Any) -> None:
    """At the first open in this process, remove containers of dead owners and see to those of this one."""
    with _sweeping:
        watch_over(engine_address(), os.getpid())
        if id(engine) in _swept:
            return
        _swept.add(id(engine))
    with suppress(EnvironmentFault):
        for container in dead_containers():
            remove(container)
