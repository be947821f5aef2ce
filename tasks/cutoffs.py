"""Until when models have read: a shipped table of cutoffs, each with who says so, and dates that are only known by month.

A cutoff "2024-11" is some day of that month; what follows from it is only said where it holds for each of these days.
"""

import json
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from importlib.resources import files

from rcb_agent.errors import UsageError


@dataclass(frozen=True, slots=True)
class Cutoff:
    """A date as it was given (``text``), and the first and the last day that it may mean."""

    text: str
    first: date
    last: date

    def __str__(self) -> str:
        """As it was given."""
        return self.text


@dataclass(frozen=True, slots=True)
class KnownCutoff:
    """A line of the table: a model under its published id and its providers' names, and who said so when."""

    model: str
    names: tuple[str, ...]
    cutoff: Cutoff
    source: str
    stated: str


def read_cutoff(text: str) -> Cutoff:
    """Read ``2024-11-17`` or ``2024-11``. Raises ValueError."""
    year, _, rest = text.partition("-")
    month, dash, day = rest.partition("-")
    if not (len(year) == 4 and len(month) == 2 and len(day) == (2 if dash else 0)):
        raise ValueError(f"{text!r} is no date like 2024-11-17 or 2024-11")
    if dash:
        exact = date.fromisoformat(text)
        return Cutoff(text, exact, exact)
    first = date(int(year), int(month), 1)
    return Cutoff(text, first, first.replace(day=monthrange(first.year, first.month)[1]))


@lru_cache(maxsize=1)
def load_cutoffs() -> tuple[KnownCutoff, ...]:
    """Read the shipped table."""
    table = json.loads((files("rcb_agent.tasks") / "data" / "researchcodebench" / "cutoffs.json").read_text("utf-8"))
    return tuple(
        KnownCutoff(
            entry["model"],
            tuple(entry["names"]),
            read_cutoff(entry["cutoff"]),
            table["sources"][entry["source"]],
            entry["stated"],
        )
        for entry in table["models"]
    )


def find_cutoff(model: str) -> KnownCutoff | None:
    """Look a model up by its published id or a provider's name, with or without ``provider/``; None when unknown."""
    wanted = {model.casefold(), model.rpartition("/")[2].casefold()}
    known = (entry for entry in load_cutoffs() if wanted & {name.casefold() for name in (entry.model, *entry.names)})
    return next(known, None)


def resolve_cutoff(text: str) -> Cutoff:
    """Read a date, or look a model up. Raises UsageError when it is neither."""
    try:
        return read_cutoff(text)
    except ValueError:
        known = find_cutoff(text)
    if known is None:
        raise UsageError(f"{text!r}: no cutoff of such a model is known here: give the date, 2025-03 or 2025-03-31")
    return known.cutoff
