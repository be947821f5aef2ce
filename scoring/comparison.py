"""Systems against each other on the same tasks: pure functions from per-task means to differences and what they can say.

A difference is first minus second, in percentage points. Attempts are averaged within their task first. A rate is a
ratio over tasks, weighted by lines (``scaled``) or not (``plain``); papers are what is resampled (see ``clustered``).
Sources: Miller 2024 (arXiv 2411.00640) on paired, clustered differences; Holm 1979 on several pairs at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

from rcb_agent.scoring.base import NOT_MEASURED, PASSED
from rcb_agent.scoring.clustered import (
    Flips,
    flip_signs,
    leave_one_out,
    percentile_interval,
    resample_rates,
    smallest_detectable,
)
from rcb_agent.scoring.intervals import BOOTSTRAP, Bootstrap
from rcb_agent.scoring.metrics import Row

if TYPE_CHECKING:
    from rcb_agent.scoring.clustered import Floats


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What several systems did on the same tasks, in one order.

    ``passed[system][task]`` is the share of attempts that passed, 0 to 1, what was not measured counted as not passed;
    in ``upper`` it counts as passed. ``tasks``, ``papers`` and ``lines`` go along with them.
    """

    tasks: tuple[str, ...]
    papers: tuple[str, ...]
    lines: tuple[int, ...]
    passed: Mapping[str, tuple[float, ...]]
    upper: Mapping[str, tuple[float, ...]]

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems, in the order in which they were given."""
        return tuple(self.passed)

    def over(self, wanted: Callable[[str], bool]) -> "Outcomes":
        """Return the outcomes of the tasks whose id is wanted."""
        kept = [place for place, task in enumerate(self.tasks) if wanted(task)]

        def cut(values: Mapping[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
            return {system: tuple(known[place] for place in kept) for system, known in values.items()}

        return Outcomes(
            tuple(self.tasks[place] for place in kept),
            tuple(self.papers[place] for place in kept),
            tuple(self.lines[place] for place in kept),
            cut(self.passed),
            cut(self.upper),
        )

    def of(self, *systems: str) -> "Outcomes":
        """Return the outcomes of these systems alone."""
        kept = [{system: known[system] for system in systems} for known in (self.passed, self.upper)]
        return replace(self, passed=kept[0], upper=kept[1])

    def measured(self) -> "Outcomes":
        """Return the tasks of which every attempt of every system was measured."""
        unsure = {
            task
            for system in self.passed
            for task, low, high in zip(self.tasks, self.passed[system], self.upper[system], strict=True)
            if low != high
        }
        return self.over(lambda task: task not in unsure)


def collect_outcomes(rows: Mapping[str, Iterable[Row]]) -> Outcomes:
    """Average attempts within their task, and line the systems up on the tasks that all of them have.

    A task's paper and lines are those of the first system's rows.
    """
    tasks = {system: _by_task(known) for system, known in rows.items()}
    common = sorted(set.intersection(*(set(known) for known in tasks.values()))) if tasks else []
    first = next(iter(tasks.values()), {})

    def share(verdicts: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
        return {
            system: tuple(sum(row.verdict in verdicts for row in known[task]) / len(known[task]) for task in common)
            for system, known in tasks.items()
        }

    return Outcomes(
        tasks=tuple(common),
        papers=tuple(first[task][0].paper for task in common),
        lines=tuple(first[task][0].loc for task in common),
        passed=share((PASSED,)),
        upper=share((PASSED, NOT_MEASURED)),
    )


def _by_task(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.task, []).append(row)
    return found


@dataclass(frozen=True, slots=True)
class Turned:
    """Tasks by who did better: ``first`` and ``second`` had the larger share of attempts pass, the rest are ties.

    With one attempt each this is the 2 x 2 table. ``both`` ties with something passed, ``neither`` ties at nothing.
    """

    both: int
    first: int
    second: int
    neither: int
    first_tasks: tuple[str, ...]
    second_tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of two rates in percent, and what is known of it; None where so few papers say nothing.

    ``bracket`` is what it would be with everything not measured counted against the first, and for it.
    ``left_out`` is, per paper, the difference over all other papers. ``holm`` is the sign-flip p, adjusted for the pairs
    compared at once.
    """

    first: float | None
    second: float | None
    estimate: float | None
    bracket: tuple[float, float] | None
    papers: int
    interval: tuple[float, float] | None = None
    standard_error: float | None = None
    detectable: float | None = None
    flips: Flips | None = None
    holm: float | None = None
    left_out: tuple[tuple[str, float], ...] = ()

    @property
    def range_without_one(self) -> tuple[tuple[str, float], tuple[str, float]] | None:
        """The lowest and the highest difference with one paper left out, each with that paper."""
        if not self.left_out:
            return None
        return min(self.left_out, key=lambda pair: pair[1]), max(self.left_out, key=lambda pair: pair[1])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same tasks. ``mcnemar`` takes tasks for independent, which tasks of one paper are not."""

    first: str
    second: str
    tasks: int
    turned: Turned
    mcnemar: float | None
    scaled: Difference
    plain: Difference
    mcnemar_holm: float | None = None


def compare_systems(
    outcomes: Outcomes,
    pairs: Iterable[tuple[str, str]] | None = None,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> tuple[Comparison, ...]:
    """Compare pairs of systems, by default every two of them, with p values adjusted over the pairs.

    Papers are drawn once for all. No tasks give None everywhere.
    """
    wanted = list(combinations(outcomes.systems, 2)) if pairs is None else list(pairs)
    scaled = _Clustered(outcomes, outcomes.lines, bootstrap)
    plain = _Clustered(outcomes, (1,) * len(outcomes.tasks), bootstrap)
    found = [_compare(outcomes, pair, scaled, plain) for pair in wanted]
    return _adjust(found)


def _compare(outcomes: Outcomes, pair: tuple[str, str], scaled: "_Clustered", plain: "_Clustered") -> Comparison:
    turned = turn_tasks(outcomes, pair)
    return Comparison(
        first=pair[0],
        second=pair[1],
        tasks=len(outcomes.tasks),
        turned=turned,
        mcnemar=exact_mcnemar(turned.first, turned.second) if outcomes.tasks else None,
        scaled=scaled.difference(pair),
        plain=plain.difference(pair),
    )


def _adjust(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    mcnemar = holm([one.mcnemar for one in found])
    scaled = holm([one.scaled.flips.p if one.scaled.flips else None for one in found])
    plain = holm([one.plain.flips.p if one.plain.flips else None for one in found])
    return tuple(
        replace(
            one,
            mcnemar_holm=mcnemar[place],
            scaled=replace(one.scaled, holm=scaled[place]),
            plain=replace(one.plain, holm=plain[place]),
        )
        for place, one in enumerate(found)
    )


def turn_tasks(outcomes: Outcomes, pair: tuple[str, str]) -> Turned:
    """Say on which tasks one of two systems did better."""
    first, second = (outcomes.passed[system] for system in pair)
    rows = list(zip(outcomes.tasks, first, second, strict=True))
    better = tuple(task for task, one, other in rows if one > other)
    worse = tuple(task for task, one, other in rows if one < other)
    both = sum(one == other and one > 0 for _, one, other in rows)
    return Turned(both, len(better), len(worse), len(rows) - both - len(better) - len(worse), better, worse)


def exact_mcnemar(first: int, second: int) -> float:
    """Return the two-sided exact binomial p of ``first`` against ``second`` discordant tasks; 1 where there are none."""
    from scipy.stats import binomtest

    return float(binomtest(first, first + second).pvalue) if first + second else 1.0


def holm(values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust p values for their number, step down: the smallest times n, the next times n - 1, never falling, at most 1.

    None is no test and counts for none.
    """
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (value, place) in enumerate(known):
        largest = max(largest, min(1.0, value * (len(known) - rank)))
        adjusted[place] = largest
    return tuple(adjusted)


