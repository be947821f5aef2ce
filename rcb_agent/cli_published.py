"""The commands around published results: ``leaderboard`` and ``import-upstream``."""

from pathlib import Path
from typing import Any

import click

from rcb_agent.cli_options import as_csv, as_json, as_latex, out_file, results

SORTS = ("scaled", "passed", "outermost", "safe", "hard", "name", "developer", "cutoff")


@click.command()
@click.option("--run", "runs", multiple=True, metavar="RUN[:ARM]", help="Put arms of a run beside them; repeatable.")
@click.option("--sort", type=click.Choice(SORTS), default="scaled", show_default=True, help="By what lines are sorted.")
@click.option("--developer", metavar="NAME", help="Only published models of this developer.")
@click.option("--top", type=click.IntRange(1), metavar="N", help="Only the first N published models.")
@click.option("--hard", is_flag=True, help="Over the tasks that at most 10 of the 32 published models solved.")
@click.option("--safe", is_flag=True, help="Over the papers newer than every published model's cutoff.")
@click.option(
    "--cutoff", "cutoffs", multiple=True, metavar="MODEL=DATE", help="The cutoff of an arm's model; repeatable."
)
@results
@as_json
@as_csv
@as_latex
@out_file
def leaderboard(**options: Any) -> None:
    """Show the 32 published models of ResearchCodeBench, recomputed from their passes, with arms of yours beside them.

    Needs no pulled suite. An arm over only some of the tasks is marked partial, and set beside the published models
    over the same tasks. RUN is a run over researchcodebench (or some of its tasks): its folder, a unique beginning of
    its id in --results, or latest (the run that began last).

    \b
    Examples:
      rcb-agent leaderboard --top 10
      rcb-agent leaderboard --run RUN --run results/other:react@openai-gpt-4.1
      rcb-agent leaderboard --run RUN --safe --cutoff openai/new-model=2024-11
      rcb-agent leaderboard --top 10 --out table.tex
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.board_screen import show_board

    show_board(options)


@click.command("import-upstream")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="The run folder.  [default: a new one in --results]"
)
@results
@as_json
def import_upstream(**options: Any) -> None:
    """Make a run folder of results that ResearchCodeBench's own program wrote.

    FILE is its overall_stats.json or results_summary.json: an arm per model, a trial per completion, marked as imported.

    \b
    rcb-agent import-upstream overall_stats.json --out results/theirs
    rcb-agent leaderboard --run theirs
    """  # noqa: D301
    from rcb_agent.runs.importing import import_upstream as carry_out

    carry_out(options)
