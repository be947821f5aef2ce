"""Prints what the harness itself costs, beside mini-swe-agent and Inspect on the same work in the same run.

    python benchmarks/harness.py [--repeats 3] [--trials 100] [--only steps,wall] [--mini-python P] [--inspect-python P]

- ``steps``: CPU per step, 100 trials x 20 scripted steps, one ``true`` each. Ours is the whole run in bubblewrap with a fsynced
  record, and the agent's loop alone; peers isolate nothing here.
- ``wall``: 100 trials x 5 steps, 50 at once, with an endpoint on loopback that takes 0.5 s: seconds from the first call to
  the last trial record. Grading is apart (a resume of the same folder), and in a second row meanwhile, as in daily use.
- ``latency``, ``start``: what ``command_latency.py`` and ``startup.py`` print.

CPU (user and system) is the portable number: ``own`` is the harness's process, ``boxes`` are its children: sandboxes,
supervisors, commands. Every measurement is a process of its own; peers and we take turns. Wall seconds are those of
this machine in this minute: the load is printed. Run folders lie below ``results/`` for a while. A peer is looked for in this Python, or in the one that is named.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DELAY, WALL_STEPS, WALL_WORKERS, STEPS, WORKERS = 0.5, 5, 50, 20, 4
MOST_SECONDS = 600
PEERS = {"mini-swe-agent": "mini_swe_agent_work.py", "Inspect": "inspect_work.py"}
MODULES = {"mini-swe-agent": "minisweagent", "Inspect": "inspect_ai"}

Figures = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A row of a table: a command that prints figures as JSON, and whether it uses the endpoint."""

    name: str
    command: Sequence[str]
    endpoint: Sequence[str] = ()


def measure(contestant: Contestant) -> Figures | None:
    """Run it once; None, with a word on the error output, when it fails."""
    with endpoint(contestant.endpoint) as variables:
        try:
            done = subprocess.run(
                contestant.command,
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | variables,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            print(f"{contestant.name}: not done within {MOST_SECONDS} s", file=sys.stderr)
            return None
    if done.returncode:
        print(f"{contestant.name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}", file=sys.stderr)
        return None
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    if figures.get("commands", figures["steps"]) != figures["steps"]:
        print(f"{contestant.name}: only {figures['commands']} of {figures['steps']} commands ran", file=sys.stderr)
    return figures


@contextmanager
def endpoint(words: Sequence[str]) -> Iterator[dict[str, str]]:
    """Keep an endpoint running, where one is wanted; yields the variables that lead to it."""
    if not words:
        yield {}
        return
    command = [sys.executable, str(HERE / "endpoint.py"), str(DELAY), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("no pipes")
        url = process.stdout.readline().decode().strip()
        yield {"OPENAI_API_BASE": url, "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "loopback"}
        process.stdin.close()
        process.stdout.close()


def own(*words: object) -> list[str]:
    """Return the command of one of our measurements."""
    return [sys.executable, str(HERE / "own.py"), *map(str, words)]


def peers(pythons: Mapping[str, str], trials: int, *words: object, endpoint: Sequence[str] = ()) -> list[Contestant]:
    """Return those peers that are installed."""
    return [
        Contestant(name, [python, str(HERE / "peers" / PEERS[name]), str(trials), *map(str, words)], endpoint)
        for name, python in pythons.items()
    ]


def find_peers(named: Mapping[str, str | None]) -> dict[str, str]:
    """Return name and Python of each peer that can be imported; says which cannot."""
    found = {}
    for name, python in named.items():
        chosen = python or sys.executable
        look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULES[name]!r}) is None)"
        if shutil.which(chosen) and subprocess.run([chosen, "-c", look], check=False).returncode == 0:
            found[name] = chosen
        else:
            print(f"{name}: not installed ({chosen})")
    return found


