"""Prints what ``compare`` takes over 32 arms x 212 tasks, 6,784 results: 5 arms with all pairs, and all 496 pairs.

python benchmarks/comparing.py
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rcb_agent.tasks.published import load_published

_LIMIT = 10.0
_FIVE = ("gemini-2-5-pro-preview-05-06", "o3-high", "gpt-4-1", "claude-3-7-sonnet-2025-02-19", "deepseek-r1")


def write_results(path: Path) -> None:
    """Write the published passes in the form of the benchmark's own program."""
    facts = load_published()
    document: dict[str, Any] = {}
    for paper in facts.papers:
        tasks = [task for task in facts.tasks.values() if task.paper == paper]
        results = {
            model.id: {
                "results": {
                    task.name: [
                        {
                            "snippet_code_line_count": task.loc,
                            "completion_idx": 0,
                            "passed": task.id in model.passed,
                            "exit_code": int(task.id not in model.passed),
                        }
                    ]
                    for task in tasks
                }
            }
            for model in facts.models
        }
        document[paper] = {"paper_metadata": {}, "results": results, "problem_scores": {}}
    path.write_text(json.dumps(document))


def time_command(*words: str) -> tuple[float, float]:
    """Return the wall and the CPU seconds of ``rcb-agent WORDS``, start included."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "rcb_agent", *words], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - start, cpu


def main() -> None:
    """Make the run folder, compare, print seconds against the limit."""
    with tempfile.TemporaryDirectory() as folder:
        file, run = Path(folder) / "results.json", str(Path(folder) / "run")
        write_results(file)
        time_command("import-upstream", str(file), "--out", run)
        arms = [f"{run}:{arm}" for arm in _FIVE]
        for name, words in (("5 arms, 10 pairs", arms), ("32 arms, 496 pairs", [run])):
            wall, cpu = time_command("compare", *words, "--json")
            late = f"   more than {_LIMIT:.0f} s" if words is arms and wall > _LIMIT else ""
            print(f"{name:20s} {wall:6.1f} s wall, {cpu:6.1f} s CPU, of 6,784 results{late}")


if __name__ == "__main__":
    main()
