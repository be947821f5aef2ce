"""Shims: files of ours that are laid beside a runtime's packages, where a published package does not import by itself.

A lock names them in lines ``# shim: NAME``; each is a folder ``data/shims/NAME`` whose files go into the venv's
site-packages under the same paths. A shim adds files and never replaces one. It is listed among a runtime's packages as
``shim:NAME==HASH``, the hash being that of its files, so that a change of a shim is another runtime.
"""

import hashlib
from collections.abc import Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from rcb_agent.errors import EnvironmentFault

SHIPPED: Traversable = resources.files("rcb_agent.environments").joinpath("data", "shims")
NAMED = "# shim: "  # a lock's line that names one
LISTED = "shim:"
HASH_LENGTH = 12
SUFFIXES = (".py", ".so")


def shims_of(lock: str) -> list[str]:
    """Return the names of the shims that a lock asks for."""
    return [line.removeprefix(NAMED).strip() for line in lock.splitlines() if line.startswith(NAMED)]


def list_shims(lock: str) -> list[str]:
    """Return how a lock's shims are listed among its packages."""
    return [f"{LISTED}{name}=={hash_files(read_shim(name))[:HASH_LENGTH]}" for name in shims_of(lock)]


def without_shims(packages: Sequence[str]) -> list[str]:
    """Return the packages that pip knows."""
    return [package for package in packages if not package.startswith(LISTED)]


def shims_in(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the shims among a runtime's packages."""
    return tuple(package for package in packages if package.startswith(LISTED))


def read_shim(name: str) -> dict[str, bytes]:
    """Return the files of a shim by path, or raise EnvironmentFault."""
    folder = SHIPPED.joinpath(name)
    if not name or not folder.is_dir():
        raise EnvironmentFault(f"a lock names the shim {name!r}, which is not shipped: {SHIPPED} has none such")
    return dict(sorted(_walk(folder, PurePosixPath())))


def _walk(folder: Traversable, place: PurePosixPath) -> list[tuple[str, bytes]]:
    files = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            files += _walk(entry, place / entry.name)
        elif entry.is_file():
            files.append((str(place / entry.name), entry.read_bytes()))
    return files


def hash_files(files: dict[str, bytes]) -> str:
    """Hash paths and contents."""
    lines = [f"{path} {hashlib.sha256(data).hexdigest()}" for path, data in sorted(files.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def lay_shims(lock: str, packages: Path) -> None:
    """Write the files of a lock's shims into a site-packages folder.

    Raises EnvironmentFault where one would replace a file, hide a package or be hidden by one.
    """
    for name in shims_of(lock):
        for path, data in read_shim(name).items():
            if rival := find_rival(packages, path):
                raise EnvironmentFault(f"the shim {name} cannot be laid: its {path} is in the way of {rival}")
            (packages / path).parent.mkdir(parents=True, exist_ok=True)
            (packages / path).write_bytes(data)


def find_rival(packages: Path, path: str) -> Path | None:
    """Return what is installed under the module name of a file to be laid, if there is anything."""
    target = packages / path
    if target.exists():
        return target
    if target.suffix != ".py":
        return None
    found = [
        target.with_suffix(""),
        *(file for suffix in SUFFIXES for file in target.parent.glob(f"{target.stem}.*{suffix}")),
    ]
    return next((rival for rival in found if rival.exists()), None)
