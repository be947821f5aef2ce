"""Where the answer of a task lies about: in its workspace as it is built, in its runtime's packages, in git objects.

By the rule of ``tasks.leaks``, which also builds the workspace. What an agent can see is ``avoidable`` when the copy could have
been kept from it: a file that is neither annotated nor the paper, a git object, two lines or more in a package that
nothing of the paper needs. Everything else is the paper's or the benchmark's own design, and said.
"""

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rcb_agent.environments.package_index import PackageIndex, top_name
from rcb_agent.environments.repository import make_repository, object_body
from rcb_agent.environments.workspace import exported_files
from rcb_agent.runs.base import Json
from rcb_agent.tasks.base import SourceFile, Task
from rcb_agent.tasks.folders import imported_modules
from rcb_agent.tasks.leaks import Overlap, compare, first_line_of, telling_lines

SAME_FILE = "visible_same_file"
ANNOTATED = "visible_annotated_file"
PAPER = "visible_paper"
PACKAGE = "visible_package"
FILE = "visible_file"
GIT = "visible_git"
UNNEEDED = "visible_unneeded_package"
AVOIDABLE = frozenset({FILE, GIT, UNNEEDED})
MOST_PACKAGES = 10
LEAST_UNNEEDED = 2
"""Lines that a package nobody needs must hold to be called avoidable: one is found anywhere."""
_LARGEST = 4 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A text that holds at least half of a blank's lines. ``line`` is the first of them, 0 where that says nothing;
    ``reason`` is why it is withheld, or in words why it can be seen."""

    place: str
    path: str
    kind: str
    line: int
    held: int
    of: int
    reason: str

    @property
    def is_whole(self) -> bool:
        """All lines stand there."""
        return Overlap(self.held, self.of).is_whole

    @property
    def is_avoidable(self) -> bool:
        """An agent can see it and need not."""
        return self.kind in AVOIDABLE

    def as_json(self) -> Json:
        """Return the record form (runs/schema/audit.json)."""
        return {**asdict(self), "whole": self.is_whole, "avoidable": self.is_avoidable}


@dataclass(frozen=True, slots=True)
class TaskAudit:
    """What was found for a task. ``unsearched`` says why packages were not looked at; ``left_out`` counts further places in
    packages."""

    id: str
    withheld: tuple[Place, ...]
    visible: tuple[Place, ...]
    unsearched: str = ""
    left_out: int = 0

    @property
    def avoidable(self) -> tuple[Place, ...]:
        """What must not be there."""
        return tuple(place for place in self.visible if place.is_avoidable)

    def as_json(self) -> Json:
        """Return the record form."""
        return {
            "id": self.id,
            "withheld": [place.as_json() for place in self.withheld],
            "visible": [place.as_json() for place in self.visible],
            "unsearched": self.unsearched,
            "left_out": self.left_out,
        }


def audit_paper(
    tasks: Sequence[Task], folder: Path, packages: PackageIndex | str, *, git: bool = True
) -> list[TaskAudit]:
    """Audit tasks of one paper, whose files lie in ``folder``; ``packages`` is their index, or why there is none.

    ``git`` makes each workspace's repository and looks into it; when a workspace is really made that is done anyway.
    """
    withheld = dict(_withheld_texts(tasks, folder))
    lines = {path: telling_lines(text) for path, text in withheld.items()}
    search = _PackageSearch(packages, tasks[0]) if isinstance(packages, PackageIndex) else None

    def audit(task: Task) -> TaskAudit:
        wanted = telling_lines(task.answer.gold)
        in_packages = search.find(wanted) if search else []
        visible = (
            *_find_visible(task, wanted),
            *(find_in_git(task, wanted) if git else ()),
            *in_packages[:MOST_PACKAGES],
        )
        left_out = max(0, len(in_packages) - MOST_PACKAGES)
        reason = packages if isinstance(packages, str) else ""
        return TaskAudit(task.id, tuple(_find_withheld(task, wanted, lines, withheld)), visible, reason, left_out)

    with ThreadPoolExecutor(os.cpu_count()) as pool:  # git is what takes the time
        return list(pool.map(audit, tasks))


def _withheld_texts(tasks: Sequence[Task], folder: Path) -> Iterator[tuple[str, str]]:
    kept = {file.path: file.text for task in tasks for file in (*task.answer.support, *task.answer.hidden)}
    for path in dict.fromkeys(item.path for task in tasks for item in task.withheld):
        text = kept[path] if path in kept else _read_text(folder / path)
        if text:
            yield path, text


def _read_text(path: Path) -> str:
    with suppress(OSError):
        if path.stat().st_size <= _LARGEST and not path.is_symlink():
            return path.read_text("utf-8", "replace")
    return ""


def _find_withheld(
    task: Task, wanted: frozenset[str], lines: Mapping[str, frozenset[str]], texts: Mapping[str, str]
) -> Iterator[Place]:
    for item in task.withheld:
        overlap = Overlap(len(wanted & lines.get(item.path, frozenset())), len(wanted))
        if overlap.is_copy:
            line = first_line_of(wanted, texts[item.path])
            yield Place("paper folder", item.path, "withheld", line, overlap.held, overlap.of, item.reason)


def _find_visible(task: Task, wanted: frozenset[str]) -> Iterator[Place]:
    """Look through the workspace with the paper in it."""
    annotated = {file.path for file in task.problem.files}
    paper = task.problem.paper.path if task.problem.paper else ""
    for path, data in exported_files(task.problem, "file").items():
        text = data.decode("utf-8", "replace")
        overlap = compare(wanted, text)
        if overlap.is_copy:
            kind = _kind_of(path, task, annotated, paper)
            line = first_line_of(wanted, text)
            yield Place("workspace", path, kind, line, overlap.held, overlap.of, _WHY[kind])


def _kind_of(path: str, task: Task, annotated: set[str], paper: str) -> str:
    if path == task.problem.path:
        return SAME_FILE
    return ANNOTATED if path in annotated else PAPER if path == paper else FILE


_WHY = {
    SAME_FILE: "stands outside the blank in the blank's own file: the paper's design",
    ANNOTATED: "is an annotated file of the paper, which every task of it shows",
    PAPER: "is the paper's text, which is the task",
    FILE: "is shown, although it is neither annotated nor the paper",
}


def find_in_git(task: Task, wanted: frozenset[str]) -> Iterator[Place]:
    """Look through the workspace's repository for anything that is not one of its files."""
    given = exported_files(task.problem, "file")
    known = set(given.values())
    for path, data in make_repository(given).items():
        body = _object_body(path, data)
        overlap = compare(wanted, body.decode("utf-8", "replace")) if body not in known else Overlap(0, len(wanted))
        if overlap.is_copy:
            yield Place("git", path, GIT, 0, overlap.held, overlap.of, "is no file of the workspace")


