"""Guards: a published schema that real records do not fit."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.runs.command import rcb_agent, records

pytestmark = pytest.mark.sandbox


def test_every_line_of_a_real_run_fits_its_schema(tmp_path: Path) -> None:
    """run.json, trials, grades, events and calls of agents with and without tools, and of a control."""
    agents = ["--agent", "react", "--agent", "direct", "--agent", "null"]
    done = rcb_agent("run", *agents, "--tasks", "silt/*", "--out", "run", "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    run = tmp_path / "run"
    found = {
        "run": [json.loads((run / "run.json").read_text())],
        "trial": records(run, "trials.jsonl"),
        "grade": records(run, "grades.jsonl"),
        "event": [line for path in run.glob("trajectories/*") for line in records(run, str(path.relative_to(run)))],
        "call": [line for path in run.glob("calls/*") for line in records(run, str(path.relative_to(run)))],
    }
    for name, lines in found.items():
        schema = json.loads((files("rcb_agent.runs") / "schema" / f"{name}.json").read_text())
        assert lines
        for line in lines:
            Draft202012Validator(schema).validate(line)


def test_reasons_and_stops_of_the_schemas_are_those_of_the_code() -> None:
    """A new reason or stop must be published."""
    from rcb_agent.agents.base import STOPS
    from rcb_agent.scoring.base import REASONS

    folder = files("rcb_agent.runs") / "schema"
    grade = json.loads((folder / "grade.json").read_text())["properties"]["reason"]["enum"]
    assert set(grade) == {"", *REASONS}
    trial = json.loads((folder / "trial.json").read_text())["properties"]["stop"]["enum"]
    assert set(trial) == {*STOPS, "imported"}  # no agent may say so
