"""The command line. It parses words, calls ``runs``, prints, and turns errors into one line and an exit code.

Exit codes: 0 all measured, 1 some not measured, 2 usage, 3 task or suite (verify: findings), 4 environment, 5 model,
6 regrade: verdicts moved, 70 internal error, 130/143 interrupted. Nothing heavier than click is imported before a command runs.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from rcb_agent import __version__
from rcb_agent.cli_compare import compare
from rcb_agent.cli_experiments import add_experiments
from rcb_agent.cli_options import Dollars
from rcb_agent.cli_options import as_json as _as_json
from rcb_agent.cli_options import cold as _cold
from rcb_agent.cli_options import docker_base as _docker_base
from rcb_agent.cli_options import results as _results
from rcb_agent.cli_options import suite as _suite
from rcb_agent.cli_options import views as _views
from rcb_agent.cli_preview import add_previews, with_preset
from rcb_agent.cli_published import import_upstream, leaderboard
from rcb_agent.cli_records import regrade, verify
from rcb_agent.cli_runtimes import env
from rcb_agent.cli_tasks import tasks
from rcb_agent.errors import RcbAgentError

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Temperature(click.ParamType[float | None]):
    """A number, or none."""

    name = "float|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """Return the number; None for "none"."""
        return None if value == "none" else float(click.FLOAT.convert(value, param, ctx))


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="rcb-agent")
def cli() -> None:
    """Run language models as agents on ResearchCodeBench-like tasks and grade them by hidden tests.

    \b
    rcb-agent run --agent react                          the scripted demo model on the suite mini
    rcb-agent run --agent react --agent direct --model openai/gpt-4.1
    rcb-agent run --arm 'react,without=run_tests,name=blind' --agent react
    rcb-agent run --suite researchcodebench --preset paper --model openai/gpt-4.1
    rcb-agent estimate --agent react --model openai/gpt-4.1      tokens, dollars, minutes; nothing is spent
    rcb-agent show RUN [TRIAL]                           the table, or one trial step by step
    rcb-agent compare RUN                                did one arm beat the other, and could this run tell?
    rcb-agent ablate --agent react --leave-one-out tools what is each tool worth?
    rcb-agent curve RUN                                  rates against steps, tokens, dollars, minutes
    rcb-agent verify RUN                                 do its records belong together?
    rcb-agent regrade RUN --dry-run                      would today's grader say the same?
    rcb-agent doctor                                     does this machine do?
    """  # noqa: D301 - \b is click's mark for text that keeps its lines


@cli.command()
@_suite
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
    help="react, direct, best-of-n, self-repair, oracle, null, cheater, or module:Class; repeatable.  [default: react]",
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
    help="One arm in full: 'react,without=run_tests,name=blind' (lists with '+'); repeatable.",
)
@click.option(
    "--preset",
    type=click.Choice(["paper"]),
    help="paper: the published baseline as it is; --agent direct, --prompt, --extract and --grading upstream, temperature 0.",
)
@click.option("--attempts", type=click.IntRange(1, 100), default=1, show_default=True, help="Trials per task and arm.")
@click.option(
    "--cheats",
    metavar="all|A,B",
    help="With --agent cheater: every task with each of these.  [default: one cheat per task, in turn]",
)
@click.option("--tools", metavar="A,B", help="Only these tools.")
@click.option("--without", metavar="A,B", help="All tools but these.")
@click.option(
    "--paper",
    type=click.Choice(["prompt", "file", "none"]),
    help="Where the paper is.  [default: the agent's own: file for react, prompt for the others]",
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
    help="What best-of-n chooses by and self-repair is told: nothing run, does it import, do its own tests pass.  [default: own]",
)
@click.option(
    "--n",
    type=click.IntRange(1),
    help="Drafts of best-of-n and self-repair.  [default: 5, or until the budget ends]",
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
    help="How direct finds the code in a reply; upstream (also called strict) is the authors' rule.",
)
@click.option("--max-steps", type=int, default=30, show_default=True, help="Model replies per trial.")
@click.option("--max-seconds", type=float, default=900, show_default=True, help="Wall seconds per trial.")
@click.option("--max-tokens", type=int, help="Input and output tokens per trial, looked at before each call.")
@click.option("--max-cost", type=float, help="Dollars per trial, looked at before each call; needs a known price.")
@click.option("--run-max-tokens", type=click.IntRange(1), help="Tokens of this run in all; changes no result.")
@click.option("--run-max-cost", type=Dollars(), help="Dollars of this run in all; changes no result.")
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
    help="Where agents and candidates run: bubblewrap, docker, host (no isolation at all), or module:callable.",
)
@_docker_base
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
@click.option(
    "--workers",
    type=click.IntRange(1, 512),
    help="Trials at once; changes no result.  [default: 2 per core, at most 8]",
)
@_cold
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="The run folder; the same command again resumes it."
)
@_results
@click.option(
    "--allow-unmeasured",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Exit 0 although up to N trials were not measured.",
)
@click.option(
    "--allow-leaks",
    is_flag=True,
    help="Run although an agent can see a copy of an answer that could be kept from it (`tasks audit`); recorded.",
)
@_as_json
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


add_previews(cli, run)


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.option("--workers", type=click.IntRange(1, 512), help="Trials at once.")
@_cold
@click.option("--run-max-tokens", type=click.IntRange(1), help="Tokens of this run in all, those used before included.")
@click.option("--run-max-cost", type=Dollars(), help="Dollars of this run in all, those spent before included.")
@_results
@click.option("--allow-unmeasured", type=click.IntRange(0), default=0, show_default=True)
@_as_json
def resume(**options: Any) -> None:
    """Go on with a run: grade what is solved, retry what was not measured, repeat nothing else.

    RUN is a run folder or a unique beginning of its id.
    """
    from rcb_agent.runs.launch import launch_resume

    _finish(launch_resume(options), options)


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("trial", required=False)
@_views
@_results
@_as_json
def show(**options: Any) -> None:
    """Print a run's table, or one trial step by step.

    TRIAL is a trial's name, a unique part of it, or a task id.

    \b
    Examples:
      rcb-agent show latest
      rcb-agent show latest --errors
      rcb-agent show latest --by size
      rcb-agent show RUN 'silt/filling of the last block'      a task of that run
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.inspection import show

    show(options)


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("trial")
@_results
def diff(**options: Any) -> None:
    """Print the final diff of a trial as a patch."""
    from rcb_agent.runs.inspection import show_diff

    show_diff(options)


