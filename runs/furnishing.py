"""Carries out ``env``: runtimes as venvs and, for the sandbox docker, as images."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rcb_agent.environments.installing import Sources
from rcb_agent.environments.package_index import index_packages, is_indexed
from rcb_agent.environments.runtimes import (
    RUNTIMES,
    build_runtime,
    check_packages,
    chosen_python,
    load_runtime,
    read_lock,
    runtime_name,
    runtime_path,
)
from rcb_agent.environments.stock import estimate_all, is_built, list_stored, papers_served, remove_stored
from rcb_agent.errors import EnvironmentFault, UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.containers import DOCKER

Options = Mapping[str, Any]


def build_runtimes(options: Options) -> None:
    """Build the runtimes that are named, by themselves or by a paper, once each, saying what is done.

    What cannot be built does not stop the others. Raises EnvironmentFault then, at the end.
    """
    names = _chosen(options, RUNTIMES)
    _say_estimate(names)
    faults: dict[str, EnvironmentFault] = {}
    for number, name in enumerate(names, 1):
        if len(names) > 1:
            _report(f"[{number}/{len(names)}] {name}")
        try:
            _build(name, options)
        except EnvironmentFault as fault:
            faults[name] = fault
            _report(f"{name}: {fault}")
    if faults:
        raise EnvironmentFault("; ".join(_unmeasured(name, str(fault)) for name, fault in faults.items()))


def _chosen(options: Options, known: Iterable[str]) -> tuple[str, ...]:
    """Return what is meant by names or --all, once each. Raises UsageError for a name that is none."""
    if bool(options["names"]) == options["all_of_them"]:
        raise UsageError("name runtimes or papers, or give --all")
    names = tuple(dict.fromkeys(known if options["all_of_them"] else map(runtime_name, options["names"])))
    for name in names:
        if name not in known:
            read_lock(name)  # raises, naming the known ones
    return names


def _say_estimate(names: tuple[str, ...]) -> None:
    missing = tuple(name for name in names if not is_built(name))
    if len(missing) > 1:
        cost = estimate_all(missing)
        _report(
            f"{len(missing)} runtimes to build: about {cost.download:,} MB to download, {cost.disk:,} MB on disk "
            f"({cost.free:,} MB free)"
        )


def _build(name: str, options: Options) -> None:
    sources = Sources(options["index"] or "", tuple(options["find_links"]))
    runtime = build_runtime(name, _report, sources)
    if not is_indexed(runtime):
        _report("reading its packages, in which `tasks audit` and runs look for answers")
        index_packages(runtime)
    sys.stdout.write(f"{runtime.name}: {runtime.python}\n")
    if options["sandbox"] == DOCKER:
        from rcb_agent.environments.images import build_image, default_base

        image = build_image(runtime, options["docker_base"] or default_base(), _report)
        sys.stdout.write(f"{runtime.name}: {image.name} ({image.id})\n")


def _unmeasured(name: str, why: str) -> str:
    return f"{name}: {why}: tasks of {', '.join(papers_served(name)) or 'no paper'} are not measured without it"


def check_runtimes(options: Options) -> None:
    """Import every package of the runtimes that are built, or of those named. Raises EnvironmentFault if one does not work."""
    names = _chosen(options, RUNTIMES) if options["names"] else tuple(filter(is_built, RUNTIMES))
    rows = [_checked(name) for name in names]
    if options["as_json"]:
        sys.stdout.write(json.dumps({"runtimes": rows}) + "\n")
    else:
        for row in rows:
            state = f"works, {row['packages']} packages" if row["works"] else row["message"]
            sys.stdout.write(f"{row['name']}: {state}; for {', '.join(row['papers'])}\n")
    if broken := [row["name"] for row in rows if not row["works"]]:
        raise EnvironmentFault(
            f"{', '.join(broken)} cannot be used: `rcb-agent env remove` and `env build` make it anew"
        )


def _checked(name: str) -> Json:
    row: Json = {"name": name, "works": True, "packages": 0, "message": "", "papers": list(papers_served(name))}
    try:
        runtime = load_runtime(name)
        if chosen_python(name) is None:
            check_packages(runtime.python, runtime.packages)
    except EnvironmentFault as fault:
        return {**row, "works": False, "message": str(fault)}
    return {**row, "packages": len(runtime.packages)}


def remove_runtimes(options: Options) -> None:
    """Remove runtimes from the cache, those of older locks included, and say what that frees."""
    there = list_stored()
    names = _chosen(options, {*RUNTIMES, *(stored.name for stored in there)})
    going = [stored for stored in there if stored.name in names]
    for stored in going:
        if not options["dry_run"]:
            remove_stored(stored)
        kind = "" if stored.is_current else " (of an older lock)"
        sys.stdout.write(f"{stored.path}: {stored.size >> 20:,} MB{kind}\n")
    verb = "would be freed" if options["dry_run"] else "freed"
    sys.stdout.write(f"{sum(stored.size for stored in going) >> 20:,} MB {verb}\n")


def print_runtimes(options: Options) -> None:
    """List the runtimes we know, whether they are built, their sizes and the papers they are for."""
    with_images = options["sandbox"] == DOCKER
    sizes = {stored.path: stored.size for stored in list_stored()}
    rows = [
        {**_row(name, options["docker_base"], with_images=with_images), **_facts(name, sizes)}
        for name in sorted(RUNTIMES)
    ]
    if options["as_json"]:
        sys.stdout.write(json.dumps({"runtimes": rows}) + "\n")
        return
    for row in rows:
        place = f"{row['python']} ({row['bytes'] >> 20:,} MB)" if row["built"] else row["message"]
        sys.stdout.write(f"{row['name']}: {place}; for {', '.join(row['papers'])}\n")
        if "image" in row:
            sys.stdout.write(f"{row['name']}: {row['image'] or row['image_message']}\n")


def _facts(name: str, sizes: Mapping[Path, int]) -> Json:
    return {"papers": list(papers_served(name)), "bytes": sizes.get(runtime_path(name), 0)}


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
