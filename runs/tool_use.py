"""How often and when an arm's tools were called, from its trajectories."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from rcb_agent.runs.base import Json
from rcb_agent.runs.reader import RunReader


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool over some trials: those in which it was called, its calls in all, the steps of the calls."""

    trials: int
    used_in: int
    steps: tuple[int, ...]

    def as_json(self) -> Json:
        """Return the record form; ``median_step`` is None where it was never called."""
        return {
            "trials": self.trials,
            "used_in": self.used_in,
            "calls": len(self.steps),
            "median_step": median(self.steps) if self.steps else None,
        }


class ToolLog:
    """The calls of one arm's trials, read once each."""

    def __init__(self, reader: RunReader, arm: str) -> None:
        self._reader = reader
        self._trials = [trial for trial in reader.trials().values() if trial["arm"] == arm and trial["error"] is None]
        self._calls: dict[str, list[tuple[str, int]]] = {}

    def use(self, tool: str, tasks: Iterable[str]) -> ToolUse:
        """Return how a tool was used on these tasks."""
        wanted = frozenset(tasks)
        trials = [trial["trial"] for trial in self._trials if trial["task"] in wanted]
        steps = [[step for name, step in self._read(trial) if name == tool] for trial in trials]
        return ToolUse(
            len(trials), sum(bool(found) for found in steps), tuple(step for found in steps for step in found)
        )

    def _read(self, trial: str) -> list[tuple[str, int]]:
        if trial not in self._calls:
            events = self._reader.events(trial)
            self._calls[trial] = [(event["name"], event["step"]) for event in events if event["kind"] == "tool"]
        return self._calls[trial]
