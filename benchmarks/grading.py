"""What a grade costs: sides forked warm, sides started cold, and the published way, in one run.

    python benchmarks/grading.py --suite mini
    python benchmarks/grading.py --suite researchcodebench --papers minp,TabDiff --submissions 60
    python benchmarks/grading.py --suite researchcodebench --submissions 6784 --ways warm
    python benchmarks/grading.py --suite researchcodebench --submissions 6 --by-paper

Submissions are gold, null and mutants of the gold, over the papers whose runtime is built. ``upstream`` is the
published way: a fresh copy of the paper's folder, ``python paper2code_test.py`` in it, one after another, no isolation.
CPU is user + system time of everything below this process, as the kernel's accounting group counts it (cgroup v1,
``cpuacct``, as root); start-up of the warm processes is counted and named apart. ``body`` is the CPU time of the
hidden test alone with the gold code, forked from a process that has imported what it needs: no isolation, no copy, nothing
crosses, so that no way of running the tests can cost less. ``--by-paper`` takes so many submissions of each paper, and sums
them up as if every task had been graded once.
"""

import argparse
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from rcb_agent.environments.preloads import imports_of
from rcb_agent.environments.registry import open_sandbox
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.environments.warm import WarmSandboxes
from rcb_agent.errors import RcbAgentError
from rcb_agent.scoring.preflight import gold_files
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import filled_files, null_code
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.suites import load_suite

ACCOUNTING = Path("/sys/fs/cgroup/cpuacct")
BODY = """\
import os, resource, runpy, sys, time
for name in sys.argv[2].split(","):
    try: __import__(name)
    except ImportError: pass
sys.path.insert(0, os.getcwd())
times = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        sys.argv = [sys.argv[1]]
        try: runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit: pass
        finally: os._exit(0)
    _, _, used = os.wait4(pid, 0)
    times.append(used.ru_utime + used.ru_stime)
print(sorted(times)[1])
"""


