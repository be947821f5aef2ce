"""Carries out ``tasks list``: which tasks a suite has, filtered, with their dates and what a cutoff says of them."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

from rcb_agent.errors import TaskError, UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.screen import open_console, visible
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.contamination import ARXIV, FIRST_COMMIT, RULES, SAFE, classify, dates_of
from rcb_agent.tasks.cutoffs import Cutoff, resolve_cutoff
from rcb_agent.tasks.published import load_published
from rcb_agent.tasks.suites import LoadedSuite, load_suite, select_tasks

Options = Mapping[str, Any]


def print_tasks(options: Options) -> int:
    """List tasks; returns the exit code (3 when a paper of the suite is faulty)."""
    suite = load_suite(options["suite"])
    cutoff = resolve_cutoff(options["safe_for"]) if options["safe_for"] else load_published().latest_cutoff
    tasks = select_tasks(suite, options["patterns"]) if suite.tasks else ()
    rows = _filter([_task_row(task, cutoff) for task in tasks], options)
    _PRINTERS[_form(options)](suite, rows, cutoff)
    for fault in suite.faults:
        sys.stderr.write(f"rcb-agent: warning: paper left out: {visible(str(fault))}\n")
    if not rows and tasks:
        sys.stderr.write("rcb-agent: warning: no task is left by these filters\n")
    return 3 if suite.faults else 0


def _form(options: Options) -> str:
    if options["as_json"] and options["ids"]:
        raise UsageError("--json and --ids: choose one")
    return "json" if options["as_json"] else "ids" if options["ids"] else "table"


def _task_row(task: Task, cutoff: Cutoff) -> Json:
    published = load_published().tasks.get(task.id)
    same = published if published and published.loc == task.problem.loc else None
    dates = dates_of(task.info)
    return {
        "id": task.id,
        "paper": task.info.id,
        "loc": task.problem.loc,
        "depth": task.depth,
        "parent": task.parent,
        "file": task.problem.path,
        "runtime": task.problem.runtime,
        "venue": task.info.venue,
        "area": task.info.area,
        "first_commit": dates.first_commit or None,
        "arxiv_v1": dates.arxiv_v1 or None,
        "contamination": {rule: classify(dates, cutoff, rule) for rule in RULES},
        "solved_by": same.solved_by if same else None,
        "hard": same.hard if same else None,
    }


def _filter(rows: list[Json], options: Options) -> list[Json]:
    kept = rows
    for keep in _wanted(rows, options):
        kept = [row for row in kept if keep(row)]
    return kept


def _wanted(rows: list[Json], options: Options) -> Iterable[Callable[[Json], bool]]:
    """Yield what a row must be. Raises UsageError or TaskError for what no task of the suite can be."""
    if options["venue"]:
        yield _of_venue(rows, options["venue"])
    if options["max_loc"] is not None:
        yield lambda row: row["loc"] <= options["max_loc"]
    if options["outermost"]:
        yield lambda row: row["depth"] == 0
    if options["safe_for"]:
        yield lambda row: row["contamination"][options["rule"]] == SAFE
    if options["since"]:
        since = _read_day(options["since"])
        yield lambda row: (row["first_commit"] or "") >= since
    if options["hard"]:
        if not any(row["hard"] is not None for row in rows):
            raise TaskError("--hard: no task of this suite is one of researchcodebench's, whose results say which are")
        yield lambda row: bool(row["hard"])


def _of_venue(rows: list[Json], wanted: tuple[str, ...]) -> Callable[[Json], bool]:
    """Return a test for any of the words, as part of the venue: a typing mistake must not give an empty list."""
    known = sorted({row["venue"] for row in rows})
    words = [_plain(word) for word in wanted]
    for word, plain in zip(wanted, words, strict=True):
        if not any(plain in _plain(venue) for venue in known):
            raise TaskError(f"--venue {word!r}: no paper has it; there are {', '.join(filter(None, known)) or 'none'}")
    return lambda row: any(plain in _plain(row["venue"]) for plain in words)


def _plain(text: str) -> str:
    return "".join(text.split()).casefold()


def _read_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"--since {text!r}: is no date like 2025-02-01") from None


def _print_json(suite: LoadedSuite, rows: list[Json], cutoff: Cutoff) -> None:
    faults = [asdict(fault) for fault in suite.faults]
    document = {"suite": suite.name, "version": suite.version, "cutoff": str(cutoff), "tasks": rows, "faults": faults}
    sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")


def _print_ids(_suite: LoadedSuite, rows: list[Json], _cutoff: Cutoff) -> None:
    sys.stdout.write("".join(f"{row['id']}\n" for row in rows))


def _print_table(suite: LoadedSuite, rows: list[Json], cutoff: Cutoff) -> None:
    from rich.table import Table
    from rich.text import Text

    caption = f"{visible(suite.name)}, version {visible(suite.version) or 'not said'}: {len(rows)} tasks, {len({r['paper'] for r in rows})} papers, {sum(r['loc'] for r in rows)} lines"
    if len(rows) < len(suite.tasks):
        caption += f", of {len(suite.tasks)} tasks"
    dated = any(row["first_commit"] for row in rows)
    if dated:
        caption += (
            f"\ncommit, arXiv: by the first commit, and by arXiv's first version, for a model with cutoff {cutoff}: "
            "safe, unsafe or unknown"
        )
    table = Table(caption=caption, caption_justify="left")
    for name, right in (_DATED if dated else _COLUMNS).items():
        table.add_column(name, overflow="fold", justify="right" if right else "left")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in _cells(row, dated=dated)))
    open_console().print(table)


_COLUMNS = {"task": False, "file": False, "lines": True, "depth": True}
_DATED = {
    **{name: right for name, right in _COLUMNS.items() if name != "file"},
    **dict.fromkeys(("venue", "area", "first commit", "commit", "arXiv"), False),
}


def _cells(row: Json, *, dated: bool) -> list[str]:
    size = [str(row["loc"]), str(row["depth"])]
    if not dated:
        return [row["id"], row["file"], *size]
    classes = [row["contamination"][rule] for rule in (FIRST_COMMIT, ARXIV)]
    return [row["id"], *size, row["venue"], row["area"], row["first_commit"] or "", *classes]


_PRINTERS: Mapping[str, Callable[[LoadedSuite, list[Json], Cutoff], None]] = {
    "json": _print_json,
    "ids": _print_ids,
    "table": _print_table,
}
