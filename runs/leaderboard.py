"""The published models and arms of runs in one document, each rate computed here from passes.

Nothing is compared over different tasks: an arm that covers only some tasks is ``partial``, and beside it stand the
published models over exactly those. Where there is no fair number, there is none, and the reason.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.config import cheats_of
from rcb_agent.runs.reader import GradeKey, RunReader, open_run
from rcb_agent.runs.setups import describe_setup
from rcb_agent.runs.summary import describe_grading, rows_of
from rcb_agent.scoring.base import FAILED, PASSED
from rcb_agent.scoring.intervals import BOOTSTRAP, plain_interval, scaled_interval
from rcb_agent.scoring.metrics import Row, outermost, summarise
from rcb_agent.tasks.contamination import safe_papers
from rcb_agent.tasks.cutoffs import Cutoff, find_cutoff, read_cutoff
from rcb_agent.tasks.published import HARD_SOLVED_BY, SUITE, Published, PublishedModel, load_published

Grades = dict[GradeKey, Json]

_KEPT = (
    "trials",
    "tasks",
    "passed",
    "not_measured",
    "loc_total",
    "pass_rate",
    "pass_rate_upper",
    "scaled_pass_rate",
    "scaled_pass_rate_upper",
    "form_only",
    "pass_rate_without_form",
    "scaled_pass_rate_without_form",
    "values_only",
    "pass_rate_without_values",
    "scaled_pass_rate_without_values",
)


@dataclass(frozen=True, slots=True)
class BoardRequest:
    """What the command line asks for. ``runs`` are RUN or RUN:ARM, ``cutoffs`` MODEL=DATE."""

    runs: tuple[str, ...] = ()
    results: Path = Path("results")
    sort: str = "scaled"
    developer: str | None = None
    top: int | None = None
    hard: bool = False
    safe: bool = False
    cutoffs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: what is known of a system, its rows, and the record fields that only it has."""

    id: str
    name: str
    developer: str
    cutoff: Cutoff | None
    rows: tuple[Row, ...]
    own: Mapping[str, Any] = field(default_factory=dict)
    blank: tuple[Row, ...] = ()

    def over(self, tasks: Iterable[str]) -> "Entry":
        """Return the entry with the rows of these tasks only."""
        wanted = frozenset(tasks)
        kept = [tuple(row for row in rows if row.task in wanted) for rows in (self.rows, self.blank)]
        return replace(self, rows=kept[0], blank=kept[1])


def make_board(request: BoardRequest) -> Json:
    """Return the document that ``--json`` prints. Raises UsageError for a run that does not belong here."""
    board = _Board(load_published(), request)
    models = [board.describe(entry) for entry in board.published()]
    arms = [board.describe_arm(entry) for entry in board.arms()]
    ranked = rank_records([record for record in models if record is not None], request.sort)
    return {
        "suite": SUITE,
        "source": dict(board.facts.source),
        **board.scope(),
        "bootstrap": BOOTSTRAP.as_json(),
        "sort": request.sort,
        "models": ranked[: request.top],
        "arms": rank_records([record for record in arms if record is not None], request.sort),
        "left_out": board.left_out,
    }


