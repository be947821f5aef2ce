"""The command line. It parses words, calls ``runs``, prints, and turns errors into one line and an exit code.

Exit codes: 0 all measured, 1 some not measured, 2 usage, 3 task or suite (verify: findings), 4 environment, 5 model,
6 regrade: verdicts moved, 70 internal error, 130/143 interrupted. Nothing heavier than click is imported before a command runs.
"""

import os
import signal
import sys
from typing import Any, NoReturn

import click

from rcb_agent import __version__
from rcb_agent.cli_compare import compare
from rcb_agent.cli_experiments import add_experiments
from rcb_agent.cli_options import as_json as _as_json
from rcb_agent.cli_options import results as _results
from rcb_agent.cli_options import views as _views
from rcb_agent.cli_preview import add_previews
from rcb_agent.cli_published import import_upstream, leaderboard
from rcb_agent.cli_records import regrade, verify
from rcb_agent.cli_run import resume, run
from rcb_agent.cli_runtimes import env
from rcb_agent.cli_tasks import tasks
from rcb_agent.errors import RcbAgentError

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(context_settings=_CONTEXT)
@click.version_option(__version__, prog_name="rcb-agent")
def cli() -> None:
    """Run language models as agents on ResearchCodeBench-like tasks and grade them by hidden tests.

    \b
    rcb-agent run --agent react                           the scripted demo model on the suite mini
    rcb-agent run --agent react --agent direct --model openai/gpt-4.1
    rcb-agent run --arm 'react,without=run_tests,name=blind' --agent react
    rcb-agent run --suite researchcodebench --preset paper --model openai/gpt-4.1
    rcb-agent estimate --agent react --model openai/gpt-4.1      tokens, dollars, minutes; nothing is spent
    rcb-agent show RUN [TRIAL]                            the table, or one trial step by step
    rcb-agent compare RUN                                 did one arm beat the other, and could this run tell?
    rcb-agent ablate --agent react --leave-one-out tools  what is each tool worth?
    rcb-agent curve RUN                                   rates against steps, tokens, dollars, minutes
    rcb-agent verify RUN                                  do its records belong together?
    rcb-agent regrade RUN --dry-run                       would today's grader say the same?
    rcb-agent doctor                                      does this machine do?
    """  # noqa: D301 - \b is click's mark for text that keeps its lines


@cli.command()
@click.argument("run_id", metavar="RUN")
@click.argument("trial", required=False)
@_views
@_results
@_as_json
def show(**options: Any) -> None:
    """Print a run's table, or one trial step by step.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).
    TRIAL is a trial's name, a unique part of it, or the id of a task with one trial. At most one of
    --errors, --by, --copies and TRIAL.

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
    """Print the final diff of a trial as a patch.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).
    TRIAL is a trial's name, a unique part of it, or the id of a task with one trial.

    \b
    Examples:
      rcb-agent diff latest 'silt/filling of the last block'
      rcb-agent diff RUN 'silt/filling of the last block' > answer.patch
    """  # noqa: D301
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

    \b
    Examples:
      rcb-agent clean --dry-run
      rcb-agent clean --images
    """  # noqa: D301
    from rcb_agent.runs.cleaning import clean_up

    clean_up(options)


@cli.command()
@_results
@_as_json
def doctor(**options: Any) -> None:
    """Look at this machine: what would keep a run from working, and the command that mends it.

    Opens a real sandbox.

    \b
    Exit codes: 0 the main job can run (warnings allowed); 4 it cannot.
    \b
    Examples:
      rcb-agent doctor
      rcb-agent doctor --results /data/results --json
    """  # noqa: D301
    from rcb_agent.runs.doctor import run_doctor

    sys.exit(run_doctor(options))


cli.add_command(run)
cli.add_command(resume)
add_previews(cli, run)
cli.add_command(compare)
add_experiments(cli, run)
cli.add_command(leaderboard)
cli.add_command(import_upstream)
cli.add_command(regrade)
cli.add_command(verify)
cli.add_command(env)
cli.add_command(tasks)


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
