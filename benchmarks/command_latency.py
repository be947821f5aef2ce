"""What a sandbox costs per command and per opening, beside the plain command, measured in one run.

    python benchmarks/command_latency.py [REPEATS]

Medians of wall and CPU milliseconds. The CPU of the sandbox is that of every process below this one plus this
one's own, taken from the cgroup of the sandbox where there is one, else left out.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rcb_agent.environments.base import SandboxSpec
from rcb_agent.environments.bubblewrap import BubblewrapSandbox, open_bubblewrap
from rcb_agent.environments.runtimes import build_runtime

COMMANDS: tuple[tuple[str, ...], ...] = (("true",), ("sh", "-c", "echo hi"), ("python", "-c", "pass"))
Sample = tuple[float, float]


def measure(action: Callable[[], object], cpu: Callable[[], float], repeats: int) -> Sample:
    """Median wall and CPU milliseconds of an action."""
    walls, cpus = [], []
    for _ in range(repeats):
        started, used = time.perf_counter(), cpu()
        action()
        walls.append((time.perf_counter() - started) * 1000)
        cpus.append((cpu() - used) * 1000)
    return statistics.median(walls), statistics.fmean(cpus)


def own_cpu() -> float:
    """CPU seconds of this process and its finished children."""
    import os

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


def first_process(box: BubblewrapSandbox) -> int:
    """Host process id of PID 1 of a sandbox."""
    outer = box._carrier.process.pid  # noqa: SLF001 -- a measurement looks inside
    return int(Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0])


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    repeats = int(arguments[0]) if arguments else 100
    runtime = build_runtime("mini", lambda _line: None)
    plain = {"python": str(runtime.python)}
    print(f"{'command':22}{'plain wall':>11}{'cpu':>7}{'sandbox wall':>14}{'cpu':>7}{'added wall':>12}{'cpu':>7}   ms")
    with open_bubblewrap(SandboxSpec(runtime)) as box:
        inside = cpu_below(first_process(box))
        for command in COMMANDS:
            direct = [plain.get(command[0], command[0]), *command[1:]]
            bare = measure(lambda: subprocess.run(direct, capture_output=True, check=True), own_cpu, repeats)  # noqa: B023
            boxed = measure(lambda: box.run(command, timeout=30), inside, repeats)  # noqa: B023 -- used at once
            row = (*bare, *boxed, boxed[0] - bare[0], boxed[1] - bare[1])
            print(
                f"{' '.join(command):22}{row[0]:11.2f}{row[1]:7.2f}{row[2]:14.2f}{row[3]:7.2f}{row[4]:12.2f}{row[5]:7.2f}"
            )
    opening = measure(lambda: open_bubblewrap(SandboxSpec(runtime)).close(), own_cpu, max(5, repeats // 5))
    print(f"\nopen and close: {opening[0]:.1f} ms wall, {opening[1]:.1f} ms CPU; n = {repeats}, medians (CPU: means)")
    print("enforcement:", ", ".join(f"{name}: {how}" for name, how in box.enforcement.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
