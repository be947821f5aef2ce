"""Carries out ``prompt`` and ``estimate``: what a model would be asked and what a run would take, before either."""

import json
import sys
from collections.abc import Sequence

from rcb_agent.agents.pricing import ModelFacts, look_up
from rcb_agent.agents.registry import AGENTS
from rcb_agent.agents.tokens import count_tokens, guess_tokens
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.config import build_arms
from rcb_agent.runs.estimate import ASSUMED, CASES, ArmEstimate, Band, Scale, estimate_arm
from rcb_agent.runs.execute import default_workers
from rcb_agent.runs.first_request import Request, first_request
from rcb_agent.runs.matching import match_budgets
from rcb_agent.runs.plan import Plan, RunRequest, check_models
from rcb_agent.runs.screen import open_console, visible, write_bytes_safely
from rcb_agent.runs.trial import cached_suite
from rcb_agent.tasks.suites import find_task, load_suite, select_tasks


def print_prompt(request: RunRequest, task_id: str, *, as_json: bool) -> None:
    """Print what one arm would be asked first: the messages on standard output, what is said about them elsewhere."""
    arm, *others = build_arms(request.arms)
    if others:
        raise UsageError("prompt shows one arm: give one --agent and one --model")
    suite = load_suite(request.suite)
    task = find_task(suite, task_id)
    (arm,) = match_budgets([arm], [task.id], request.results)
    check_models([arm])
    asked = first_request(arm, suite, task)
    count = count_tokens(asked.texts(), arm.model)
    if as_json:
        sizes = {"characters": sum(map(len, asked.texts())), "tokens": count.tokens, "tokens_exact": count.exact}
        document = {"task": task.id, "arm": arm.as_json(), "messages": asked.messages, "tools": asked.tools}
        _print_json({**document, **sizes, "counted_by": count.by})
        return
    for message in asked.messages:
        text = str(message["content"])
        sys.stderr.write(f"--- {message['role']}, {len(text):,} characters\n")
        sys.stderr.flush()
        write_bytes_safely(text.encode("utf-8", "surrogatepass"))
    sys.stderr.write(f"--- {_sum_up(asked)}{count} by {count.by} for {visible(arm.model)}\n")


def _sum_up(asked: Request) -> str:
    names = [str(tool["function"]["name"]) for tool in asked.tools]
    return f"tools: {', '.join(names)}; in all " if names else "in all "


def print_estimate(request: RunRequest, workers: int | None, *, as_json: bool) -> None:
    """Print what each arm of a run would take."""
    if as_json:
        _print_json(describe_estimate(request, workers))
    else:
        print_estimate_table(request, workers)


def describe_estimate(request: RunRequest, workers: int | None) -> Json:
    """Return the document of an estimate."""
    found = _estimate(request, workers)
    assumed = {name: list(band) for name, band in ASSUMED.items()}
    return {"suite": load_suite(request.suite).name, "arms": [one.as_json() for one in found], "assumed": assumed}


def print_estimate_table(request: RunRequest, workers: int | None) -> None:
    """Print an estimate as a table, with what is assumed."""
    _print_table(_estimate(request, workers), workers or default_workers())


def _estimate(request: RunRequest, workers: int | None) -> list[ArmEstimate]:
    arms, suite = build_arms(request.arms), load_suite(request.suite)
    tasks = select_tasks(suite, request.patterns)
    arms = match_budgets(arms, [task.id for task in tasks], request.results)
    check_models(arms)
    scale = Scale(request.attempts, workers or default_workers(), count_tokens)
    return [estimate_arm(arm, suite, tasks, look_up(arm.model), scale) for arm in arms]


def estimate_line(plan: Plan, workers: int) -> str:
    """Return one line on what a run would take where a price is known, else nothing; counted by length, so at once."""
    priced = [(arm, facts) for arm in plan.config.arms if (facts := _priced(arm))]
    if not priced:
        return ""
    suite, tasks = cached_suite(plan.config.suite), list(plan.tasks.values())
    scale = Scale(plan.config.attempts, workers, lambda texts, _model: guess_tokens(texts))
    found = [estimate_arm(arm, suite, tasks, facts, scale) for arm, facts in priced]
    cost = _add([one.cost for one in found if one.cost])
    others = sum(1 for arm in plan.config.arms if arm.model != "none") - len(found)
    beside = f", {others} without a known price left out" if others else ""
    trials = sum(one.trials for one in found)
    return (
        f"estimate: {trials} trials{beside}: {_show_dollars(cost)}, "
        f"{_show(_add([one.minutes for one in found]), ' min')}; on what grounds: `rcb-agent estimate`"
    )


def _priced(arm: Arm) -> ModelFacts | None:
    """Return what is known of an arm's model where one of our agents asks it and it costs something."""
    if arm.agent not in AGENTS or arm.model.startswith("scripted/"):
        return None
    facts = look_up(arm.model)
    return facts if facts.price or arm.price else None


def _add(bands: Sequence[Band]) -> Band:
    low, middle, high = (sum(band[index] for band in bands) for index in range(len(CASES)))
    return low, middle, high


def _print_table(found: Sequence[ArmEstimate], workers: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="estimate: middle (low .. high)", title_justify="left", caption_justify="left")
    for name in ("arm", "trials", "input tokens", "of it cached", "output tokens", "cost", "minutes"):
        table.add_column(name, justify="left" if name == "arm" else "right")
    for one in found:
        cells = [_show(band) for band in (one.sent, one.cached, one.made)]
        cost = "unknown" if one.cost is None else _show_dollars(one.cost)
        table.add_row(Text(visible(one.arm)), str(one.trials), *cells, cost, _show(one.minutes))
    counted = "; ".join(f"{one.arm}: {one.counted}" for one in found)
    lines = [f"{workers} trials at once, grading aside. Tokens of the first request are counted ({counted})."]
    lines += ["The rest is assumed (low, middle, high), none of it measured:"]
    lines += [f"  {name}: {', '.join(f'{value:,g}' for value in band)}" for name, band in ASSUMED.items()]
    console = open_console()
    console.print(table)
    console.print(Text(visible("\n".join(lines))), soft_wrap=True)


def _show(band: Band, unit: str = "") -> str:
    low, middle, high = (_short(value) for value in band)
    return f"{middle}{unit}" if low == high else f"{middle}{unit} ({low} .. {high})"


def _show_dollars(band: Band) -> str:
    low, middle, high = (f"{value:,.2f}" for value in band)
    return f"${middle}" if low == high else f"${middle} ({low} .. {high})"


def _short(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.1f}{letter}"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _print_json(document: Json) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=True) + "\n")
