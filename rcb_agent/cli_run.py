"""The commands that carry trials out: ``run`` and ``resume``."""

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from rcb_agent.cli_options import Dollars, as_json, cold, docker_base, results, suite
from rcb_agent.cli_preview import with_preset


class _Temperature(click.ParamType[float | None]):
    """A number, or none."""

    name = "float|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Return the number; None for "none"."""
        return None if value == "none" else float(click.FLOAT.convert(value, param, ctx))


_workers = click.option(
    "--workers",
    type=click.IntRange(1, 512),
    help="Trials at once; changes no result.  [default: 2 per core, at most 8]",
)
_allow_unmeasured = click.option(
    "--allow-unmeasured",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Exit 0 although up to N trials were not measured.",
)


@click.command()
@suite
@click.option(
    "--tasks",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only tasks whose id fits ('*' also crosses '/'); repeatable.",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    help="react, direct, best-of-n, self-repair, oracle, null, cheater, a plug-in's name, or module:Class; repeatable.  "
    "[default: react]",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    help="provider/model as LiteLLM names it, or scripted/demo; repeatable, crossed with --agent.  [default: scripted/demo]",
)
@click.option(
    "--arm",
    "arms",
    multiple=True,
    metavar="SPEC",
    help="One arm in full, agent[@model],key=value,...: 'react,without=run_tests,name=blind'; repeatable. Keys: name, "
    "model, tools, without, cheats (lists with '+'), paper, context, feedback, n, match-budget, match-by, prompt, "
    "extract, max-steps, max-seconds, max-tokens, max-cost, max-output-tokens, price (IN+OUT), tool-protocol, "
    "temperature, top-p, reasoning-effort, seed. All else is as the options beside it say.",
)
@click.option(
    "--preset",
    type=click.Choice(["paper"]),
    help="paper: the published baseline as it is; --agent direct, --prompt, --extract and --grading upstream, "
    "--temperature 0, --attempts 1. Other values of these, and --arm, are refused beside it.",
)
@click.option("--attempts", type=click.IntRange(1, 100), default=1, show_default=True, help="Trials per task and arm.")
@click.option(
    "--cheats",
    metavar="all|A,B",
    help="With --agent cheater alone, without --attempts: every task with each of these.  [default: one cheat per task, in turn]",
)
@click.option(
    "--tools",
    metavar="A,B",
    help="Only these of list_files, read_file, search, edit_file, write_file, run_tests, run_python and submit.  [default: all]",
)
@click.option("--without", metavar="A,B", help="All tools but these; they are called as for --tools.")
@click.option(
    "--paper",
    type=click.Choice(["prompt", "file", "none"]),
    help="Where the paper is.  [default: the agent's own: file for react, prompt for direct, best-of-n and self-repair]",
)
@click.option(
    "--context",
    type=click.Choice(["full", "target"]),
    default="full",
    show_default=True,
    help="target: no context file in a prompt, and in a workspace only those that must be there to import the code.",
)
@click.option(
    "--feedback",
    type=click.Choice(["none", "import", "own"]),
    help="What best-of-n chooses by and self-repair is told; none: nothing is run, import: does it import, own: do its own "
    "tests pass.  [default: own; other agents take none]",
)
@click.option(
    "--n",
    type=click.IntRange(1),
    help="Drafts of best-of-n and self-repair.  [default: 5 of best-of-n without --match-budget, else until the budget ends]",
)
@click.option(
    "--match-budget",
    metavar="RUN:ARM",
    help="Give best-of-n and self-repair, task by task, what that arm spent there (attempts averaged).",
)
@click.option(
    "--match-by",
    type=click.Choice(["tokens", "dollars", "steps"]),
    help="What of it is matched.  [default: tokens]",
)
@click.option(
    "--prompt",
    type=click.Choice(["standard", "upstream"]),
    default="standard",
    show_default=True,
    help="Whose words direct asks in: ours, or the benchmark authors' own, byte for byte.",
)
@click.option(
    "--extract",
    type=click.Choice(["tolerant", "upstream", "strict"]),
    default="tolerant",
    show_default=True,
    help="How direct, best-of-n and self-repair find the code in a reply; upstream (also called strict) is the authors' rule.",
)
@click.option("--max-steps", type=int, default=30, show_default=True, help="Model replies per trial; direct takes one.")
@click.option("--max-seconds", type=float, default=900, show_default=True, help="Wall seconds per trial.")
@click.option(
    "--max-tokens", type=int, help="Input and output tokens per trial, looked at before each call.  [default: no cap]"
)
@click.option(
    "--max-cost",
    type=float,
    help="Dollars per trial, looked at before each call; needs a known price.  [default: no cap]",
)
@click.option(
    "--run-max-tokens", type=click.IntRange(1), help="Tokens of this run in all; changes no result.  [default: no cap]"
)
@click.option(
    "--run-max-cost", type=Dollars(), help="Dollars of this run in all; changes no result.  [default: no cap]"
)
@click.option(
    "--tool-protocol",
    type=click.Choice(["auto", "native", "json"]),
    default="auto",
    show_default=True,
    help="How tools are called: natively, or as JSON in the text, for models without tool calls.",
)
@click.option("--price", metavar="IN,OUT", help="Dollars per million tokens.  [default: LiteLLM's table, else unknown]")
@click.option("--temperature", type=_Temperature(), default="0", show_default=True, help="Or none: not sent.")
@click.option("--top-p", type=float, help="Sent only when given.")
@click.option("--seed", type=int, help="Sent only when given.")
@click.option("--reasoning-effort", metavar="WORD", help="low, medium, high, ...; sent only when given.")
@click.option("--max-output-tokens", type=int, help="Per reply.  [default: the provider's]")
@click.option(
    "--sandbox",
    default="bubblewrap",
    show_default=True,
    help="Where agents and candidates run: bubblewrap, docker, host (no isolation at all), a plug-in's name, or "
    "module:callable.",
)
@docker_base
@click.option(
    "--docker-runtime",
    default="",
    metavar="NAME",
    help="The engine's program that runs containers, for instance runsc.  [default: the engine's own]",
)
@click.option(
    "--grading",
    type=click.Choice(["split", "upstream"]),
    default="split",
    show_default=True,
    help="upstream: the authors' own rule, for parity only; candidates can cheat it, so every table says unprotected.",
)
@click.option(
    "--salt",
    default="",
    metavar="SECRET|auto",
    help="Salt the seeds of hidden tests, so that no answer can be looked up by their inputs.  [default: as published]",
)
@click.option("--memory-mb", type=click.IntRange(64), help="Memory of each sandbox.  [default: 2048]")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="[NAME=]PATH",
    help="A Python with the packages, in place of the built runtime (of the runtime or paper NAME); repeatable.",
)
@_workers
@cold
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The run folder; the same command again resumes it.  [default: a new one in --results]",
)
@results
@_allow_unmeasured
@click.option(
    "--allow-leaks",
    is_flag=True,
    help="Run although an agent can see a copy of an answer that could be kept from it (`tasks audit`); recorded.",
)
@as_json
def run(**options: Any) -> None:
    """Carry out the trials of one or more arms over a suite and grade them.

    \b
    Examples:
      rcb-agent run --agent react
      rcb-agent run --agent oracle --json
      rcb-agent run --agent react --model openai/gpt-4.1 --tasks 'silt/*' --max-steps 20
    """  # noqa: D301
    from rcb_agent.runs.launch import launch_run

    _finish(launch_run(with_preset(options)), options)


@click.command()
@click.argument("run_id", metavar="RUN")
@_workers
@cold
@click.option(
    "--run-max-tokens",
    type=click.IntRange(1),
    help="Tokens of this run in all, those used before included.  [default: no cap]",
)
@click.option(
    "--run-max-cost", type=Dollars(), help="Dollars of this run in all, those spent before included.  [default: no cap]"
)
@results
@_allow_unmeasured
@as_json
def resume(**options: Any) -> None:
    """Go on with a run: grade what is solved, retry what was not measured, repeat nothing else.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).

    \b
    Examples:
      rcb-agent resume latest
      rcb-agent resume RUN --run-max-cost 20 --workers 4
    """  # noqa: D301
    from rcb_agent.runs.launch import launch_resume

    _finish(launch_resume(options), options)


def _finish(document: dict[str, Any], options: dict[str, Any]) -> NoReturn:
    from rcb_agent.runs.scratch import release_scratch

    release_scratch()
    if options["as_json"]:
        click.echo(json.dumps(document))
    unmeasured = sum(arm["not_measured"] for arm in document["arms"])
    sys.exit(1 if unmeasured > options["allow_unmeasured"] else 0)