class _Board:
    """Which tasks are looked at, and which subsets of them."""

    def __init__(self, facts: Published, request: BoardRequest) -> None:
        self.facts, self.request = facts, request
        self.common = safe_papers(facts.papers.values(), facts.latest_cutoff)
        self.left_out: list[Json] = []
        self.cutoffs = _read_cutoffs(request.cutoffs)
        self.base = {
            task.id: task
            for task in facts.tasks.values()
            if (task.hard or not request.hard) and (task.paper in self.common or not request.safe)
        }

    def scope(self) -> Json:
        """Say which tasks are looked at, and how the subsets are made."""
        tasks = self.base.values()
        return {
            "only": [name for name in ("hard", "safe") if getattr(self.request, name)],
            "tasks": len(tasks),
            "papers": len({task.paper for task in tasks}),
            "lines": sum(task.loc for task in tasks),
            "outermost": {"tasks": sum(task.depth == 0 for task in tasks)},
            "safe": {
                "papers": sorted(self.common),
                "tasks": sum(task.paper in self.common for task in tasks),
                "cutoff": str(self.facts.latest_cutoff),
                "rule": "first-commit",
            },
            "hard": {
                "tasks": sum(task.hard for task in tasks),
                "solved_by": HARD_SOLVED_BY,
                "of": len(self.facts.models),
            },
        }

    def published(self) -> list[Entry]:
        """Return the published models that are wanted."""
        wanted = self.request.developer
        models = [m for m in self.facts.models if wanted is None or m.developer.casefold() == wanted.casefold()]
        if not models:
            known = ", ".join(sorted({model.developer for model in self.facts.models}))
            raise UsageError(f"--developer {wanted!r}: no published model is theirs; known: {known}")
        return [self._model_entry(model) for model in models]

    def _model_entry(self, model: PublishedModel) -> Entry:
        rows = tuple(
            Row(task.id, task.paper, task.loc, task.depth, PASSED if task.id in model.passed else FAILED)
            for task in self.base.values()
        )
        return Entry(model.id, model.pretty_name, model.developer, model.cutoff, rows)

    def arms(self) -> list[Entry]:
        """Return the arms of the runs that were named, each once."""
        found: dict[tuple[str, str], Entry] = {}
        for text in self.request.runs:
            reader, wanted = open_run(text, self.request.results)
            grades = reader.grades()
            for arm in reader.config["arms"]:
                if wanted in (None, arm["id"]) and cheats_of(arm):
                    self.left_out.append({"id": f"{reader.id}:{arm['id']}", "reason": "a cheater is never ranked"})
                elif wanted in (None, arm["id"]):
                    found.setdefault((str(reader.path.resolve()), arm["id"]), self._arm_entry(reader, grades, arm))
        return list(found.values())

    def _arm_entry(self, reader: RunReader, grades: Grades, arm: Json) -> Entry:
        diff, left = self._known(rows_of(reader, arm["id"], "diff", grades))
        blank, _ = self._known(rows_of(reader, arm["id"], "blank", grades))
        if not diff:
            raise UsageError(
                f"run {reader.id} is over suite {reader.config['suite']}: none of its tasks is one of {SUITE} (id and size)"
            )
        return Entry(
            id=f"{reader.id}:{arm['id']}",
            name=arm["id"],
            developer="",
            cutoff=self._arm_cutoff(arm),
            rows=diff,
            blank=blank,
            own={
                "run": reader.id,
                "arm": arm["id"],
                "agent": arm["agent"],
                "model": arm["model"],
                "setup": describe_setup(arm),
                "suite": reader.config["suite"],
                "mode": reader.config["mode"],
                "grading": describe_grading(reader.config),
                "sandbox": reader.config["sandbox"],
                "imported": reader.run.get("imported"),
                "tasks_unknown": left,
            },
        )

    def _known(self, rows: Iterable[Row]) -> tuple[tuple[Row, ...], int]:
        """Return the rows of tasks that are the benchmark's, by id and size, and the number of other tasks."""
        given = tuple(rows)
        sizes = {task.id: task.loc for task in self.facts.tasks.values()}
        known = tuple(row for row in given if sizes.get(row.task) == row.loc)
        return known, len({row.task for row in given}) - len({row.task for row in known})

    def _arm_cutoff(self, arm: Json) -> Cutoff | None:
        names = [arm["options"].get("upstream_id", ""), arm["model"], arm["id"]]
        for name in (*names, arm["model"].rpartition("/")[2]):
            if name in self.cutoffs:
                return self.cutoffs[name]
        return next((known.cutoff for name in names if (known := find_cutoff(name))), None)

    def describe_arm(self, entry: Entry) -> Json | None:
        """Return an arm's record; a partial one's with the published models over the same tasks."""
        covered = {row.task for row in entry.rows} & self.base.keys()
        if not covered:
            self._leave_out(entry, "it covers none of these tasks")
            return None
        record = self.describe(entry.over(covered))
        if record is None:
            return None
        partial = len(covered) < len(self.base)
        beside = [self.describe(model.over(covered)) for model in self.published()] if partial else []
        kept = rank_records([other for other in beside if other is not None], self.request.sort)
        return {
            **record,
            "partial": partial,
            "task_ids": sorted(covered) if partial else None,
            "published_over_same_tasks": kept[: self.request.top],
        }

    def describe(self, entry: Entry) -> Json | None:
        """Return an entry's record; None, and a line in ``left_out``, when only safe tasks count and none are."""
        reason = self._why_not_safe(entry.cutoff)
        if reason and self.request.safe:
            self._leave_out(entry, reason)
            return None
        safe = [row for row in entry.rows if row.paper in self.common]
        return {
            "id": entry.id,
            "pretty_name": entry.name,
            "developer": entry.developer,
            "cutoff": str(entry.cutoff) if entry.cutoff else None,
            **entry.own,
            **describe_rows(entry.rows),
            "outermost": describe_rows(outermost(entry.rows)),
            "safe": None if reason else describe_rows(safe),
            "safe_reason": reason,
            "hard": describe_rows(row for row in entry.rows if self.facts.tasks[row.task].hard),
            **({"blank_scope": describe_rows(entry.blank)} if entry.own else {}),
        }

    def _why_not_safe(self, cutoff: Cutoff | None) -> str:
        if cutoff is None:
            return "its cutoff is not known (--cutoff MODEL=DATE)"
        own = safe_papers(self.facts.papers.values(), cutoff)
        if self.common <= own:
            return ""
        if not own:
            return f"no paper is newer than its cutoff {cutoff}"
        return f"cutoff {cutoff}: it may have read {len(self.common - own)} of the {len(self.common)} papers"

    def _leave_out(self, entry: Entry, reason: str) -> None:
        self.left_out.append({"id": entry.id, "reason": reason})


