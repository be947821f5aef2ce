"""Carries out the commands that only look: ``show``, ``diff``, ``tasks show``."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.reader import RunReader, find_run
from rcb_agent.runs.screen import (
    cheat_tables,
    open_console,
    run_table,
    show_events,
    task_table,
    visible,
    write_bytes_safely,
)
from rcb_agent.runs.summary import summarise_run
from rcb_agent.tasks.base import SourceFile, Task
from rcb_agent.tasks.suites import find_task, load_suite

Options = Mapping[str, Any]


def show(options: Options) -> None:
    """Print a run, one of its views, or one trial. Raises UsageError where several are asked for."""
    asked = [f"--{name}" for name in ("errors", "by", "copies") if options[name]]
    if len(asked) > 1 or (asked and options["trial"]):
        raise UsageError(f"{' and '.join([*asked, *(['TRIAL'] if options['trial'] else [])])}: choose one")
    if options["trial"]:
        show_trial(options)
    elif asked:
        _show_view(options)
    else:
        show_run(options)


def _show_view(options: Options) -> None:
    from rcb_agent.runs import breakdowns, copies, failures

    reader = _open(options)
    if options["errors"]:
        document, print_it = failures.describe_failures(reader), failures.print_failures
    elif options["by"]:
        document, print_it = breakdowns.describe_breakdown(reader, options["by"]), breakdowns.print_breakdown
    else:
        document, print_it = copies.describe_copies(reader), copies.print_copies
    if options["as_json"]:
        _print_json(document)
    else:
        print_it(open_console(), document)
        _warn_torn(reader)


def show_run(options: Options) -> None:
    """Print a run's table and its verdicts task by task."""
    reader = _open(options)
    document = summarise_run(reader)
    if options["as_json"]:
        _print_json(document)
        return
    console = open_console()
    console.print(run_table(document, console.width))
    console.print(task_table(reader))
    for table in cheat_tables(document):
        console.print(table)
    _warn_torn(reader)


def show_trial(options: Options) -> None:
    """Print one trial as a story."""
    reader = _open(options)
    name = find_trial(reader, options["trial"])
    trial, events = reader.trials()[name], reader.events(name)
    grades = [record for key, record in reader.grades().items() if key[0] == name and key[1] == "final"]
    if options["as_json"]:
        _print_json({"trial": trial, "grades": grades, "events": events})
    else:
        show_events(open_console(), trial, grades, events)


def show_diff(options: Options) -> None:
    """Print the final diff of a trial."""
    reader = _open(options)
    trial = reader.trials()[find_trial(reader, options["trial"])]
    if trial["submission"] is None:
        why = trial["error"]["message"] if trial["error"] else f"{trial['note']}; no code is recorded"
        raise UsageError(f"{trial['trial']}: has no submission: {why}")
    write_bytes_safely(reader.blob(trial["submission"]["diff"]))


def find_trial(reader: RunReader, text: str) -> str:
    """Resolve TRIAL: a name, a task id with one trial, or a unique part of a name. Raises UsageError."""
    trials = reader.trials()
    if text in trials:
        return text
    fitting = [name for name, record in trials.items() if text == record["task"]]
    fitting = fitting or [name for name in trials if text in name]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise UsageError(f"no trial {text!r} in {reader.path}: see `rcb-agent show {reader.id}`")
    raise UsageError(
        f"{text!r} fits {len(fitting)} trials: {', '.join(sorted(fitting)[:4])}{', ...' if len(fitting) > 4 else ''}"
    )


def print_task(options: Options) -> None:
    """Show what an agent sees of a task; with ``--answer`` also the rest."""
    task = find_task(load_suite(options["suite"]), options["task_id"])
    if options["as_json"]:
        document: Json = {
            "id": task.id,
            "problem": asdict(task.problem),
            "withheld": [asdict(w) for w in task.withheld],
        }
        _print_json(document | ({"answer": asdict(task.answer)} if options["answer"] else {}))
        return
    problem = task.problem
    lines = [
        f"task     {task.id}",
        f"paper    {task.info.title}",
        f"lines    {problem.loc}, depth {task.depth}",
        "",
        "An agent's workspace holds:",
    ]
    shown = [*problem.files, *problem.files_support, *([problem.paper] if problem.paper else [])]
    lines += [f"  {file.path} ({len(file.encode())} bytes){_remark(task, file)}" for file in shown]
    lines += ["", *_listing(problem.target)]
    if options["answer"]:
        lines += ["", "What no agent sees:", f"  gold code of {problem.name!r}:", *task.answer.gold.splitlines()]
        lines += [line for file in task.answer.hidden for line in ["", *_listing(file)]]
    lines += ["", *(f"withheld: {item.path}: {item.reason}" for item in task.withheld)]
    sys.stdout.write(visible("\n".join(lines)) + "\n")


def _remark(task: Task, file: SourceFile) -> str:
    if file.path == task.problem.path:
        return "  <- the blank is here"
    return "  context" if file.path in task.problem.context_paths else ""


def _listing(file: SourceFile) -> list[str]:
    return [f"--- {file.path}", *file.text.splitlines()]


def _open(options: Options) -> RunReader:
    return RunReader(find_run(options["run_id"], options["results"]))


def _warn_torn(reader: RunReader) -> None:
    for name in sorted(set(reader.torn)):
        sys.stderr.write(f"rcb-agent: warning: {name}: its last line is torn and not counted\n")


def _print_json(document: Json) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
