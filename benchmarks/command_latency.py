"""What a sandbox costs per command and per opening, beside the plain command, measured in one run.

    python benchmarks/command_latency.py [REPEATS]

Plain and sandboxed take turns, so that a machine that is busy for a while is busy for both; what is added is the
median of the differences of neighbours, and the difference of the fastest runs, which other people's load does not
touch. CPU is the mean of milliseconds of this process, its finished children and, for the sandbox, its supervisor.
On a machine with more work than cores wall times say how the kernel shares them, not what a sandbox costs: the load is
printed.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rcb_agent.environments.base import SandboxSpec
from rcb_agent.environments.bubblewrap import BubblewrapSandbox, open_bubblewrap
from rcb_agent.environments.runtimes import build_runtime

COMMANDS: tuple[tuple[str, ...], ...] = (("true",), ("sh", "-c", "echo hi"), ("python", "-c", "pass"))


@dataclass(frozen=True, slots=True)
class Sample:
    """Milliseconds of an action, run by run."""

    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    def measure(self, action: Callable[[], object], cpu: Callable[[], float]) -> None:
        """Do it once more."""
        started, used = time.perf_counter(), cpu()
        action()
        self.walls.append((time.perf_counter() - started) * 1000)
        self.cpus.append((cpu() - used) * 1000)

    def cpu(self) -> float:
        """Mean, because the kernel counts in whole ticks."""
        return statistics.fmean(self.cpus)


def own_cpu() -> float:
    """CPU seconds of this process and its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def cpu_below(pid: int) -> Callable[[], float]:
    """CPU seconds of a running process and the children it has reaped, plus this process."""
    path = Path(f"/proc/{pid}/stat")
    tick = 100.0

    def read() -> float:
        words = path.read_text().rsplit(")", 1)[1].split()
        return own_cpu() + sum(int(word) for word in words[11:15]) / tick

    return read


def compare(command: Sequence[str], plain: Sequence[str], box: BubblewrapSandbox, repeats: int) -> str:
    """One row of the table."""
    bare, boxed = Sample(), Sample()
    inside = cpu_below(box._carrier.pid)  # noqa: SLF001 -- a measurement looks inside
    for _ in range(repeats):
        bare.measure(lambda: subprocess.run(plain, capture_output=True, check=True), own_cpu)
        boxed.measure(lambda: box.run(command, timeout=30), inside)
    added = statistics.median(after - before for before, after in zip(bare.walls, boxed.walls, strict=True))
    numbers = (
        *(statistics.median(bare.walls), bare.cpu(), statistics.median(boxed.walls), boxed.cpu()),
        *(added, min(boxed.walls) - min(bare.walls), boxed.cpu() - bare.cpu()),
    )
    return f"{' '.join(command):18}" + "".join(f"{number:12.2f}" for number in numbers)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    repeats = int(arguments[0]) if arguments else 100
    runtime = build_runtime("mini", lambda _line: None)
    heads = ("plain wall", "cpu", "boxed wall", "cpu", "added wall", "at best", "cpu")
    print(f"{'ms':18}" + "".join(f"{head:>12}" for head in heads))
    with open_bubblewrap(SandboxSpec(runtime)) as box:
        for command in COMMANDS:
            plain = [str(runtime.python) if command[0] == "python" else command[0], *command[1:]]
            print(compare(command, plain, box, repeats))
        enforcement = box.enforcement
    opening = Sample()
    for _ in range(max(5, repeats // 5)):
        opening.measure(lambda: open_bubblewrap(SandboxSpec(runtime)).close(), own_cpu)
    print(f"\nopen and close: {statistics.median(opening.walls):.1f} ms wall, {opening.cpu():.1f} ms CPU")
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"n = {repeats}; load {load} on {os.cpu_count()} cores (of 1, 5 and 15 minutes)")
    print("enforcement:", ", ".join(f"{name}: {how}" for name, how in enforcement.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
