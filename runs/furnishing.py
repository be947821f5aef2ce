"""Carries out ``env``: runtimes as venvs and, for the sandbox docker, as images."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rcb_agent.environments.installing import Sources
from rcb_agent.environments.runtimes import RUNTIMES, build_runtime, load_runtime, runtime_name
from rcb_agent.errors import EnvironmentFault
from rcb_agent.runs.base import Json
from rcb_agent.runs.containers import DOCKER

Options = Mapping[str, Any]


def build_runtimes(options: Options) -> None:
    """Build the runtimes that are named, by themselves or by a paper, once each, saying what is done."""
    sources = Sources(options["index"] or "", tuple(options["find_links"]))
    for name in dict.fromkeys(runtime_name(name) for name in options["names"]):
        runtime = build_runtime(name, _report, sources)
        sys.stdout.write(f"{runtime.name}: {runtime.python}\n")
        if options["sandbox"] == DOCKER:
            from rcb_agent.environments.images import build_image, default_base

            image = build_image(runtime, options["docker_base"] or default_base(), _report)
            sys.stdout.write(f"{runtime.name}: {image.name} ({image.id})\n")


def print_runtimes(options: Options) -> None:
    """List the runtimes we know and whether they are built."""
    with_images = options["sandbox"] == DOCKER
    rows = [_row(name, options["docker_base"], with_images=with_images) for name in sorted(RUNTIMES)]
    if options["as_json"]:
        sys.stdout.write(json.dumps({"runtimes": rows}) + "\n")
        return
    for row in rows:
        sys.stdout.write(f"{row['name']}: {row['python'] if row['built'] else row['message']}\n")
        if "image" in row:
            sys.stdout.write(f"{row['name']}: {row['image'] or row['image_message']}\n")


def _row(name: str, base: str | None, *, with_images: bool) -> Json:
    try:
        runtime = load_runtime(name)
    except EnvironmentFault as fault:
        return {"name": name, "built": False, "python": None, "packages": [], "message": str(fault)}
    row = {"name": name, "built": True, "python": str(runtime.python), "packages": list(runtime.packages)}
    if not with_images:
        return row
    from rcb_agent.environments.images import default_base, find_image

    try:
        image = find_image(runtime, base or default_base())
    except EnvironmentFault as fault:
        return {**row, "image": None, "image_message": str(fault)}
    return {**row, "image": image.name, "image_id": image.id, "image_base": image.base}


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
