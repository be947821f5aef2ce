"""Guards: trials that begin together and each load the suite, and trials of another suite than the one planned."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from rcb_agent.runs.config import ArmOptions
from rcb_agent.runs.plan import RunRequest, make_plan
from rcb_agent.runs.trial import cached_suite


def test_trials_that_begin_together_share_one_suite(attack_suite: Path) -> None:
    """Eight threads ask at the same moment and get the same object."""
    barrier = Barrier(8)

    def ask(_number: int) -> int:
        barrier.wait()
        return id(cached_suite(str(attack_suite)))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


@pytest.mark.sandbox
def test_trials_get_the_suite_that_was_planned(attack_suite: Path, tmp_path: Path) -> None:
    """A suite that changes on disk changes the next plan, not the trials of this one, whatever was loaded before."""
    suite = tmp_path / "suite"
    shutil.copytree(attack_suite, suite)
    before = cached_suite(str(suite))
    with (suite / "plain" / "model.py").open("a") as file:
        file.write("\n# a later line\n")
    plan = make_plan(RunRequest(str(suite), ["plain/*"], ArmOptions(agents=("null",))))
    task = next(iter(plan.tasks.values()))
    assert task in cached_suite(plan.config.suite).tasks
    assert task not in before.tasks
