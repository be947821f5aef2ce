"""Prints what starting costs: CPU seconds of ``rcb-agent --help`` and of the heavy libraries it must not load.

python benchmarks/startup.py [REPEATS]
"""

import resource
import subprocess
import sys

STARTS = {
    "python -c pass": "pass",
    "rcb-agent --help": "import sys; sys.argv = ['rcb-agent', '--help']; from rcb_agent.cli import cli\ntry: cli()\nexcept SystemExit: pass",
    "import langgraph.graph": "import langgraph.graph",
    "import litellm (local price table)": "import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'; import litellm",
}


def cpu_seconds(code: str) -> float:
    """Return user and system time of a fresh interpreter that runs ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-I", "-c", code], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the least of some repeats for each start, and its ratio to the bare interpreter."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    least = {name: min(cpu_seconds(code) for _ in range(repeats)) for name, code in STARTS.items()}
    bare = least["python -c pass"]
    for name, seconds in least.items():
        print(f"{name:36s} {seconds:6.3f} CPU s   {seconds / bare:6.1f} x")


if __name__ == "__main__":
    main()
