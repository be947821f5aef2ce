"""Writes tasks/data/validation.json: the verdicts of ``tasks validate`` on suites that we know, by the hash of each task.

    python scripts/shipped_validation.py mini researchcodebench

Only hashes and verdicts are written; survivors show a suite's code and stay in the user's cache.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "tasks" / "data" / "validation.json"


def validate(suite: str) -> dict[str, Any]:
    """Validate a suite with what is in the cache already; progress is on standard error."""
    command = [sys.executable, "-m", "rcb_agent", "tasks", "validate", "--suite", suite, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        sys.exit(f"shipped_validation: validating {suite} ended with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Validate the suites that are named and write what came of them."""
    suites = sys.argv[1:] or ["mini"]
    tasks, about = {}, []
    for suite in suites:
        document = validate(suite)
        counts = ", ".join(f"{count} {name}" for name, count in document["verdicts"].items() if count)
        about.append(f"{suite}: {counts}; {document['grader']}, {document['depth']}")
        measured = [record for record in document["tasks"] if record["verdict"] != "not_measured"]
        tasks.update({record["digest"]: record["verdict"] for record in measured})
    TARGET.write_text(json.dumps({"about": about, "tasks": dict(sorted(tasks.items()))}, indent=1) + "\n")
    print(*about, sep="\n")


if __name__ == "__main__":
    main()
