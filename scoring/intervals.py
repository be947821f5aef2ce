"""Intervals of rates, clustered by paper: tasks of one paper rise and fall together, so papers are what is resampled.

A rate is a ratio, passed over all, and both are resampled together: each draw takes as many papers as there are, with
repeats, each with all its tasks. Percentiles of the draws are the interval. The draws depend on the number of papers
and the seed alone, so that systems measured on the same papers are resampled alike.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rcb_agent.scoring.base import PASSED
from rcb_agent.scoring.metrics import Row

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """How papers are resampled; stated beside every interval."""

    resamples: int = 20_000
    seed: int = 20250602
    level: float = 0.95

    def as_json(self) -> dict[str, Any]:
        """Return the record form."""
        return {
            "method": "percentile bootstrap of a ratio",
            "unit": "paper",
            "resamples": self.resamples,
            "seed": self.seed,
            "level": self.level,
        }


@dataclass(frozen=True, slots=True)
class Part:
    """What one paper brings to a rate: how much of it passed, of how much."""

    passed: float
    total: float


BOOTSTRAP = Bootstrap()


def ratio_interval(parts: Sequence[Part], bootstrap: Bootstrap = BOOTSTRAP) -> tuple[float, float] | None:
    """Return the interval of 100 * passed / total over the parts; None for fewer than two, which show no spread."""
    import numpy as np

    known = [part for part in parts if part.total > 0]
    if len(known) < 2:
        return None
    draws = draw_papers(len(known), bootstrap.resamples, bootstrap.seed)
    passed = draws @ np.array([part.passed for part in known], dtype=float)
    total = draws @ np.array([part.total for part in known], dtype=float)
    tail = 50 * (1 - bootstrap.level)
    low, high = np.percentile(100 * passed / total, [tail, 100 - tail])
    return float(low), float(high)


def scaled_interval(rows: Iterable[Row], bootstrap: Bootstrap = BOOTSTRAP) -> tuple[float, float] | None:
    """Return the interval of the line-weighted pass rate."""
    return ratio_interval(_parts(rows, by_lines=True), bootstrap)


def plain_interval(rows: Iterable[Row], bootstrap: Bootstrap = BOOTSTRAP) -> tuple[float, float] | None:
    """Return the interval of the pass rate over tasks."""
    return ratio_interval(_parts(rows, by_lines=False), bootstrap)


def _parts(rows: Iterable[Row], *, by_lines: bool) -> list[Part]:
    """Sum up each paper; attempts are averaged within their task first, and papers sorted: order decides nothing."""
    tasks: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        tasks.setdefault((row.paper, row.task), []).append(row)
    passed: dict[str, float] = {}
    total: dict[str, float] = {}
    for (paper, _), attempts in sorted(tasks.items()):
        weight = attempts[0].loc if by_lines else 1
        share = sum(row.verdict == PASSED for row in attempts) / len(attempts)
        passed[paper] = passed.get(paper, 0.0) + weight * share
        total[paper] = total.get(paper, 0.0) + weight
    return [Part(passed[paper], total[paper]) for paper in total]


@lru_cache(maxsize=8)
def draw_papers(papers: int, resamples: int, seed: int) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """Return how often each paper is in each resample: (resamples, papers), rows sum to ``papers``."""
    import numpy as np

    even = np.full(papers, 1 / papers)
    return np.random.default_rng(seed).multinomial(papers, even, size=resamples).astype(np.float64)
