"""Carries out ``clean``: removes what killed runs have left, and says what."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rcb_agent.errors import EnvironmentFault
from rcb_agent.runs.scratch import dead_folders, remove_dead


def clean_up(options: Mapping[str, Any]) -> None:
    """Remove containers, temporary folders and, if asked, images; a machine without an engine has only folders."""
    found = [("folder", str(path)) for path in dead_folders()]
    if not options["dry_run"]:
        for _, path in found:
            remove_dead(path)
    remarks = []
    try:
        found += _clean_engine(images=options["images"], dry_run=options["dry_run"])
    except EnvironmentFault as fault:
        if options["images"]:
            raise
        remarks.append(str(fault))
    _print(found, remarks, options)


def _clean_engine(*, images: bool, dry_run: bool) -> list[tuple[str, str]]:
    from rcb_agent.environments.leftovers import dead_containers, own_images, remove

    leftovers = [*dead_containers(), *(own_images() if images else ())]
    for leftover in leftovers if not dry_run else ():
        remove(leftover)
    return [(leftover.kind, leftover.name) for leftover in leftovers]


def _print(found: list[tuple[str, str]], remarks: list[str], options: Mapping[str, Any]) -> None:
    if options["as_json"]:
        rows = [{"kind": kind, "name": name} for kind, name in found]
        sys.stdout.write(json.dumps({"removed": not options["dry_run"], "found": rows, "remarks": remarks}) + "\n")
        return
    verb = "would remove" if options["dry_run"] else "removed"
    for kind, name in found:
        sys.stdout.write(f"{verb} {kind} {name}\n")
    for remark in remarks:
        sys.stderr.write(f"rcb-agent: containers were not looked at: {remark}\n")
    if not found:
        sys.stdout.write("nothing is left over\n")
