"""Guards: a result called protected although candidates could read the hidden tests or decide their own verdict."""

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
