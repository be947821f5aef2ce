"""Guards: silence taken for an answer, asked about for ever, or free of charge."""

import pytest

from rcb_agent.agents.base import Budget, Reply, Sampling, Usage
from rcb_agent.agents.deadline import Overdue, call_within
from rcb_agent.agents.metering import MAX_ASKS, MeteredModel, Watch
from rcb_agent.errors import BudgetSpent, NoAnswer
from tests.agents.samples import Talker, call, says

ASK = [{"role": "user", "content": "hello"}]


def meter(*replies: Reply, budget: Budget | None = None) -> tuple[MeteredModel, Talker, list[str]]:
    talker, remarks = Talker(replies), list[str]()
    return MeteredModel(talker, budget or Budget(), Watch(lambda: None, remarks.append)), talker, remarks


@pytest.mark.parametrize(
    ("reply", "kind", "stop", "asks"),
    [
        (says(), "empty", "empty_reply", MAX_ASKS),
        (says(text=" \n"), "empty", "empty_reply", MAX_ASKS),
        (says(finish="length"), "empty", "empty_reply", MAX_ASKS),
        (Reply("", thinking=True), "thinking_only", "empty_reply", MAX_ASKS),
        (says(text="I will not.", finish="refusal"), "refusal", "refused", MAX_ASKS),
        (says(text="half an ans", finish="content_filter"), "filtered", "filtered", 1),
        (says(call("submit"), finish="content_filter"), "filtered", "filtered", 1),
    ],
)
def test_silence_ends_the_trial_after_bounded_asks(reply: Reply, kind: str, stop: str, asks: int) -> None:
    """Its kind decides the stop; a filter is not asked again, and its calls are not carried out."""
    model, talker, remarks = meter(reply)
    assert reply.kind == kind
    with pytest.raises(NoAnswer) as caught:
        model.complete(ASK, [], Sampling())
    assert (caught.value.stop, len(talker.asked), len(remarks)) == (stop, asks, asks)


def test_an_answer_after_silence_is_the_answer() -> None:
    """A cut one too: the agent says what becomes of it."""
    model, _, remarks = meter(says(), says(text="here", finish="length"))
    reply = model.complete(ASK, [], Sampling())
    assert (reply.text, reply.kind, len(remarks)) == ("here", "cut", 1)


def test_caps_are_looked_at_before_each_call_and_unknown_holds_none() -> None:
    """A cap is passed by one call at most; usage that is not known cannot be under a cap."""
    model, talker, _ = meter(says(text="a"), budget=Budget(max_tokens=20))
    model.complete(ASK, [], Sampling())
    model.complete(ASK, [], Sampling())
    with pytest.raises(BudgetSpent, match="30 of 20") as caught:
        model.complete(ASK, [], Sampling())
    assert (caught.value.stop, len(talker.asked)) == ("max_tokens", 2)
    model, talker, _ = meter(says(text="a"), budget=Budget(max_tokens=15))
    model.complete(ASK, [], Sampling())
    with pytest.raises(BudgetSpent, match="15 of 15"):  # a cap that is used up to the last token is used up
        model.complete(ASK, [], Sampling())
    unknown = Reply("a", usage=Usage(None, 5), cost=None)
    for budget, stop in ((Budget(max_tokens=99), "max_tokens"), (Budget(max_cost=99), "max_cost")):
        model, _, _ = meter(unknown, budget=budget)
        model.complete(ASK, [], Sampling())
        with pytest.raises(BudgetSpent, match="cannot be held") as caught:
            model.complete(ASK, [], Sampling())
        assert caught.value.stop == stop


def test_a_bounded_call_returns_raises_or_is_given_up() -> None:
    """Its own TimeoutError is its own."""
    from threading import Event

    assert call_within(5, lambda: 7) == 7

    def late() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        call_within(5, late)
    gate = Event()
    with pytest.raises(Overdue):
        call_within(0.05, gate.wait)
    gate.set()
