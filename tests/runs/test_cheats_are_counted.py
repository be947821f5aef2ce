"""Guards: a cheat that passed and is not counted, or a flag that was expected, never seen, and not missed."""

from collections.abc import Callable
from typing import Any

import pytest

from rcb_agent.runs.base import Arm
from rcb_agent.runs.store import RunStore
from rcb_agent.runs.summary import summarise_run
from tests.runs.command import rcb_agent_within

Open = Callable[..., RunStore]
Make = Callable[..., dict[str, Any]]
LINK = {"kind": "file_replaced", "where": "m.py", "excerpt": "symlink", "step": None}
VACUOUS = {"kind": "vacuous", "where": "grade", "excerpt": "", "step": None}


def line(open_run: Open, records: list[dict[str, Any]], cheats: list[str]) -> dict[str, Any]:
    """Return the first line of the table of cheats that a run of these records has."""
    with open_run(arms=(Arm("a", "cheater", "none", options={"cheats": cheats}),)) as store:
        for record in records:
            (store.add_grade if "verdict" in record else store.add_trial)(record)
        arm: dict[str, Any] = summarise_run(store)["arms"][0]
    found: dict[str, Any] = arm["cheats"][0]
    return found


def test_a_flag_that_was_expected_is_missed(open_run: Open, make_trial: Make, make_grade: Make) -> None:
    """Seen in trial or grade, it is counted per trial; never seen, it is missing; untried, nothing is missing."""
    grades = [make_grade(scope=scope, verdict="failed", reason="form") for scope in ("diff", "blank")]
    unseen = line(open_run, [make_trial(variant="link"), *grades], ["link", "fifo"])
    assert (unseen["trials"], unseen["flags"], unseen["missing"]) == (1, {}, ["file_replaced"])
    seen = line(open_run, [make_trial(variant="link", flags=[LINK, LINK])], ["link", "fifo"])
    assert (seen["flags"], seen["missing"]) == ({"file_replaced": 1}, [])
    assert line(open_run, [], ["link", "fifo"])["door"] == "D58"


@pytest.mark.parametrize("scope", ["diff", "blank"])
@pytest.mark.parametrize(("flags", "counts"), [([], (1, 0)), ([VACUOUS], (0, 1))])
def test_a_pass_in_either_scope_is_counted(
    scope: str, flags: list[Any], counts: tuple[int, int], open_run: Open, make_trial: Make, make_grade: Make
) -> None:
    """Loudly, with the door; on a task that an empty blank passes too it says nothing."""
    other = "blank" if scope == "diff" else "diff"
    grades = [
        make_grade(scope=scope, flags=flags),
        make_grade(scope=other, verdict="failed", reason="form", flags=flags),
    ]
    found = line(open_run, [make_trial(variant="zeros"), *grades], ["zeros"])
    assert (found["passed"], found["vacuous"]) == counts


def test_the_table_shows_what_is_missing(open_run: Open, make_trial: Make) -> None:
    """A person sees it without --json."""
    line(open_run, [make_trial(variant="link")], ["link"])
    with open_run(arms=(Arm("a", "cheater", "none", options={"cheats": ["link"]}),)) as store:
        path = store.path
    assert "MISSING: file_replaced" in rcb_agent_within("show", path).out
