"""Carries out ``ablate``: plans arms, runs them as any run, and says what each thing that was left out is worth.

The statistics are those of ``compare``, every arm against the baseline, adjusted for their number. Beside each effect stands
how the baseline used what was left out, on the tasks that it turned: those that one of the two arms alone did better on.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rcb_agent.errors import UsageError
from rcb_agent.runs.ablation_arms import describe_change, plan_arms, tools_left_out
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.compare import CompareRequest, make_comparison
from rcb_agent.runs.compare_text import difference_text, number
from rcb_agent.runs.compare_words import format_p
from rcb_agent.runs.config import ArmOptions
from rcb_agent.runs.latex import LatexTable, write_latex
from rcb_agent.runs.launch import launch_request, request_from
from rcb_agent.runs.output import Forms, choose_form, write_document
from rcb_agent.runs.plan import RunRequest, make_plan
from rcb_agent.runs.preview import describe_estimate, print_estimate_table
from rcb_agent.runs.reader import RunReader, find_run
from rcb_agent.runs.screen import open_console, visible
from rcb_agent.runs.summary import summarise_run
from rcb_agent.runs.tool_use import ToolLog

Options = Mapping[str, Any]


def ablate(options: Options) -> tuple[Json, int]:
    """Carry the command out; returns its document and how many trials were not measured."""
    choose_form(_forms_asked(options))
    if options["run_id"] is not None:
        document = describe_ablation(RunReader(find_run(options["run_id"], options["results"])), options["against"])
        _write(document, options)
        return document, _unmeasured(document["arms"])
    request = plan_request(options)
    if options["dry_run"]:
        return _print_plan(request, options), 0
    done = launch_request(request, {**options, "as_json": True})
    document = describe_ablation(RunReader(find_run(done["path"], options["results"])), "")
    _write(document, options)
    return document, _unmeasured(done["arms"])


def _unmeasured(arms: Iterable[Json]) -> int:
    return sum(arm["not_measured"] for arm in arms)


def plan_request(options: Options) -> RunRequest:
    """Return the run that the options ask for. Raises UsageError."""
    request = request_from(options)
    if options["against"]:
        raise UsageError("--against is for a finished run: here the baseline is what --agent and --model say")
    arms = plan_arms(request.arms, options["parts"], options["grid"])
    return replace(request, arms=ArmOptions(made=arms))


def _print_plan(request: RunRequest, options: Options) -> Json:
    plan = make_plan(request)
    plan.grader.close()
    baseline, *others = plan.config.arms
    per_arm = len(plan.config.tasks) * plan.config.attempts
    document: Json = {
        "suite": plan.config.suite,
        "baseline": baseline.id,
        "arms": [_planned(baseline, arm, per_arm) for arm in (baseline, *others)],
        "trials": per_arm * len(plan.config.arms),
        "estimate": describe_estimate(request, options["workers"]),
    }
    if options["as_json"]:
        sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
        return document
    console = open_console()
    table = Table(title=f"{len(plan.config.arms)} arms, {document['trials']} trials", title_justify="left")
    for name in ("arm", "differs by", "trials"):
        table.add_column(name, overflow="fold", justify="right" if name == "trials" else "left")
    for arm in document["arms"]:
        table.add_row(Text(visible(arm["arm"])), Text(visible(arm["change"])), str(arm["trials"]))
    console.print(table)
    print_estimate_table(request, options["workers"])
    console.print("nothing was run: the same command without --dry-run runs it")
    return document


def _planned(baseline: Arm, arm: Arm, trials: int) -> Json:
    change = "(baseline)" if arm is baseline else describe_change(baseline.as_json(), arm.as_json())
    return {"arm": arm.id, "change": change, "trials": trials}


def describe_ablation(reader: RunReader, against: str | None) -> Json:
    """Return the document that ``--json`` prints, of a run whose first arm (or ``against``) is the baseline."""
    arms = {arm["id"]: arm for arm in reader.config["arms"]}
    baseline = against or next(iter(arms))
    if baseline not in arms:
        raise UsageError(f"--against {baseline!r}: is no arm of {reader.id}; it has {', '.join(list(arms)[:6])}")
    if len(arms) < 2:
        raise UsageError(f"{reader.path}: has one arm, and an ablation sets several against a baseline")
    comparison = make_comparison(CompareRequest((str(reader.path),), against=baseline))
    log = ToolLog(reader, baseline)
    tasks = reader.config["tasks"]
    found = [_describe_effect(pair, arms, (baseline, log, tasks)) for pair in comparison["pairs"]]
    return {
        "run": reader.id,
        "path": str(reader.path),
        "suite": reader.config["suite"],
        "baseline": baseline,
        "arms": summarise_run(reader)["arms"],
        "effects": found,
        "scripted": any(arm["model"].startswith("scripted/") for arm in arms.values()),
        "comparison": comparison,
    }


def _describe_effect(pair: Json, arms: Mapping[str, Json], base: tuple[str, ToolLog, Sequence[str]]) -> Json:
    baseline, log, tasks = base
    arm = arms[pair["first"]]
    turned = [*pair["table"]["first_only_tasks"], *pair["table"]["second_only_tasks"]]
    tools = tools_left_out(arms[baseline], arm)
    headline = pair["views"][0]
    return {
        "arm": arm["id"],
        "change": describe_change(arms[baseline], arm),
        "sentence": pair["sentence"],
        "verdict": pair["verdict"],
        "won": pair["table"]["first_only"],
        "lost": pair["table"]["second_only"],
        "scaled": headline["scaled"],
        "plain": headline["plain"],
        "turned": sorted(turned),
        "tools": {
            tool: {"turned": log.use(tool, turned).as_json(), "all": log.use(tool, tasks).as_json()} for tool in tools
        },
    }


def _forms_asked(options: Options) -> Json:
    """Leave ``--out`` out: here it is the run's folder, and the table goes to standard output."""
    return {key: options[key] for key in ("as_json", "as_csv", "as_latex")}


