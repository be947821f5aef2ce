"""What became of each cheat of a cheater's arm: tried, passed (never), and what was seen of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rcb_agent.runs.base import Json
from rcb_agent.runs.config import cheats_of
from rcb_agent.runs.flags import kind_of
from rcb_agent.scoring.base import NOT_MEASURED, PASSED

VACUOUS = "vacuous"


def summarise_cheats(arm: Json, trials: Iterable[Json], grades: dict[Any, Json], mode: str) -> list[Json]:
    """Return a line per cheat of an arm, in their order; nothing for an arm that is no cheater's.

    ``passed`` counts trials that passed in either scope on a task that an empty blank does not pass; ``missing`` are
    flags that were expected and never seen.
    """
    names = cheats_of(arm)
    if not names:
        return []
    from rcb_agent.agents.cheater import load_cheats

    known = {cheat.name: cheat for cheat in load_cheats()}
    own: dict[str, list[Json]] = {name: [] for name in names}
    for trial in trials:
        own.setdefault(trial.get("variant", ""), []).append(trial)
    lines = []
    for name, records in own.items():
        cheat = known.get(name)
        seen, passed, vacuous, unmeasured = _count(records, grades, mode)
        expected = list(cheat.flags) if cheat else []
        lines.append(
            {
                "cheat": name,
                "door": cheat.door if cheat else "",
                "what": cheat.what if cheat else "a cheat that this version does not have",
                "trials": len(records),
                "passed": passed,
                "vacuous": vacuous,
                "not_measured": unmeasured,
                "flags": dict(sorted(seen.items())),
                "expected": expected,
                "missing": [kind for kind in expected if kind not in seen] if records else [],
                "none_needed": cheat.why if cheat and not expected else "",
            }
        )
    return lines


def _count(records: list[Json], grades: dict[Any, Json], mode: str) -> tuple[Counter[str], int, int, int]:
    """Return trials by flag, and how many passed, passed a vacuous task, were not measured."""
    seen: Counter[str] = Counter()
    passed = vacuous = unmeasured = 0
    for trial in records:
        found = [
            grades[key] for scope in ("diff", "blank") if (key := (trial["trial"], "final", scope, mode)) in grades
        ]
        kinds = {kind_of(flag) for record in (trial, *found) for flag in record["flags"]}
        seen.update(kinds - {VACUOUS})
        if any(grade["verdict"] == PASSED for grade in found):
            vacuous += VACUOUS in kinds
            passed += VACUOUS not in kinds
        unmeasured += any(grade["verdict"] == NOT_MEASURED for grade in found)
    return seen, passed, vacuous, unmeasured


def count_successes(document: Json) -> int:
    """Return how many trials of cheaters passed in a run's document, vacuous tasks aside."""
    return sum(line["passed"] for arm in document["arms"] for line in arm.get("cheats", ()))
