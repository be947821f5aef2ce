"""Shows how much of the gold code stands in each submission: evidence for a person, it decides nothing.

Lines are compared without their indentation, comments and blank lines left out. Looked at are the lines that a submission
has beyond the files that were given. A short blank is often written as its authors did; a long one hardly ever.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.config import digest_tasks
from rcb_agent.runs.controls import CONTROLS
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import visible
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import blank_lines
from rcb_agent.tasks.suites import load_suite

LONG = 6
"""A blank of at least so many lines that equals the gold line by line is flagged for a look."""


def code_lines(text: str) -> list[str]:
    """Return the lines that count, without indentation."""
    stripped = [line.strip() for line in text.splitlines()]
    return [line for line in stripped if line and not line.startswith("#")]


def describe_copies(reader: RunReader) -> Json:
    """Return the overlap of every trial's submission with the gold code of its task. Raises UsageError, TaskError."""
    if "imported" in reader.run:
        raise UsageError(f"{reader.path}: was imported: it holds no code to compare")
    tasks = {task.id: task for task in load_suite(reader.config["suite"]).tasks}
    known = [tasks[name] for name in reader.config["tasks"] if name in tasks]
    same = len(known) == len(reader.config["tasks"]) and digest_tasks(known) == reader.config["suite_digest"]
    verdicts = {key[0]: grade["verdict"] for key, grade in reader.grades().items() if key[1:3] == ("final", "diff")}
    agents = {arm["id"]: arm["agent"] for arm in reader.config["arms"]}
    trials = [
        {**_compare(trial, tasks[trial["task"]], reader.blob), "verdict": verdicts.get(trial["trial"])}
        for trial in reader.trials().values()
        if trial["submission"] is not None and trial["task"] in tasks
    ]
    for trial in trials:
        trial["look"] = trial["equal"] and trial["lines"] >= LONG and agents.get(trial["arm"]) not in CONTROLS
    return {
        "run": reader.id,
        "suite_unchanged": same,
        "long": LONG,
        "arms": [_summarise(arm["id"], arm["agent"], trials) for arm in reader.config["arms"]],
        "trials": sorted(
            trials, key=lambda trial: (not trial["look"], -trial["overlap"], -trial["lines"], trial["trial"])
        ),
    }


def _compare(trial: Json, task: Task, read_blob: Callable[[str], bytes]) -> Json:
    gold = code_lines(task.answer.gold)
    texts = {
        item["path"]: read_blob(item["sha256"]).decode("utf-8", "replace")
        for item in trial["submission"]["files"]
        if item["kind"] == "file"
    }
    given = {file.path: file.text for file in task.problem.files}
    found = Counter(gold) & added_lines(given, texts)
    inside = blank_lines(task.problem, texts.get(task.problem.path, ""))
    return {
        **{key: trial[key] for key in ("trial", "arm", "task", "attempt")},
        "lines": len(gold),
        "overlap": 100 * found.total() / len(gold) if gold else 0.0,
        "equal": bool(gold) and inside is not None and code_lines(inside) == gold,
    }


def added_lines(given: Mapping[str, str], left: Mapping[str, str]) -> "Counter[str]":
    """Count the lines that files have beyond what was given; both map a path to its text."""
    added: Counter[str] = Counter()
    for path, text in left.items():
        added += Counter(code_lines(text)) - Counter(code_lines(given.get(path, "")))
    return added


def _summarise(arm: str, agent: str, trials: Iterable[Json]) -> Json:
    own = [trial for trial in trials if trial["arm"] == arm]
    passed = [trial for trial in own if trial["verdict"] == "passed"]
    return {
        "arm": arm,
        "control": agent in CONTROLS,
        "submissions": len(own),
        "mean_overlap": _mean(own),
        "mean_overlap_passed": _mean(passed),
        "equal": sum(trial["equal"] for trial in own),
        "equal_long": sum(trial["equal"] and trial["lines"] >= LONG for trial in own),
        "look": sum(trial["look"] for trial in own),
    }


def _mean(trials: list[Json]) -> float | None:
    return sum(trial["overlap"] for trial in trials) / len(trials) if trials else None


_MOST = 20


def print_copies(console: Console, document: Json) -> None:
    """Print a line per arm, then the submissions to look at."""
    title = f"{visible(document['run'])} · lines of the gold code in submissions"
    table = Table(title=Text(title), title_justify="left", padding=(0, 0), pad_edge=False)
    table.add_column("arm", overflow="fold")
    for name in ("submissions", "overlap", "of passed", "equal", f"equal, {LONG}+ lines", "to look at"):
        table.add_column(name, justify="right")
    for arm in document["arms"]:
        counts = [str(arm[key]) for key in ("equal", "equal_long", "look")]
        if arm["control"]:
            counts[-1] = "- (control)"
        overlaps = [_percent(arm[key]) for key in ("mean_overlap", "mean_overlap_passed")]
        table.add_row(Text(visible(arm["arm"])), str(arm["submissions"]), *overlaps, *counts)
    console.print(table)
    _print_looks(console, [trial for trial in document["trials"] if trial["look"]])
    for line in _remarks(document):
        console.print(Text(visible(line)))


def _print_looks(console: Console, looks: list[Json]) -> None:
    if not looks:
        return
    table = Table(title="equal to the gold, line by line, on a long blank", title_justify="left", pad_edge=False)
    for name in ("task", "arm", "attempt", "lines", "verdict"):
        table.add_column(name, overflow="fold", justify="right" if name in ("attempt", "lines") else "left")
    for trial in looks[:_MOST]:
        cells = [trial["task"], trial["arm"], str(trial["attempt"]), str(trial["lines"]), str(trial["verdict"] or "-")]
        table.add_row(*(Text(visible(cell)) for cell in cells))
    console.print(table)
    if len(looks) > _MOST:
        console.print(f"... and {len(looks) - _MOST} more: --json")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} %"


_LEGEND = (
    "overlap: share of the gold's lines that a submission adds, without indentation and comments. Equal on a long blank is "
    "for a person to look at: remembered, found, or the only way to write it. Controls (oracle) are expected to be equal."
)
_CHANGED = "The suite is not what it was when this ran: the gold code may be another one."


def _remarks(document: Json) -> list[str]:
    return [_LEGEND] if document["suite_unchanged"] else [_LEGEND, _CHANGED]