def _write(document: Json, options: Options) -> None:
    forms = Forms(
        screen=lambda console: print_ablation(console, document),
        csv=lambda: csv_rows(document),
        latex=lambda: write_latex([_latex(document)]),
    )
    write_document(document, forms, _forms_asked(options))


_HEADS = (
    "left out",
    "won",
    "lost",
    "scaled [95 %]",
    "plain [95 %]",
    "sees",
    "p (Holm)",
    "used on turned",
    "median step",
)


def print_ablation(console: Console, document: Json) -> None:
    """Print sentences, the table of effects, and what a reader must know."""
    for effect in document["effects"]:
        if effect["verdict"] == "different":
            console.print(Text(visible(effect["sentence"]), style="bold"))
    name = visible(document["baseline"])
    table = Table(title=f"without it - {name}, in points", title_justify="left", padding=(0, 0), pad_edge=False)
    for place, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if place else "left", overflow="fold")
    for effect in document["effects"]:
        table.add_row(*(Text(visible(cell)) for cell in _cells(effect)))
    console.print(table)
    for line in _notes(document):
        console.print(Text(visible(line)), soft_wrap=True)


def _cells(effect: Json) -> list[str]:
    used, when = _use_cells(effect)
    flip = effect["scaled"]["sign_flip"]
    return [
        effect["change"].removeprefix("without ") if effect["tools"] else effect["change"],
        str(effect["won"]),
        str(effect["lost"]),
        difference_text(effect["scaled"]),
        difference_text(effect["plain"]),
        number(effect["scaled"]["detectable"], 1, unknown="-"),
        format_p(flip["holm"] if flip else None),
        used,
        when,
    ]


def _use_cells(effect: Json) -> tuple[str, str]:
    """Return how the baseline used what was left out on the tasks that it turned, and at which step."""
    uses = [use["turned"] for use in effect["tools"].values()]
    if not uses:
        return "-", "-"
    if not effect["turned"]:
        return "none turned", "-"
    used = ", ".join(f"{use['calls']} calls in {use['used_in']}/{use['trials']}" for use in uses)
    return used, ", ".join("-" if use["median_step"] is None else f"{use['median_step']:g}" for use in uses)


_SAID_ONCE = "scripted, not a language model."  # of every arm; here it is said of all at once


def _notes(document: Json) -> list[str]:
    lines = [
        f"won, lost: tasks on which the arm did better or worse than {document['baseline']}; these it turned",
        "used: the baseline's calls of what was left out on those tasks, and in how many of its trials; median step of them",
        *(line for line in document["comparison"]["remarks"] if not line.endswith(_SAID_ONCE)),
        "all of the comparison: rcb-agent compare " + document["run"],
    ]
    if document["scripted"]:
        lines.append(
            "scripted: a script played the model; these effects show the machinery and say nothing of any model."
        )
    return lines


_CSV = (
    *(
        "arm",
        "change",
        "tasks_won",
        "tasks_lost",
        "scaled",
        "scaled_low",
        "scaled_high",
        "plain",
        "plain_low",
        "plain_high",
    ),
    *("detectable", "sign_flip_p", "sign_flip_holm", "tool", "calls", "used_in", "trials", "median_step"),
    *("calls_all", "used_in_all", "trials_all", "median_step_all"),
)


def csv_rows(document: Json) -> Iterable[list[Any]]:
    """Yield the head, then a row per arm and tool that it lacks; an empty cell is what cannot be said."""
    yield list(_CSV)
    for effect in document["effects"]:
        for tool, use in effect["tools"].items() or (("", None),):
            yield [*_csv_effect(effect), tool, *_csv_use(use and use["turned"]), *_csv_use(use and use["all"])]


def _csv_effect(effect: Json) -> list[Any]:
    flip = effect["scaled"]["sign_flip"] or {}
    rates = [[effect[rate]["difference"], *(effect[rate]["interval"] or (None, None))] for rate in ("scaled", "plain")]
    numbers = [effect["scaled"]["detectable"], flip.get("p"), flip.get("holm")]
    return [effect["arm"], effect["change"], effect["won"], effect["lost"], *rates[0], *rates[1], *numbers]


def _csv_use(use: Json | None) -> list[Any]:
    return [None] * 4 if use is None else [use[key] for key in ("calls", "used_in", "trials", "median_step")]


def _latex(document: Json) -> LatexTable:
    notes = ["p: sign flips over papers, adjusted for the number of arms (Holm)."]
    if document["scripted"]:
        notes.append("A script played the model.")
    return LatexTable(
        caption=f"What is lost without it: differences from {document['baseline']}, in points",
        label="tab:ablation",
        heads=_HEADS,
        align="l" + "r" * (len(_HEADS) - 1),
        groups=[[_cells(effect) for effect in document["effects"]]],
        notes=notes,
    )
