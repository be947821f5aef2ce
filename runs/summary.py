"""What a run says: per arm, both scopes, both rates, with the denominator and what was not measured."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rcb_agent.environments.registry import is_isolated
from rcb_agent.runs.base import Json, trial_name
from rcb_agent.runs.cheats import summarise_cheats
from rcb_agent.runs.flags import kind_of
from rcb_agent.runs.reader import GradeKey, RunReader
from rcb_agent.runs.setups import describe_setup
from rcb_agent.runs.soundness import only_sound, task_verdicts
from rcb_agent.scoring.base import NOT_MEASURED, SCOPES, UNPROTECTED
from rcb_agent.scoring.metrics import Row, outermost, pass_at_k_rates, summarise

NOT_RUN = "not_run"
"""Stands where a verdict is not there yet; no verdict of its own."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What the files of a run hold, each read once."""

    trials: dict[str, Json]
    grades: dict[GradeKey, Json]
    costs: dict[str, float | None]
    sound: frozenset[str] | None
    """The tasks that are known to be sound; None where none of them was validated."""


def summarise_run(reader: RunReader) -> Json:
    """Return the document that ``--json`` prints: rates in percent, ``cost`` null when unknown."""
    known = task_verdicts(reader.run["task_facts"])
    sound = only_sound(known)
    records = _Records(reader.trials(), _own_grades(reader), reader.cost_of_tries(), sound)
    arms = [_summarise_arm(reader, arm, records) for arm in reader.config["arms"]]
    return {
        "run": reader.id,
        "path": str(reader.path),
        "suite": reader.config["suite"],
        "sandbox": reader.config["sandbox"],
        "grading": describe_grading(reader.config),
        "faults": reader.run["faults"],
        "imported": reader.run.get("imported"),
        "sound_tasks": None if sound is None else len(sound),
        "not_validated": len(reader.config["tasks"]) - len(known),
        "arms": arms,
    }


def _own_grades(reader: RunReader) -> dict[GradeKey, Json]:
    """Return the grades of what was submitted, in the run's own mode.

    Those of another mode, from a regrade, and of snapshots, for a curve, stand beside them.
    """
    mode = reader.config["mode"]
    return {key: grade for key, grade in reader.grades().items() if grade["mode"] == mode and key[1] == "final"}


def describe_grading(config: Json) -> Json:
    """Say how a run is graded; it is protected only where candidates can neither reach the hidden tests nor see them."""
    protected = config["mode"] not in UNPROTECTED and is_isolated(config["sandbox"])
    return {"mode": config["mode"], "protected": protected}


def unmeasured_reasons(reader: RunReader, limit: int = 5) -> list[str]:
    """Say what kept trials from being measured, the commonest first, each with one trial as an example."""
    from collections import Counter

    grades = [g for g in _own_grades(reader).values() if g["scope"] == "diff" and g["verdict"] == NOT_MEASURED]
    kinds = Counter((grade["reason"], grade["message"]) for grade in grades)
    lines = []
    for (reason, message), count in kinds.most_common(limit):
        example = next(g["trial"] for g in grades if (g["reason"], g["message"]) == (reason, message))
        lines.append(f"not measured: {count} x {reason}: {message[:300]} (for instance {example})")
    return lines


def verdicts(reader: RunReader) -> dict[tuple[str, str, int], Json]:
    """(arm, task, attempt) -> the grade in scope ``diff``, also for trials that have none yet."""
    grades = reader.grades()
    found = {}
    for arm in reader.config["arms"]:
        for task, attempt in _cells(reader.config):
            name = trial_name(arm["id"], task, attempt)
            grade = grades.get((name, "final", "diff", reader.config["mode"]))
            found[arm["id"], task, attempt] = grade or {"verdict": NOT_RUN, "reason": "", "trial": name}
    return found


def _cells(config: Json) -> list[tuple[str, int]]:
    return [(task, attempt) for attempt in range(1, config["attempts"] + 1) for task in config["tasks"]]


