"""Carries out ``curve``: grades a run's snapshots, then shows both rates against what was spent."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.curves import UNITS, draw_curves
from rcb_agent.runs.output import choose_form
from rcb_agent.runs.reader import RunReader, find_run
from rcb_agent.runs.scratch import claim_scratch
from rcb_agent.runs.screen import open_console, visible
from rcb_agent.runs.snapshot_grading import grade_snapshots

RATES: Mapping[str, str] = {"scaled": "scaled_pass_rate", "plain": "pass_rate"}
_WIDTH, _HEIGHT = 68, 15
_COLOURS = ("cyan", "magenta", "yellow", "green", "red", "blue")
_FORMATS = (".png", ".pdf", ".svg")


def print_curve(options: Mapping[str, Any]) -> None:
    """Grade what is not graded yet and print, write or plot the curves. Raises UsageError."""
    choose_form({key: options[key] for key in ("as_json", "as_csv")})  # one at most, before anything is graded
    check_plot(options["plot"])
    reader = RunReader(find_run(options["run_id"], options["results"]))
    _check_arms(reader, options["arms"])
    if not reader.run.get("imported"):
        claim_scratch()
        grade_snapshots(reader, options["workers"], cold=options["cold"])
    document = draw_curves(reader, options["arms"])
    if options["plot"] is not None:
        plot_curves(document, options["plot"])
    if options["as_json"]:
        sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
    elif options["as_csv"]:
        _write_csv(document)
    else:
        _print(document, options["units"] or UNITS[:1], options["rate"])
        if options["plot"] is not None:
            sys.stdout.write(f"plot: {visible(str(options['plot']))}\n")


def _check_arms(reader: RunReader, wanted: Sequence[str]) -> None:
    known = [arm["id"] for arm in reader.config["arms"]]
    if strays := [name for name in wanted if name not in known]:
        raise UsageError(f"run {reader.id} has no arm {strays[0]!r}; it has {', '.join(known[:6])}")


def check_plot(path: Path | None) -> None:
    """Refuse a plot that cannot be written, before anything is graded."""
    if path is None:
        return
    if path.suffix.lower() not in _FORMATS:
        raise UsageError(f"--plot {path}: give a name that ends in {', '.join(_FORMATS)}")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401, ICN001 - only whether it is there
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'rcb-agent[plots]'") from None


def value_at(points: Sequence[Json], x: float, name: str) -> float | None:
    """Return what a step function is at ``x``; before its first point nothing passed."""
    value = 0.0
    for point in points:
        if point["x"] > x:
            break
        value = point[name]
    return value


def _print(document: Json, units: Sequence[str], rate: str) -> None:
    console = open_console()
    marks = {arm["arm"]: chr(ord("a") + index % 26) for index, arm in enumerate(document["arms"])}
    for unit in units:
        drawn = [arm for arm in document["arms"] if arm["units"][unit] is not None]
        longest = max((arm["units"][unit]["points"][-1]["x"] for arm in drawn), default=0.0)
        console.print(Text(f"\n{rate} pass rate, %, if every trial had been ended at so many {unit}", style="bold"))
        if drawn and longest > 0:
            for row in _draw(drawn, unit, longest, (RATES[rate], marks)):
                console.print(row, soft_wrap=True)
            console.print(_table(drawn, unit, longest, marks))
        for line in _remarks(document["arms"], unit, longest):
            console.print(Text(visible(line)), soft_wrap=True)
    console.print(Text(visible("\n".join(_footnotes(document)))), soft_wrap=True)


def _draw(arms: Sequence[Json], unit: str, longest: float, how: tuple[str, Mapping[str, str]]) -> list[Text]:
    """Return the lines of a plot: a letter per arm, in turn where several meet; a point is a capital letter."""
    name, marks = how
    highest = max([10.0, *(point[name] or 0.0 for arm in arms for point in arm["units"][unit]["points"])])
    cells: dict[tuple[int, int], list[tuple[str, str]]] = {}
    for index, arm in enumerate(arms):
        points, mark = arm["units"][unit]["points"], marks[arm["arm"]]
        is_point = arm["kind"] == "point"
        columns = [round(points[-1]["x"] / longest * (_WIDTH - 1))] if is_point else range(_WIDTH)
        for column in columns:
            value = value_at(points, points[-1]["x"] if is_point else column / (_WIDTH - 1) * longest, name) or 0.0
            row = round(value / highest * (_HEIGHT - 1))
            letter = mark.upper() if is_point else mark
            cells.setdefault((row, column), []).append((letter, _COLOURS[index % len(_COLOURS)]))
    lines = [_draw_row(row, highest, cells) for row in range(_HEIGHT - 1, -1, -1)]
    right = _amount(longest, unit)
    return [*lines, Text(f"{'':6}└{'─' * _WIDTH}"), Text(f"{'':7}0{right:>{_WIDTH - 1}} {unit}")]


def _draw_row(row: int, highest: float, cells: Mapping[tuple[int, int], list[tuple[str, str]]]) -> Text:
    label = f"{row / (_HEIGHT - 1) * highest:5.0f}" if row % 7 == 0 else ""
    line = Text(f"{label:>5} │")
    for column in range(_WIDTH):
        found = cells.get((row, column), [(" ", "")])
        line.append(*found[column % len(found)])
    return line


def _table(arms: Sequence[Json], unit: str, longest: float, marks: Mapping[str, str]) -> Table:
    table = Table(title=f"plain / scaled, by {unit}", title_justify="left")
    table.add_column("arm", overflow="fold")
    places = [longest * part for part in (0.25, 0.5, 0.75, 1.0)]
    for place in places:
        table.add_column(f"at {_amount(place, unit)}", justify="right")
    table.add_column("spent, mean", justify="right")
    for arm in arms:
        curve = arm["units"][unit]
        is_point = arm["kind"] == "point"
        reached = [None if is_point and place < curve["points"][-1]["x"] else place for place in places]
        cells = ["" if place is None else _both(curve["points"], place) for place in reached]
        table.add_row(Text(visible(f"{marks[arm['arm']]} {arm['arm']}")), *cells, _amount(curve["mean"], unit))
    return table


def _both(points: Sequence[Json], place: float) -> str:
    return " / ".join(_bracket(points, place, name) for name in ("pass_rate", "scaled_pass_rate"))


def _bracket(points: Sequence[Json], place: float, name: str) -> str:
    low, high = value_at(points, place, name), value_at(points, place, f"{name}_upper")
    if low is None or high is None:
        return "-"
    return f"{low:.1f}" if low == high else f"{low:.1f} .. {high:.1f}"


def _amount(value: float, unit: str) -> str:
    if unit == "dollars":
        return f"${value:.4f}" if value < 1 else f"${value:.2f}"
    return f"{value:.2f}" if unit == "minutes" else f"{value:,.10g}" if value == round(value) else f"{value:,.1f}"


def _remarks(arms: Sequence[Json], unit: str, longest: float) -> list[str]:
    unknown = [arm["arm"] for arm in arms if arm["units"][unit] is None]
    lines = [f"{unit} unknown, not drawn: {', '.join(unknown)}"] if unknown else []
    if len(unknown) < len(arms) and longest == 0:
        lines.append(f"all of it took 0 {unit}: nothing to draw")
    return lines


def _footnotes(document: Json) -> list[str]:
    lines = [
        "scope diff; a trial that stopped early keeps its last value",
        "a capital letter is an arm of one step; where arms meet, their letters stand in turn",
    ]
    lines += [
        f"{arm['arm']}: {arm['not_measured']} of {arm['trials']} trials not measured (lower .. upper rate)"
        for arm in document["arms"]
        if arm["not_measured"]
    ]
    if any(arm["model"].startswith("scripted/") for arm in document["arms"]):
        lines.append(
            "scripted: a script, not a language model; it shows the machinery and says nothing about any model"
        )
    return lines


_CSV = ("arm", "kind", "by", "x", "pass_rate", "pass_rate_upper", "scaled_pass_rate", "scaled_pass_rate_upper")


def _write_csv(document: Json) -> None:
    """Write a line per point; a unit that is unknown has one line without numbers."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_CSV)
    for arm in document["arms"]:
        for unit, curve in arm["units"].items():
            for point in curve["points"] if curve else [{}]:
                values = [point.get(name, "unknown" if name == "x" else "") for name in _CSV[3:]]
                writer.writerow([arm["arm"], arm["kind"], unit, *values])


