"""Shows a run's rates by what its tasks are: venue, area, size, depth, kind of test, paper; or by kind of model.

Facts that the suite does not hold are ``unknown``, a group of its own. Groups are small and overlap with each other:
a difference between two of them is a hint, never a cause.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.errors import RcbAgentError
from rcb_agent.runs.base import Json
from rcb_agent.runs.compare_text import rate_text
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import visible
from rcb_agent.runs.summary import rows_of
from rcb_agent.scoring.metrics import Row, summarise
from rcb_agent.tasks.overlay import shipped_overlay
from rcb_agent.tasks.published import SUITE, load_published
from rcb_agent.tasks.suites import load_suite
from rcb_agent.tasks.weights import classify_weights

UNKNOWN = "unknown"
REFERENCE, CONSTANTS = "reference", "constants"
_SIZES = ((1, "1 line"), (2, "2"), (5, "3-5"), (10, "6-10"), (20, "11-20"), (50, "21-50"), (10**9, "over 50"))
_WITHOUT_REFERENCE = ("DyT", "fractalgen", "GMFlow", "REPA-E")
"""Papers of the benchmark whose tests compare with constants or closed forms, not with a reference implementation."""
_KEPT = ("trials", "tasks", "passed", "not_measured", "loc_total")
_RATES = ("pass_rate", "pass_rate_upper", "scaled_pass_rate", "scaled_pass_rate_upper")
_MOST_ARMS = 4

PaperFacts = Mapping[str, Mapping[str, str]]


def _paper_facts(suite: str) -> tuple[PaperFacts, str]:
    """Return paper -> venue, area and kind of tests, and why they are not known, if they are not."""
    if suite == SUITE:
        return {paper: _published_facts(paper) for paper in load_published().papers}, ""
    try:
        tasks = load_suite(suite).tasks
    except RcbAgentError as error:
        return {}, f"facts of the papers are unknown: {error}"
    return {
        task.info.id: {
            "venue": task.info.venue or UNKNOWN,
            "area": task.info.area or UNKNOWN,
            "tests": REFERENCE if len(task.answer.hidden) > 1 else CONSTANTS,
        }
        for task in tasks
    }, ""


def _published_facts(paper: str) -> Mapping[str, str]:
    keys, _ = shipped_overlay(SUITE).keys_of(paper)
    return {
        "venue": load_published().papers[paper].venue,
        "area": str(keys.get("area", UNKNOWN)),
        "tests": CONSTANTS if paper in _WITHOUT_REFERENCE else REFERENCE,
    }


def size_of(loc: int) -> str:
    """Return the name of the size group that a number of lines falls into."""
    return next(name for most, name in _SIZES if loc <= most)


def _groupings(facts: PaperFacts) -> Mapping[str, Callable[[Row], str]]:
    def of_paper(key: str) -> Callable[[Row], str]:
        return lambda row: facts.get(row.paper, {}).get(key, UNKNOWN)

    return {
        "venue": of_paper("venue"),
        "area": of_paper("area"),
        "tests": of_paper("tests"),
        "size": lambda row: size_of(row.loc),
        "depth": lambda row: f"{row.depth}" if row.depth else "0 (outermost)",
        "paper": lambda row: row.paper,
    }


BY = ("venue", "area", "size", "depth", "tests", "paper", "model")


def describe_breakdown(reader: RunReader, by: str) -> Json:
    """Return groups with the rates of each arm, scope diff; by model, arms are what is grouped."""
    grades = reader.grades()
    rows = {arm["id"]: rows_of(reader, arm["id"], "diff", grades) for arm in reader.config["arms"]}
    if by == "model":
        return {"run": reader.id, "by": by, "groups": _by_model(reader, rows), "remarks": [_MODELS]}
    facts, missing = _paper_facts(reader.config["suite"])
    group_of = _groupings(facts)[by]
    names = _ordered({group_of(row) for known in rows.values() for row in known}, by)
    groups = [
        _describe(name, {arm: [row for row in known if group_of(row) == name] for arm, known in rows.items()})
        for name in names
    ]
    return {
        "run": reader.id,
        "by": by,
        "groups": groups,
        "remarks": [line for line in (missing, _REMARKS.get(by, "")) if line],
    }


_MODELS = "open: weights could be downloaded in June 2025; known for the 32 published models, by any of their names"
_REMARKS: Mapping[str, str] = {
    "area": "areas of researchcodebench are ours, by what each paper is about: its authors published no list",
    "tests": "reference: hidden tests compare with a reference implementation; constants: with constants or closed forms",
    "size": "lines of the blank, as counted for the scaled rate",
    "depth": "how many other blanks a blank lies in; its lines count again in each of them",
}


def _ordered(names: Iterable[str], by: str) -> list[str]:
    """Sort groups: sizes by size, the others by name, what is not known last."""
    sizes = [name for _, name in _SIZES] if by == "size" else []
    return sorted(names, key=lambda name: (name == UNKNOWN, sizes.index(name) if sizes else 0, name))


def _describe(name: str, rows: Mapping[str, Sequence[Row]]) -> Json:
    first = next(iter(rows.values()), [])
    tasks = {row.task: row for row in first}
    return {
        "group": name,
        "tasks": len(tasks),
        "papers": len({row.paper for row in first}),
        "lines": sum(row.loc for row in tasks.values()),
        "arms": {arm: _rates(known) for arm, known in rows.items()},
    }


def _rates(rows: Sequence[Row]) -> Json:
    record = summarise(rows).as_json()
    return {key: record[key] for key in (*_KEPT, *_RATES)}


def _by_model(reader: RunReader, rows: Mapping[str, Sequence[Row]]) -> list[Json]:
    """Group arms by whether their model's weights are open; a rate is the mean over the arms of a group."""
    kinds: dict[str, list[str]] = {}
    for arm in reader.config["arms"]:
        kind = classify_weights(str(arm["options"].get("upstream_id", "")), arm["model"], arm["id"])
        kinds.setdefault(kind, []).append(arm["id"])
    return [
        {
            "group": kind,
            "arms": {arm: _rates(rows[arm]) for arm in kinds[kind]},
            "mean": {key: _mean(_rates(rows[arm])[key] for arm in kinds[kind]) for key in _RATES},
        }
        for kind in _ordered(kinds, "model")
    ]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def print_breakdown(console: Console, document: Json) -> None:
    """Print one line per group; more arms than can stand side by side are averaged."""
    title = f"{visible(document['run'])} · by {document['by']} (pass rate / scaled, in percent)"
    table = Table(title=Text(title), title_justify="left", padding=(0, 0), pad_edge=False)
    fill = _fill_models if document["by"] == "model" else _fill_groups
    fill(table, document["groups"], document["by"])
    console.print(table)
    for line in document["remarks"]:
        console.print(Text(visible(line)))