def _summarise_arm(reader: RunReader, arm: Json, records: _Records) -> Json:
    scopes = {}
    grades, sound = records.grades, records.sound
    for scope in SCOPES:
        rows = rows_of(reader, arm["id"], scope, grades)
        scopes[scope] = {**summarise(rows).as_json(), "outermost": summarise(outermost(rows)).as_json()}
        if sound is not None:
            scopes[scope]["sound"] = summarise(row for row in rows if row.task in sound).as_json()
        if reader.config["attempts"] > 1:
            scopes[scope]["pass_at_k"] = _pass_at_k(rows, reader.config["attempts"])
    own = [record for record in records.trials.values() if record["arm"] == arm["id"]]
    cheats = summarise_cheats(arm, own, grades, reader.config["mode"])
    headline = {key: value for key, value in scopes["diff"].items() if key not in ("outermost", "sound")}
    return {
        "arm": arm["id"],
        "agent": arm["agent"],
        "model": arm["model"],
        "setup": describe_setup(arm),
        "scope": "diff",
        **headline,
        "not_run": len(_cells(reader.config)) - sum(1 for grade in grades.values() if _is_headline(grade, arm["id"])),
        **sum_effort(own, [records.costs[record["trial"]] for record in own]),
        "flags": _flags(arm["id"], own, grades),
        "other_files": sum(1 for record in own if other_files(record)),
        "scopes": scopes,
        **({"cheats": cheats} if cheats else {}),
    }


def _is_headline(grade: Json, arm: str) -> bool:
    return bool(grade["arm"] == arm and grade["scope"] == "diff" and grade["snapshot"] == "final")


def rows_of(reader: RunReader, arm: str, scope: str, grades: dict[Any, Json]) -> list[Row]:
    """Return an arm's rows in a scope, one per trial that the run is about, graded or not."""
    rows = []
    for task, attempt in _cells(reader.config):
        facts = reader.run["task_facts"][task]
        grade = grades.get((trial_name(arm, task, attempt), "final", scope, reader.config["mode"]))
        rows.append(
            Row(
                task=task,
                paper=facts["paper"],
                loc=facts["loc"],
                depth=facts["depth"],
                verdict=grade["verdict"] if grade else NOT_MEASURED,
                attempt=attempt,
                form_only=bool(grade and grade["form_only"]),
                values_only=bool(grade and grade.get("values_only")),
            )
        )
    return rows


def _pass_at_k(rows: list[Row], attempts: int) -> Json:
    """Return k -> both rates in percent, for k up to the number of attempts."""
    rates = {k: pass_at_k_rates(rows, k) for k in range(1, attempts + 1)}
    return {str(k): {"pass_rate": plain, "scaled_pass_rate": scaled} for k, (plain, scaled) in rates.items()}


def _flags(arm: str, trials: list[Json], grades: dict[Any, Json]) -> dict[str, int]:
    """Count the trials per flag (its word, without the evidence)."""
    graded = [grade for grade in grades.values() if grade["arm"] == arm and grade["scope"] == "diff"]
    words = {(record["trial"], kind_of(flag)) for record in [*trials, *graded] for flag in record["flags"]}
    return _counts(word for _, word in words)


def other_files(trial: Json) -> list[str]:
    """Return the files beside the annotated ones that a trial changed, added or removed: listed, never graded."""
    if not trial["snapshots"] or trial["submission"] is None:
        return []
    last = trial["snapshots"][-1]
    annotated = {file["path"] for file in trial["submission"]["files"]}
    return sorted({*last["files"], *last["listed"], *last["deleted"]} - annotated)


def sum_effort(trials: list[Json], costs: list[float | None]) -> Json:
    """Sum what the agent phases took; one unknown cost or count makes the sum unknown."""
    known = [cost for cost in costs if cost is not None]
    tokens = [record["usage"][key] for record in trials for key in ("input_tokens", "output_tokens")]
    steps, seconds = ([record[key] for record in trials] for key in ("steps", "seconds"))
    return {
        "cost": sum(known) if costs and len(known) == len(costs) else None,
        "tokens": None if not tokens or None in tokens else sum(tokens),
        "steps": None if None in steps else sum(steps),
        "seconds": None if None in seconds else round(sum(seconds), 3),
        "stops": _counts(record["stop"] for record in trials),
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    from collections import Counter

    return dict(sorted(Counter(values).items()))