class _Clustered:
    """Rates of all systems with one weight per task, resampled once."""

    def __init__(self, outcomes: Outcomes, weights: Sequence[float], bootstrap: Bootstrap) -> None:
        import numpy as np

        self.places = {system: place for place, system in enumerate(outcomes.systems)}
        weight = np.array(weights, dtype=float)
        self.papers = tuple(sorted({p for p, w in zip(outcomes.papers, weight, strict=True) if w > 0}))
        belongs = np.array([[paper == name for paper in outcomes.papers] for name in self.papers], dtype=float)
        belongs = belongs.reshape(len(self.papers), len(outcomes.papers)) * weight
        self.total: Floats = belongs.sum(axis=1)
        self.passed, self.upper = (
            belongs
            @ np.array([known[system] for system in outcomes.systems], dtype=float)
            .reshape(len(self.places), len(weight))
            .T
            for known in (outcomes.passed, outcomes.upper)
        )
        self.level = bootstrap.level
        self.draws = resample_rates(self.passed, self.total, bootstrap) if len(self.papers) > 1 else None
        self.bootstrap = bootstrap

    def difference(self, pair: tuple[str, str]) -> Difference:
        """Return the difference of two systems."""
        if not self.papers:
            return Difference(None, None, None, None, 0)
        first, second = (self.places[system] for system in pair)
        rates = 100 * self.passed.sum(axis=0) / self.total.sum()
        upper = 100 * self.upper.sum(axis=0) / self.total.sum()
        gaps = self.passed[:, first] - self.passed[:, second]
        found = Difference(
            first=float(rates[first]),
            second=float(rates[second]),
            estimate=float(100 * gaps.sum() / self.total.sum()),
            bracket=(float(rates[first] - upper[second]), float(upper[first] - rates[second])),
            papers=len(self.papers),
        )
        return found if self.draws is None else self._judge(found, gaps, self.draws[:, first] - self.draws[:, second])

    def _judge(self, found: Difference, gaps: "Floats", draws: "Floats") -> Difference:
        error = float(draws.std(ddof=1))
        left = leave_one_out(gaps, self.total)
        return replace(
            found,
            interval=percentile_interval(draws, self.level),
            standard_error=error,
            detectable=smallest_detectable(error, len(self.papers), self.level),
            flips=flip_signs(gaps.tolist(), self.bootstrap),
            left_out=tuple(zip(self.papers, map(float, left), strict=True)),
        )
