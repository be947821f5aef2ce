"""What people see of a validation: a bar while it goes on, then counts by paper and every task that is not sound."""

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from rcb_agent.runs.base import Json
from rcb_agent.runs.screen import visible
from rcb_agent.runs.soundness import SOUND
from rcb_agent.runs.validation import VERDICTS
from rcb_agent.scoring.base import NOT_MEASURED

_MOST_SURVIVORS = 3


class ValidationWatch:
    """Shows progress on standard error: a bar on a terminal, a line per task elsewhere."""

    def __init__(self, total: int) -> None:
        self._console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._bar: Any = self._progress.add_task("validating", total=total)
        self._total, self._done = total, 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def done(self, record: Json) -> None:
        """Count a task."""
        self._done += 1
        self._progress.update(self._bar, completed=self._done)
        if not self._console.is_terminal:
            text = f"[{self._done}/{self._total}] {record['id']}: {record['verdict']}"
            self._console.print(Text(visible(text)), soft_wrap=True)


def print_document(document: Json, console: Console) -> None:
    """Print counts by paper, then each task that is not sound with what passed in place of its gold code."""
    console.print(_paper_table(document))
    odd = [record for record in document["tasks"] if record["verdict"] != SOUND]
    if odd:
        console.print(_task_table(odd))
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in document["verdicts"].items() if count)
    console.print(
        f"{len(document['tasks'])} tasks: {counts}; {document['seconds']:.0f} s, {document['cached']} from the cache. "
        f"Survivors as diffs: --json, or {document['records']}",
        soft_wrap=True,
        highlight=False,
    )


def _paper_table(document: Json) -> Table:
    names = (*VERDICTS, NOT_MEASURED)
    table = Table(title=f"{visible(document['suite'])}: what its hidden tests are worth", title_justify="left")
    table.add_column("paper", overflow="fold")
    for name in (*(name.replace("_", " ") for name in names), "mutants killed", "gold, s"):
        table.add_column(name, justify="right")
    for paper in dict.fromkeys(record["paper"] for record in document["tasks"]):
        own = [record for record in document["tasks"] if record["paper"] == paper]
        counts = [str(sum(record["verdict"] == name for record in own) or "") for name in names]
        made = sum(record["tried"]["mutant"] for record in own)
        alive = sum(one["kind"] == "mutant" for record in own for one in record["survivors"])
        seconds = max(record["gold"]["seconds"] for record in own)
        table.add_row(Text(visible(paper)), *counts, f"{made - alive}/{made}", f"{seconds:.2f}")
    return table


def _task_table(records: list[Json]) -> Table:
    table = Table(title="not sound", title_justify="left")
    table.add_column("task", overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("what passed, or why", overflow="fold")
    for record in records:
        table.add_row(Text(visible(record["id"])), record["verdict"].replace("_", " "), Text(visible(_why(record))))
    return table


def _why(record: Json) -> str:
    if record["message"]:
        return " ".join(record["message"].split())[:200]
    shown = [f"{one['kind']}: {one['description']}" for one in record["survivors"][:_MOST_SURVIVORS]]
    more = len(record["survivors"]) - len(shown)
    return "\n".join([*shown, *([f"and {more} more"] if more else [])])
