"""Carries out ``run`` and ``resume``: options to plan, plan to records, records to a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rcb_agent.errors import ModelUnavailable, UsageError
from rcb_agent.runs.base import Json
from rcb_agent.runs.config import ArmOptions, differing_keys
from rcb_agent.runs.execute import default_workers, execute
from rcb_agent.runs.plan import Plan, RunRequest, make_plan, replan
from rcb_agent.runs.screen import ScreenWatch, run_table
from rcb_agent.runs.store import RunReader, RunStore, find_run, open_store
from rcb_agent.runs.summary import summarise_run


def launch_run(options: Mapping[str, Any]) -> Json:
    """Run (or resume, with ``--out``) what the options ask for; returns the summary document."""
    request = _request(options)
    plan = make_plan(request)
    store = open_store(request.out, plan.config, plan.facts(), request.results)
    return _carry_out(plan, store, options)


def launch_resume(options: Mapping[str, Any]) -> Json:
    """Go on with a recorded run; returns the summary document. Raises UsageError when its config changed."""
    path = find_run(options["run_id"], options["results"])
    recorded = RunReader(path)
    plan = replan(recorded.config)
    if plan.config.as_json() != recorded.config:
        keys = differing_keys(recorded.config, plan.config.as_json())
        raise UsageError(f"{path}: cannot be resumed, what it measured has changed: {'; '.join(keys)}")
    store = open_store(path, plan.config, plan.facts(), path.parent)
    return _carry_out(plan, store, options)


def _request(options: Mapping[str, Any]) -> RunRequest:
    common = {
        name: options[name]
        for name in ("paper", "extract", "max_steps", "max_seconds", "temperature", "max_output_tokens")
    }
    common |= {name: _split(options[name]) for name in ("tools", "without") if options[name] is not None}
    limits = {"memory_mb": options["memory_mb"]} if options["memory_mb"] else {}
    return RunRequest(
        suite=options["suite"],
        patterns=options["patterns"],
        arms=ArmOptions(options["agents"], options["models"], options["arms"], common),
        attempts=options["attempts"],
        sandbox=options["sandbox"],
        limits=limits,
        out=options["out"],
        results=options["results"],
    )


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _carry_out(plan: Plan, store: RunStore, options: Mapping[str, Any]) -> Json:
    quiet = bool(options["as_json"])
    with store:
        try:
            with ScreenWatch() as watch:
                _announce(plan, store, watch)
                execute(plan, store, options["workers"] or default_workers(), watch)
        except ModelUnavailable:
            store.discard_if_empty()
            raise
        document = summarise_run(store)
    if not quiet:
        _print_result(document, store.path)
    return document


def _announce(plan: Plan, store: RunStore, watch: ScreenWatch) -> None:
    for fault in plan.faults:
        watch.say(f"warning: paper left out: {fault}")
    for name in store.mended:
        watch.say(
            f"warning: {name}: its last line was torn (a crash while writing) and was cut off; that trial is done again"
        )
    watch.say(f"run {store.path}")


def _print_result(document: Json, path: Path) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    console.print(run_table(document))
    console.print(f"results: {path}", soft_wrap=True, markup=False)
    models = {arm["model"] for arm in document["arms"]}
    if any(model.startswith("scripted/") for model in models):
        console.print(
            "scripted/demo is a script, not a language model: it shows the machinery. "
            "A real one: OPENAI_API_KEY=... rcb-agent run --agent react --model openai/gpt-4.1",
            soft_wrap=True,
            markup=False,
        )
