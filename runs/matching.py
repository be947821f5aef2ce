"""Gives arms the budget that another arm used, task by task, so that "it wins" cannot mean "it spent more".

What the named arm spent on a task (its attempts averaged) becomes this arm's cap there. The amounts are looked up once, when
the run is planned, and stand in its config: a resume needs the other run no more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.reader import RunReader, open_run


def match_budgets(arms: Iterable[Arm], tasks: Sequence[str], results: Path) -> tuple[Arm, ...]:
    """Look up what arms are to match. Raises UsageError for what is not there, not finished or not known."""
    return tuple(replace(arm, match=_look_up(arm, tasks, results)) if "source" in arm.match else arm for arm in arms)


def _look_up(arm: Arm, tasks: Sequence[str], results: Path) -> Json:
    source, by = arm.match["source"], arm.match["by"]
    reader, name = open_run(source, results)
    if name is None:
        ids = [one["id"] for one in reader.config["arms"]]
        if len(ids) != 1:
            raise UsageError(f"--match-budget {source}: say whose: RUN:ARM, with one of {', '.join(ids[:6])}")
        name = ids[0]
    spent = _spent(reader, name)
    if missing := [task for task in tasks if task not in spent]:
        raise UsageError(
            f"--match-budget {source}: {len(missing)} of this run's {len(tasks)} tasks have no measured trial of that "
            f"arm, for instance {missing[0]!r}: finish that run, or choose its tasks with --tasks"
        )
    amounts = {task: _mean(spent[task], by, f"--match-budget {source}: {task!r}") for task in tasks}
    return {"run": reader.id, "arm": name, "by": by, "tasks": amounts}


def _spent(reader: RunReader, arm: str) -> dict[str, list[Json]]:
    """Return the arm's trials by task, without those that neither agent nor model ended."""
    found: dict[str, list[Json]] = {}
    for record in reader.trials().values():
        if record["arm"] == arm and record["error"] is None:
            found.setdefault(record["task"], []).append(record)
    return found


def _mean(records: Sequence[Json], by: str, where: str) -> float | int:
    """Return the mean over attempts: whole tokens or steps, at least one, or dollars."""
    amounts = [_amount(record, by) for record in records]
    if None in amounts:
        hint = "steps" if by == "tokens" else "tokens or steps"
        raise UsageError(f"{where}: its {by} are unknown, so they cannot be matched: use --match-by {hint}")
    mean = fmean(amount for amount in amounts if amount is not None)
    if by == "dollars" and mean <= 0:
        raise UsageError(
            f"{where}: it cost nothing there, and a budget of 0 asks nothing: use --match-by tokens or steps"
        )
    return mean if by == "dollars" else max(1, round(mean))


def _amount(record: Json, by: str) -> Any:
    if by == "dollars":
        return record["cost"]
    if by == "steps":
        return record["steps"]
    sent, made = record["usage"]["input_tokens"], record["usage"]["output_tokens"]
    return None if sent is None or made is None else sent + made
