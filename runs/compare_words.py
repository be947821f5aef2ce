"""Says in plain words what a comparison found, and what a reader must know beside the numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agent.environments.registry import is_isolated
from rcb_agent.runs.base import Json
from rcb_agent.runs.contestants import Contestant
from rcb_agent.runs.screen import NO_ISOLATION
from rcb_agent.scoring.base import UNPROTECTED

ALPHA = 0.05
_MOST_POINTS, _FEW_PAPERS = 100, 8
DIFFERENT, UNSURE, ALIKE = "different", "not_settled", "cannot_tell"
NO_SPREAD, NOT_MEASURED = "no_spread", "not_measured"


_NO_SPREAD = "Every paper agrees on that exactly: without spread nothing says what this run could have seen."


def explain_pair(pair: Json, facts: Mapping[str, Any], measured: Mapping[str, bool], *, several: int) -> Json:
    """Return ``verdict`` and ``sentence`` of a pair; ``measured`` says of each arm whether anything of it was."""
    headline = pair["views"][0]["scaled"]
    first, second = pair["first"], pair["second"]
    missing = [name for name in (first, second) if not measured[name]]
    if missing:
        return _said(
            NOT_MEASURED, f"Nothing of {' and '.join(missing)} was measured: there is no difference to speak of."
        )
    opening = _opening(pair, facts)
    if headline["difference"] is None:
        return _said(NO_SPREAD, f"{opening}. None of these tasks has a line to count.")
    points = f"{opening}: {headline['difference']:+.1f} points scaled"
    if headline["interval"] is None:
        return _said(
            NO_SPREAD, f"{points}. All tasks are of one paper, which shows no spread: no interval can be given."
        )
    if headline["detectable"] is None:
        return _said(NO_SPREAD, f"{points}. {_NO_SPREAD}{_bracket(headline)}")
    low, high = headline["interval"]
    verdict = judge_difference(headline)
    closing = _closing(verdict, headline, adjusted=several > 1)
    return _said(verdict, f"{points}, 95 % interval {low:+.1f} to {high:+.1f}. {closing}{_bracket(headline)}")


def _said(verdict: str, sentence: str) -> Json:
    return {"verdict": verdict, "sentence": sentence}


def judge_difference(record: Json) -> str:
    """Say what interval and sign flips (adjusted for the pairs) say together of a difference that has both.

    What was not measured and could turn the sign leaves it unsettled, whatever they say.
    """
    low, high = record["interval"]
    outside = low > 0 or high < 0
    rare = record["sign_flip"] is not None and record["sign_flip"]["holm"] < ALPHA
    if outside and rare:
        return UNSURE if _could_turn(record) else DIFFERENT
    return UNSURE if outside or rare else ALIKE


def _could_turn(record: Json) -> bool:
    low, high = record["bracket"]
    return bool(low != high and low <= 0 <= high)


def _opening(pair: Json, facts: Mapping[str, Any]) -> str:
    table, first, second = pair["table"], pair["first"], pair["second"]
    won, lost = table["first_only"], table["second_only"]
    once = all(facts["attempts"][name] == 1 for name in (first, second))
    if not won and not lost:
        return f"{first} and {second} did the same on all {facts['tasks']} tasks"
    if once:
        return f"{first} solved {_tasks(won)} that {second} did not and lost {lost}"
    return f"{first} did better than {second} on {_tasks(won)} and worse on {lost}"


def _tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"


def _closing(verdict: str, record: Json, *, adjusted: bool) -> str:
    flip = record["sign_flip"]
    p = f"p = {format_p(flip['holm'])}{' after Holm' if adjusted else ''}"
    if verdict == DIFFERENT:
        return f"They differ (sign flips over {record['papers']} papers: {p})."
    if verdict == ALIKE:
        return f"This run cannot tell them apart; {_seen(record, adjusted=adjusted)}."
    low, high = record["interval"]
    if flip["holm"] < ALPHA and not low <= 0 <= high:
        return f"As counted they differ ({p}), but what was not measured could turn it."
    zero = "holds zero" if low <= 0 <= high else "leaves zero out"
    settled = f"not settled{' after Holm' if adjusted else ''}; {_found(record, adjusted=adjusted)}"
    return f"The interval {zero} but sign flips over papers do not agree ({p}): {settled}."


_BLIND = "it would take more than 100 points: this run can see nothing"


def _seen(record: Json, *, adjusted: bool) -> str:
    if record["detectable"] > _MOST_POINTS:
        return _BLIND
    return f"it would have seen {record['detectable']:.1f}{' were this pair alone' if adjusted else ''}"


def _found(record: Json, *, adjusted: bool) -> str:
    """Say what could be seen without saying that what was found, which may be more, would have been settled."""
    if record["detectable"] > _MOST_POINTS:
        return _BLIND
    pair = "were this pair alone, " if adjusted else ""
    return f"{pair}4 of 5 such runs would find a true difference of {record['detectable']:.1f}"


def _bracket(record: Json) -> str:
    low, high = record["bracket"]
    if low == high:
        return ""
    return f" With what was not measured it is anything from {low:+.1f} to {high:+.1f}."


def format_p(value: float | None) -> str:
    """Write a p value with two digits that say something."""
    if value is None:
        return "-"
    return f"{value:.0e}".replace("e-0", "e-") if value < 0.001 else f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


_OVER = (
    "Over {tasks} tasks, {lines} lines, of {papers} papers; what was not measured counts as not passed (low .. high)."
)
_INTERVALS = (
    "Intervals: percentile bootstrap over papers, {resamples:,} resamples, seed {seed}; over about 20 papers they hold the "
    "truth in about 91 of 100 cases, not 95 (docs/statistics.md)."
)
_HEADLINE = "The sentence is about scaled, all tasks, scope diff; the other lines are looks from elsewhere."
_SEES = (
    "sees: the true difference that 4 of 5 such runs would find, (t.975 + t.80) x standard error, papers - 1 degrees of "
    "freedom. p: sign flips over papers. McNemar: exact, but takes tasks of a paper for independent, so it is too sure."
)
_NARROW = "The interval rests on {papers} papers: with fewer than 8 in common it is too narrow."
_HOLM = "p and McNemar are adjusted for {count} pairs (Holm), each by itself; intervals and sees are those of one pair alone."


def list_remarks(document: Json, contestants: Sequence[Contestant]) -> list[str]:
    """Return lines for beneath the tables."""
    lines = [_OVER.format(**document), _INTERVALS.format(**document["bootstrap"]), _HEADLINE, _SEES]
    if 1 < document["papers"] < _FEW_PAPERS:
        lines.append(_NARROW.format(**document))
    if len(document["pairs"]) > 1:
        lines.append(_HOLM.format(count=len(document["pairs"])))
    lines += _smallest(document)
    lines += _attempts(document)
    if document["sound_tasks"] is None:
        lines.append("Sound tasks only: not known, this suite has not been validated.")
    elif document["sound_tasks"] < document["tasks"]:
        lines.append(
            f"Sound tasks only: {document['sound_tasks']} of {document['tasks']}; the others are not sound, or not validated."
        )
    return lines + list_arm_remarks(contestants)


def _smallest(document: Json) -> list[str]:
    """Say where so few papers moved that no sign-flip p can be small."""
    flips = [pair["views"][0]["scaled"]["sign_flip"] for pair in document["pairs"]]
    mute = [flip["smallest"] for flip in flips if flip and flip["patterns"] > 1 and flip["smallest"] > ALPHA]
    if not mute:
        return []
    where = "So few papers" if len(flips) == 1 else f"In {len(mute)} of {len(flips)} pairs so few papers"
    return [f"{where} differ that no p of sign flips can be below {max(mute):.2g}: it cannot speak there."]


def _attempts(document: Json) -> list[str]:
    counts = sorted(set(document["attempts"].values()))
    if len(counts) > 1:
        shown = ", ".join(f"{name} {count}" for name, count in document["attempts"].items())
        least = f"pass@k is shown up to k = {counts[0]}" if counts[0] > 1 else "no pass@k is compared"
        return [f"Attempts differ ({shown}): means over attempts are compared, {least}."]
    if counts[0] > 1:
        return [f"{counts[0]} attempts per task, averaged within the task first; pass@k has the same k in all arms."]
    return []


def list_arm_remarks(contestants: Sequence[Contestant]) -> list[str]:
    """Return what must be known of the arms themselves, also where there is room for little else."""
    lines = []
    for one in contestants:
        if one.conditions["mode"] in UNPROTECTED and not one.imported:
            lines.append(f"{one.id}: grading {one.conditions['mode']}: {UNPROTECTED[one.conditions['mode']]}")
        if not one.imported and not is_isolated(one.conditions["sandbox"]):
            lines.append(f"{one.id}: sandbox {one.conditions['sandbox']}: {NO_ISOLATION}")
        lines += [f"{one.id}: the last line of {name} is torn and not counted." for name in one.torn]
    if scripted := [one.id for one in contestants if one.arm["model"].startswith("scripted")]:
        lines.append(f"{', '.join(scripted)}: scripted, no language model.")
    if imported := [one.id for one in contestants if one.imported]:
        lines.append(f"{', '.join(imported)}: published or imported, not measured by rcb-agent.")
    return lines
