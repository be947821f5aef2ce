"""Shows the leaderboard: one table of what covers all tasks, one more per set of tasks that only some arms cover."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.environments.registry import is_isolated
from rcb_agent.runs.base import Json
from rcb_agent.runs.latex import LatexTable, write_latex
from rcb_agent.runs.leaderboard import BoardRequest, make_board, rank_records
from rcb_agent.runs.output import Forms, write_document
from rcb_agent.runs.screen import NO_ISOLATION, visible
from rcb_agent.runs.setups import setup_line
from rcb_agent.scoring.base import UNPROTECTED

_NAME_WIDTH = 33


def show_board(options: Mapping[str, Any]) -> None:
    """Print the leaderboard as tables, as one JSON document or as CSV."""
    names = ("results", "sort", "developer", "top", "hard", "safe")
    request = BoardRequest(runs=options["runs"], cutoffs=options["cutoffs"], **{name: options[name] for name in names})
    document = make_board(request)
    forms = Forms(
        screen=lambda console: _print_tables(console, document),
        csv=lambda: _csv_rows(document),
        latex=lambda: _latex(document),
    )
    write_document(document, forms, options)


def _print_tables(console: Console, document: Json) -> None:
    whole = [arm for arm in document["arms"] if not arm["partial"]]
    title = " · ".join([document["suite"], *(f"{name} only" for name in document["only"])])
    records = rank_records([*document["models"], *whole], document["sort"])
    console.print(_table(f"{title} · {document['tasks']} tasks, {document['lines']} lines", records))
    partial = [arm for arm in document["arms"] if arm["partial"]]
    for alike in _group(partial):
        first = alike[0]
        words = f"partial: {first['tasks']} of {document['tasks']} tasks, {first['loc_total']} lines"
        records = rank_records([*first["published_over_same_tasks"], *alike], document["sort"])
        console.print(_table(words, records))
    for line in _notes(document):
        console.print(Text(visible(line)), soft_wrap=True)


def _group(arms: Iterable[Json]) -> list[list[Json]]:
    """Put arms over the same tasks together."""
    groups: dict[str, list[Json]] = {}
    for arm in arms:
        groups.setdefault(json.dumps(arm["task_ids"]), []).append(arm)
    return list(groups.values())


def _table(title: str, records: Iterable[Json]) -> Table:
    table = Table(title=visible(title), title_justify="left", padding=(0, 0), pad_edge=False)
    table.add_column("model, > arm, ~ imported arm", max_width=_NAME_WIDTH, overflow="fold")
    for name in ("passed", "pass rate", "scaled [95%]", "outer", "safe", "hard"):
        table.add_column(name, justify="right")
    for record in records:
        table.add_row(
            _name(record),
            f"{record['passed']}/{record['trials']}",
            _rate(record, "pass_rate"),
            _interval(record),
            *(_rate(record[view], "scaled_pass_rate") for view in ("outermost", "safe", "hard")),
        )
    return table


def _name(record: Json) -> Text:
    name = visible(record["pretty_name"])
    return Text(f"{_mark(record)} {name}", "bold") if "arm" in record else Text(name)


def _mark(arm: Json) -> str:
    return "~" if arm["imported"] else ">"


def _rate(view: Json | None, key: str) -> str:
    if view is None or view[key] is None:
        return "-"
    low, high = view[key], view[f"{key}_upper"]
    return f"{low:.1f}" if high == low else f"{low:.1f}..{high:.1f}"


def _interval(record: Json) -> str:
    rate = _rate(record, "scaled_pass_rate")
    if record["interval"] is None:
        return rate
    low, high = record["interval"]
    return f"{rate} [{low:4.1f}, {high:4.1f}]"


_LEGEND = """\
In percent. scaled: weighted by lines, with its 95% interval over papers ({draws[resamples]:,} resamples, seed {draws[seed]});
outer, safe, hard: scaled, over parts. outer: blanks that lie in no other ({outermost} tasks). safe: the {papers} papers whose
code is newer than the latest cutoff of a published model, {safe[cutoff]} ({safe[tasks]} tasks). hard: the {hard[tasks]} tasks that at most
{hard[solved_by]} of the {hard[of]} published models solved: chosen by their failures, so lower for them than for others.
Published: one completion per task, the benchmark's own prompt and pass rule; rates recomputed from its passes."""


def _notes(document: Json) -> list[str]:
    """What a reader of the numbers must know beside them."""
    draws, safe, hard = document["bootstrap"], document["safe"], document["hard"]
    counts = {"papers": len(safe["papers"]), "outermost": document["outermost"]["tasks"]}
    lines = _LEGEND.format(draws=draws, safe=safe, hard=hard, **counts).splitlines()
    lines += _arm_lines(document["arms"])
    return [*lines, *(f"left out: {item['id']}: {item['reason']}" for item in document["left_out"])]


