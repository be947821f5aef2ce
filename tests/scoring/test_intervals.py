"""Guards: intervals that pretend tasks of one paper are independent, or that move with the order of the rows."""

import pytest

from rcb_agent.scoring.intervals import Bootstrap, Part, plain_interval, ratio_interval, scaled_interval
from rcb_agent.scoring.metrics import Row
from rcb_agent.tasks.published import load_published


def published_rows(model_id: str) -> list[Row]:
    facts = load_published()
    passed = next(model.passed for model in facts.models if model.id == model_id)
    return [
        Row(task.id, task.paper, task.loc, task.depth, "passed" if task.id in passed else "failed")
        for task in facts.tasks.values()
    ]


@pytest.mark.parametrize(
    ("model", "low", "high"), [("GEMINI_2_5_PRO_PREVIEW_05_06", 28.7, 47.9), ("GPT_4_1", 19.7, 39.3)]
)
def test_intervals_of_published_models_are_those_of_another_computation(model: str, low: float, high: float) -> None:
    """Values made elsewhere with other draws: equal but for the noise of resampling."""
    found = scaled_interval(published_rows(model))
    assert found == pytest.approx((low, high), abs=0.35)


def test_papers_are_resampled_not_tasks() -> None:
    """Ten tasks that pass or fail with their paper are two observations, not ten: the interval is everything."""
    rows = [
        Row(f"{paper}/{n}", paper, 1, 0, verdict)
        for paper, verdict in (("a", "passed"), ("b", "failed"))
        for n in "12345"
    ]
    assert plain_interval(rows) == (0.0, 100.0)


def test_numerator_and_denominator_are_resampled_together() -> None:
    """Papers of very different size with one and the same rate leave no doubt about it."""
    assert ratio_interval([Part(1, 4), Part(25, 100), Part(250, 1000)]) == pytest.approx((25.0, 25.0))


def test_one_paper_shows_no_spread() -> None:
    """None rather than an interval of width 0."""
    assert scaled_interval([Row("p/a", "p", 3, 0, "passed"), Row("p/b", "p", 1, 0, "failed")]) is None
    assert ratio_interval([]) is None


def test_order_and_repeats_of_rows_decide_nothing() -> None:
    """The same rows backwards, or with each trial twice, give the same bytes."""
    rows = published_rows("GPT_4_1")
    twice = [Row(r.task, r.paper, r.loc, r.depth, r.verdict, attempt) for attempt in (1, 2) for r in rows]
    assert scaled_interval(rows[::-1]) == scaled_interval(rows)
    assert scaled_interval(twice) == pytest.approx(scaled_interval(rows), abs=1e-9)


def test_another_seed_gives_other_draws() -> None:
    """The stated seed is the one that is used."""
    rows = published_rows("GPT_4_1")
    assert scaled_interval(rows, Bootstrap(seed=1)) != scaled_interval(rows, Bootstrap(seed=2))
