"""What can be said of a difference when the unit that varies is the paper, not the task. Pure functions over numbers.

Values come per paper (what passed of how much, summed over its tasks); see ``comparison`` for how they get there. Few
papers say little: each function says None rather than a number that looks exact. Arrays have papers first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rcb_agent.scoring.intervals import BOOTSTRAP, Bootstrap, draw_papers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

MOST_FLIPPED = 20
"""Up to so many papers every pattern of signs is looked at (2^19 sums, by symmetry); beyond, patterns are drawn."""
POWER = 0.8
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Flips:
    """A sign-flip test: two-sided ``p``, over ``patterns`` of signs, all of them (``exact``) or drawn.

    ``smallest`` is the smallest p that so few papers allow: above 0.05, the test cannot speak.
    """

    p: float
    exact: bool
    patterns: int
    smallest: float


def resample_rates(passed: "Floats", total: "Floats", bootstrap: Bootstrap = BOOTSTRAP) -> "Floats":
    """Return rates in percent, (resamples, systems): papers are drawn, numerator and denominator together.

    ``passed`` is (papers, systems), ``total`` (papers,), each positive. All systems meet the same draws, so that the
    difference of two columns is a draw of their paired difference.
    """
    draws = draw_papers(len(total), bootstrap.resamples, bootstrap.seed)
    rates: Floats = 100 * (draws @ passed) / (draws @ total)[:, None]
    return rates


def percentile_interval(draws: "Floats", level: float = BOOTSTRAP.level) -> tuple[float, float]:
    """Return the middle ``level`` of the draws."""
    import numpy as np

    tail = 50 * (1 - level)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return float(low), float(high)


def flip_signs(differences: Sequence[float], bootstrap: Bootstrap = BOOTSTRAP) -> Flips | None:
    """Test the sum of the papers' differences: under no effect each paper's sign is a coin. None for one paper.

    The two systems change places in a whole paper at a time, so tasks of a paper stay together. Papers without a
    difference change nothing and are left out of the count of patterns; with none left, p is 1.
    """
    import numpy as np

    if len(differences) < 2:
        return None
    moved = np.array([one for one in differences if one], dtype=float)
    if not moved.size:
        return Flips(1.0, exact=True, patterns=1, smallest=1.0)
    edge = abs(moved.sum()) - _TIE * np.abs(moved).sum()
    if moved.size <= MOST_FLIPPED:
        sums = _all_sums(moved)
        share = float(np.mean(np.abs(sums) >= edge))
        return Flips(share, exact=True, patterns=2 * sums.size, smallest=2.0 ** (1 - moved.size))
    signs = np.random.default_rng(bootstrap.seed).choice((-1.0, 1.0), size=(bootstrap.resamples, moved.size))
    hits = int(np.sum(np.abs(signs @ moved) >= edge))
    drawn = bootstrap.resamples + 1  # the pattern that was seen is one of them: p is never 0 (Phipson and Smyth 2010)
    return Flips((hits + 1) / drawn, exact=False, patterns=bootstrap.resamples, smallest=1 / drawn)


def _all_sums(moved: "Floats") -> "Floats":
    """Return the sum under every pattern of signs with the first one kept; the others are these, negated."""
    import numpy as np

    sums = moved[:1]
    for one in moved[1:]:
        sums = np.concatenate((sums + one, sums - one))
    return sums


def smallest_detectable(standard_error: float, papers: int, level: float = 0.95, power: float = POWER) -> float | None:
    """Return the true difference that would be found significant with this ``power``, in the unit of the error.

    (t at the two-sided level + t at the power) x standard error, both with papers - 1 degrees of freedom. None for
    fewer than two papers or no spread at all, which says nothing of what could have been seen.
    """
    from scipy.stats import t

    if papers < 2 or not standard_error > _TIE:
        return None
    freedom = papers - 1
    return float((t.ppf((1 + level) / 2, freedom) + t.ppf(power, freedom)) * standard_error)


def leave_one_out(differences: "Floats", total: "Floats") -> "Floats":
    """Return, for each paper, 100 * sum of differences / total over all the other papers. Needs two papers or more."""
    left: Floats = 100 * (differences.sum() - differences) / (total.sum() - total)
    return left
