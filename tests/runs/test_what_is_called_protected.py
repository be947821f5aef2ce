"""Guards: a result called protected although candidates could read the hidden tests or decide their own verdict."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.runs.command import rcb_agent_within
from tests.runs.published_runs import make_run

TASK = "DyT/tanh"
CONDITIONS: dict[str, tuple[dict[str, Any], bool]] = {
    "as usual": ({}, True),
    "on the host": ({"sandbox": "host"}, False),
    "the host under its other name": ({"sandbox": "rcb_agent.environments.host:open_host"}, False),
    "the published rule": ({"mode": "upstream"}, False),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_document_of_a_run_says_so(tmp_path: Path, name: str) -> None:
    """Both the grading mode and the sandbox count."""
    changes, protected = CONDITIONS[name]
    done = rcb_agent_within("show", make_run(tmp_path / "run", {TASK: "passed"}, **changes), "--json")
    assert done.code == 0, done.err
    assert done.document["grading"] == {"mode": changes.get("mode", "split"), "protected": protected}


WORDS = {
    "as usual": "scope diff, mode split; covers",
    "on the host": "mode split; sandbox host: not isolated, ",
    "the host under its other name": "open_host: not isolated, ",
    "the published rule": "mode upstream (unprotected)",
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_leaderboard_says_so_in_every_form(tmp_path: Path, name: str) -> None:
    """Under the table, per arm of the document, and in columns of their own."""
    changes, protected = CONDITIONS[name]
    run = make_run(tmp_path / "run", {TASK: "passed"}, **changes)
    table, document, lines = (
        rcb_agent_within("leaderboard", "--run", run, "--top", "1", *words).out for words in FORMS
    )
    assert WORDS[name] in table
    (arm,) = json.loads(document)["arms"]
    grading = {"mode": changes.get("mode", "split"), "protected": protected}
    assert (arm["sandbox"], arm["grading"]) == (changes.get("sandbox", "bubblewrap"), grading)
    (row,) = [row for row in csv.DictReader(io.StringIO(lines)) if row["kind"] == "arm"]
    assert (row["sandbox"], row["grading"], row["protected"]) == (arm["sandbox"], grading["mode"], str(protected))


FORMS: tuple[tuple[str, ...], ...] = ((), ("--json",), ("--csv",))
