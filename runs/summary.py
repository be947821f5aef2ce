"""What a run says: per arm, both scopes, both rates, with the denominator and what was not measured."""

from collections.abc import Iterable
from typing import Any

from rcb_agent.runs.base import Json, trial_name
from rcb_agent.runs.store import RunReader
from rcb_agent.scoring.base import NOT_MEASURED, SCOPES
from rcb_agent.scoring.metrics import Row, Summary, outermost, summarise


def summarise_run(reader: RunReader) -> Json:
    """Return the document that ``--json`` prints: rates in percent, ``cost`` null when unknown."""
    trials, grades = reader.trials(), reader.grades()
    arms = [_summarise_arm(reader, arm, trials, grades) for arm in reader.config["arms"]]
    return {"run": reader.id, "path": str(reader.path), "suite": reader.config["suite"], "arms": arms}


def count_unmeasured(document: Json) -> int:
    """Count the trials that were not measured in either scope's headline."""
    return sum(int(arm["not_measured"]) for arm in document["arms"])


def verdicts(reader: RunReader) -> dict[tuple[str, str, int], Json]:
    """(arm, task, attempt) -> the grade in scope ``diff``, also for trials that have none yet."""
    grades = reader.grades()
    found = {}
    for arm in reader.config["arms"]:
        for task, attempt in _cells(reader.config):
            name = trial_name(arm["id"], task, attempt)
            grade = grades.get((name, "final", "diff", reader.config["mode"]))
            found[arm["id"], task, attempt] = grade or {"verdict": NOT_MEASURED, "reason": "not run", "trial": name}
    return found


def _cells(config: Json) -> Iterable[tuple[str, int]]:
    return [(task, attempt) for attempt in range(1, config["attempts"] + 1) for task in config["tasks"]]


def _summarise_arm(reader: RunReader, arm: Json, trials: Json, grades: dict[Any, Json]) -> Json:
    scopes = {}
    for scope in SCOPES:
        rows = _rows(reader, arm["id"], scope, grades)
        scopes[scope] = {**_rates(summarise(rows)), "outermost": _rates(summarise(outermost(rows)))}
    own = [record for record in trials.values() if record["arm"] == arm["id"]]
    headline = {key: value for key, value in scopes["diff"].items() if key != "outermost"}
    return {
        "arm": arm["id"],
        "agent": arm["agent"],
        "model": arm["model"],
        "scope": "diff",
        **headline,
        **_effort(own),
        "flags": sorted({flag for record in own for flag in record["flags"]}),
        "scopes": scopes,
    }


def _rows(reader: RunReader, arm: str, scope: str, grades: dict[Any, Json]) -> list[Row]:
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
            )
        )
    return rows


def _rates(summary: Summary) -> Json:
    return summary.as_json()


def _effort(trials: list[Json]) -> Json:
    """Sum what the agent phases took; one unknown cost or count makes the sum unknown."""
    costs = [record["cost"] for record in trials]
    tokens = [record["usage"][key] for record in trials for key in ("input_tokens", "output_tokens")]
    return {
        "cost": None if not costs or None in costs else sum(costs),
        "tokens": None if not tokens or None in tokens else sum(tokens),
        "steps": sum(record["steps"] for record in trials),
        "seconds": round(sum(record["seconds"] for record in trials), 3),
        "stops": _counts(record["stop"] for record in trials),
    }


def _counts(values: Iterable[str]) -> dict[str, int]:
    from collections import Counter

    return dict(sorted(Counter(values).items()))
