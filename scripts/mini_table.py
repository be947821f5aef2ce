"""Prints what the hidden tests of a suite are worth, task by task; exit 1 where a demand is missed.

The demands: the gold code passes, an empty blank fails, and at least four of five single-edit mutants of the gold
fail. The engine ``split`` is the real grader, ``plain`` one bare process per candidate for authors in a hurry: it
isolates nothing, so use it on your own code only.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.environments.registry import open_sandbox
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.scoring.base import FAILED, PASSED
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import fill_blank, null_code
from rcb_agent.tasks.mutants import mutants_of
from rcb_agent.tasks.suites import load_suite, select_tasks

Engine = Callable[[Task, str], str]
LEAST_KILLED = 0.8


@dataclass(frozen=True, slots=True)
class Row:
    """What was found for one task; ``seconds`` is the wall time of the gold's grade."""

    task: Task
    gold: str
    null: str
    mutants: int
    survivors: tuple[str, ...]
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether every demand is met."""
        killed = self.mutants - len(self.survivors)
        return self.gold == PASSED and self.null == FAILED and 0 < LEAST_KILLED * self.mutants <= killed

    def __str__(self) -> str:
        killed = f"{self.mutants - len(self.survivors)}/{self.mutants}"
        mark = "" if self.is_sound else "  <- missed"
        cells = f"{self.task.problem.loc:>4} {self.task.depth:>6} {self.gold:>7} {self.null:>7} {killed:>8}"
        return f"{self.task.id:<62} {cells} {self.seconds:>8.2f}{mark}"


def open_split_engine(sandbox: str) -> Engine:
    """Return the real grader as an engine; anything but a plain verdict is shown by its reason."""
    grader = SplitGrader(lambda spec: open_sandbox(sandbox, spec), load_runtime)

    def grade(task: Task, code: str) -> str:
        grade = grader.grade(task, {task.problem.path: fill_blank(task.problem, code).encode()})
        return grade.verdict if grade.verdict in {PASSED, FAILED} else grade.reason

    return grade


def run_plainly(task: Task, code: str) -> str:
    """Run the hidden test file as its authors would, in a folder of its own."""
    answer = task.answer
    files = {file.path: file.encode() for file in answer.files} | answer.shared_bytes | answer.hidden_bytes
    files[task.problem.path] = fill_blank(task.problem, code).encode("utf-8", "surrogateescape")
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        command = [sys.executable, "-B", task.answer.test_path]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=task.answer.rules.seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return FAILED
    return FAILED if done.returncode else PASSED


def measure(task: Task, engine: Engine, *, seed: int, count: int) -> Row:
    """Grade gold, empty blank and mutants of one task."""
    engine(task, task.answer.gold)  # the first grade of a paper also makes its preflight
    started = time.monotonic()
    gold = engine(task, task.answer.gold)
    seconds = time.monotonic() - started
    mutants = mutants_of(task, seed=seed, count=count)
    survivors = tuple(one.description for one in mutants if engine(task, one.code) == PASSED)
    return Row(task, gold, engine(task, null_code(task.problem)), len(mutants), survivors, seconds)


def measure_all(tasks: tuple[Task, ...], engine: Engine, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows in the order of the tasks."""
    with ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(lambda task: measure(task, engine, seed=options.seed, count=options.mutants), tasks)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--suite", default="mini")
    parser.add_argument("--tasks", default="*", metavar="PATTERN", help="fnmatch on the task id")
    parser.add_argument("--engine", choices=("split", "plain"), default="split")
    parser.add_argument("--sandbox", default="bubblewrap", help="for the engine split")
    parser.add_argument("--mutants", type=int, default=5, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    suite = load_suite(options.suite)
    engine = run_plainly if options.engine == "plain" else open_split_engine(options.sandbox)
    print(f"{'task':<62} {'loc':>4} {'depth':>6} {'gold':>7} {'null':>7} {'killed':>8} {'seconds':>8}")
    rows = []
    for row in measure_all(select_tasks(suite, [options.tasks]), engine, options):
        rows.append(row)
        print(row, *(f"\n    survived: {one}" for one in row.survivors), sep="", flush=True)
    sound = sum(row.is_sound for row in rows)
    mutants, killed = sum(row.mutants for row in rows), sum(row.mutants - len(row.survivors) for row in rows)
    print(f"{sound} of {len(rows)} tasks sound, {killed} of {mutants} mutants killed, engine {options.engine}")
    for fault in suite.faults:
        print(f"faulty: {fault}")
    return int(sound != len(rows) or bool(suite.faults))


if __name__ == "__main__":
    raise SystemExit(main())