def _arm_lines(arms: Iterable[Json]) -> list[str]:
    """Return a line per arm, or per run whose arms have the same to be said of them."""
    alike: dict[tuple[str, str], list[str]] = {}
    for arm in arms:
        alike.setdefault((arm["run"], _arm_note(arm)), []).append(f"{_mark(arm)} {arm['arm']}")
    return [
        f"{names[0] if len(names) == 1 else f'{len(names)} arms'} of run {run}: {note}"
        for (run, note), names in alike.items()
    ]


def _arm_note(arm: Json) -> str:
    remarks = _conditions(arm)
    if arm["partial"]:
        remarks.append(
            f"covers {arm['tasks']} tasks of {arm['papers']} papers, beside the published models over the same"
        )
    if arm["tasks_unknown"]:
        remarks.append(f"{arm['tasks_unknown']} tasks that are not the benchmark's, by id and size, are left out")
    if arm["not_measured"]:
        remarks.append(f"{arm['not_measured']} trials not measured (lower .. upper rate)")
    if arm["model"] == "none":
        remarks.append("a control, no model")
    elif arm["safe_reason"]:
        remarks.append(f"no safe rate: {arm['safe_reason']}")
    if arm["model"].startswith("scripted"):
        remarks.append("scripted, not a language model")
    return "; ".join(remarks)


def _conditions(arm: Json) -> list[str]:
    if arm["imported"]:
        return [f"imported from {arm['imported']['file']}, not measured by rcb-agent"]
    remarks = [f"scope diff, mode {arm['mode']}{' (unprotected)' if arm['mode'] in UNPROTECTED else ''}"]
    if not is_isolated(arm["sandbox"]):
        remarks.append(f"sandbox {arm['sandbox']}: not isolated, {NO_ISOLATION}")
    if words := setup_line(arm["setup"]):
        remarks.append(words)
    return remarks


_CSV = (
    *("kind", "over", "id", "name", "developer", "cutoff", "trials", "tasks", "papers", "lines", "passed"),
    *("not_measured", "pass_rate", "scaled_pass_rate", "low", "high", "outermost", "safe", "hard"),
    *("sandbox", "grading", "protected"),
)


def _csv_rows(document: Json) -> Iterable[Sequence[Any]]:
    """Yield a line per model and arm; ``over`` names the partial arm whose tasks a line is about."""
    yield _CSV
    for record in document["models"]:
        yield _csv_row("published", "", record)
    for arm in document["arms"]:
        over = arm["id"] if arm["partial"] else ""
        yield _csv_row("imported" if arm["imported"] else "arm", over, arm)
        for record in arm["published_over_same_tasks"]:
            yield _csv_row("published", over, record)


def _csv_row(kind: str, over: str, record: Json) -> list[Any]:
    keys = ("id", "pretty_name", "developer", "cutoff", "trials", "tasks", "papers", "loc_total", "passed")
    values = [record[key] for key in (*keys, "not_measured", "pass_rate", "scaled_pass_rate")]
    views = [(record[view] or {}).get("scaled_pass_rate") for view in ("outermost", "safe", "hard")]
    grading = record.get("grading", {})
    conditions = [record.get("sandbox"), grading.get("mode"), grading.get("protected")]
    return [kind, over, *values, *(record["interval"] or (None, None)), *views, *conditions]


def _latex(document: Json) -> str:
    """Return a table of what covers all tasks, and one per set of tasks that only some arms cover."""
    whole = [arm for arm in document["arms"] if not arm["partial"]]
    tables = [_latex_table(document, rank_records([*document["models"], *whole], document["sort"]), "leaderboard")]
    for place, alike in enumerate(_group([arm for arm in document["arms"] if arm["partial"]]), 1):
        records = rank_records([*alike[0]["published_over_same_tasks"], *alike], document["sort"])
        tables.append(_latex_table(document, records, f"leaderboard-partial-{place}"))
    return write_latex(tables)


def _latex_table(document: Json, records: Sequence[Json], label: str) -> LatexTable:
    first, draws = records[0], document["bootstrap"]
    rows = [
        [
            f"{record['pretty_name']}{' (arm)' if 'arm' in record else ''}",
            f"{record['passed']}/{record['trials']}",
            _rate(record, "pass_rate"),
            " ".join(_interval(record).split()),
            *(_rate(record[view], "scaled_pass_rate") for view in ("outermost", "safe", "hard")),
        ]
        for record in records
    ]
    only = "".join(f", {name} only" for name in document["only"])
    return LatexTable(
        caption=f"{document['suite']}{only}: {first['tasks']} tasks, {first['loc_total']} lines; rates in percent",
        label=f"tab:{label}",
        heads=("Model", "Passed", "Pass rate", "Scaled [95 %]", "Outermost", "Safe", "Hard"),
        align="lrrrrrr",
        groups=[rows],
        notes=(
            "Scaled: weighted by lines, with its interval over papers",
            f"({draws['resamples']} resamples, seed {draws['seed']}); outermost, safe, hard: scaled, over parts.",
            *(f"{line}." for line in _arm_lines(record for record in records if "arm" in record)),
        ),
    )
