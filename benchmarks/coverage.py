"""Prints how often intervals and tests of ``compare`` are right on made-up data clustered as the benchmark's are.

python benchmarks/coverage.py [SAMPLES]

A line per world: how often the 95 % interval holds the true difference of the scaled rates, how often sign flips and McNemar
say p < 0.05 (with no true difference: how often they are wrong), what the samples say they could have seen.
"""

import sys

from rcb_agent.scoring.intervals import Bootstrap
from rcb_agent.scoring.simulation import World, measure_coverage

WORLDS = {
    "20 papers, no difference": World(),
    "20 papers, small difference": World(advantage=0.7),
    "20 papers, larger difference": World(advantage=1.5),
    "20 papers, no difference, arms vary less by paper": World(own=0.0),
    "20 papers, no difference, arms vary more by paper": World(own=1.0),
    "13 papers, no difference": World(papers=13),
    "8 papers, no difference": World(papers=8),
    "50 papers, no difference": World(papers=50),
    "100 papers, no difference": World(papers=100),
}


def main() -> None:
    """Measure each world and say where an interval falls short."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{samples} samples each, 2,000 resamples, seed 20250602; +- {100 * (0.9 * 0.1 / samples) ** 0.5:.1f} points")
    print(f"{'world':52s} {'truth':>6s} {'held':>6s} {'flips<.05':>10s} {'McNemar<.05':>12s} {'sees':>6s}")
    short = []
    for name, world in WORLDS.items():
        found = measure_coverage(world, samples, 20250602, Bootstrap(resamples=2_000))
        print(
            f"{name:52s} {found.truth:6.1f} {100 * found.covered:5.1f}% {100 * found.flips_reject:9.1f}% "
            f"{100 * found.mcnemar_reject:11.1f}% {found.detectable:6.1f}"
        )
        short += [f"{name} ({100 * found.covered:.1f} %)"] if found.covered < 0.935 else []
    print("below 95 %, beyond noise: " + ("; ".join(short) or "none"))


if __name__ == "__main__":
    main()
