"""Carries out ``tasks audit``, and the audit that each run makes of its tasks and keeps beside its records.

What was found for a paper is kept under a hash of its tasks, its folder and its runtime's packages, so that it is looked for once.
"""

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.package_index import PackageIndex, index_folder, index_packages, is_indexed, top_name
from rcb_agent.errors import EnvironmentFault, TaskError, UsageError
from rcb_agent.runs.audit import PACKAGE, audit_paper, by_paper
from rcb_agent.runs.base import SCHEMA_VERSION, Json
from rcb_agent.runs.pythons import choose_pythons, runtimes_of
from rcb_agent.runs.screen import open_console, visible
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.cache import cache_folder
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

VERSION = 1
"""Goes up with every change of what is found or how it is written down: audits that are kept are made anew."""
LEAKS = 3
"""Exit code: a copy that could have been withheld, or a paper that cannot be read."""

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages of one runtime: ``index`` with the key of its state, or why they were not searched."""

    digest: str
    key: str
    index: PackageIndex | str


def print_audit(options: Options) -> int:
    """Carry out the command; returns its exit code."""
    suite = load_suite(options["suite"])
    tasks = select_tasks(suite, options["patterns"]) if suite.tasks else ()
    document = audit_suite(suite, tasks, open_packages(tasks, options["pythons"]), git=True)
    if options["as_json"]:
        sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
    else:
        _print_tables(suite, document)
    for fault in suite.faults:
        sys.stderr.write(f"rcb-agent: warning: paper left out: {visible(str(fault))}\n")
    return LEAKS if suite.faults or avoidable_lines(document) else 0


def audit_run(suite: LoadedSuite, tasks: Sequence[Task], runtimes: Mapping[str, Runtime], *, allow: bool) -> Json:
    """Audit what a run is about. Raises TaskError for a copy that could have been withheld and was not, unless allowed."""
    packages = {name: index_runtime(runtime) for name, runtime in runtimes.items()}
    document = {**audit_suite(suite, tasks, packages, git=False), "allow_leaks": allow}
    if (leaks := avoidable_lines(document)) and not allow:
        more = f" (and {len(leaks) - 1} more: `rcb-agent tasks audit --suite {suite.name}`)" if len(leaks) > 1 else ""
        raise TaskError(f"{leaks[0]}{more}: take the copy away, or run with --allow-leaks, which stands in the record")
    return document


def open_packages(tasks: Sequence[Task], words: Sequence[str]) -> dict[str, Packages]:
    """Index the packages of all runtimes that tasks need; one that is not built is said, not skipped.

    Raises EnvironmentFault for a Python that somebody named and that does not run.
    """
    from rcb_agent.environments.runtimes import load_runtime

    pythons = choose_pythons(words, tasks)
    found: dict[str, Packages] = {}
    for name in runtimes_of(tasks):
        try:
            found[name] = index_runtime(load_runtime(name, pythons.get(name)))
        except (EnvironmentFault, UsageError) as fault:
            if name in pythons:
                raise
            found[name] = Packages("", "", f"packages not searched: {fault}")
    return found


def index_runtime(runtime: Runtime) -> Packages:
    """Return the packages of a runtime, saying so when their index has to be made."""
    if not is_indexed(runtime):
        sys.stderr.write(f"rcb-agent: reading the packages of {runtime.name} (once)\n")
    return Packages(runtime.digest, index_folder(runtime).name, index_packages(runtime))


def audit_suite(suite: LoadedSuite, tasks: Sequence[Task], packages: Mapping[str, Packages], *, git: bool) -> Json:
    """Return the audit of some tasks of a suite (runs/schema/audit.json); ``git`` looks into repositories too."""
    wanted = {task.id for task in tasks}
    papers = {task.info.id for task in tasks}
    found: dict[str, Json] = {}
    for paper, group in by_paper(suite.tasks).items():
        if paper in papers:
            found |= {one["id"]: one for one in _audit_once(group, suite.root / paper, packages, git=git)}
    return {
        "schema_version": SCHEMA_VERSION,
        "suite": suite.name,
        "suite_version": suite.version,
        "git": git,
        "tasks": [found[task.id] for task in suite.tasks if task.id in wanted],
        "runtimes": [_describe(name, one) for name, one in sorted(packages.items())],
    }


def _describe(name: str, packages: Packages) -> Json:
    why = packages.index if isinstance(packages.index, str) else ""
    return {"name": name, "digest": packages.digest, "searched": not why, "why": why}


def _audit_once(tasks: Sequence[Task], folder: Path, packages: Mapping[str, Packages], *, git: bool) -> list[Json]:
    """Audit all tasks of a paper, or read what is kept; an audit with git serves where one without is asked for."""
    own = packages[tasks[0].problem.runtime]
    facts = [VERSION, [task.digest for task in tasks], _folder_state(folder), own.key or own.index]
    for looked in (True,) if git else (True, False):
        if (kept := _read_kept(_kept_path(facts, git=looked))) is not None:
            return kept
    audits = [one.as_json() for one in audit_paper(tasks, folder, own.index, git=git)]
    _keep(_kept_path(facts, git=git), audits)
    return audits


def _folder_state(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a paper folder: of files that no task holds, nothing else says that they changed."""
    found = [(path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [(path.relative_to(folder).as_posix(), state.st_size, state.st_mtime_ns) for path, state in found]


def _kept_path(facts: list[Any], *, git: bool) -> Path:
    key = hashlib.sha256(json.dumps([facts, git]).encode()).hexdigest()
    return cache_folder() / "audits" / f"{key}.json"


def _read_kept(path: Path) -> list[Json] | None:
    with suppress(OSError, ValueError):
        kept = json.loads(path.read_text("utf-8"))
        if isinstance(kept, list):
            return kept
    return None


def _keep(path: Path, audits: list[Json]) -> None:
    with suppress(OSError):  # a cache that cannot be written only costs time
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.part")
        draft.write_text(json.dumps(audits))
        draft.replace(path)


def avoidable_lines(document: Json) -> list[str]:
    """Say, one line each, which copies an agent could see and need not."""
    return [
        f"{task['id']}: the answer can be copied from {place['path']} ({place['place']}; {place['held']} of its "
        f"{place['of']} lines; {place['reason']})"
        for task in document["tasks"]
        for place in task["visible"]
        if place["avoidable"]
    ]


def _print_tables(suite: LoadedSuite, document: Json) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in ("paper", "file", "what", "whole", ">= 50 %", "tasks"):
        table.add_column(name, overflow="fold", justify="left" if name in ("paper", "file", "what") else "right")
    for row in _file_rows(suite, document):
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = open_console()
    if table.row_count:
        console.print(table)
    console.print(_sum_up(document), soft_wrap=True, highlight=False)
    for runtime in document["runtimes"]:
        if runtime["why"]:
            sys.stderr.write(f"rcb-agent: warning: runtime {runtime['name']}: {visible(runtime['why'])}\n")
    for line in avoidable_lines(document):
        sys.stderr.write(f"rcb-agent: avoidable: {visible(line)}\n")


def _file_rows(suite: LoadedSuite, document: Json) -> Iterable[tuple[str, ...]]:
    """Yield a line per paper and file (or package): in how many of its tasks the answer stands there, whole or by half."""
    paper_of = {task.id: task.info.id for task in suite.tasks}
    sizes = Counter(paper_of[task["id"]] for task in document["tasks"])
    whole: dict[tuple[str, str, str], set[str]] = {}
    half: dict[tuple[str, str, str], set[str]] = {}
    for task in document["tasks"]:
        for place in (*task["withheld"], *task["visible"]):
            key = (paper_of[task["id"]], _label(place), _state(place))
            half.setdefault(key, set()).add(task["id"])
            whole.setdefault(key, set()).update([task["id"]] if place["whole"] else [])
    for key, tasks in half.items():
        yield (*key, str(len(whole[key])), str(len(tasks)), str(sizes[key[0]]))


def _label(place: Json) -> str:
    """A file that needs no action is one of many in its package; one that could be taken away is named."""
    if place["place"] == "packages" and not place["avoidable"]:
        return f"{top_name(place['path'])}/ (package)"
    return str(place["path"])


def _state(place: Json) -> str:
    if place["kind"] == "withheld":
        held = place["reason"].startswith("holds ")
        return "withheld: holds the answer" if held else f"withheld: {place['reason']}"
    return f"{place['kind']}: {place['reason']}" if place["kind"] == PACKAGE or place["avoidable"] else place["kind"]


def _sum_up(document: Json) -> str:
    tasks = document["tasks"]
    counts = {
        "with a copy withheld": sum(bool(task["withheld"]) for task in tasks),
        "with a copy that stays visible": sum(bool(task["visible"]) for task in tasks),
        "with one that could have been withheld": sum(
            any(place["avoidable"] for place in task["visible"]) for task in tasks
        ),
        "whose packages were not searched": sum(bool(task["unsearched"]) for task in tasks),
    }
    return f"{len(tasks)} tasks: " + ", ".join(f"{count} {what}" for what, count in counts.items())
