"""What a sandbox costs per command and per opening, beside the plain command, measured in one run.

    python benchmarks/command_latency.py [REPEATS] [bubblewrap|docker]
    python benchmarks/command_latency.py --at-once 40 [bubblewrap|docker]

Plain and sandboxed take turns, so that a machine that is busy for a while is busy for both; what is added is the
median of the differences of neighbours, and the difference of the fastest runs, which other people's load does not
touch. CPU is the mean of milliseconds of this process, its finished children and, for the sandbox, its supervisor.
On a machine with more work than cores wall times say how the kernel shares them, not what a sandbox costs: the load is
printed. A container's engine does work of its own, which is in its wall times only. ``--at-once`` opens that many,
runs a command in each, and prints the resident memory (pages shared between processes counted once for each, and in
proportion) of supervisors and of what the engine runs beside them.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.images import build_image, default_base
from rcb_agent.environments.registry import open_sandbox
from rcb_agent.environments.runtimes import build_runtime
from rcb_agent.environments.supervised import SupervisedSandbox

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


def compare(command: Sequence[str], plain: Sequence[str], box: SupervisedSandbox, repeats: int) -> str:
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


def open_one(kind: str, runtime: Runtime) -> SupervisedSandbox:
    """Open a sandbox that has a supervisor."""
    box = open_sandbox(kind, SandboxSpec(runtime))
    if not isinstance(box, SupervisedSandbox):
        raise TypeError(kind)
    return box


def kilobytes(pid: int, key: str) -> int:
    """Read a line of a process's memory report."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def processes_called(*names: str) -> list[int]:
    """Process ids by the name of the program, as far as the kernel keeps it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() in names:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def at_once(kind: str, count: int) -> None:
    """Open many and print what they take together."""
    runtime = build_runtime("mini", lambda _line: None)
    started, boxes = time.perf_counter(), list[SupervisedSandbox]()
    try:
        for _ in range(count):
            boxes.append(open_one(kind, runtime))
            boxes[-1].run(["python", "-c", "pass"], timeout=60)
        seconds = time.perf_counter() - started
        supervisors = [box._carrier.pid for box in boxes]  # noqa: SLF001 -- a measurement looks inside
        beside = processes_called("containerd-shim", "dockerd", "containerd") if kind == "docker" else []
        for name, pids in (("supervisors", supervisors), ("engine", beside)):
            numbers = [sum(kilobytes(pid, key) for pid in pids) / 1024 for key in ("Rss", "Pss")]
            print(
                f"{name:12} {len(pids):4} processes, {numbers[0]:8.0f} MiB resident, {numbers[1]:8.0f} MiB in proportion"
            )
    finally:
        for box in boxes:
            box.close()
    print(f"{count} {kind} sandboxes alive at once, opened in {seconds:.1f} s")


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    kind = next((word for word in arguments if word in ("bubblewrap", "docker")), "bubblewrap")
    numbers = [int(word) for word in arguments if word.isdigit()]
    runtime = build_runtime("mini", lambda _line: None)
    if kind == "docker":
        build_image(runtime, default_base(), print)
    if "--at-once" in arguments:
        at_once(kind, numbers[0] if numbers else 40)
        return
    repeats = numbers[0] if numbers else 100
    heads = ("plain wall", "cpu", "boxed wall", "cpu", "added wall", "at best", "cpu")
    print(f"{'ms':18}" + "".join(f"{head:>12}" for head in heads))
    with open_one(kind, runtime) as box:
        for command in COMMANDS:
            plain = [str(runtime.python) if command[0] == "python" else command[0], *command[1:]]
            print(compare(command, plain, box, repeats))
        enforcement = box.enforcement
    opening = Sample()
    for _ in range(max(5, repeats // 5)):
        opening.measure(lambda: open_one(kind, runtime).close(), own_cpu)
    print(f"\nopen and close: {statistics.median(opening.walls):.1f} ms wall, {opening.cpu():.1f} ms CPU")
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    print(f"n = {repeats}; load {load} on {os.cpu_count()} cores (of 1, 5 and 15 minutes)")
    print("enforcement:", ", ".join(f"{name}: {how}" for name, how in enforcement.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
