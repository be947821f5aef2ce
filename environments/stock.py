"""What lies in the cache of runtimes: sizes, papers served, removal. ``runtimes`` says how one gets there."""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.environments.installing import BUILD_SECONDS
from rcb_agent.environments.runtimes import ABOUT, MARKER, RUNTIMES, read_lock, runtime_path
from rcb_agent.tasks.cache import cache_folder
from rcb_agent.tasks.overlay import papers_of_runtime

OWN = {"mini": ("the suite mini",)}


@dataclass(frozen=True, slots=True)
class Stored:
    """A runtime's folder in the cache, in bytes; ``is_current`` unless its lock or the Python has changed since."""

    name: str
    path: Path
    size: int
    is_current: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """What building some runtimes takes, in MB, as their locks say."""

    download: int
    disk: int
    free: int


def papers_served(name: str) -> tuple[str, ...]:
    """Return the ids of the papers whose tasks a runtime makes measurable."""
    return OWN.get(name) or papers_of_runtime(name)


def is_built(name: str) -> bool:
    """Say whether a runtime is there, whole."""
    return (runtime_path(name) / MARKER).is_file()


def estimate_all(names: tuple[str, ...]) -> Estimate:
    """Add up what the locks of runtimes say they take."""
    lines = [line for name in names for line in read_lock(name).splitlines() if line.startswith(ABOUT)]
    told = [found for line in lines if (found := re.search(r"(\d+) MB to download, (\d+) MB on disk", line))]
    place = cache_folder()
    place.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(place).free >> 20
    return Estimate(sum(int(one[1]) for one in told), sum(int(one[2]) for one in told), free)


def list_stored() -> tuple[Stored, ...]:
    """Return every runtime's folder that lies in the cache, those of older locks included."""
    current = {runtime_path(name) for name in RUNTIMES}
    folders = [path for path in sorted((cache_folder() / "runtimes").glob("*-*-*")) if path.is_dir()]
    return tuple(Stored(name_of(path), path, size_of(path), path in current) for path in folders)


def name_of(path: Path) -> str:
    """Return the runtime that a folder is of: ``torch-92838000bf71-cpython-311`` -> ``torch``."""
    return re.sub(r"-[0-9a-f]{12}-[a-z]+-\d+$", "", path.name)


def size_of(path: Path) -> int:
    """Add up the bytes that files below a folder take on disk."""
    return sum(entry.lstat().st_blocks * 512 for entry in path.rglob("*") if not entry.is_dir())


def remove_stored(stored: Stored) -> None:
    """Remove a runtime's folder; whoever builds it is waited for. What is half gone is no runtime: the marker goes first."""
    from filelock import FileLock

    with FileLock(f"{stored.path}.lock", timeout=BUILD_SECONDS):
        (stored.path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(stored.path)
