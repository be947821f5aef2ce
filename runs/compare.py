"""Sets arms against each other: one document with every number, from which the tables are made.

Arms may differ in what an arm is (listed as what was varied), never in how they were measured: that is refused, or, forced,
said beside the numbers. Everything is over the tasks that all arms have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.compare_words import explain_pair, list_arm_remarks, list_remarks
from rcb_agent.runs.contestants import Contestant, differing_conditions, find_contestants, varied_fields
from rcb_agent.scoring.base import NOT_MEASURED, PASSED, SCOPES
from rcb_agent.scoring.comparison import Comparison, Difference, Outcomes, collect_outcomes, compare_systems
from rcb_agent.scoring.intervals import BOOTSTRAP, Bootstrap
from rcb_agent.scoring.metrics import Row, outermost, pass_at_k_rates, summarise

HEADLINE = ("diff", "all")
_RATES = ("trials", "tasks", "passed", "not_measured", "loc_passed", "loc_total")
_RATE_PAIRS = ("pass_rate", "pass_rate_upper", "scaled_pass_rate", "scaled_pass_rate_upper")


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """What is asked for: ``against`` is the arm with which all others are compared, "" = all pairs."""

    arms: tuple[str, ...]
    results: Path = Path("results")
    against: str = ""
    force: bool = False
    bootstrap: Bootstrap = BOOTSTRAP


def find_sound_tasks(contestants: Iterable[Contestant]) -> frozenset[str] | None:
    """Return the tasks that are known to be sound wherever that is known; None where none was validated."""
    known = [one.sound for one in contestants if one.sound is not None]
    return frozenset.intersection(*known) if known else None


def make_comparison(request: CompareRequest) -> Json:
    """Return the document that ``--json`` prints. Raises UsageError for what cannot be compared."""
    contestants, left_out = find_contestants(request.arms, request.results)
    if len(contestants) < 2:
        reasons = "".join(f"; {item['id']} is left out: {item['reason']}" for item in left_out)
        raise UsageError(
            f"compare needs two different arms, here is {len(contestants)}: name one more, or a run with several{reasons}"
        )
    differs = differing_conditions(contestants)
    if differs and not request.force:
        raise UsageError(
            f"these arms were not measured alike: {_name_fields(differs)}: "
            "compare arms of one run, or --force to see the numbers with this beside them"
        )
    return _document(contestants, request) | {"measured_unlike": differs, "left_out": left_out}


def _name_fields(differs: Mapping[str, Mapping[str, Any]]) -> str:
    return "; ".join(
        f"{key} ({', '.join(dict.fromkeys(_shorten(value) for value in values.values()))})"
        for key, values in differs.items()
    )


def _shorten(value: Any, limit: int = 40) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:12]}..."


def _document(contestants: Sequence[Contestant], request: CompareRequest) -> Json:
    sound = find_sound_tasks(contestants)
    views = dict(_views(contestants, sound))
    whole = views[HEADLINE]
    if not whole.tasks:
        raise UsageError("these arms have no task in common: nothing can be compared")
    pairs = _pairs(contestants, request)
    known = _compare_views(views, pairs, request.bootstrap)
    facts = {
        "tasks": len(whole.tasks),
        "papers": len(set(whole.papers)),
        "lines": sum(whole.lines),
        "attempts": {one.id: one.attempts for one in contestants},
    }
    described = [_describe_pair(place, known) for place in range(len(pairs))]
    measured = {one.id: _anything_measured(one, whole.tasks) for one in contestants}
    document = {
        **facts,
        "bootstrap": request.bootstrap.as_json(),
        "sound_tasks": None if sound is None else len(sound),
        "arms": [_describe_arm(one, whole.tasks, contestants, sound) for one in contestants],
        "varied": varied_fields(contestants),
        "pairs": [{**explain_pair(pair, facts, measured, several=len(described)), **pair} for pair in described],
    }
    remarks = {"remarks": list_remarks(document, contestants), "arm_remarks": list_arm_remarks(contestants)}
    return {**document, **remarks}


def _anything_measured(one: Contestant, tasks: Sequence[str]) -> bool:
    wanted = frozenset(tasks)
    return any(row.verdict != NOT_MEASURED for row in one.rows[HEADLINE[0]] if row.task in wanted)


def _compare_views(
    views: Mapping[tuple[str, str], Outcomes], pairs: Sequence[tuple[str, str]], bootstrap: Bootstrap
) -> dict[tuple[str, str], Sequence[Comparison]]:
    """Compare each view once: scope blank is mostly what scope diff is."""
    done: list[tuple[Outcomes, Sequence[Comparison]]] = []
    for outcomes in views.values():
        same = next((found for known, found in done if known == outcomes), None)
        done.append((outcomes, compare_systems(outcomes, pairs, bootstrap) if same is None else same))
    return dict(zip(views, (found for _, found in done), strict=True))


def _views(
    contestants: Sequence[Contestant], sound: frozenset[str] | None
) -> Iterable[tuple[tuple[str, str], Outcomes]]:
    """Yield (scope, view) -> outcomes over the tasks of that view, the headline first."""
    for scope in SCOPES:
        rows = {one.id: one.rows[scope] for one in contestants}
        outcomes = collect_outcomes(rows)
        outer = {row.task for one in rows.values() for row in outermost(one)}
        yield (scope, "all"), outcomes
        yield (scope, "outermost"), outcomes.over(outer.__contains__)
        if sound is not None:
            yield (scope, "sound"), outcomes.over(sound.__contains__)
        measured = outcomes.measured()
        if len(measured.tasks) < len(outcomes.tasks):
            yield (scope, "measured"), measured


def _pairs(contestants: Sequence[Contestant], request: CompareRequest) -> list[tuple[str, str]]:
    ids = [one.id for one in contestants]
    if not request.against:
        return [(one, other) for place, one in enumerate(ids) for other in ids[place + 1 :]]
    baseline = _baseline(contestants, request)
    return [(one, baseline) for one in ids if one != baseline]


def _baseline(contestants: Sequence[Contestant], request: CompareRequest) -> str:
    """Return the id of the arm that ``against`` names, by its id or as arms are named on the command line."""
    ids = [one.id for one in contestants]
    if request.against in ids:
        return request.against
    named, _ = find_contestants((request.against,), request.results) if ":" in request.against else ((), [])
    wanted = [(one.run, one.arm["id"]) for one in named]
    fitting = [one.id for one in contestants if (one.run, one.arm["id"]) in wanted]
    if len(fitting) != 1:
        raise UsageError(f"--against {request.against!r}: is none of these arms: {', '.join(ids)}")
    return fitting[0]


def _describe_pair(place: int, known: Mapping[tuple[str, str], Sequence[Comparison]]) -> Json:
    headline = known[HEADLINE][place]
    return {
        "first": headline.first,
        "second": headline.second,
        "table": {
            "both": headline.turned.both,
            "first_only": headline.turned.first,
            "second_only": headline.turned.second,
            "neither": headline.turned.neither,
            "first_only_tasks": list(headline.turned.first_tasks),
            "second_only_tasks": list(headline.turned.second_tasks),
        },
        "mcnemar": {
            "p": headline.mcnemar,
            "holm": headline.mcnemar_holm,
            "ignores": "that tasks of a paper go together",
        },
        "views": [
            {
                "scope": scope,
                "view": view,
                "tasks": found[place].tasks,
                "scaled": describe_difference(found[place].scaled),
                "plain": describe_difference(found[place].plain),
            }
            for (scope, view), found in known.items()
        ],
    }


def describe_difference(found: Difference) -> Json:
    """Return the record form: points are percentage points, null is what cannot be said."""
    ends = found.range_without_one
    return {
        "first": found.first,
        "second": found.second,
        "difference": found.estimate,
        "bracket": None if found.bracket is None else list(found.bracket),
        "interval": None if found.interval is None else list(found.interval),
        "standard_error": found.standard_error,
        "detectable": found.detectable,
        "papers": found.papers,
        "sign_flip": None if found.flips is None else {**asdict(found.flips), "holm": found.holm},
        "leave_one_paper_out": None
        if ends is None
        else {
            "lowest": {"without": ends[0][0], "difference": ends[0][1]},
            "highest": {"without": ends[1][0], "difference": ends[1][1]},
            "all": dict(found.left_out),
        },
    }


def _describe_arm(
    one: Contestant, tasks: Sequence[str], everyone: Sequence[Contestant], sound: frozenset[str] | None
) -> Json:
    wanted = frozenset(tasks)
    rows = {scope: [row for row in known if row.task in wanted] for scope, known in one.rows.items()}
    effort = one.effort(tasks)
    solved = sum(row.loc for row in rows["diff"] if row.verdict == PASSED)
    return {
        "id": one.id,
        "run": one.run,
        "agent": one.arm["agent"],
        "model": one.arm["model"],
        "imported": one.imported,
        "mode": one.conditions["mode"],
        "sandbox": one.conditions["sandbox"],
        "attempts": one.attempts,
        "scopes": {scope: _describe_rows(known, sound) for scope, known in rows.items()},
        "effort": effort,
        "per_solved_line": {
            key: None if value is None or not solved else value / solved for key, value in effort.items()
        },
        "pass_at_k": _pass_at_k(rows["diff"], min(other.attempts for other in everyone)),
    }


def _describe_rows(rows: Sequence[Row], sound: frozenset[str] | None) -> Json:
    views = {"all": rows, "outermost": outermost(rows)}
    if sound is not None:
        views["sound"] = [row for row in rows if row.task in sound]
    records = {view: summarise(known).as_json() for view, known in views.items()}
    return {view: {key: record[key] for key in (*_RATES, *_RATE_PAIRS)} for view, record in records.items()}


def _pass_at_k(rows: Sequence[Row], most: int) -> Json:
    """Return k -> both rates for the ks that every arm has the attempts for; one k is one column, never mixed."""
    rates = {k: pass_at_k_rates(rows, k) for k in range(2, most + 1)}
    return {str(k): {"pass_rate": plain, "scaled_pass_rate": scaled} for k, (plain, scaled) in rates.items()}