def _object_body(path: str, data: bytes) -> bytes:
    if path.startswith(".git/objects/"):
        with suppress(zlib.error):
            return object_body(data)[1]
    return data


class _PackageSearch:
    """Looks for lines in the packages of a paper's runtime."""

    def __init__(self, index: PackageIndex, task: Task) -> None:
        answer = task.answer
        prelude = SourceFile("prelude", answer.rules.prelude)
        self._index = index
        self._modules = imported_modules((*answer.files, *answer.support, *answer.hidden, prelude))
        self._needed = index.needed_by(self._modules)

    def find(self, wanted: frozenset[str]) -> list[Place]:
        """Return the files that hold at least half of the lines: those nobody needs first, then by lines held."""
        places = [
            self._place(path, Overlap(len(held), len(wanted)))
            for path, held in self._index.find(wanted).items()
            if Overlap(len(held), len(wanted)).is_copy
        ]
        return sorted(places, key=lambda place: (not place.is_avoidable, -place.held, place.path))

    def _place(self, path: str, overlap: Overlap) -> Place:
        owners = self._index.owners_of(path)
        needed = bool(self._needed & set(owners)) or top_name(path) in self._modules
        name = ", ".join(owners) or "no distribution"
        if needed:
            return Place("packages", path, PACKAGE, 0, overlap.held, overlap.of, f"{name}: the paper needs it")
        kind = UNNEEDED if overlap.held >= LEAST_UNNEEDED else PACKAGE
        return Place("packages", path, kind, 0, overlap.held, overlap.of, f"{name}: nothing of the paper needs it")


def by_paper(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Group tasks, in order."""
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.info.id, []).append(task)
    return groups
