"""How much a validation tries, and which of two validations of a task counts for more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Depth:
    """How much is tried: runs of the gold code, mutants of each blank, whether trivial answers."""

    gold_runs: int = 3
    mutants: int = 5
    trivial: bool = True
    seed: int = 0

    @property
    def rank(self) -> tuple[bool, int, int, bool]:
        """What orders depths: those that try all that FULL does come after all others."""
        return self.is_full, self.gold_runs, self.mutants, self.trivial

    @property
    def is_full(self) -> bool:
        """Say whether all is tried that FULL tries: only then may a task be called sound."""
        return self.gold_runs >= FULL.gold_runs and self.mutants >= FULL.mutants and self.trivial


FULL = Depth()
QUICK = Depth(gold_runs=1, mutants=2, trivial=False)
_UNKNOWN = Depth(gold_runs=0, mutants=0, trivial=False)


def read_depth(record: Mapping[str, Any]) -> Depth:
    """Return the depth that a record was made with; one that does not say it is thinner than all that do."""
    found = record.get("depth")
    try:
        return Depth(int(found["gold_runs"]), int(found["mutants"]), found["trivial"] is True) if found else _UNKNOWN
    except (KeyError, TypeError, ValueError):
        return _UNKNOWN