def _fill_groups(table: Table, groups: Sequence[Json], by: str) -> None:
    arms = list(groups[0]["arms"]) if groups else []
    side_by_side = len(arms) <= _MOST_ARMS
    table.add_column(by, overflow="fold")
    for name in ("tasks", "papers", "lines"):
        table.add_column(name, justify="right")
    for name in arms if side_by_side else [f"mean of {len(arms)} arms"]:
        table.add_column(Text(visible(name)), justify="right", overflow="fold")
    for group in groups:
        rates = list(group["arms"].values())
        shown = rates if side_by_side else [{key: _mean(rate[key] for rate in rates) for key in _RATES}]
        counts = [str(group[key]) for key in ("tasks", "papers", "lines")]
        table.add_row(Text(visible(group["group"])), *counts, *(_both(rate) for rate in shown))


def _fill_models(table: Table, groups: Sequence[Json], by: str) -> None:
    table.add_column(by)
    for name in ("arms", "mean pass rate", "mean scaled", "best scaled"):
        table.add_column(name, justify="right")
    for group in groups:
        best = max((rate["scaled_pass_rate"] or 0.0 for rate in group["arms"].values()), default=0.0)
        rates = [rate_text(group["mean"], key) for key in ("pass_rate", "scaled_pass_rate")]
        table.add_row(group["group"], str(len(group["arms"])), *rates, f"{best:.1f}")


def _both(rate: Json) -> str:
    return f"{rate_text(rate, 'pass_rate')} / {rate_text(rate, 'scaled_pass_rate')}"
