"""Until when models have read: a shipped table of cutoffs, each with who says so, and dates that are only known by month.

A cutoff "2024-11" is some day of that month; what follows from it is only said where it holds for each of these days.
"""

import json
import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
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
    """A line of the table: a model under its published id, its providers' names and as it is shown, and who said so when."""

    model: str
    names: tuple[str, ...]
    shown: str
    cutoff: Cutoff
    source: str
    stated: str


def read_cutoff(text: str) -> Cutoff:
    """Read ``2024-11-17`` or ``2024-11``. Raises ValueError."""
    year, _, rest = text.partition("-")
    month, dash, day = rest.partition("-")
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}(-[0-9]{2})?", text):
        raise ValueError(f"{text!r} is no date like 2024-11-17 or 2024-11")
    try:
        first = date(int(year), int(month), int(day) if dash else 1)
    except ValueError:
        raise ValueError(f"{text!r}: there is no such date") from None
    return Cutoff(text, first, first if dash else first.replace(day=monthrange(first.year, first.month)[1]))


@lru_cache(maxsize=1)
def load_cutoffs() -> tuple[KnownCutoff, ...]:
    """Read the shipped table; the names that are shown stand beside the published passes."""
    table, published = (
        json.loads((files("rcb_agent.tasks") / "data" / "researchcodebench" / name).read_text("utf-8"))
        for name in ("cutoffs.json", "published.json")
    )
    shown = {model["id"]: model["pretty_name"] for model in published["models"]}
    return tuple(
        KnownCutoff(
            entry["model"],
            tuple(entry["names"]),
            shown.get(entry["model"], entry["model"]),
            read_cutoff(entry["cutoff"]),
            table["sources"][entry["source"]],
            entry["stated"],
        )
        for entry in table["models"]
    )


def find_cutoff(model: str) -> KnownCutoff | None:
    """Look a model up by any of its names, with or without ``provider/``, whatever its case and punctuation; None when unknown."""
    known = _known_names()
    return known.get(plain_name(model)) or known.get(plain_name(model.rpartition("/")[2]))


def plain_name(name: str) -> str:
    """Return the letters and digits of a name alone: ``O3 (High)``, ``O3_HIGH`` and ``o3-high`` are one."""
    return "".join(character for character in name.casefold() if character.isalnum())


@lru_cache(maxsize=1)
def _known_names() -> dict[str, KnownCutoff]:
    return {plain_name(name): entry for entry in load_cutoffs() for name in (entry.model, entry.shown, *entry.names)}


def _say_near(text: str) -> str:
    """Name the known models that are written nearly so."""
    known = _known_names()
    near = get_close_matches(plain_name(text), known, n=5, cutoff=0.6)
    shown = list(dict.fromkeys(known[name].shown for name in near))[:3]
    return f" (near it: {', '.join(shown)})" if shown else ""


def resolve_cutoff(text: str) -> Cutoff:
    """Read a date, or look a model up. Raises UsageError when it is neither."""
    if known := find_cutoff(text):
        return known.cutoff
    try:
        return read_cutoff(text)
    except ValueError as error:
        if text[:4].isdecimal():
            raise UsageError(f"{error}: give the date, 2025-03 or 2025-03-31") from None
    raise UsageError(
        f"{text!r}: no cutoff of such a model is known here{_say_near(text)}: give the date, 2025-03 or 2025-03-31"
    )
