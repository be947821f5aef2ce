"""Guards: a run that was measured with another Python than its record says, or is resumed with one."""

from pathlib import Path

import pytest

from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import EnvironmentFault, UsageError
from rcb_agent.runs.pythons import choose_pythons
from rcb_agent.runs.reader import RunReader
from rcb_agent.tasks.suites import load_suite
from tests.runs.command import rcb_agent

TASKS = load_suite("mini").tasks


def mini_python() -> str:
    try:
        return str(load_runtime("mini").python)
    except EnvironmentFault as fault:
        pytest.skip(str(fault))


def test_a_python_is_for_all_or_for_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path, a runtime's or a paper's; the environment's counts until one is given; other names are refused."""
    monkeypatch.chdir(tmp_path)
    for words in (["py"], ["mini=py"], ["silt=py"], ["/nowhere", "mini=py"]):
        assert choose_pythons(words, TASKS) == {"mini": str(tmp_path / "py")}
    assert choose_pythons([], TASKS) == {}
    monkeypatch.setenv("RCB_AGENT_RUNTIME_MINI", "/theirs")
    assert choose_pythons([], TASKS) == {"mini": "/theirs"}
    assert choose_pythons(["/ours"], TASKS) == {"mini": "/ours"}
    with pytest.raises(UsageError, match="no task of this run needs 'LEN'; needed: mini"):
        choose_pythons(["LEN=py"], TASKS)


@pytest.mark.sandbox
def test_the_python_is_recorded_and_resumed_with(tmp_path: Path) -> None:
    """No built runtime is needed; the run names the path; without it the same command is another run."""
    python, task = mini_python(), next(task.id for task in TASKS if task.info.id == "silt")
    words = ["run", "--agent", "oracle", "--agent", "react", "--tasks", task, "--out", "r", "--json"]
    nothing_built = {"RCB_AGENT_CACHE": str(tmp_path / "cache")}
    done = rcb_agent(*words, "--python", python, cwd=tmp_path, env=nothing_built)
    assert (done.code, done.arm("oracle")["pass_rate"]) == (0, 100.0), done.err
    config = RunReader(tmp_path / "r").config
    assert config["pythons"] == {"mini": python}
    assert rcb_agent("resume", "r", "--json", cwd=tmp_path, env=nothing_built).code == 0
    other = rcb_agent(*words, cwd=tmp_path)
    assert other.code == 2
    assert "pythons.mini" in other.err


@pytest.mark.sandbox
def test_a_python_that_does_not_run(tmp_path: Path) -> None:
    """Said before anything is written."""
    done = rcb_agent("run", "--agent", "oracle", "--python", "/nowhere/python", "--out", "r", cwd=tmp_path)
    assert done.code == 4
    assert "/nowhere/python does not run as a Python" in done.err
    assert not (tmp_path / "r").exists()
