"""Guards: differences that pretend tasks of one paper are independent, and arithmetic that breaks at its edges."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy.stats import permutation_test

from rcb_agent.scoring.clustered import flip_signs, smallest_detectable
from rcb_agent.scoring.comparison import Comparison, Outcomes, collect_outcomes, compare_systems, exact_mcnemar, holm
from rcb_agent.scoring.intervals import Bootstrap
from rcb_agent.scoring.metrics import Row
from rcb_agent.scoring.simulation import World, measure_coverage
from rcb_agent.tasks.published import load_published

GEMINI, O3, O4, GPT = "GEMINI_2_5_PRO_PREVIEW_05_06", "O3_HIGH", "OPENROUTER_O4_MINI_HIGH", "GPT_4_1"


def published_outcomes(*models: str) -> Outcomes:
    facts = load_published()
    passed = {model.id: model.passed for model in facts.models}
    return collect_outcomes(
        {
            model: [
                Row(task.id, task.paper, task.loc, task.depth, "passed" if task.id in passed[model] else "failed")
                for task in facts.tasks.values()
            ]
            for model in models
        }
    )


def compare_two(first: str, second: str, papers: str, **changes: Any) -> Comparison:
    """Compare two systems given as marks per task (1 passed, 0 failed, ? not measured); ``papers`` one letter each."""
    verdicts = {"1": "passed", "0": "failed", "?": "not_measured"}
    rows = {
        name: [
            Row(f"{paper}/{place}", paper, changes.get("loc", 1), 0, verdicts[mark])
            for place, (mark, paper) in enumerate(zip(marks, papers, strict=True))
        ]
        for name, marks in (("first", first), ("second", second))
    }
    return compare_systems(collect_outcomes(rows))[0]


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in numbers_in(part)]
    if isinstance(value, list | tuple):
        return [one for part in value for one in numbers_in(part)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize(
    ("first", "second", "estimate", "interval", "mcnemar", "detectable"),
    [
        (GEMINI, O3, 5.2, (-1.6, 12.2), 0.10, 10.4),
        (O3, O4, 1.4, None, 0.87, 8.7),
        (GEMINI, GPT, 9.8, (3.1, 14.5), 9e-6, 8.7),
    ],
)
def test_published_models_differ_as_another_computation_says(
    first: str, second: str, estimate: float, interval: tuple[float, float] | None, mcnemar: float, detectable: float
) -> None:
    """Values made elsewhere with other draws: equal but for the noise of resampling."""
    found = compare_systems(published_outcomes(first, second))[0]
    assert found.scaled.estimate == pytest.approx(estimate, abs=0.05)
    assert found.mcnemar == pytest.approx(mcnemar, rel=0.05)
    assert found.scaled.detectable == pytest.approx(detectable, abs=0.15)
    if interval:
        assert found.scaled.interval == pytest.approx(interval, abs=0.3)


def test_the_plain_view_and_every_task_are_in_the_table() -> None:
    """20 against 10 tasks of 212, 6 of which one task in a hundred is 0.47 points."""
    found = compare_systems(published_outcomes(GEMINI, O3))[0]
    turned = found.turned
    assert (turned.both, turned.first, turned.second, turned.neither) == (116, 20, 10, 66)
    assert found.plain.estimate == pytest.approx(100 * 10 / 212)
    assert found.scaled.range_without_one is not None
    assert {name for name, _ in found.scaled.left_out} == {task.paper for task in load_published().tasks.values()}


def test_leaving_a_paper_out_leaves_out_all_its_tasks() -> None:
    """Each value is the difference of a comparison in which that paper does not exist."""
    outcomes = published_outcomes(GEMINI, O3)
    left = dict(compare_systems(outcomes)[0].scaled.left_out)
    without = compare_systems(outcomes.over(lambda task: not task.startswith("eomt/")))[0]
    assert left["eomt"] == pytest.approx(without.scaled.estimate)


def test_pairs_meet_the_same_draws_alone_and_together() -> None:
    """A pair's interval must not depend on which other systems are compared."""
    alone = compare_systems(published_outcomes(GEMINI, O3))[0]
    together = compare_systems(published_outcomes(O4, GEMINI, O3, GPT), [(GEMINI, O3)])[0]
    assert together.scaled == alone.scaled
    other = compare_systems(published_outcomes(GEMINI, O3), bootstrap=Bootstrap(seed=1))[0]
    assert other.scaled.interval != alone.scaled.interval


def test_turning_a_pair_around_turns_the_sign_only() -> None:
    there = compare_systems(published_outcomes(GEMINI, O3))[0]
    back = compare_systems(published_outcomes(O3, GEMINI))[0]
    assert there.scaled.estimate == pytest.approx(-float(back.scaled.estimate or 0))
    assert there.scaled.flips == back.scaled.flips
    assert there.mcnemar == back.mcnemar
    assert there.turned.first_tasks == back.turned.second_tasks


def test_sign_flips_agree_with_scipy() -> None:
    """All patterns, against a slower library."""
    gaps = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0, 6.0, 0.0])
    found = flip_signs(gaps.tolist())
    theirs = permutation_test((gaps, np.zeros(len(gaps))), lambda a, b: (a - b).sum(), permutation_type="samples")
    assert found is not None
    assert found.exact
    assert found.p == pytest.approx(theirs.pvalue)


