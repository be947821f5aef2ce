"""Suites that are pulled, not shipped: where each comes from, what is known of it, and where it lies once pulled.

A pull is complete when, and only when, its record ``pulled.json`` exists; the record names the folder that holds the
suite, so that a new pull takes over in one step.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.errors import TaskError
from rcb_agent.tasks.cache import cache_folder

PULLED = ("researchcodebench",)
RECORD = "pulled.json"
_PASSING = "__pycache__"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a suite is published: repository, commit, the folder in it; and size and id of each of its tasks.

    ``kept`` are files of the repository beside that folder that a pull keeps as well.
    """

    name: str
    url: str
    commit: str
    folder: str
    sizes: tuple[tuple[str, int], ...]
    kept: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """Where its record and its files lie in the cache."""
        return cache_folder() / "suites" / self.name


@dataclass(frozen=True, slots=True)
class Pulled:
    """The record of a pull. ``folder`` is relative to the record; ``differences`` from the facts are only kept for a
    commit that was asked for; ``kept`` are the files beside the folder, each with its SHA-256.
    """

    source: str
    commit: str
    date: str
    papers: int
    tasks: int
    lines: int
    digest: str
    folder: str
    differences: tuple[str, ...] = ()
    kept: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the form that stands in ``pulled.json``."""
        return {**asdict(self), "differences": list(self.differences), "kept": dict(self.kept)}

    def __str__(self) -> str:
        return f"commit {self.commit[:7]}: {self.papers} papers, {self.tasks} tasks, {self.lines} lines"


def load_origin(name: str) -> Origin:
    """Return what is shipped about a suite that can be pulled. Raises TaskError for another name."""
    if name not in PULLED:
        raise TaskError(f"no suite {name!r} to pull: known are {', '.join(PULLED)}")
    return read_origin(name, Path(str(files("rcb_agent.tasks") / "data" / name / "facts.json")))


def read_origin(name: str, path: Path) -> Origin:
    """Read a file of facts: url, commit, folder, tasks, each [paper, name, lines] and perhaps its depth, and what is
    kept beside the folder.
    """
    facts = json.loads(path.read_text("utf-8"))
    sizes = tuple((f"{paper}/{blank}", lines) for paper, blank, lines, *_ in facts["tasks"])
    return Origin(name, facts["url"], facts["commit"], facts["folder"], sizes, tuple(facts.get("kept", ())))


def read_record(origin: Origin) -> Pulled | None:
    """Return the record of a pull; None where there is none that can be read."""
    try:
        fields = json.loads((origin.home / RECORD).read_text("utf-8"))
        kept = tuple(sorted(fields.get("kept", {}).items()))
        return Pulled(**{**fields, "differences": tuple(fields["differences"]), "kept": kept})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def pulled_root(name: str) -> Path:
    """Return the folder of a pulled suite. Raises TaskError when it is not there as it was pulled."""
    origin = load_origin(name)
    record = read_record(origin)
    if record is None:
        raise TaskError(f"suite {name} is not pulled: run `rcb-agent tasks pull {name}`")
    root = origin.home / record.folder
    if not is_whole(origin, record):
        raise TaskError(
            f"suite {name}: {root} is not what was pulled: run `rcb-agent tasks pull {name}` again; "
            "a suite of your own is a copy of it elsewhere, given as --suite FOLDER"
        )
    return root


def pulled_version(name: str) -> str:
    """Return what names the state of a pulled suite: the beginning of its commit; "" where nothing is pulled."""
    record = read_record(load_origin(name))
    return record.commit[:12] if record else ""


def is_whole(origin: Origin, record: Pulled) -> bool:
    """Say whether everything that a record names lies there as it was pulled."""
    root = origin.home / record.folder
    beside = all(_hash_file(root.parent / path) == sha256 for path, sha256 in record.kept)
    return beside and tree_digest(root) == record.digest


def read_beside(name: str, root: Path, path: str) -> bytes:
    """Return a file that the authors of a suite have beside its folder. Raises TaskError where it is not."""
    if name in PULLED:
        record = read_record(load_origin(name))
        if record is None or path not in dict(record.kept):
            raise TaskError(
                f"suite {name}: was pulled without {path}: pull again with `rcb-agent tasks pull {name} --force`"
            )
    try:
        return (root.parent / path).read_bytes()
    except OSError:
        raise TaskError(
            f"suite {name} has none: {path} is not beside its folder, as it is for researchcodebench once pulled"
        ) from None


def _hash_file(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def tree_digest(root: Path) -> str:
    """Hash names and contents of the files below a folder."""
    total = hashlib.sha256()
    for path in _files_below(root):
        data, name = path.read_bytes(), path.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
        total.update(b"%d %d " % (len(name), len(data)) + name + data)
    return total.hexdigest()


def _files_below(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and _PASSING not in path.parts:
            yield path
