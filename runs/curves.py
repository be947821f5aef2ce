"""Both rates against what was spent, from graded snapshots: the rate if every trial had been ended at ``x``.

A trial counts as failed until its first step, then as what the workspace held after its last step within ``x``; one that
stopped early keeps its last value. What was spent is counted from the calls (those without an answer belong to the step
after them) and the trajectory's clock. Where one trial's amount is unknown, the arm's curve over it is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean
from typing import Any

from rcb_agent.agents.base import SILENCES
from rcb_agent.runs.base import Json, trial_name
from rcb_agent.runs.reader import GradeKey, RunReader
from rcb_agent.runs.setups import describe_setup
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED

UNITS = ("steps", "tokens", "dollars", "minutes")


@dataclass(frozen=True, slots=True)
class Change:
    """From ``spent`` on (by unit; None = unknown) a trial's verdict is this one."""

    spent: Mapping[str, float | None]
    verdict: str


@dataclass(frozen=True, slots=True)
class Trace:
    """One trial of a task: what it was worth from when on; ``changes`` is empty for one that is not measured."""

    task: str
    loc: int
    changes: tuple[Change, ...]

    @property
    def end(self) -> Mapping[str, float | None]:
        """What it spent in all; nothing, for one that is not measured."""
        return self.changes[-1].spent if self.changes else dict.fromkeys(UNITS, 0.0)


def draw_curves(reader: RunReader, arms: Sequence[str] = ()) -> Json:
    """Return the document that ``--json`` prints, over the snapshots that are graded."""
    trials, grades = reader.trials(), reader.grades()
    chosen = [arm for arm in reader.config["arms"] if not arms or arm["id"] in arms]
    found = [draw_arm(arm, list(_traces(reader, arm["id"], trials, grades))) for arm in chosen]
    return {"run": reader.id, "path": str(reader.path), "suite": reader.config["suite"], "scope": "diff", "arms": found}


def draw_arm(arm: Json, traces: Sequence[Trace]) -> Json:
    """Return an arm's curves; one that never took a second step is a point at its mean."""
    point = all((trace.end["steps"] or 0) <= 1 for trace in traces)
    units = {unit: _curve(traces, unit, point=point) for unit in UNITS}
    return {
        "arm": arm["id"],
        "agent": arm["agent"],
        "model": arm["model"],
        "setup": describe_setup(arm),
        "kind": "point" if point else "curve",
        "trials": len(traces),
        "not_measured": sum(not trace.changes or trace.changes[-1].verdict == NOT_MEASURED for trace in traces),
        "unknown": [unit for unit, curve in units.items() if curve is None],
        "units": units,
    }


def _curve(traces: Sequence[Trace], unit: str, *, point: bool) -> Json | None:
    """Return the points of a step function, or None where an amount is unknown."""
    ends = [trace.end[unit] for trace in traces]
    known = [end for end in ends if end is not None]
    if len(known) < len(ends) or any(change.spent[unit] is None for trace in traces for change in trace.changes):
        return None
    measured = [trace.end[unit] or 0.0 for trace in traces if trace.changes]
    mean = fmean(measured) if measured else 0.0
    points = list(_sweep(traces, unit))
    if point:
        points = [{**points[-1], "x": mean}]
    elif known and points[-1]["x"] < max(known):
        points.append({**points[-1], "x": max(known)})
    return {"mean": mean, "points": points}


def _sweep(traces: Sequence[Trace], unit: str) -> Iterator[Json]:
    """Yield the rates at 0 and wherever one of them changes."""
    tally = _Tally(traces)
    events = sorted(
        (
            (change.spent[unit] or 0.0, index, change.verdict)
            for index, trace in enumerate(traces)
            for change in trace.changes
        ),
        key=lambda event: event[0],
    )
    before = {"x": 0.0, **tally.rates()}
    if not events or events[0][0] > 0:
        yield before
    for place, (x, index, verdict) in enumerate(events):
        tally.move(index, verdict)
        is_last = place + 1 == len(events) or events[place + 1][0] > x
        if is_last and ((now := {"x": x, **tally.rates()}) | {"x": 0} != before | {"x": 0} or place + 1 == len(events)):
            yield now
            before = now