@dataclass(frozen=True, slots=True)
class Work:
    """One submission: ``kind`` is gold, null or mutant."""

    task: Task
    kind: str
    files: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds of CPU and of the clock, and the verdicts by submission."""

    cpu: float
    wall: float
    verdicts: tuple[str, ...]


class Accounting:
    """CPU seconds of everything this process starts, whoever has reaped it."""

    def __init__(self) -> None:
        own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
        path = next((path for names, path in own.items() if "cpuacct" in names.split(",")), None)
        if path is None or os.geteuid():
            sys.exit(
                "this needs root and a cgroup v1 controller cpuacct: other accounts lose what a killed process used"
            )
        self._folder = ACCOUNTING / path.lstrip("/") / f"rcb-agent-benchmark-{os.getpid()}"

    @contextmanager
    def entered(self) -> Iterator[Callable[[], float]]:
        """Move this process in and yield a clock of CPU seconds."""
        self._folder.mkdir()
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield lambda: int((self._folder / "cpuacct.usage").read_text()) / 1e9
        finally:
            (self._folder.parent / "cgroup.procs").write_text(str(os.getpid()))
            for _ in range(100):
                try:
                    self._folder.rmdir()
                except OSError:
                    time.sleep(0.05)
                else:
                    break


def submissions(tasks: Sequence[Task], count: int) -> list[Work]:
    """Return gold, null and mutants of all tasks in turn, as many as asked for."""

    def of_task(task: Task) -> Iterator[Work]:
        yield Work(task, "gold", filled_files(task.problem, task.answer.gold))
        yield Work(task, "null", filled_files(task.problem, null_code(task.problem)))
        for mutant in mutants_of(task, count=max(1, count // max(1, len(tasks)))):
            yield Work(task, "mutant", filled_files(task.problem, mutant.code))

    streams = [cycle(of_task(task)) for task in tasks]
    return list(islice((next(stream) for stream in cycle(streams)), count))


def grade_ours(work: Sequence[Work], grader: SplitGrader, clock: Callable[[], float], workers: int) -> Figures:
    """Grade with preflights done before, so that only grades are counted."""
    for task in {item.task.info.id: item.task for item in work}.values():
        if failure := grader.preflight(task):
            sys.exit(f"{task.info.id}: {failure}")
    with ThreadPoolExecutor(workers) as pool:  # also the null of each task, which its first grade looks at
        list(
            pool.map(
                lambda task: grader.grade(task, gold_files(task.answer)),
                {item.task.id: item.task for item in work}.values(),
            )
        )
    cpu, wall = clock(), time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        grades = list(pool.map(lambda item: grader.grade(item.task, item.files), work))
    return Figures(clock() - cpu, time.monotonic() - wall, tuple(grade.verdict for grade in grades))


def grade_upstream(work: Sequence[Work], clock: Callable[[], float]) -> Figures:
    """A fresh folder and a cold interpreter for each, one after another; the exit status stands for a verdict."""
    cpu, wall = clock(), time.monotonic()
    verdicts = []
    for item in work:
        with fresh_folder(item.task, item.files) as folder:
            done = run_python(item.task, folder, [item.task.answer.test_path], item.task.answer.rules.seconds)
            verdicts.append("passed" if done is not None and done.returncode == 0 else "failed")
    return Figures(clock() - cpu, time.monotonic() - wall, tuple(verdicts))


@contextmanager
def fresh_folder(task: Task, files: dict[str, bytes]) -> Iterator[Path]:
    """Everything of the paper, the reference and the test beside the candidate."""
    answer = task.answer
    pristine = {file.path: file.encode() for file in answer.files}
    everything = {**pristine, **answer.shared_bytes, **answer.hidden_bytes}
    with tempfile.TemporaryDirectory(prefix="rcb-agent-benchmark-") as place:
        for path, data in {**everything, **files}.items():
            target = Path(place, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        yield Path(place)


def run_python(
    task: Task, folder: Path, words: Sequence[str], seconds: float
) -> subprocess.CompletedProcess[bytes] | None:
    """Run the runtime's Python in a folder; None at the time limit."""
    python = load_runtime(task.problem.runtime).python
    environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)}
    with tempfile.TemporaryDirectory() as home:
        try:
            return subprocess.run(
                [str(python), *words],
                cwd=folder,
                env={**environment, "HOME": home},
                capture_output=True,
                timeout=seconds,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return None


def body_seconds(task: Task) -> float:
    """CPU seconds of a paper's hidden test with the gold code."""
    imports = ",".join(imports_of(load_runtime(task.problem.runtime)))
    with fresh_folder(task, gold_files(task.answer)) as folder:
        done = run_python(task, folder, ["-c", BODY, task.answer.test_path, imports], 300)
    return float(done.stdout) if done is not None and done.returncode == 0 else float("nan")


def measurable(suite: str, papers: Sequence[str]) -> list[Task]:
    """Return the tasks whose runtime is built."""
    tasks = []
    for task in load_suite(suite).tasks:
        if papers and task.info.id not in papers:
            continue
        try:
            load_runtime(task.problem.runtime)
        except RcbAgentError:
            continue
        tasks.append(task)
    return tasks


def main() -> None:
    """Print a table by paper and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="mini")
    parser.add_argument("--papers", default="", help="ids, with commas; default: all that are measurable")
    parser.add_argument("--submissions", type=int, default=60)
    parser.add_argument("--ways", default="upstream,cold,warm")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--by-paper", action="store_true", help="upstream and warm, paper by paper")
    options = parser.parse_args()
    tasks = measurable(options.suite, [name for name in options.papers.split(",") if name])
    if not tasks:
        sys.exit("no such paper whose runtime is built")
    cache = Path(tempfile.mkdtemp(prefix="rcb-agent-benchmark-"))
    load = f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    try:
        with Accounting().entered() as clock:
            if options.by_paper:
                print(f"{options.submissions} submissions of each paper, {load}; ms of CPU a grade")
                by_paper(tasks, options.submissions, clock, options.workers, cache)
                return
            work = submissions(tasks, options.submissions)
            print(f"{len(work)} submissions of {len(tasks)} tasks, {load}")
            compare(work, options.ways.split(","), clock, options.workers, cache)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def by_paper(tasks: Sequence[Task], count: int, clock: Callable[[], float], workers: int, cache: Path) -> None:
    """Measure the published way and ours for each paper, and how both stand to its bare test."""
    rows: list[tuple[int, float, float, float]] = []
    grader = SplitGrader(partial(open_sandbox, "bubblewrap"), load_runtime, cache=cache, warm=WarmSandboxes())
    print(f"{'paper':30} tasks  upstream  warm  ratio  body  bound  2 x body + 80")
    with closing(grader):
        for paper in dict.fromkeys(task.info.id for task in tasks):
            own = [task for task in tasks if task.info.id == paper]
            work = submissions(own, count)
            theirs = 1000 * grade_upstream(work, clock).cpu / count
            ours = 1000 * grade_ours(work, grader, clock, workers).cpu / count
            body = 1000 * body_seconds(own[0])
            if math.isnan(body):
                sys.exit(
                    f"{paper}: its test does not pass by itself with the gold code, so there is no bare test to compare with"
                )
            rows.append((len(own), theirs, ours, body))
            kept = "kept" if ours <= 2 * body + 80 else "not kept"
            print(
                f"{paper:30} {len(own):5} {theirs:9.0f} {ours:5.0f} {theirs / ours:6.1f} {body:5.0f} {theirs / body:6.1f}  {kept}",
                flush=True,
            )
    total = [sum(row[0] * row[place] for row in rows) for place in (1, 2, 3)]
    ratios = [theirs / ours for _, theirs, ours, _ in rows]
    print(
        f"all {sum(row[0] for row in rows)} tasks once: upstream {total[0] / 1000:.0f} s, warm {total[1] / 1000:.0f} s of CPU, "
        f"{total[0] / total[1]:.1f} x; bare tests {total[2] / 1000:.0f} s, {total[0] / total[2]:.1f} x"
    )
    print(
        f"ratio of a paper: median {statistics.median(ratios):.1f}, geometric mean {statistics.geometric_mean(ratios):.1f}, "
        f"from {min(ratios):.1f} to {max(ratios):.1f}"
    )


def compare(work: Sequence[Work], ways: Sequence[str], clock: Callable[[], float], workers: int, cache: Path) -> None:
    """Measure each way on the same submissions and print what came of it."""
    found: dict[str, Figures] = {}
    for way in ways:
        if way == "upstream":
            found[way] = grade_upstream(work, clock)
        else:
            warm = WarmSandboxes() if way == "warm" else None
            grader = SplitGrader(partial(open_sandbox, "bubblewrap"), load_runtime, cache=cache, warm=warm)
            found[way] = grade_ours(work, grader, clock, workers)
            grader.close()
        one = found[way]
        passed = sum(verdict == "passed" for verdict in one.verdicts)
        print(
            f"{way:9} {1000 * one.cpu / len(work):9.1f} ms CPU a grade {1000 * one.wall / len(work):9.1f} ms wall a grade "
            f"{one.wall:8.1f} s in all, {passed} passed"
        )
    if "warm" in found:
        for other, figures in found.items():
            if other != "warm":
                print(f"{other} / warm: {figures.cpu / found['warm'].cpu:.1f} x CPU")
        if "cold" in found:
            pairs = zip(found["cold"].verdicts, found["warm"].verdicts, strict=True)
            moved = [number for number, (cold, warm) in enumerate(pairs) if cold != warm]
            print(
                f"verdicts that differ between cold and warm: {len(moved)}",
                [work[number].task.id for number in moved][:10],
            )
    bodies = {paper: body_seconds(task) for paper, task in {item.task.info.id: item.task for item in work}.items()}
    print("body, ms of CPU:", ", ".join(f"{paper} {1000 * seconds:.0f}" for paper, seconds in bodies.items()))
    mean = statistics.fmean(bodies[item.task.info.id] for item in work)
    print(f"mean body over the submissions {1000 * mean:.1f} ms; twice that + 80 ms: {2000 * mean + 80:.1f} ms")


if __name__ == "__main__":
    main()
