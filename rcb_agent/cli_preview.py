"""The commands that look ahead, ``prompt`` and ``estimate``. Their options are those of ``run``."""

from typing import Any

import click

from rcb_agent.cli_options import ONE_ARM, reworded

_ARM = (
    "tools",
    "without",
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
    "max_tokens",
    "max_cost",
    "tool_protocol",
    "price",
    "temperature",
    "top_p",
    "seed",
    "reasoning_effort",
    "max_output_tokens",
)
_PROMPT = ("suite", "agents", "models", "arms", *_ARM, "results", "as_json")
_ESTIMATE = (
    "suite",
    "patterns",
    "agents",
    "models",
    "arms",
    "preset",
    "attempts",
    *_ARM,
    "grading",
    "workers",
    "results",
    "as_json",
)


def add_previews(group: click.Group, run: click.Command) -> None:
    """Add both commands to a group, with options of ``run``."""
    for command, names, texts in ((prompt, _PROMPT, ONE_ARM), (estimate, _ESTIMATE, {})):
        command.params += reworded([param for param in run.params if param.name in names], texts)
        group.add_command(command)


@click.command()
@click.argument("task_id", metavar="ID")
def prompt(**options: Any) -> None:
    """Print what a model would be asked first for a task: messages on standard output, sizes on standard error.

    Nothing is asked and nothing is looked up online.

    \b
    Examples:
      rcb-agent prompt 'silt/filling of the last block' --agent direct --paper none
      rcb-agent prompt 'LEN/jacobian computation' --suite researchcodebench --agent direct --prompt upstream
    """  # noqa: D301 - \b is click's mark for text that keeps its lines
    from rcb_agent.runs.launch import request_from
    from rcb_agent.runs.preview import print_prompt

    print_prompt(request_from(options), options["task_id"], as_json=options["as_json"])


@click.command()
def estimate(**options: Any) -> None:
    """Say what a run would take in tokens, dollars and minutes, before anything is spent.

    The first request of each task is counted; answers, steps and caching are assumed, and the assumptions are printed.

    \b
    Examples:
      rcb-agent estimate --suite researchcodebench --preset paper --model openai/gpt-4.1
      rcb-agent estimate --agent react --agent direct --model openai/gpt-4.1 --max-steps 20
    """  # noqa: D301
    from rcb_agent.runs.launch import request_from
    from rcb_agent.runs.preview import print_estimate

    print_estimate(request_from(with_preset(options)), options["workers"], as_json=options["as_json"])


def with_preset(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the running command with its preset in place. Raises UsageError for what contradicts it."""
    from rcb_agent.runs.presets import apply_preset

    context = click.get_current_context()
    said = click.core.ParameterSource.COMMANDLINE
    return apply_preset(options, {name for name in options if context.get_parameter_source(name) is said})