@cli.command()
@click.option(
    "--images", is_flag=True, help="Also the images of runtimes, built again by `env build --sandbox docker`."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@_as_json
def clean(**options: Any) -> None:
    """Remove what killed runs have left: containers, temporary folders. Nothing that is not ours.

    A container is ours if it carries our label, and left over if the process that made it is dead.
    """
    from rcb_agent.runs.cleaning import clean_up

    clean_up(options)


@cli.command()
@_results
@_as_json
def doctor(**options: Any) -> None:
    """Look at this machine: what would keep a run from working, and the command that mends it.

    Opens a real sandbox. Exit code 0: the main job can run (warnings allowed); 4: it cannot.
    """
    from rcb_agent.runs.doctor import run_doctor

    sys.exit(run_doctor(options))


cli.add_command(compare)
add_experiments(cli, run)
cli.add_command(leaderboard)
cli.add_command(import_upstream)
cli.add_command(regrade)
cli.add_command(verify)
cli.add_command(env)
cli.add_command(tasks)


def _finish(document: dict[str, Any], options: dict[str, Any]) -> NoReturn:
    from rcb_agent.runs.scratch import release_scratch

    release_scratch()
    if options["as_json"]:
        click.echo(json.dumps(document))
    unmeasured = sum(arm["not_measured"] for arm in document["arms"])
    sys.exit(1 if unmeasured > options["allow_unmeasured"] else 0)


class _Terminated(BaseException):
    """SIGTERM arrived."""


def _on_sigterm(*_: object) -> NoReturn:
    raise _Terminated


_RECORDED = ": what is recorded is kept; the same command with --out, or `rcb-agent resume RUN`, goes on"
_GRADED = ": what is graded is kept; the same command goes on"
_GO_ON = {"run": _RECORDED, "resume": _RECORDED, "ablate": _RECORDED, "regrade": _GRADED, "curve": _GRADED}


def main() -> NoReturn:
    """Run the command line and exit with the code of what happened."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        code = cli.main(standalone_mode=False)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the last boundary: everything becomes a line and a code
        _leave(*_explain(error, go_on=_GO_ON.get(next(iter(sys.argv[1:]), ""), "")))
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: BaseException, *, go_on: str = "") -> tuple[str, int]:
    """Return the line to say and the exit code; ``go_on`` is what an interrupted command adds to it."""
    if isinstance(error, KeyboardInterrupt | click.exceptions.Abort):
        return f"interrupted{go_on}", 130
    if isinstance(error, _Terminated):
        return f"terminated{go_on}", 143
    if isinstance(error, click.ClickException):
        error.show()
        return "", error.exit_code
    if isinstance(error, RcbAgentError):
        return f"error: {error}", error.exit_code
    if isinstance(error, BrokenPipeError):
        return "", 141
    import traceback

    traceback.print_exception(error)
    return "internal error (above): please report it", 70


def _leave(line: str, code: int) -> NoReturn:
    """Say one line and end at once: threads that still wait for a model must not hold the process."""
    if line:
        sys.stderr.write(f"rcb-agent: {line}\n")
    if scratch := sys.modules.get("rcb_agent.runs.scratch"):
        scratch.release_scratch()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)