class _Tally:
    """What passed so far, each task weighing 1 whatever the number of its attempts."""

    def __init__(self, traces: Sequence[Trace]) -> None:
        counts: dict[str, int] = {}
        for trace in traces:
            counts[trace.task] = counts.get(trace.task, 0) + 1
        sizes = {trace.task: trace.loc for trace in traces}
        self._tasks, self._lines = len(sizes), sum(sizes.values())
        self._weights = [(Fraction(1, counts[trace.task]), Fraction(trace.loc, counts[trace.task])) for trace in traces]
        self._now = [FAILED if trace.changes else NOT_MEASURED for trace in traces]
        self._sums = {verdict: [Fraction(), Fraction()] for verdict in (PASSED, FAILED, NOT_MEASURED)}
        for index, verdict in enumerate(self._now):
            self._add(index, verdict, 1)

    def move(self, index: int, verdict: str) -> None:
        """Give a trial another verdict."""
        self._add(index, self._now[index], -1)
        self._add(index, verdict, 1)
        self._now[index] = verdict

    def _add(self, index: int, verdict: str, sign: int) -> None:
        for part, weight in enumerate(self._weights[index]):
            self._sums[verdict][part] += sign * weight

    def rates(self) -> Json:
        """Return both rates in percent, and what they would be if all that is not measured had passed."""
        passed, open_ = self._sums[PASSED], self._sums[NOT_MEASURED]
        found: Json = {}
        for name, part, whole in (("pass_rate", 0, self._tasks), ("scaled_pass_rate", 1, self._lines)):
            found[name] = float(100 * passed[part] / whole) if whole else None
            found[f"{name}_upper"] = float(100 * (passed[part] + open_[part]) / whole) if whole else None
        return found


def _traces(
    reader: RunReader, arm: str, trials: Mapping[str, Json], grades: Mapping[GradeKey, Json]
) -> Iterator[Trace]:
    for attempt in range(1, reader.config["attempts"] + 1):
        for task in reader.config["tasks"]:
            trial = trials.get(trial_name(arm, task, attempt))
            loc = reader.run["task_facts"][task]["loc"]
            yield Trace(task, loc, () if trial is None else tuple(_changes(reader, trial, grades)))


def _changes(reader: RunReader, trial: Json, grades: Mapping[GradeKey, Json]) -> Iterator[Change]:
    mode = reader.config["mode"]
    end = grades.get((trial["trial"], "final", "diff", mode))
    if trial["error"] is not None or end is None:
        return
    clock, bill = _clock(reader.events(trial["trial"])), _bill(reader.calls(trial["trial"]))
    for snapshot in trial["snapshots"]:
        step = snapshot["step"]
        if grade := grades.get((trial["trial"], step, "diff", mode)):
            tokens, dollars = bill.get(step, (None, None))
            spent = {"steps": float(step), "tokens": tokens, "dollars": dollars, "minutes": clock.get(step)}
            yield Change(spent, grade["verdict"])
    yield Change(_spent(trial), end["verdict"])


def _spent(trial: Json) -> dict[str, float | None]:
    sent, made = trial["usage"]["input_tokens"], trial["usage"]["output_tokens"]
    return {
        "steps": trial["steps"],
        "tokens": None if sent is None or made is None else sent + made,
        "dollars": trial["cost"],
        "minutes": None if trial["seconds"] is None else trial["seconds"] / 60,
    }


def _clock(events: Sequence[Json]) -> dict[int, float]:
    """Return when each step was over, in minutes."""
    return {event["step"]: event["time"] / 60 for event in events if event["kind"] in ("reply", "tool", "snapshot")}


def _bill(calls: Sequence[Json]) -> dict[int, tuple[float | None, float | None]]:
    """Return tokens and dollars spent by the end of each step."""
    tokens: float | None = 0.0
    dollars: float | None = 0.0
    step, found = 0, {}
    for reply in (_Paid(call) for call in calls if call["reply"] is not None):
        tokens = None if tokens is None or reply.tokens is None else tokens + reply.tokens
        dollars = None if dollars is None or reply.cost is None else dollars + reply.cost
        if reply.is_step:
            step += 1
            found[step] = (tokens, dollars)
    return found


class _Paid:
    """What one reply took."""

    def __init__(self, call: Json) -> None:
        usage: Mapping[str, Any] = call["reply"]["usage"]
        sent, made = usage["input_tokens"], usage["output_tokens"]
        self.tokens: float | None = None if sent is None or made is None else sent + made
        self.cost: float | None = call["reply"]["cost"]
        self.is_step = call["kind"] not in SILENCES
