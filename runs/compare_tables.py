"""A comparison as tables for a paper: CSV with a line per pair, view and rate, LaTeX with booktabs."""

from collections.abc import Iterable
from typing import Any

from rcb_agent.runs.base import Json
from rcb_agent.runs.compare_text import difference_text, number, rate_text, view_name
from rcb_agent.runs.compare_words import format_p
from rcb_agent.runs.latex import LatexTable, write_latex

_EFFORT = ("cost", "tokens", "seconds", "steps")
CSV_HEAD = (
    *("first", "second", "scope", "view", "rate", "tasks", "papers", "first_rate", "second_rate", "difference"),
    *("bracket_low", "bracket_high", "interval_low", "interval_high", "standard_error", "detectable"),
    *("sign_flip_p", "sign_flip_holm", "lowest", "lowest_without", "highest", "highest_without"),
    *("both", "first_only", "second_only", "neither", "mcnemar_p", "mcnemar_holm"),
    *(f"{side}_{key}" for side in ("first", "second") for key in _EFFORT),
    "measured_unlike",
)


def csv_rows(document: Json) -> Iterable[list[Any]]:
    """Yield the head, then a row per pair, view and rate; an empty cell is what cannot be said."""
    unlike = "; ".join(document["measured_unlike"])
    efforts = {arm["id"]: arm["effort"] for arm in document["arms"]}
    yield list(CSV_HEAD)
    for pair in document["pairs"]:
        for view in pair["views"]:
            for rate in ("scaled", "plain"):
                yield [
                    *(pair["first"], pair["second"], view["scope"], view["view"], rate, view["tasks"]),
                    *_numbers(view[rate]),
                    *_whole(pair, headline=view is pair["views"][0]),
                    *(efforts[pair[side]][key] for side in ("first", "second") for key in _EFFORT),
                    unlike,
                ]


def _numbers(record: Json) -> list[Any]:
    flip, ends = record["sign_flip"] or {}, record["leave_one_paper_out"]
    one_out = (
        [
            ends["lowest"]["difference"],
            ends["lowest"]["without"],
            ends["highest"]["difference"],
            ends["highest"]["without"],
        ]
        if ends
        else [None] * 4
    )
    return [
        *(record["papers"], record["first"], record["second"], record["difference"]),
        *(record["bracket"] or (None, None)),
        *(record["interval"] or (None, None)),
        *(record["standard_error"], record["detectable"], flip.get("p"), flip.get("holm")),
        *one_out,
    ]


def _whole(pair: Json, *, headline: bool) -> list[Any]:
    """Return the 2 x 2 table and McNemar, which are the headline view's."""
    if not headline:
        return [None] * 6
    counts = [pair["table"][key] for key in ("both", "first_only", "second_only", "neither")]
    return [*counts, pair["mcnemar"]["p"], pair["mcnemar"]["holm"]]


def compare_latex(document: Json) -> str:
    """Return two tables: the arms, and the differences."""
    return write_latex((_latex_arms(document), _latex_pairs(document)))


def _unlike(document: Json) -> str:
    """Say for a caption what was measured unlike and compared all the same; mostly nothing."""
    fields = ", ".join(document["measured_unlike"])
    return f"; NOT MEASURED ALIKE (forced): {fields}" if fields else ""


def _latex_arms(document: Json) -> LatexTable:
    rows = []
    for arm in document["arms"]:
        diff, effort, each = arm["scopes"]["diff"], arm["effort"], arm["per_solved_line"]
        rows.append(
            [
                arm["id"],
                f"{diff['all']['passed']}/{diff['all']['trials']}",
                rate_text(diff["all"], "pass_rate"),
                rate_text(diff["all"], "scaled_pass_rate"),
                rate_text(diff["outermost"], "scaled_pass_rate"),
                rate_text(arm["scopes"]["blank"]["all"], "scaled_pass_rate"),
                *(number(effort[key], digits) for key, digits in (("cost", 2), ("tokens", 0), ("steps", 0))),
                number(each["cost"], 4, unknown="?" if effort["cost"] is None else "-"),
            ]
        )
    return LatexTable(
        caption=f"Arms over {document['tasks']} tasks of {document['papers']} papers, rates in percent{_unlike(document)}",
        label="tab:arms",
        heads=("Arm", "Passed", "Pass rate", "Scaled", "Outermost", "Blank", "Cost ($)", "Tokens", "Steps", "$/line"),
        align="lrrrrrrrrr",
        groups=[rows],
        notes=(
            "Scaled: weighted by lines; outermost: blanks that lie in no other; ?: unknown.",
            *document["arm_remarks"],
        ),
    )


def _latex_pairs(document: Json) -> LatexTable:
    groups = []
    for pair in document["pairs"]:
        lines = [(rate, view) for rate in ("scaled", "plain") for view in pair["views"]]
        groups.append([_latex_line(pair, rate, view, first=not place) for place, (rate, view) in enumerate(lines)])
    draws = document["bootstrap"]
    return LatexTable(
        caption=f"Differences in percentage points, first minus second{_unlike(document)}",
        label="tab:differences",
        heads=("Pair", "Rate", "Won", "Lost", "Difference [95 %]", "Detectable", "p", "McNemar p"),
        align="llrrrrrr",
        groups=groups,
        notes=(
            f"Percentile bootstrap over {document['papers']} papers ({draws['resamples']} resamples, seed {draws['seed']});",
            "p: sign flips over papers; McNemar: exact, ignores that tasks of a paper go together;",
            *([f"both after Holm over {len(document['pairs'])} pairs;"] if len(document["pairs"]) > 1 else []),
            f"detectable: with power 0.8{' of one pair alone' if len(document['pairs']) > 1 else ''}.",
        ),
    )


def _latex_line(pair: Json, rate: str, view: Json, *, first: bool) -> list[str]:
    record, table = view[rate], pair["table"]
    flip = record["sign_flip"]
    return [
        f"{pair['first']} vs {pair['second']}" if first else "",
        view_name(view, rate),
        *((str(table["first_only"]), str(table["second_only"])) if first else ("", "")),
        difference_text(record),
        number(record["detectable"], 1, unknown="-"),
        format_p(flip["holm"] if flip else None),
        format_p(pair["mcnemar"]["holm"]) if first else "",
    ]
