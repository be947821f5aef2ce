"""Made-up results that are clustered as the benchmark's are, to see how far intervals and tests can be trusted.

Each sample draws as many papers as there are, with their real numbers and sizes of tasks, from a world without end.
The log odds that a system passes a task fall with its size and share one effect per paper; a system has an effect of
its own in each paper too, which is what a paired difference varies by. The defaults give the intra-paper
correlation and the share of discordant tasks that the published models show.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from rcb_agent.scoring.comparison import Difference, Outcomes, compare_systems
from rcb_agent.scoring.intervals import BOOTSTRAP, Bootstrap
from rcb_agent.tasks.published import load_published

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

SYSTEMS = ("first", "second")


@dataclass(frozen=True, slots=True)
class World:
    """How results come about; ``advantage`` is what the first system has more in log odds.

    ``paper`` and ``own`` are standard deviations of the effect of a paper and of a system in a paper, ``task`` of a
    task, ``size`` the fall per doubling of the lines, ``level`` the log odds at one line.
    """

    papers: int = 20
    advantage: float = 0.0
    level: float = 3.2
    size: float = 1.5
    paper: float = 1.8
    own: float = 0.5
    task: float = 2.2


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of so many samples, the shares (0 to 1) whose interval held the truth and whose tests said p < 0.05."""

    samples: int
    truth: float
    covered: float
    excludes_zero: float
    flips_reject: float
    mcnemar_reject: float
    detectable: float


def measure_coverage(world: World, samples: int, seed: int, bootstrap: Bootstrap = BOOTSTRAP) -> Coverage:
    """Draw samples, compare the systems in each by lines, and count; ``detectable`` is the mean over the samples."""
    import numpy as np

    truth = true_difference(world)
    rng = np.random.default_rng(seed)
    found = [compare_systems(draw_outcomes(world, rng), bootstrap=bootstrap)[0] for _ in range(samples)]
    scaled = [one.scaled for one in found]
    return Coverage(
        samples=samples,
        truth=truth,
        covered=_share(_holds(one, truth) for one in scaled),
        excludes_zero=_share(not _holds(one, 0.0) for one in scaled),
        flips_reject=_share(one.flips is not None and one.flips.p < 0.05 for one in scaled),
        mcnemar_reject=_share(one.mcnemar is not None and one.mcnemar < 0.05 for one in found),
        detectable=float(np.mean([one.detectable or 0.0 for one in scaled])),
    )


def true_difference(world: World, papers: int = 40_000) -> float:
    """Return the scaled difference of the world itself, in points: that of the chances over very many papers."""
    import numpy as np

    if not world.advantage:
        return 0.0
    rng = np.random.default_rng(7)
    lines: list[float] = []
    first: list[float] = []
    second: list[float] = []
    for paper, sizes in _draw_papers(replace(world, papers=papers), rng):
        chances = _chances(world, sizes, rng, paper)
        lines.append(float(sizes.sum()))
        first.append(float(sizes @ chances[0]))
        second.append(float(sizes @ chances[1]))
    return 100 * (sum(first) - sum(second)) / sum(lines)


def draw_outcomes(world: World, rng: "np.random.Generator") -> Outcomes:
    """Return one sample of one attempt each."""
    papers: list[str] = []
    lines: list[int] = []
    passed: tuple[list[float], list[float]] = ([], [])
    for place, (effect, sizes) in enumerate(_draw_papers(world, rng)):
        chances = _chances(world, sizes, rng, effect)
        papers += [f"{place:05d}"] * len(sizes)
        lines += [int(one) for one in sizes]
        for known, chance in zip(passed, chances, strict=True):
            known.extend((rng.random(len(sizes)) < chance).astype(float).tolist())
    shares = {system: tuple(known) for system, known in zip(SYSTEMS, passed, strict=True)}
    return Outcomes(tuple(f"{place}" for place in range(len(lines))), tuple(papers), tuple(lines), shares, shares)


def _draw_papers(world: World, rng: "np.random.Generator") -> Iterator[tuple[float, "Floats"]]:
    """Yield the effect of each paper and the sizes of its tasks."""
    import numpy as np

    known: dict[str, list[int]] = {}
    for task in load_published().tasks.values():
        known.setdefault(task.paper, []).append(task.loc)
    shapes = [np.array(sizes, dtype=float) for sizes in known.values()]
    for place in rng.integers(len(shapes), size=world.papers):
        yield float(rng.normal(0, world.paper)), shapes[place]


def _chances(world: World, sizes: "Floats", rng: "np.random.Generator", effect: float) -> list["Floats"]:
    """Return both systems' chances to pass each task of a paper."""
    import numpy as np

    shared = world.level - world.size * np.log2(sizes) + effect + rng.normal(0, world.task, len(sizes))
    odds = [shared + rng.normal(0, world.own) + gain for gain in (world.advantage, 0.0)]
    return [1 / (1 + np.exp(-one)) for one in odds]


def _holds(one: Difference, value: float) -> bool:
    return one.interval is not None and one.interval[0] <= value <= one.interval[1]


def _share(hits: Iterator[bool]) -> float:
    known = list(hits)
    return sum(known) / len(known)
