"""Shows by which kind of mistake trials failed: per arm and over all, the paper's categories beside."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.runs.base import Json
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import visible
from rcb_agent.scoring.base import FAILED, NOT_MEASURED
from rcb_agent.scoring.error_classes import CLASSES, PAPER, classify_failure, count_classes

_NO_MESSAGES = "mode upstream keeps only the end of what the tests printed, imported results nothing: unknown"


def describe_failures(reader: RunReader) -> Json:
    """Return counts per arm and class (scope diff), and the class of every failed trial."""
    grades = [
        grade
        for grade in reader.grades().values()
        if grade["scope"] == "diff" and grade["mode"] == reader.config["mode"] and grade["snapshot"] == "final"
    ]
    failed = [grade for grade in grades if grade["verdict"] == FAILED]
    arms = [
        {
            "arm": arm["id"],
            "trials": reader.config["attempts"] * len(reader.config["tasks"]),
            "failed": sum(grade["arm"] == arm["id"] for grade in failed),
            "not_measured": sum(g["arm"] == arm["id"] and g["verdict"] == NOT_MEASURED for g in grades),
            "classes": count_classes(grade for grade in failed if grade["arm"] == arm["id"]),
        }
        for arm in reader.config["arms"]
    ]
    return {
        "run": reader.id,
        "mode": reader.config["mode"],
        "failed": len(failed),
        "arms": arms,
        "classes": count_classes(failed),
        "paper": {kind: {"category": name, "share": share} for kind, (name, share) in PAPER.items()},
        "trials": [
            {
                **{key: grade[key] for key in ("trial", "arm", "task", "attempt", "reason")},
                "class": classify_failure(grade),
            }
            for grade in failed
        ],
    }


def print_failures(console: Console, document: Json) -> None:
    """Print classes against arms: failed trials and their share of the arm's failures."""
    arms = document["arms"]
    title = f"{visible(document['run'])} · {document['failed']} failed trials by kind of mistake"
    table = Table(title=Text(title), title_justify="left", padding=(0, 0), pad_edge=False)
    table.add_column("class")
    shown = arms if len(arms) <= _MOST_ARMS else []
    for arm in shown:
        table.add_column(Text(visible(arm["arm"])), justify="right", overflow="fold")
    for head in ("all", "paper"):
        table.add_column(head, justify="right")
    for kind in CLASSES:
        cells = [_share(arm["classes"][kind], arm["failed"]) for arm in shown]
        category, share = document["paper"][kind]["category"], document["paper"][kind]["share"]
        paper = f"{share:.1f} %" if share is not None else f"({category})" if category else ""
        table.add_row(kind, *cells, _share(document["classes"][kind], document["failed"]), paper)
    table.add_section()
    table.add_row("failed", *(f"{arm['failed']} of {arm['trials']}" for arm in shown), str(document["failed"]), "4333")
    console.print(table)
    for line in _remarks(document, hidden=len(arms) - len(shown)):
        console.print(Text(visible(line)))


_MOST_ARMS = 6


def _share(count: int, total: int) -> str:
    return f"{count} {100 * count / total:4.0f} %" if count else "-"


def _remarks(document: Json, *, hidden: int) -> list[str]:
    lines = [
        "By rule from the grade: its reason, then the exceptions of its tests; functional: runs, but does the wrong thing.",
        "paper: its shares over the failures of 32 models, as a language model sorted them; it has no class for time.",
    ]
    if hidden:
        lines.append(f"{hidden} arms are counted in all only; one by one: --json")
    if missing := sum(arm["not_measured"] for arm in document["arms"]):
        lines.append(f"{missing} trials were not measured: they are no failures and are not counted")
    return [*lines, _NO_MESSAGES] if document["mode"] == "upstream" else lines
