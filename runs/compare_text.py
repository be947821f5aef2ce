"""The small pieces of text of a comparison's tables, the same on the screen and in LaTeX."""

from collections.abc import Mapping

from rcb_agent.runs.base import Json

_VIEWS: Mapping[str, str] = {
    "all": "",
    "outermost": "outermost",
    "sound": "sound only",
    "measured": "measured only",
}


def view_name(view: Json, rate: str) -> str:
    """Name a line: the rate, the scope unless it is the headline's, the view unless it is all tasks."""
    parts = [
        "scaled" if rate == "scaled" else "pass rate",
        "blank" if view["scope"] == "blank" else "",
        _VIEWS[view["view"]],
    ]
    return ", ".join(part for part in parts if part)


def difference_text(record: Json) -> str:
    """Write a difference with its interval; "-" where there is none."""
    if record["difference"] is None:
        return "-"
    text = f"{record['difference']:+.1f}"
    low, high = record["bracket"]
    if low != high:
        text += f" ({low:+.1f} .. {high:+.1f})"
    if record["interval"] is None:
        return text
    low, high = record["interval"]
    return f"{text} [{low:+.1f}, {high:+.1f}]"


def rate_text(view: Json, key: str) -> str:
    """Write a rate in percent, as a bracket where something was not measured."""
    low, high = view[key], view[f"{key}_upper"]
    if low is None:
        return "-"
    return f"{low:.1f}" if low == high else f"{low:.1f}..{high:.1f}"


def number(value: float | None, digits: int, unknown: str = "?") -> str:
    """Write a number with thousands marked."""
    return unknown if value is None else f"{value:,.{digits}f}"