def take_turns(contestants: Sequence[Contestant], repeats: int) -> dict[str, list[Figures]]:
    """Measure everybody once, then everybody again, so that a busy minute is busy for all."""
    found: dict[str, list[Figures]] = {one.name: [] for one in contestants}
    for _ in range(repeats):
        for one in contestants:
            figures = measure(one)
            if figures:
                found[one.name].append(figures)
    return found


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Least and median."""
    if not values or math.isnan(values[0]):
        return "-"
    return f"{min(values):.{digits}f} / {statistics.median(values):.{digits}f}"


def print_steps(results: Mapping[str, Sequence[Figures]], reference: str) -> None:
    """Print CPU per step and the ratio to ours, of the least values."""
    print(f"{'ms of CPU per step, least / median':44s}{'own':>16s}{'boxes':>16s}{'own, of ours':>14s}")
    least = {name: min(ms(runs, "own"), default=math.nan) for name, runs in results.items()}
    for name, runs in results.items():
        ratio = least[name] / least[reference]
        print(f"{name:44s}{spread(ms(runs, 'own')):>16s}{spread(ms(runs, 'boxes')):>16s}{ratio:13.2f}x")


def ms(runs: Sequence[Figures], key: str) -> list[float]:
    """Milliseconds per step, run by run."""
    return [run[key] / run["steps"] * 1000 for run in runs]


def print_wall(results: Mapping[str, Sequence[Figures]]) -> None:
    """Print seconds to the last trial record, and what there was beside."""
    heads = ("to last trial", "to last grade", "before", "own CPU", "boxes CPU")
    print(f"{'seconds, least / median':36s}" + "".join(f"{head:>16s}" for head in heads))
    keys = ("first_call_to_last_trial", "first_call_to_last_grade", "before_first_call", "own", "boxes")
    for name, runs in results.items():
        # A peer's clock starts with its run: it has no sandboxes to open before its first call.
        columns = [[run.get(key, run["wall"] if key == keys[0] else math.nan) for run in runs] for key in keys]
        print(f"{name:36s}" + "".join(f"{spread(column):>16s}" for column in columns))
    grading = [run["grading"] for runs in results.values() for run in runs if "grading" in run]
    if grading:
        walls, cpus = [one["wall"] for one in grading], [one["own"] + one["boxes"] for one in grading]
        print(f"grading of {grading[0]['trials']} trials afterwards: {spread(walls)} s wall, {spread(cpus)} s CPU")


def run_steps(options: argparse.Namespace, pythons: Mapping[str, str]) -> None:
    """CPU per step."""
    ours = "rcb-agent run (bubblewrap, recorded)"
    work = (options.trials, STEPS, WORKERS, "scripted")
    contestants = [
        Contestant(ours, own("run", *work, "true")),
        Contestant("rcb-agent run, run_python", own("run", *work, "python")),
        Contestant("rcb-agent, the agent's loop alone", own("loop", options.trials, STEPS)),
        *peers(pythons, max(1, options.trials // 5), *work[1:]),
    ]
    print(
        f"\nsteps: {options.trials} trials x {STEPS} scripted steps, one command each, {WORKERS} at once; aim: own < 2 ms"
    )
    print(
        "peers: a fifth of the trials, no isolation; Inspect starts a login shell per command, which stands under boxes"
    )
    print_steps(take_turns(contestants, options.repeats), ours)


def run_wall(options: argparse.Namespace, pythons: Mapping[str, str]) -> None:
    """Seconds with a model that takes its time."""
    work = (options.trials, WALL_STEPS, WALL_WORKERS)
    model = f"openai/loopback-{WALL_STEPS}"
    true, bash = ("true", "{}"), ("bash", '{"command": "true"}')
    contestants = [
        Contestant("rcb-agent", own("run", *work, model, "true", "later"), true),
        Contestant("rcb-agent, graded meanwhile", own("run", *work, model, "true", "graded"), true),
        Contestant("rcb-agent, and a call to submit", own("run", *work, model, "true", "submit"), (*true, "submit")),
        *peers(pythons, *work, model, endpoint=bash),
    ]
    waves = math.ceil(options.trials / WALL_WORKERS)
    floors = [waves * calls * DELAY for calls in (WALL_STEPS, WALL_STEPS + 1)]
    print(f"\nwall: {options.trials} trials x {WALL_STEPS} steps, {WALL_WORKERS} at once, {DELAY} s per call")
    print(
        f"floor: {waves} waves x {WALL_STEPS} calls x {DELAY} s = {floors[0]:.1f} s; with a call to submit {floors[1]:.1f} s"
    )
    print_wall(take_turns(contestants, options.repeats))


def run_script(name: str, *words: str) -> None:
    """Run another benchmark."""
    print(f"\n{name}:", flush=True)
    subprocess.run([sys.executable, str(HERE / name), *words], check=False)


def describe_load() -> str:
    """One line on how busy the machine is."""
    load = ", ".join(f"{number:.1f}" for number in os.getloadavg())
    return f"load {load} on {os.cpu_count()} cores (of 1, 5 and 15 minutes)"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--only", default="steps,wall,latency,start")
    parser.add_argument("--mini-python")
    parser.add_argument("--inspect-python")
    options = parser.parse_args()
    wanted = options.only.split(",")
    Path("results").mkdir(
        exist_ok=True
    )  # on a disk, so that fsync is real; what a killed run leaves is in the way of nobody
    print(describe_load())
    pythons = find_peers({"mini-swe-agent": options.mini_python, "Inspect": options.inspect_python})
    if "steps" in wanted:
        run_steps(options, pythons)
    if "wall" in wanted:
        run_wall(options, pythons)
    if "latency" in wanted:
        run_script("command_latency.py", "30")
    if "start" in wanted:
        run_script("startup.py")
    print(f"\n{describe_load()}")


if __name__ == "__main__":
    main()