def describe_rows(rows: Iterable[Row]) -> Json:
    """Return counts, both rates in percent and their intervals (null for fewer than two papers)."""
    kept = tuple(rows)
    summary = summarise(kept).as_json()
    plain, scaled = plain_interval(kept), scaled_interval(kept)
    return {
        **{key: summary[key] for key in _KEPT},
        "papers": len({row.paper for row in kept}),
        "interval": list(scaled) if scaled else None,
        "pass_rate_interval": list(plain) if plain else None,
    }


def _view(name: str) -> Callable[[Json], Any]:
    return lambda record: (record[name] or {}).get("scaled_pass_rate")


SORTS: Mapping[str, Callable[[Json], Any]] = {
    "scaled": lambda record: record["scaled_pass_rate"],
    "passed": lambda record: record["pass_rate"],
    "outermost": _view("outermost"),
    "safe": _view("safe"),
    "hard": _view("hard"),
    "name": lambda record: record["pretty_name"].casefold(),
    "developer": lambda record: record["developer"].casefold(),
    "cutoff": lambda record: record["cutoff"],
}
_ASCENDING = ("name", "developer", "cutoff")


def rank_records(records: list[Json], sort: str) -> list[Json]:
    """Sort by a key, what has none last; equals by scaled rate, then by id."""
    ranked = sorted(records, key=lambda record: (-(record["scaled_pass_rate"] or 0), record["id"]))
    known = [record for record in ranked if SORTS[sort](record) is not None]
    rest = [record for record in ranked if SORTS[sort](record) is None]
    return sorted(known, key=SORTS[sort], reverse=sort not in _ASCENDING) + rest


def _read_cutoffs(texts: Iterable[str]) -> dict[str, Cutoff]:
    found: dict[str, Cutoff] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        try:
            found[name] = read_cutoff(value)
        except ValueError as error:
            raise UsageError(f"--cutoff {text!r}: is not MODEL=DATE: {error}") from None
    return found
