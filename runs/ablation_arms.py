"""Plans the arms of an ablation: a baseline, and arms that lack one thing of it, or that a grid file describes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from rcb_agent.agents.base import FEEDBACKS
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import ArmOptions, build_arms, make_arms

PARTS = ("tools", "paper", "context", "feedback")
_ENDS = "submit"
"""The tool that is never left out: without it a trial ends otherwise, which is no matter of what the tool is worth."""


def plan_arms(options: ArmOptions, parts: Sequence[str], grid: Path | None) -> tuple[Arm, ...]:
    """Return the baseline and the arms to set against it. Raises UsageError for what has nothing to leave out."""
    if bool(parts) == (grid is not None):
        raise UsageError(
            "ablate: say what is left out, --leave-one-out tools|paper|context|feedback, or give --grid FILE"
        )
    if grid is not None:
        arms = _from_grid(grid, options)
    else:
        baseline, *others = build_arms(options)
        if others:
            raise UsageError("ablate takes one agent and one model: the baseline, of which parts are left out")
        arms = (baseline, *(arm for part in dict.fromkeys(parts) for arm in _LEAVE_OUT[part](baseline)))
    if len(arms) < 2:
        raise UsageError("ablate: no arm is left beside the baseline")
    return arms


def describe_change(baseline: Mapping[str, Any], arm: Mapping[str, Any]) -> str:
    """Say in what an arm differs from the baseline."""
    changes = []
    if gone := [tool for tool in baseline["tools"] if tool not in arm["tools"]]:
        changes.append(f"without {', '.join(gone)}")
    if more := [tool for tool in arm["tools"] if tool not in baseline["tools"]]:
        changes.append(f"with {', '.join(more)}")
    rest = [key for key in {**baseline, **arm} if key not in ("id", "tools") and baseline.get(key) != arm.get(key)]
    return "; ".join([*changes, *(f"{key} {_shown(arm.get(key))}" for key in rest)]) or "nothing"


def tools_left_out(baseline: Mapping[str, Any], arm: Mapping[str, Any]) -> list[str]:
    """Return the baseline's tools that an arm lacks."""
    return [tool for tool in baseline["tools"] if tool not in arm["tools"]]


def _shown(value: Any) -> str:
    return ", ".join(f"{key}={one}" for key, one in value.items()) if isinstance(value, dict) else str(value)


def _without_tools(baseline: Arm) -> Iterator[Arm]:
    left_out = [tool for tool in baseline.tools if tool != _ENDS]
    if not left_out or len(baseline.tools) < 2:
        raise UsageError(f"--leave-one-out tools: {baseline.agent} has no tools that could be left out")
    for tool in left_out:
        yield replace(baseline, id=f"without-{tool}", tools=tuple(one for one in baseline.tools if one != tool))


def _without_paper(baseline: Arm) -> Iterator[Arm]:
    if baseline.paper == "none":
        raise UsageError("--leave-one-out paper: the baseline has no paper that could be left out")
    yield replace(baseline, id="without-paper", paper="none")


def _without_context(baseline: Arm) -> Iterator[Arm]:
    if baseline.context == "target":
        raise UsageError("--leave-one-out context: the baseline has no context files that could be left out")
    yield replace(baseline, id="without-context", context="target")


def _without_feedback(baseline: Arm) -> Iterator[Arm]:
    """Yield every lesser kind of feedback, the next lower first."""
    lower = FEEDBACKS[: FEEDBACKS.index(baseline.feedback)]
    if not lower:
        raise UsageError(f"--leave-one-out feedback: {baseline.agent} has no feedback that could be left out")
    for kind in reversed(lower):
        yield replace(baseline, id=f"feedback-{kind}", feedback=kind)


_LEAVE_OUT: Mapping[str, Callable[[Arm], Iterator[Arm]]] = {
    "tools": _without_tools,
    "paper": _without_paper,
    "context": _without_context,
    "feedback": _without_feedback,
}


@dataclass(frozen=True, slots=True)
class _Grid:
    """A grid file: what the baseline is, single arms by what differs from it, and fields whose values are crossed."""

    baseline: Mapping[str, Any]
    arms: Sequence[Mapping[str, Any]]
    cross: Mapping[str, Sequence[Any]]

    def changes(self) -> Iterable[Json]:
        """Yield what each arm beside the baseline changes."""
        yield from (dict(arm) for arm in self.arms)
        if not self.cross:
            return
        for values in product(*self.cross.values()):
            change = dict(zip(self.cross, values, strict=True))
            yield {**change, "name": "-".join(f"{key}-{_word(value)}" for key, value in change.items())}


def _word(value: Any) -> str:
    text = "+".join(map(str, value)) or "nothing" if isinstance(value, list) else str(value).lower()
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in text)


def _from_grid(path: Path, options: ArmOptions) -> tuple[Arm, ...]:
    grid = _read_grid(path)
    if options.agents or options.models or options.arms:
        raise UsageError("ablate: a grid file names agent and model itself: leave --agent and --model out")
    common = {**options.common, **_fields(grid.baseline)}
    changes = [{**common, **_fields(_checked(change, path))} for change in grid.changes()]
    (baseline,) = make_arms([common])
    arms = [baseline, *make_arms(changes)]
    if any(arm.id == baseline.id for arm in arms[1:]):
        raise UsageError(f"--grid {path}: an arm is called {baseline.id!r}, as the baseline is: give it another name")
    return tuple(arm for place, arm in enumerate(arms) if not place or replace(arm, id=baseline.id) != baseline)


def _fields(change: Mapping[str, Any]) -> Json:
    return {key.replace("-", "_"): str(value) if key == "price" else value for key, value in change.items()}


def _schema() -> Json:
    import json
    from importlib.resources import files

    return dict(json.loads((files("rcb_agent.runs") / "schema" / "grid.json").read_text("utf-8")))


def _checked(change: Json, path: Path) -> Json:
    """Return a change whose values fit their fields, which crossed ones are looked at for only here."""
    from jsonschema import Draft202012Validator

    schema = _schema()
    validator = Draft202012Validator({"$ref": "#/$defs/change", "$defs": schema["$defs"]})
    for error in validator.iter_errors(change):
        place = ".".join(map(str, error.absolute_path))
        raise UsageError(f"--grid {path}: cross: {place}: {error.message[:200]}")
    return change


def _read_grid(path: Path) -> _Grid:
    """Read a grid file. Raises UsageError naming file, line and key."""
    from jsonschema import Draft202012Validator

    from rcb_agent.tasks.base import Fault
    from rcb_agent.tasks.documents import read_document

    document = read_document(path, str(path))
    if isinstance(document, Fault):
        raise UsageError(f"--grid {document}")
    faults = document.explain(Draft202012Validator(_schema()).iter_errors(document.data))
    if faults:
        raise UsageError(f"--grid {faults[0]}")
    data = document.data
    return _Grid(data["baseline"], data.get("arms", ()), data.get("cross", {}))
