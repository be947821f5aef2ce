"""Shows a comparison: sentences on top, then who, what it took, the differences, and what a reader must know."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.runs.base import Json
from rcb_agent.runs.compare import CompareRequest, make_comparison
from rcb_agent.runs.compare_tables import compare_latex, csv_rows
from rcb_agent.runs.compare_text import difference_text, number, rate_text, view_name
from rcb_agent.runs.compare_words import ALIKE, DIFFERENT, format_p
from rcb_agent.runs.output import Forms, write_document
from rcb_agent.runs.screen import visible

_NAME_WIDTH = 26
_MOST_SENTENCES = 6


def show_comparison(options: Mapping[str, Any]) -> None:
    """Print a comparison of the arms that the options name."""
    request = CompareRequest(
        arms=options["arms"], results=options["results"], against=options["against"] or "", force=options["force"]
    )
    document = make_comparison(request)
    forms = Forms(
        screen=lambda console: print_comparison(console, document),
        csv=lambda: csv_rows(document),
        latex=lambda: compare_latex(document),
    )
    write_document(document, forms, options)


def print_comparison(console: Console, document: Json) -> None:
    """Print sentences, tables, remarks."""
    for line in list_sentences(document):
        console.print(Text(visible(line), style="bold"))
    console.print()
    console.print(_arms_table(document["arms"]))
    if any(value is not None for arm in document["arms"] for value in arm["effort"].values()):
        console.print(_effort_table(document["arms"]))
    else:
        console.print("what it took: unknown of all of these arms")
    if document["arms"][0]["pass_at_k"]:
        console.print(_pass_at_k_table(document["arms"]))
    pairs = document["pairs"]
    if len(pairs) == 1:
        _print_pair(console, pairs[0], document)
    else:
        console.print(_pairs_table(pairs))
        console.print(_views_table(pairs))
    for line in _notes(document):
        console.print(Text(visible(line)))


def list_sentences(document: Json) -> list[str]:
    """Return what was found in plain words: of every pair, or, of many, of those that differ, with a count of the rest."""
    pairs = document["pairs"]
    if len(pairs) <= _MOST_SENTENCES:
        return [pair["sentence"] for pair in pairs]
    kinds = [pair["verdict"] for pair in pairs]
    differ = kinds.count(DIFFERENT)
    told = f"Of {len(pairs)} pairs {differ} differ, {kinds.count(ALIKE)} cannot be told apart"
    rest = len(pairs) - differ - kinds.count(ALIKE)
    summary = told + (f", {rest} neither: not settled, not measured, or no spread between papers." if rest else ".")
    return [summary, *(pair["sentence"] for pair in pairs if pair["verdict"] == DIFFERENT)][: _MOST_SENTENCES + 1]


def _plain_table(title: str, heads: Sequence[str], left: int = 1) -> Table:
    table = Table(title=Text(visible(title)), title_justify="left", padding=(0, 0), pad_edge=False)
    for place, head in enumerate(heads):
        if place < left:
            table.add_column(head, max_width=_NAME_WIDTH, overflow="fold")
        else:
            table.add_column(head, justify="right", overflow="fold")
    return table


def _arms_table(arms: Iterable[Json]) -> Table:
    table = _plain_table("arms", ("arm", "passed", "pass rate", "scaled", "outer", "blank", "blank outer"))
    for arm in arms:
        diff, blank = arm["scopes"]["diff"], arm["scopes"]["blank"]
        table.add_row(
            Text(visible(arm["id"])),
            _passed(diff["all"]),
            rate_text(diff["all"], "pass_rate"),
            rate_text(diff["all"], "scaled_pass_rate"),
            rate_text(diff["outermost"], "scaled_pass_rate"),
            rate_text(blank["all"], "scaled_pass_rate"),
            rate_text(blank["outermost"], "scaled_pass_rate"),
        )
    return table


def _passed(view: Json) -> str:
    missing = f" ({view['not_measured']} n/m)" if view["not_measured"] else ""
    return f"{view['passed']}/{view['trials']}{missing}"


def _effort_table(arms: Iterable[Json]) -> Table:
    heads = ("arm", "cost $", "tokens", "seconds", "steps", "$/line", "tok/line", "s/line", "steps/line")
    table = _plain_table("what it took, and per solved line (? = unknown, - = nothing solved)", heads)
    for arm in arms:
        effort, each = arm["effort"], arm["per_solved_line"]
        solved = arm["scopes"]["diff"]["all"]["passed"] > 0
        cells = [number(effort[key], digits) for key, digits in _EFFORT]
        cells += [number(each[key], digits) if solved else "-" for key, digits in _EACH]
        table.add_row(Text(visible(arm["id"])), *cells)
    return table


_EFFORT = (("cost", 2), ("tokens", 0), ("seconds", 0), ("steps", 0))
_EACH = (("cost", 4), ("tokens", 0), ("seconds", 1), ("steps", 1))


def _pass_at_k_table(arms: Sequence[Json]) -> Table:
    ks = list(arms[0]["pass_at_k"])
    table = _plain_table("pass@k, pass rate / scaled", ("arm", *(f"k = {k}" for k in ks)))
    for arm in arms:
        values = [arm["pass_at_k"][k] for k in ks]
        cells = [f"{number(one['pass_rate'], 1)} / {number(one['scaled_pass_rate'], 1)}" for one in values]
        table.add_row(Text(visible(arm["id"])), *cells)
    return table


def _print_pair(console: Console, pair: Json, document: Json) -> None:
    table = _plain_table(
        f"{pair['first']} - {pair['second']}, in points",
        ("rate", "tasks", "first", "second", "difference [95 %]", "sees", "p"),
    )
    for rate in ("scaled", "plain"):
        for view in pair["views"]:
            table.add_row(*_view_cells(view, rate))
        if rate == "scaled":
            table.add_section()
    console.print(table)
    console.print(_cross_table(pair, once=set(document["attempts"].values()) == {1}))
    console.print(Text(visible(_mcnemar_line(pair))))
    for rate in ("scaled", "plain"):
        if line := _without_one(pair["views"][0][rate], rate):
            console.print(Text(visible(line)))


def _view_cells(view: Json, rate: str) -> list[str]:
    record = view[rate]
    flip = record["sign_flip"]
    return [
        view_name(view, rate),
        str(view["tasks"]),
        number(record["first"], 1),
        number(record["second"], 1),
        difference_text(record),
        number(record["detectable"], 1, unknown="-"),
        format_p(flip["p"] if flip else None),
    ]


def _cross_table(pair: Json, *, once: bool) -> Table:
    counts = pair["table"]
    if not once:
        table = _plain_table("tasks by who did better", ("first", "second", "as good, some passed", "as good, none"), 0)
        values = ("first_only", "second_only", "both", "neither")
        table.add_row(*(str(counts[key]) for key in values))
        return table
    table = _plain_table("tasks", ("", "second passed", "second did not"))
    table.add_row("first passed", str(counts["both"]), str(counts["first_only"]))
    table.add_row("first did not", str(counts["second_only"]), str(counts["neither"]))
    return table


def _mcnemar_line(pair: Json) -> str:
    counts = pair["table"]
    return (
        f"McNemar, exact, {counts['first_only']} against {counts['second_only']} tasks: p = {format_p(pair['mcnemar']['p'])}; "
        "it takes tasks of a paper for independent and is too sure."
    )


def _without_one(record: Json, rate: str) -> str:
    ends = record["leave_one_paper_out"]
    if ends is None:
        return ""
    low, high = ends["lowest"], ends["highest"]
    return (
        f"Without one paper, {rate}: {low['difference']:+.1f} (without {low['without']}) to "
        f"{high['difference']:+.1f} (without {high['without']})."
    )


def _pair_name(pair: Json) -> Text:
    return Text(visible(f"{pair['first']} - {pair['second']}"))


def _pairs_table(pairs: Iterable[Json]) -> Table:
    heads = ("pair", "won", "lost", "scaled [95 %]", "sees", "p", "McNemar", "without one paper")
    table = _plain_table("first - second, scaled, in points; p values after Holm", heads)
    for pair in pairs:
        record = pair["views"][0]["scaled"]
        flip, ends = record["sign_flip"], record["leave_one_paper_out"]
        table.add_row(
            _pair_name(pair),
            str(pair["table"]["first_only"]),
            str(pair["table"]["second_only"]),
            difference_text(record),
            number(record["detectable"], 1, unknown="-"),
            format_p(flip["holm"] if flip else None),
            format_p(pair["mcnemar"]["holm"]),
            f"{ends['lowest']['difference']:+.1f} to {ends['highest']['difference']:+.1f}" if ends else "-",
        )
    return table


def _views_table(pairs: Sequence[Json]) -> Table:
    """Show the other views of each pair: a line per view, so that it stays narrow."""
    table = _plain_table("the same in other views", ("pair", "view", "tasks", "difference [95 %]", "sees", "p"), 2)
    for pair in pairs:
        for place, (rate, view) in enumerate(_other_views(pair)):
            record = view[rate]
            table.add_row(
                _pair_name(pair) if not place else "",
                view_name(view, rate),
                str(view["tasks"]),
                difference_text(record),
                number(record["detectable"], 1, unknown="-"),
                format_p(record["sign_flip"]["holm"] if record["sign_flip"] else None),
            )
        table.add_section()
    return table


def _other_views(pair: Json) -> list[tuple[str, Json]]:
    return [("plain", pair["views"][0]), *(("scaled", view) for view in pair["views"][1:])]


def _notes(document: Json) -> list[str]:
    lines = [f"varied: {field}: {_by_value(values)}" for field, values in document["varied"].items()]
    lines += [
        f"NOT MEASURED ALIKE (--force): {field}: {_by_value(values)}"
        for field, values in document["measured_unlike"].items()
    ]
    lines += [f"left out: {item['id']}: {item['reason']}" for item in document["left_out"]]
    return [*lines, *document["remarks"]]


def _by_value(values: Mapping[str, Any]) -> str:
    """Say which value which arms have."""
    groups: dict[str, list[str]] = {}
    for arm, value in values.items():
        groups.setdefault(_shown(value), []).append(arm)
    return "; ".join(f"{value} ({', '.join(arms)})" for value, arms in groups.items())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items()) or "none"
    text = "none" if value is None else str(value)
    return f"{text[:12]}..." if len(text) == 64 and text.isalnum() else text
