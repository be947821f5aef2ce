"""Guards: rates that differ from the published ones, or say something about nothing."""

import json
import math
from pathlib import Path

import pytest

from rcb_agent.scoring.metrics import Row, outermost, pass_at_k, pass_at_k_rates, summarise
from rcb_agent.tasks.published import PublishedModel, load_published

GOLDEN = json.loads((Path(__file__).parent.parent / "data" / "published_rates.json").read_text())


def rows(*verdicts: str, loc: int = 1) -> list[Row]:
    return [Row(f"p/{index}", "p", loc, 0, verdict) for index, verdict in enumerate(verdicts)]


@pytest.mark.parametrize("model", load_published().models, ids=lambda model: model.id)
def test_published_rates_come_out(model: PublishedModel) -> None:
    """Both rates of each of the 32 published models are reproduced from their passes."""
    summary = summarise(
        Row(task.id, task.paper, task.loc, task.depth, "passed" if task.id in model.passed else "failed")
        for task in load_published().tasks.values()
    )
    assert (summary.trials, summary.loc_total) == (212, 1449)
    assert summary.pass_rate == pytest.approx(GOLDEN[model.id]["task_rate"], abs=1e-9)
    assert summary.scaled_pass_rate == pytest.approx(GOLDEN[model.id]["line_rate"], abs=1e-9)


def test_no_trials_give_no_rates() -> None:
    """None, not NaN and not 100 %."""
    summary = summarise([])
    assert (summary.trials, summary.loc_total, summary.passed) == (0, 0, 0)
    assert {summary.pass_rate, summary.scaled_pass_rate, summary.pass_rate_upper} == {None}
    assert json.loads(json.dumps(summary.as_json(), allow_nan=False))["pass_rate"] is None


def test_lines_of_nothing_give_no_scaled_rate() -> None:
    """A task without a counted line does not divide by zero."""
    assert summarise(rows("passed", loc=0)).scaled_pass_rate is None


def test_not_measured_is_a_bracket() -> None:
    """It stays in the denominator: not passed below, passed above."""
    summary = summarise(
        [Row("p/a", "p", 3, 0, "passed"), Row("p/b", "p", 1, 0, "not_measured"), Row("p/c", "p", 4, 0, "failed")]
    )
    assert (summary.passed, summary.failed, summary.not_measured, summary.trials) == (1, 1, 1, 3)
    assert (summary.loc_passed, summary.loc_passed_upper, summary.loc_total) == (3, 4, 8)
    assert (summary.scaled_pass_rate, summary.scaled_pass_rate_upper) == (37.5, 50.0)
    assert summary.pass_rate == pytest.approx(100 / 3)
    assert summary.pass_rate_upper == pytest.approx(200 / 3)


def test_attempts_are_averaged_within_a_task_first() -> None:
    """A task tried often weighs no more than one tried once."""
    often = [
        Row("p/a", "p", 2, 0, verdict, attempt)
        for attempt, verdict in enumerate(["passed", "failed", "failed", "failed"], 1)
    ]
    summary = summarise([*often, Row("p/b", "p", 6, 0, "passed")])
    assert summary.tasks == 2
    assert summary.pass_rate == 62.5
    assert summary.scaled_pass_rate == pytest.approx(100 * 6.5 / 8)


def test_form_failures_are_counted_apart() -> None:
    """Every rate can be had without the form gate."""
    summary = summarise([Row("p/a", "p", 1, 0, "failed", form_only=True), Row("p/b", "p", 1, 0, "passed")])
    assert (summary.form_only, summary.pass_rate, summary.pass_rate_without_form) == (1, 50.0, 100.0)
    assert (summary.values_only, summary.pass_rate_without_values) == (0, 50.0)


def test_value_failures_are_counted_apart() -> None:
    """Every rate can be had without the comparison with the gold's values."""
    summary = summarise([Row("p/a", "p", 3, 0, "failed", values_only=True), Row("p/b", "p", 1, 0, "passed")])
    assert (summary.values_only, summary.form_only) == (1, 0)
    assert (summary.scaled_pass_rate, summary.scaled_pass_rate_without_values) == (25.0, 100.0)
    assert summary.scaled_pass_rate_without_form == 25.0


def test_outermost_leaves_nested_blanks_out() -> None:
    """Lines of nested blanks count once in that view."""
    kept = outermost([Row("p/a", "p", 5, 0, "passed"), Row("p/b", "p", 2, 1, "failed")])
    assert [row.task for row in kept] == ["p/a"]


def test_an_unknown_verdict_is_refused() -> None:
    """There is no fourth verdict."""
    with pytest.raises(ValueError, match="no verdict"):
        Row("p/a", "p", 1, 0, "skipped")


@pytest.mark.parametrize(("n", "c"), [(1, 0), (1, 1), (5, 2), (10, 3), (10, 10), (200, 1)])
def test_pass_at_k_equals_its_definition(n: int, c: int) -> None:
    """The stable product is 1 - C(n-c, k) / C(n, k)."""
    for k in range(1, n + 1):
        assert pass_at_k(n, c, k) == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k), abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 1, 0), (3, 4, 1), (3, -1, 1)])
def test_pass_at_k_is_undefined_outside_its_range(n: int, c: int, k: int) -> None:
    """No estimate is invented."""
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(n, c, k)


def test_pass_at_k_rates_need_enough_attempts_everywhere() -> None:
    """Numbers of attempts are never mixed over tasks."""
    two = [Row("p/a", "p", 1, 0, "passed", 1), Row("p/a", "p", 1, 0, "failed", 2), Row("p/b", "p", 3, 0, "failed", 1)]
    assert pass_at_k_rates(two, 2) == (None, None)
    assert pass_at_k_rates([], 1) == (None, None)
    assert pass_at_k_rates(two, 1) == (25.0, 12.5)
