"""The command that sets arms against each other: ``compare``."""

from typing import Any

import click

from rcb_agent.cli_options import as_csv, as_json, as_latex, out_file, results


@click.command()
@click.argument("arms", nargs=-1, required=True, metavar="RUN|RUN:ARM|published:NAME...")
@click.option("--against", metavar="ARM", help="Compare all others with this one only.  [default: every two]")
@click.option(
    "--force", is_flag=True, help="Compare although they were not measured alike; says so beside the numbers."
)
@results
@as_json
@as_csv
@as_latex
@out_file
def compare(**options: Any) -> None:
    """Set arms against each other: paired by task, clustered by paper.

    RUN is a run folder, a unique beginning of an id in --results, or latest (the run that began last).
    RUN takes all arms of that run, RUN:ARM one, published:NAME one of the 32 published models.

    Differences are first minus second, in points, over the tasks that all have. Arms may differ in what they are (listed
    as varied). Where they were measured by another suite, other tasks, another grader or mode, sandbox, limits or
    runtimes: exit code 2.

    Of published models suite digest, runtimes, limits and sandbox are unknown, and their mode is upstream: an arm of a
    run (unless it is imported) against published:NAME is refused without --force. `rcb-agent leaderboard --run RUN` sets
    them side by side.

    \b
    Examples:
      rcb-agent compare latest
      rcb-agent compare RUN:react@openai-gpt-4.1 RUN:direct@openai-gpt-4.1
      rcb-agent compare published:Gemini-2.5-Pro-Preview-05-06 'published:O3 (High)'
      rcb-agent compare latest --against direct@openai-gpt-4.1 --latex --out table.tex
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.compare_screen import show_comparison

    show_comparison(options)
