"""Who is compared: arms of runs, and published models, each with its rows, what it took, and under which conditions.

``RUN:ARM`` is one arm, ``RUN`` all arms of a run but cheaters, ``published:NAME`` one of the 32 published models.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import cheats_of
from rcb_agent.runs.reader import RunReader, open_run
from rcb_agent.runs.setups import describe_setup
from rcb_agent.runs.soundness import sound_tasks
from rcb_agent.runs.summary import rows_of, sum_effort
from rcb_agent.scoring.base import FAILED, PASSED, SCOPES
from rcb_agent.scoring.metrics import Row
from rcb_agent.tasks.cutoffs import plain_name
from rcb_agent.tasks.published import SUITE, PublishedModel, load_published

PUBLISHED = "published:"
_CONDITIONS = (
    "suite",
    "suite_digest",
    "tasks",
    "scopes",
    "mode",
    "runtimes",
    "limits",
    "sandbox",
    "pythons",
    "container",
)
_HARNESS = ("prompts", "code", "harness")
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Contestant:
    """One side of a comparison.

    ``rows`` are by scope. ``arm`` is what was varied (an arm's record and what of the harness made it), ``conditions`` what
    must not differ. ``trials`` are records of the agent phases, ``costs`` what all tries of each cost; a published model
    has none. ``sound`` are the tasks known to be sound, None where none of them was validated.
    """

    id: str
    run: str
    arm: Mapping[str, Any]
    conditions: Mapping[str, Any]
    attempts: int
    rows: Mapping[str, tuple[Row, ...]]
    trials: tuple[Json, ...] = ()
    costs: Mapping[str, float | None] = field(default_factory=dict)
    imported: bool = False
    torn: tuple[str, ...] = ()
    sound: frozenset[str] | None = None

    def effort(self, tasks: Iterable[str]) -> Json:
        """Sum what the agent phases on these tasks took; null is unknown."""
        wanted = frozenset(tasks)
        trials = [trial for trial in self.trials if trial["task"] in wanted]
        if not trials:
            return {"cost": None, "tokens": None, "steps": None, "seconds": None}
        found = sum_effort(trials, [self.costs[trial["trial"]] for trial in trials])
        return {key: found[key] for key in ("cost", "tokens", "steps", "seconds")}


def find_contestants(texts: Iterable[str], results: Path) -> tuple[tuple[Contestant, ...], list[Json]]:
    """Return the arms that are named, each once, in order, and what was left out and why. Raises UsageError."""
    found: dict[tuple[str, str], Contestant] = {}
    left_out: list[Json] = []
    read: dict[Path, _Records] = {}
    for text in texts:
        if text.startswith(PUBLISHED):
            one = _published(text)
            found.setdefault(("", one.id), one)
        else:
            reader, wanted = open_run(text, results)
            path = reader.path.resolve()
            read[path] = read.get(path) or _Records(reader)
            for one in read[path].contestants(wanted, left_out):
                found.setdefault((str(path), one.id), one)
    return _name_apart(list(found.values())), left_out


class _Records:
    """A run's records, read once however many of its arms are named."""

    def __init__(self, reader: RunReader) -> None:
        self._reader, self._grades, self._trials = reader, reader.grades(), reader.trials()
        self._costs = reader.cost_of_tries()
        self._sound = sound_tasks(reader.run["task_facts"])

    def contestants(self, wanted: str | None, left_out: list[Json]) -> Iterator[Contestant]:
        """Yield the arms that are wanted, by default all but cheaters."""
        for arm in self._reader.config["arms"]:
            if wanted in (None, arm["id"]) and cheats_of(arm):
                name = f"{self._reader.id}:{arm['id']}"
                left_out.append({"id": name, "reason": "a cheater says nothing of a model"})
            elif wanted in (None, arm["id"]):
                yield self._contestant(arm)

    def _contestant(self, arm: Json) -> Contestant:
        reader, imported = self._reader, "imported" in self._reader.run
        made_by = dict.fromkeys(_HARNESS, _UNKNOWN) if imported else {key: reader.config.get(key) for key in _HARNESS}
        return Contestant(
            id=arm["id"],
            run=reader.id,
            arm={
                **arm,
                "match": describe_setup(arm)["match"],
                **made_by,
                **({"options": {}, "max_seconds": None} if imported else {}),
            },
            conditions=_conditions(reader, arm["id"], self._grades),
            attempts=reader.config["attempts"],
            rows={scope: tuple(rows_of(reader, arm["id"], scope, self._grades)) for scope in SCOPES},
            trials=tuple(record for record in self._trials.values() if record["arm"] == arm["id"]),
            costs=self._costs,
            imported=imported,
            torn=tuple(sorted(set(reader.torn))),
            sound=self._sound,
        )


def _conditions(reader: RunReader, arm: str, grades: Mapping[Any, Json]) -> Json:
    """Return what must be equal for two arms to be compared; the graders are those whose grades count."""
    config = reader.config
    graders = {
        grade["grader"]
        for grade in grades.values()
        if grade["arm"] == arm and grade["mode"] == config["mode"] and grade["snapshot"] == "final"
    }
    known = {key: config.get(key) for key in _CONDITIONS}
    return {**known, "salt": config.get("salt", ""), "graders": sorted(graders) or [config.get("grader")]}


def _published(text: str) -> Contestant:
    """Return a published model; its conditions are those of imported results, of which no more is known."""
    model = _find_model(text.removeprefix(PUBLISHED), text)
    facts = load_published()
    rows = tuple(
        Row(task.id, task.paper, task.loc, task.depth, PASSED if task.id in model.passed else FAILED)
        for task in facts.tasks.values()
    )
    arm = Arm(id=model.pretty_name, agent="upstream", model=model.id, paper=_UNKNOWN, prompt="upstream", max_steps=1)
    known = {
        "suite": SUITE,
        "suite_digest": _UNKNOWN,
        "tasks": list(facts.tasks),
        "scopes": list(SCOPES),
        "mode": "upstream",
        "sandbox": _UNKNOWN,
        "salt": "",
        "graders": ["imported"],
    }
    return Contestant(
        id=model.pretty_name,
        run="published",
        arm={**arm.as_json(), "temperature": None, "max_seconds": None, **dict.fromkeys(_HARNESS, _UNKNOWN)},
        conditions={**known, "runtimes": {}, "limits": {}, "pythons": {}, "container": {}},
        attempts=1,
        rows=dict.fromkeys(SCOPES, rows),
        imported=True,
    )


def _find_model(name: str, text: str) -> PublishedModel:
    """Find a published model by its id or the name that is shown, or a beginning that only one has."""
    models = load_published().models
    names = {model.id: {plain_name(model.id), plain_name(model.pretty_name)} for model in models}
    wanted = plain_name(name)
    exact = [model for model in models if wanted in names[model.id]]
    begun = [model for model in models if wanted and any(known.startswith(wanted) for known in names[model.id])]
    found = exact or begun
    if len(found) == 1:
        return found[0]
    shown = ", ".join(model.pretty_name for model in (found or models)[:6])
    if found:
        raise UsageError(f"{text!r} fits {len(found)} published models ({shown}): give more of the name")
    raise UsageError(f"{text!r}: no published model is called so (there are {shown}, ...): see rcb-agent leaderboard")


def _name_apart(found: list[Contestant]) -> tuple[Contestant, ...]:
    """Give arms of one name the name of their run before it, and a number where copies of a run have that in common too."""
    ids = [one.id for one in found]
    named = [f"{one.run}:{one.id}" if ids.count(one.id) > 1 else one.id for one in found]
    counted = [
        f"{name}#{named[: n + 1].count(name)}" if named.count(name) > 1 else name for n, name in enumerate(named)
    ]
    return tuple(replace(one, id=name) for one, name in zip(found, counted, strict=True))


def differing_conditions(contestants: Iterable[Contestant]) -> dict[str, dict[str, Any]]:
    """Return the measurement fields that are not equal in all: field -> arm -> value, long ones in words."""
    return _differing({one.id: _with_words(one.conditions) for one in contestants})


def varied_fields(contestants: Iterable[Contestant]) -> dict[str, dict[str, Any]]:
    """Return the arm fields that are not equal in all: field -> arm -> value."""
    return _differing({one.id: {key: value for key, value in one.arm.items() if key != "id"} for one in contestants})


def _differing(records: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    keys = dict.fromkeys(key for record in records.values() for key in record)
    found = {key: {name: record.get(key) for name, record in records.items()} for key in keys}
    return {key: values for key, values in found.items() if len({repr(value) for value in values.values()}) > 1}


def _with_words(conditions: Mapping[str, Any]) -> Json:
    """Shorten what is long but keep it different where it differs."""
    import hashlib

    tasks = conditions["tasks"]
    mark = hashlib.sha256("\n".join(sorted(tasks)).encode()).hexdigest()[:6]
    return {**conditions, "tasks": f"{len(tasks)} tasks (set {mark})"}
