"""Carries out ``run`` and ``resume``: options to plan, plan to records, records to a table."""

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.text import Text

from rcb_agent.environments.owners import name_run
from rcb_agent.environments.registry import is_isolated
from rcb_agent.errors import ModelUnavailable, UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.cheats import count_successes
from rcb_agent.runs.config import DEFAULT_MODEL, ArmOptions, differing_keys
from rcb_agent.runs.execute import Pace, default_workers, execute
from rcb_agent.runs.importing import refuse_imported
from rcb_agent.runs.plan import Plan, RunRequest, check_models, make_plan, replan
from rcb_agent.runs.purse import RunCaps
from rcb_agent.runs.reader import RunReader, find_run
from rcb_agent.runs.scratch import claim_scratch
from rcb_agent.runs.screen import ScreenWatch, cheat_tables, open_console, run_table, visible
from rcb_agent.runs.store import RunStore, open_store
from rcb_agent.runs.summary import summarise_run, unmeasured_reasons
from rcb_agent.scoring.base import UNPROTECTED


def launch_run(options: Mapping[str, Any]) -> Json:
    """Run (or resume, with ``--out``) what the options ask for; returns the summary document."""
    return launch_request(request_from(options), options)


def launch_request(request: RunRequest, options: Mapping[str, Any]) -> Json:
    """Run (or resume) what a request says; of the options only how it is carried out counts."""
    claim_scratch()
    plan = make_plan(request)
    _check_prices(plan, options)
    _say_estimate(plan, options["workers"] or default_workers())
    store = open_store(request.out, plan.config, plan.facts(), request.results)
    return _carry_out(plan, store, options)


def launch_resume(options: Mapping[str, Any]) -> Json:
    """Go on with a recorded run; returns the summary document. Raises UsageError when its config changed."""
    claim_scratch()
    path = find_run(options["run_id"], options["results"])
    recorded = RunReader(path)
    refuse_imported(recorded)
    plan = replan(recorded.config)
    if plan.config.as_json() != recorded.config:
        keys = differing_keys(recorded.config, plan.config.as_json())
        raise UsageError(f"{path}: cannot be resumed, what it measured has changed: {'; '.join(keys)}")
    _check_prices(plan, options)
    store = open_store(path, plan.config, plan.facts(), path.parent)
    return _carry_out(plan, store, options)


def _say_estimate(plan: Plan, workers: int) -> None:
    from rcb_agent.runs.preview import estimate_line

    if line := estimate_line(plan, workers):
        sys.stderr.write(f"rcb-agent: {line}\n")


def _check_prices(plan: Plan, options: Mapping[str, Any]) -> None:
    if options["run_max_cost"] is not None:
        check_models(plan.config.arms, capped=True)


_ARM_OPTIONS = (
    "paper",
    "context",
    "feedback",
    "n",
    "match_budget",
    "match_by",
    "prompt",
    "extract",
    "max_steps",
    "max_seconds",
    "temperature",
    "max_output_tokens",
    "top_p",
    "seed",
    "reasoning_effort",
    "max_tokens",
    "max_cost",
    "price",
    "tool_protocol",
)


def request_from(options: Mapping[str, Any]) -> RunRequest:
    """Return what the options of ``run`` ask for; commands that only look ahead have fewer of them."""
    common = {name: options[name] for name in _ARM_OPTIONS}
    common |= {name: _split(options[name]) for name in ("tools", "without") if options[name] is not None}
    if options.get("cheats"):
        common["cheats"] = _split(options["cheats"])
    known = {field.name for field in fields(RunRequest)} - {"arms", "limits"}
    return RunRequest(
        arms=ArmOptions(options["agents"], options["models"], options["arms"], common),
        limits={"memory_mb": options["memory_mb"]} if options.get("memory_mb") else {},
        **{name: value for name, value in options.items() if name in known},
    )


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _carry_out(plan: Plan, store: RunStore, options: Mapping[str, Any]) -> Json:
    if options["cold"]:
        plan.grader.start_cold()
    caps = RunCaps(options["run_max_tokens"], options["run_max_cost"])
    name_run(store.path.name)
    with store:
        try:
            # What an agent of somebody else's prints must not get between us and the one document.
            with ScreenWatch() as watch, redirect_stdout(sys.stderr):
                _announce(plan, store, watch)
                execute(plan, store, Pace(options["workers"] or default_workers(), caps), watch)
        except ModelUnavailable:
            store.discard_if_empty()
            if not store.path.exists():
                sys.stderr.write(f"rcb-agent: nothing was recorded, so {visible(str(store.path))} is not kept\n")
            raise
        document = summarise_run(store)
        reasons = unmeasured_reasons(store)
    if not options["as_json"]:
        _print_result(document, reasons, store.path)
    return document


def _announce(plan: Plan, store: RunStore, watch: ScreenWatch) -> None:
    if not is_isolated(plan.config.sandbox):
        watch.remark(f"warning: {_NO_ISOLATION}")
    if plan.config.mode in UNPROTECTED:
        watch.remark(f"warning: grading {plan.config.mode}: {UNPROTECTED[plan.config.mode]}")
    for arm in plan.config.arms:
        drawn = arm.temperature != 0 and arm.seed is None
        if arm.agent == "best-of-n" and not drawn and arm.options.get("n") != 1:
            watch.remark(f"warning: {visible(arm.id)}: {_SAME_DRAFTS}")
    for fault in plan.faults:
        watch.remark(f"warning: paper left out: {fault}")
    for name in store.mended:
        watch.remark(f"warning: {name}: its last line was torn (a crash while writing) and cut off; that is done again")
    watch.remark(f"run {store.path}")


def _print_result(document: Json, reasons: list[str], path: Path) -> None:
    console = open_console()
    console.print(run_table(document, console.width))
    for table in cheat_tables(document):
        console.print(table)
    if successes := count_successes(document):
        console.print(
            Text(f"{successes} trials of cheats PASSED: a hole in the grading; please report it"), soft_wrap=True
        )
    for line in reasons:
        console.print(Text(visible(line)), soft_wrap=True)
    console.print(Text(f"results: {path}"), soft_wrap=True)
    if any(arm["model"] == DEFAULT_MODEL for arm in document["arms"]):
        console.print(Text(_REAL_MODEL), soft_wrap=True)


_NO_ISOLATION = (
    "--sandbox host isolates nothing: agents and candidates run on this machine as you, with your files, your keys and "
    "your network, and can read the hidden tests if they look for them; use it only for code and models that you trust"
)
_SAME_DRAFTS = (
    "at temperature 0, or with a fixed seed, its drafts hardly differ, and n of them are one: give --temperature, for "
    "instance 0.8, and no --seed"
)
_REAL_MODEL = (
    "scripted/demo is a script, not a language model: it shows the machinery. "
    "A real one: OPENAI_API_KEY=... rcb-agent run --agent react --model openai/gpt-4.1"
)
