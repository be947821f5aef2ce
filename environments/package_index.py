"""Where a line of code stands in the packages of a runtime.

Each runtime's text files are read once; what is kept is a sorted table of line hashes with the number of the file each
stands in (12 bytes a line), mapped and not loaded when it is asked. Which package a file belongs to, and what that package
requires, is kept with it.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from importlib import metadata
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.interpreters import describe_interpreter
from rcb_agent.tasks.cache import cache_folder
from rcb_agent.tasks.leaks import telling_lines

VERSION = 1
TEXTS = frozenset({".py", ".pyi", ".pyx", ".pxd", ".md", ".rst", ".txt", ".tex"})
FILE_BYTES = 4 << 20
MOST_KEPT = 3
_BUILT = "complete.json"  # the marker beside a venv of ours, whose packages its digest says


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """The lines of a runtime's packages. ``names`` are the files; ``tops`` maps a top-level name to its distributions,
    ``requires`` a distribution to those it needs."""

    folder: Path
    names: tuple[str, ...]
    tops: Mapping[str, tuple[str, ...]]
    requires: Mapping[str, tuple[str, ...]]

    def find(self, lines: Iterable[str]) -> dict[str, set[str]]:
        """Return the files that hold any of these telling lines, and which."""
        import numpy as np

        hashes, owners = (np.load(self.folder / name, mmap_mode="r") for name in ("hashes.npy", "owners.npy"))
        found: dict[str, set[str]] = {}
        for line in lines:
            key = np.uint64(hash_line(line))
            first, last = (int(np.searchsorted(hashes, key, side)) for side in ("left", "right"))
            for owner in owners[first:last]:
                found.setdefault(self.names[int(owner)], set()).add(line)
        return found

    def needed_by(self, modules: AbstractSet[str]) -> frozenset[str]:
        """Return the distributions that code importing these top-level modules cannot do without."""
        todo = [name for module in modules for name in self.tops.get(module, ())]
        needed: set[str] = set()
        while todo:
            name = todo.pop()
            if name not in needed:
                needed.add(name)
                todo += self.requires.get(name, ())
        return frozenset(needed)

    def owners_of(self, path: str) -> tuple[str, ...]:
        """Return the distributions that a file of the packages belongs to."""
        return self.tops.get(top_name(path), ())


def top_name(path: str) -> str:
    """``torch/nn/functional.py`` -> ``torch``."""
    return path.split("/", 1)[0].removesuffix(".py")


def hash_line(line: str) -> int:
    """Hash a telling line to 64 bits."""
    return int.from_bytes(hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def index_packages(runtime: Runtime) -> PackageIndex:
    """Return the index of a runtime's packages; the first time it is made, which takes seconds.

    Raises EnvironmentFault when its Python does not run.
    """
    folder = index_folder(runtime)
    if (found := _read_index(folder)) is None:
        from filelock import FileLock

        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            found = _read_index(folder) or _make_index(package_roots(runtime), folder)
    return found


def is_indexed(runtime: Runtime) -> bool:
    """Say whether an index of these packages is at hand."""
    return _read_index(index_folder(runtime)) is not None


def index_folder(runtime: Runtime) -> Path:
    """Return where the index of a runtime is kept: by its digest, and for packages that are not ours also by the files' sizes
    and times, since nothing else says what was changed in them."""
    total = hashlib.sha256(f"{VERSION} {runtime.digest}".encode())
    if not (runtime.python.parents[2] / _BUILT).is_file():
        for root in package_roots(runtime):
            for path in list_texts(root):
                status = path.stat()
                total.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return cache_folder() / "indexes" / f"{runtime.name}-{total.hexdigest()[:24]}"


def package_roots(runtime: Runtime) -> tuple[Path, ...]:
    """Return the folders that hold the packages of a runtime."""
    interpreter = describe_interpreter(runtime.python)
    return tuple(path for path in interpreter.packages if path.is_dir())


def list_texts(root: Path) -> Iterator[Path]:
    """Yield the text files of packages, small enough to be somebody's code."""
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            path = Path(place, name)
            with suppress(OSError):
                if path.suffix in TEXTS and path.stat().st_size <= FILE_BYTES:
                    yield path


def _make_index(roots: tuple[Path, ...], folder: Path) -> PackageIndex:
    import numpy as np

    hashes, owners, names = array("Q"), array("I"), list[str]()
    for root in roots:
        for path in list_texts(root):
            with suppress(OSError):
                lines = telling_lines(path.read_text("utf-8", "replace"))
                hashes.extend(map(hash_line, lines))
                owners.extend([len(names)] * len(lines))
                names.append(path.relative_to(root).as_posix())
    keys = np.frombuffer(hashes, dtype=np.uint64)
    order = np.argsort(keys)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}."))
    np.save(draft / "hashes.npy", keys[order])
    np.save(draft / "owners.npy", np.frombuffer(owners, dtype=np.uint32)[order])
    (draft / "names.json").write_text(json.dumps({"names": names, **describe_distributions(roots)}))
    shutil.rmtree(folder, ignore_errors=True)
    draft.replace(folder)
    _forget_older(folder)
    found = _read_index(folder)
    assert found is not None  # noqa: S101 - written above
    return found


def _forget_older(folder: Path) -> None:
    """Keep the newest tables of a runtime: packages that change leave one behind each time."""
    name, _, key = folder.name.rpartition("-")
    tables = [path for path in folder.parent.glob(f"{escape(name)}-{'?' * len(key)}") if path.is_dir()]
    for path in sorted(tables, key=lambda path: path.stat().st_mtime)[:-MOST_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _read_index(folder: Path) -> PackageIndex | None:
    try:
        told = json.loads((folder / "names.json").read_text())
        tops, requires = ({key: tuple(value) for key, value in told[name].items()} for name in ("tops", "requires"))
        return PackageIndex(folder, tuple(told["names"]), tops, requires)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def describe_distributions(roots: tuple[Path, ...]) -> dict[str, Any]:
    """Say which top-level names the installed distributions bring, and which others each of them requires."""
    tops: dict[str, set[str]] = {}
    requires: dict[str, list[str]] = {}
    for one in metadata.distributions(path=[str(root) for root in roots]):
        name = plain_name(one.metadata["Name"] or "")
        wanted = [line for line in one.requires or () if "extra ==" not in line]
        requires[name] = sorted({plain_name(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in wanted})
        for top in Counter(top_name(str(path)) for path in one.files or ()):
            tops.setdefault(top, set()).add(name)
    return {"tops": {top: sorted(names) for top, names in tops.items()}, "requires": requires}


def plain_name(name: str) -> str:
    """Return a distribution's name as packaging tools compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
