"""Guards: a run's cap that is held against amounts nobody knows."""

from typing import Any

import pytest

from rcb_agent.errors import RunBudgetSpent
from rcb_agent.runs.purse import Purse, RunCaps


def reply(made: int | None, cost: float | None) -> dict[str, Any]:
    return {"reply": {"usage": {"input_tokens": 10, "output_tokens": made}, "cost": cost}}


@pytest.mark.parametrize(
    ("caps", "known", "unknown"),
    [
        (RunCaps(tokens=1000), reply(5, None), reply(None, 0.1)),
        (RunCaps(cost=9.0), reply(None, 0.1), reply(5, None)),
    ],
    ids=["tokens", "dollars"],
)
def test_what_is_unknown_ends_the_run_that_caps_it_and_no_other(
    caps: RunCaps, known: dict[str, Any], unknown: dict[str, Any]
) -> None:
    """The next ask is refused, as it is in a resume; what is unknown and has no cap does no harm."""
    emit = Purse(caps, []).guard(lambda _kind, _payload: None)
    emit("call", known)
    emit("ask", {})
    emit("call", unknown)
    with pytest.raises(RunBudgetSpent, match="cannot be held"):
        emit("ask", {})
    assert "cannot be held" in Purse(caps, [unknown["reply"]]).spent()