def test_more_papers_than_can_be_flipped_are_drawn_and_p_is_never_0() -> None:
    found = flip_signs([1.0] * 40, Bootstrap(resamples=999))
    assert found is not None
    assert not found.exact
    assert found.p == pytest.approx(1 / 1000)


def test_holm_is_step_down_and_never_falls() -> None:
    """Worked by hand: 4, 3, 2, 1 times the sorted values, held up by the one before; None is no test."""
    assert holm([0.01, 0.04, None, 0.03, 0.005]) == pytest.approx((0.03, 0.06, None, 0.06, 0.02), nan_ok=False)
    assert holm([0.9, 0.8]) == (1.0, 1.0)
    assert holm([]) == ()


def test_mcnemar_is_the_exact_binomial() -> None:
    """30 against 15 is the least that 45 discordant tasks need for p < 0.05."""
    assert exact_mcnemar(30, 15) < 0.05 < exact_mcnemar(29, 16)
    assert exact_mcnemar(3, 1) == pytest.approx(0.625)
    assert exact_mcnemar(0, 0) == 1.0


def test_detectable_is_the_sum_of_two_quantiles() -> None:
    """Student's t with 19 degrees of freedom: 2.093 + 0.861."""
    assert smallest_detectable(1.0, 20) == pytest.approx(2.0930 + 0.8610, abs=1e-3)
    assert smallest_detectable(0.0, 20) is None
    assert smallest_detectable(1.0, 1) is None


EDGES = {
    "no tasks": ("", "", ""),
    "nothing measured": ("????", "????", "aabb"),
    "nothing measured of one": ("????", "1010", "aabb"),
    "one paper": ("1100", "1010", "aaaa"),
    "identical": ("1100", "1100", "aabb"),
    "all passed": ("1111", "1111", "aabb"),
    "tie in total": ("10", "01", "ab"),
    "one task": ("1", "0", "a"),
}


@pytest.mark.parametrize("edge", EDGES)
def test_no_edge_gives_a_number_that_is_none(edge: str) -> None:
    """NaN or infinity nowhere: what cannot be said is None."""
    for loc in (1, 0):
        found = compare_two(*EDGES[edge], loc=loc)
        assert all(math.isfinite(value) for value in numbers_in(asdict(found)))


def test_one_paper_shows_no_spread() -> None:
    """A difference, but no interval, no test over papers, nothing detectable."""
    found = compare_two(*EDGES["one paper"]).scaled
    assert found.estimate == 0.0
    assert (found.interval, found.flips, found.detectable, found.range_without_one) == (None, None, None, None)


def test_identical_systems_have_no_detectable_difference_of_zero() -> None:
    """No spread says nothing of what could have been seen; 0.0 would say that everything could."""
    found = compare_two(*EDGES["identical"])
    assert found.scaled.interval == (0.0, 0.0)
    assert found.scaled.detectable is None
    assert found.scaled.flips is not None
    assert found.scaled.flips.p == 1.0
    assert found.mcnemar == 1.0


def test_what_was_not_measured_is_a_bracket_not_a_pass() -> None:
    found = compare_two("1?00", "0?10", "aabb").scaled
    assert found.estimate == 0.0
    assert found.bracket == (-25.0, 25.0)


def test_unequal_attempts_are_averaged_within_their_task() -> None:
    """3 attempts of one system weigh as much as 1 of the other, task by task."""
    rows = {
        "many": [Row("a/x", "a", 1, 0, verdict, n) for n, verdict in enumerate(("passed", "failed", "failed"), 1)],
        "one": [Row("a/x", "a", 1, 0, "passed")],
    }
    found = compare_systems(collect_outcomes(rows))[0]
    assert found.plain.estimate == pytest.approx(100 * (1 / 3 - 1))
    assert (found.turned.first, found.turned.second) == (0, 1)


def test_only_tasks_that_all_systems_have_are_compared() -> None:
    rows = {
        "one": [Row("a/x", "a", 1, 0, "passed"), Row("a/y", "a", 1, 0, "passed")],
        "other": [Row("a/x", "a", 1, 0, "failed")],
    }
    assert collect_outcomes(rows).tasks == ("a/x",)


def test_coverage_of_the_interval_is_about_what_the_docs_say() -> None:
    """Below 95 %, as percentile intervals over 20 papers are, but not far; the flips reject about 5 % of nothing."""
    found = measure_coverage(World(), samples=300, seed=11, bootstrap=Bootstrap(resamples=1000))
    assert 0.82 <= found.covered <= 0.96
    assert found.flips_reject <= 0.10
    assert found.covered == pytest.approx(1 - found.excludes_zero)


def test_a_real_advantage_is_held_too() -> None:
    """The truth is not zero here: an interval around the wrong centre would miss it."""
    found = measure_coverage(World(advantage=1.5), samples=150, seed=12, bootstrap=Bootstrap(resamples=1000))
    assert found.truth > 5
    assert 0.8 <= found.covered <= 0.98
    assert found.flips_reject > 0.3
