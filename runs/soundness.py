"""Which tasks are known to be sound: what ``tasks validate`` has found here, or what is shipped for a known suite.

A task is known by the hash of its content, so a suite that changes loses its verdicts and not its name. The deepest record
counts, of equals the latest; what is shipped is of full depth. A thinner one may find a fault, but calls nothing sound.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from rcb_agent.runs.base import Json
from rcb_agent.runs.depth import FULL, read_depth

SHIPPED = "validation.json"
SOUND = "sound"


def records_folder() -> Path:
    """Return where ``tasks validate`` keeps its records."""
    from rcb_agent.tasks.cache import cache_folder

    return cache_folder() / "validation"


def sound_tasks(facts: Mapping[str, Json]) -> frozenset[str] | None:
    """Return which tasks of a run (its ``task_facts``) are known to be sound; None where none of them was validated."""
    return only_sound(task_verdicts(facts))


def only_sound(known: Mapping[str, str]) -> frozenset[str] | None:
    """Return the sound ones of tasks with known verdicts; None where none is known."""
    return frozenset(task for task, verdict in known.items() if verdict == SOUND) if known else None


def task_verdicts(facts: Mapping[str, Json]) -> dict[str, str]:
    """Return what is known of the tasks of a run (its ``task_facts``): task -> verdict, for those that were validated."""
    digests = {task: str(fact["digest"]) for task, fact in facts.items() if "digest" in fact}
    known = known_verdicts(digests.values())
    return {task: known[digest] for task, digest in digests.items() if digest in known}


def known_verdicts(digests: Iterable[str]) -> dict[str, str]:
    """Return task digest -> verdict, for those of these tasks that were validated; the deepest, then latest record counts."""
    wanted = {digest[:32]: digest for digest in digests}
    shipped = _shipped()
    found = {digest: (FULL.rank, 0.0, shipped[digest]) for digest in wanted.values() if digest in shipped}
    for path, prefix in _records():
        digest = wanted.get(prefix)
        said = None if digest is None else _read_verdict(path, digest)
        if digest is not None and said is not None and (digest not in found or said[:2] >= found[digest][:2]):
            found[digest] = said
    return {digest: verdict for digest, (_, _, verdict) in found.items()}


_Said = tuple[tuple[bool, int, int, bool], float, str]
"""What a record says: its depth's rank, when (seconds), its verdict."""


def _read_verdict(path: Path, digest: str) -> _Said | None:
    """Return what a record of a task says; None where it says nothing that counts."""
    try:
        record: Json = json.loads(path.read_text(encoding="utf-8"))
        time, verdict = float(record["time"]), str(record["verdict"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    depth = read_depth(record)
    if record.get("digest") != digest or (verdict == SOUND and not depth.is_full):
        return None
    return depth.rank, time, verdict


def _records() -> list[tuple[Path, str]]:
    folder = records_folder()
    try:
        return [(path, path.name.partition(".")[0]) for path in folder.iterdir() if path.suffix == ".json"]
    except OSError:
        return []


@lru_cache(maxsize=1)
def _shipped() -> dict[str, str]:
    """Verdicts of the suites that we know, by task digest: facts of ours, no line of anybody's code."""
    path = files("rcb_agent.tasks") / "data" / SHIPPED
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {str(digest): str(verdict) for digest, verdict in document["tasks"].items()}