def plot_curves(document: Json, path: Path) -> None:
    """Write a figure: a row per rate, a column per unit that is known for some arm."""
    from matplotlib.figure import Figure

    units = [unit for unit in UNITS if any(_reaches(arm["units"][unit]) for arm in document["arms"])]
    figure = Figure(figsize=(4.2 * max(1, len(units)), 6.4), layout="constrained")
    axes = figure.subplots(len(RATES), max(1, len(units)), squeeze=False)
    for row, (rate, name) in enumerate(RATES.items()):
        for column, unit in enumerate(units):
            _plot_one(axes[row][column], document["arms"], unit, (rate, name))
    axes[0][0].legend(fontsize="small")
    scripted = any(arm["model"].startswith("scripted/") for arm in document["arms"])
    note = " · scripted model, not a language model" if scripted else ""
    figure.suptitle(f"{document['suite']} · {document['run']}{note}", fontsize="medium")
    try:
        figure.savefig(path)
    except OSError as error:
        raise UsageError(f"--plot {path}: cannot be written: {error.strerror}") from None


def _reaches(curve: Json | None) -> bool:
    return curve is not None and curve["points"][-1]["x"] > 0


def _plot_one(axis: Any, arms: Sequence[Json], unit: str, how: tuple[str, str]) -> None:
    rate, name = how
    for index, arm in enumerate(arms):
        curve, colour = arm["units"][unit], f"C{index}"
        if curve is None:
            continue
        xs = [point["x"] for point in curve["points"]]
        low, high = ([point[key] or 0.0 for point in curve["points"]] for key in (name, f"{name}_upper"))
        if arm["kind"] == "point":
            axis.errorbar(xs, low, yerr=[[0.0], [high[0] - low[0]]], fmt="o", color=colour, label=arm["arm"])
            continue
        axis.step(xs, low, where="post", color=colour, label=arm["arm"])
        axis.fill_between(xs, low, high, step="post", color=colour, alpha=0.2, linewidth=0)
    axis.set(xlabel=unit, ylabel=f"{rate} pass rate, %", ylim=(0, 100))
