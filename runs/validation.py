"""What hidden tests are worth, task by task: does the gold code pass, and does anything else?

``sound``: the gold code passes every time, nothing empty or wrong that was tried does. ``weak``: something wrong passes
(a survivor; it may be right in another way, so look). ``vacuous``: an empty blank passes. ``flaky``: the gold code passes
sometimes. ``broken``: it never does. What could not be run here has no verdict.
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rcb_agent.errors import EnvironmentFault
from rcb_agent.runs.base import Json
from rcb_agent.runs.depth import Depth
from rcb_agent.runs.soundness import SOUND
from rcb_agent.scoring.base import NOT_MEASURED, PASSED, Grade
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import filled_files, null_code
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.trivial import trivial_candidates

WEAK, VACUOUS, FLAKY, BROKEN = "weak", "vacuous", "flaky", "broken"
VERDICTS = (SOUND, WEAK, VACUOUS, FLAKY, BROKEN)
FORMAT = 2
"""Changes with what is tried or how it is judged."""
LEAST_SECONDS, GOLD_TIMES = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class Probe:
    """A wrong answer: ``kind`` is empty, trivial or mutant; ``code`` stands in the blank."""

    kind: str
    description: str
    code: str


GradeWithin = Callable[[Task, Mapping[str, bytes], float], Grade]
"""Grades candidate files within so many seconds. Raises EnvironmentFault."""


def probes_of(task: Task, depth: Depth) -> tuple[Probe, ...]:
    """Return the wrong answers that are tried on a task, each once."""
    nothing = null_code(task.problem)
    empty = [("nothing but `pass`", nothing)] if nothing else []
    found = [Probe("empty", description, code) for description, code in [*empty, ("an empty answer", "")]]
    if depth.trivial:
        found += [Probe("trivial", one.description, one.code) for one in trivial_candidates(task)]
    mutants = mutants_of(task, seed=depth.seed, count=depth.mutants)
    found += [Probe("mutant", one.description, one.code) for one in mutants]
    return tuple({probe.code: probe for probe in reversed(found)}.values())[::-1]


def limit_for(gold_seconds: float) -> float:
    """Return the wall seconds that a wrong answer gets: one that hangs must not cost the paper's whole limit."""
    return max(LEAST_SECONDS, GOLD_TIMES * gold_seconds)


def judge_gold(grades: Sequence[Grade]) -> str:
    """Return "" for gold code that passed every time, else FLAKY, BROKEN, or NOT_MEASURED for what the machine kept."""
    if any(grade.verdict == NOT_MEASURED for grade in grades):
        return NOT_MEASURED
    passed = sum(grade.verdict == PASSED for grade in grades)
    return "" if passed == len(grades) else FLAKY if passed else BROKEN


def try_task(task: Task, gold: Json, grade: GradeWithin, depth: Depth) -> Json:
    """Try every probe on a task whose gold code was run; return its record (see validation.json)."""
    record = {**begin_record(task, gold), "depth": asdict(depth)}
    if gold["verdict"]:
        return {**record, "verdict": gold["verdict"], "message": gold["message"]}
    counts = {"empty": 0, "trivial": 0, "mutant": 0}
    survivors: list[Json] = []
    for probe in probes_of(task, depth):
        counts[probe.kind] += 1
        try:
            result = grade(task, filled_files(task.problem, probe.code), gold["limit"])
        except EnvironmentFault as fault:
            return {**record, "verdict": NOT_MEASURED, "message": str(fault)}
        if result.verdict == NOT_MEASURED:
            return {**record, "verdict": NOT_MEASURED, "message": f"{result.reason}: {result.message}"}
        if result.verdict == PASSED:
            survivors.append(
                {"kind": probe.kind, "description": probe.description, "diff": diff_from_gold(task, probe)}
            )
    return {**record, "verdict": verdict_of(survivors), "tried": counts, "survivors": survivors}


def begin_record(task: Task, gold: Json) -> Json:
    """Return what a record says before anything was tried."""
    return {
        "id": task.id,
        "paper": task.info.id,
        "loc": task.problem.loc,
        "digest": task.digest,
        "message": "",
        "gold": {key: gold[key] for key in ("runs", "passed", "seconds", "limit")},
        "tried": {"empty": 0, "trivial": 0, "mutant": 0},
        "survivors": [],
    }


def verdict_of(survivors: Sequence[Json]) -> str:
    """Return what survivors make of a task whose gold code always passes."""
    if any(one["kind"] == "empty" for one in survivors):
        return VACUOUS
    return WEAK if survivors else SOUND


def diff_from_gold(task: Task, probe: Probe) -> str:
    """Return what a probe changed in the file, as a unified diff from the gold code."""
    path = task.problem.path
    old, new = (
        filled_files(task.problem, code)[path].decode("utf-8", "replace") for code in (task.answer.gold, probe.code)
    )
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=2)
    return "\n".join(lines) + "\n"


def record_key(task: Task, conditions: Sequence[Any]) -> str:
    """Return the name under which a record is kept: the task first, so that it can be found by its task alone."""
    text = json.dumps([FORMAT, *conditions])
    return f"{task.digest[:32]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
