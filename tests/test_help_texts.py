"""Guards: a help text that names what the code refuses, lacks what it takes, or shows an example that does not parse."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import click
import pytest

from rcb_agent.agents.tools import TOOL_NAMES
from rcb_agent.cli import cli
from rcb_agent.runs import config
from rcb_agent.runs.ablation_arms import plan_arms
from rcb_agent.runs.config import ArmOptions
from rcb_agent.runs.presets import PRESETS


def commands(group: click.Group = cli, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")


COMMANDS = dict(commands())


def option(command: str, name: str) -> str:
    """Return the help text of an option."""
    found = (one for one in COMMANDS[command].params if isinstance(one, click.Option) and one.name == name)
    return str(next(found).help)


def words_of(command: str, name: str) -> set[str]:
    """Return the words of an option's help text."""
    return set(re.findall(r"[\w-]+", option(command, name)))


def examples(command: click.Command) -> list[str]:
    """Return the command lines that a help text shows, without what is said beside them."""
    lines = [line.strip() for line in str(command.help).splitlines()]
    return [line.split("  ")[0].split(" > ")[0] for line in lines if line.startswith("rcb-agent ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_and_explains_its_options(name: str) -> None:
    """Whoever reads one help text should have to read no other."""
    command = COMMANDS[name]
    assert any(line.startswith(f"rcb-agent {name}") for line in examples(command))
    assert [one.name for one in command.params if isinstance(one, click.Option) and not one.help] == []


@pytest.mark.parametrize("line", [line for one in (cli, *COMMANDS.values()) for line in examples(one)])
def test_examples_parse(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is run: only words are taken for options and arguments, as far as the command itself."""
    (tmp_path / "texts" / "evenlines").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    _, *words = shlex.split(line.replace("[TRIAL]", ""))
    command: click.Command = cli
    while isinstance(command, click.Group):
        command, words = command.commands[words[0]], words[1:]
    command.make_context(str(command.name), words)


@pytest.mark.parametrize(
    "name", [name for name, one in COMMANDS.items() if any(p.name == "run_id" for p in one.params)]
)
def test_every_command_that_takes_a_run_says_what_that_is(name: str) -> None:
    """The word RUN tells nobody that a beginning of an id, or latest, will do."""
    text = " ".join(str(COMMANDS[name].help).split())
    assert "RUN is a run folder, a unique beginning of an id in --results, or latest" in text


def test_arm_names_every_key() -> None:
    """A key that only an error message names is not found."""
    words = words_of("run", "arms")
    assert {*config._TEXT, *config._LISTS, *config._NUMBERS} <= words


def test_tools_names_every_tool() -> None:
    """A tool is left out by its name."""
    assert set(TOOL_NAMES) <= words_of("run", "tools")


def test_preset_names_everything_that_it_fixes() -> None:
    """What the preset fixes cannot be said otherwise beside it."""
    text = option("run", "preset")
    assert [
        name for name in PRESETS["paper"] if f"--{name.removesuffix('s') if name == 'agents' else name}" not in text
    ] == []


@pytest.mark.parametrize("command", ["prompt", "ablate"])
def test_commands_of_one_arm_offer_no_more(command: str) -> None:
    """Both refuse a second agent or model; an agent that asks no model has nothing to show and nothing to leave out."""
    for name in ("agents", "models"):
        assert "one only" in option(command, name)
        assert not {"repeatable", "oracle", "null", "cheater"} & words_of(command, name)
    assert "repeatable" in option("run", "agents")


def test_the_grid_file_in_the_help_of_ablate_is_one(tmp_path: Path) -> None:
    """It is there to be copied."""
    _, _, shown = str(COMMANDS["ablate"].help).partition("A grid file")
    grid = tmp_path / "grid.yaml"
    grid.write_text(dedent(shown.partition("\n")[2]))
    baseline, *others = plan_arms(ArmOptions(), (), grid)
    assert (baseline.agent, baseline.model) == ("react", "openai/gpt-4.1")
    assert {(arm.paper, arm.max_steps) for arm in others} == {("file", 10), ("none", 10), ("none", 30)}
