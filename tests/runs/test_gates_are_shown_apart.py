"""Guards: honest code that a gate of ours alone failed, and no table that says so."""

import pytest

from rcb_agent.runs.base import trial_name
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import run_table
from rcb_agent.runs.summary import summarise_run
from tests.runs.conftest import Open, grade_record, trial_record

GATES = {"form": "the form gate alone failed 1", "values": "the comparison with the gold's values alone failed 1"}


def read_run(open_run: Open, **grade: object) -> RunReader:
    with open_run() as store:
        config = RunReader(store.path).config
        arm, task = config["arms"][0]["id"], config["tasks"][0]
        name = trial_name(arm, task, 1)
        store.add_trial({**trial_record(task), "trial": name})
        store.add_grade({**grade_record(task), "trial": name, **grade})
        return RunReader(store.path)


@pytest.mark.parametrize("gate", GATES)
def test_what_a_gate_alone_decided_is_said(open_run: Open, gate: str) -> None:
    """The table names gate, count and both rates without it; ``--json`` has them as figures."""
    failed = {"verdict": "failed", "reason": gate, f"{gate}_only": True}
    document = summarise_run(read_run(open_run, **failed))
    arm = document["arms"][0]
    assert arm[f"{gate}_only"] == 1
    assert arm[f"pass_rate_without_{gate}"] > arm["pass_rate"] == 0
    assert GATES[gate] in str(run_table(document).caption)


def test_a_plain_run_says_nothing_of_gates(open_run: Open) -> None:
    """No remark where no gate decided; a record from before ``values_only`` is read as one without it."""
    document = summarise_run(read_run(open_run))
    assert document["arms"][0]["values_only"] == 0
    assert run_table(document).caption is None
