"""The gold code's own run, once per paper: whether it passes here, its manifest of test ids and its form trace.

Kept on disk under a hash of everything that can change it: files, rules, runtime, grader, sandbox, limits. Which
blank is open cannot, so the markers are taken out first and every blank of a paper shares one run. Only passes are
kept: what failed may have failed because of the machine. Threads that ask at once wait for one run.
"""

import hashlib
import json
import os
import platform
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Runtime
from rcb_agent.scoring.base import PASSED, Grade
from rcb_agent.scoring.gold_form import stable_names, stable_part
from rcb_agent.scoring.gold_values import GoldValues, Tolerance, stable_values
from rcb_agent.scoring.judge import Expected
from rcb_agent.scoring.pair import PairResult
from rcb_agent.tasks.base import Answer, GradingRules, SourceFile
from rcb_agent.tasks.markers import strip_markers

RECORD: Mapping[str, type] = {
    "failure": str,
    "manifest": list,
    "trace": dict,
    "irregular": dict,
    "live": dict,
    "names": dict,
    "values": dict,
    "updates": dict,
    "kept": dict,
    "salt": str,
}


class Kept:
    """Values by key: in memory, and on disk where ``folder`` can be written. One thread computes, others wait."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values: dict[str, Any] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()

    def get(self, key: str, compute: Callable[[], tuple[Any, bool]], *, needs: Mapping[str, type]) -> Any:
        """Return the value of a key; ``compute`` returns it and whether it may be kept on disk.

        What lies on disk is used only if it holds, under each name of ``needs``, a value of that type.
        """
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._values:
                self._values[key] = self._read(key, needs)
            if self._values[key] is None:
                self._values[key], lasting = compute()
                if lasting:
                    self._write(key, self._values[key])
            return self._values[key]

    def _read(self, key: str, needs: Mapping[str, type]) -> Any:
        with suppress(OSError, ValueError, RecursionError):
            value = json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8"))
            if type(value) is dict and all(type(value.get(name)) is kind for name, kind in needs.items()):
                return value
        return None

    def _write(self, key: str, value: Any) -> None:
        with suppress(OSError):  # a cache that cannot be written only costs time
            self._folder.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._folder, prefix=f"{key}.", suffix=".part")
            with os.fdopen(descriptor, "w", encoding="utf-8") as draft:
                json.dump(value, draft)
            Path(name).replace(self._folder / f"{key}.json")


def cache_folder() -> Path:
    """Return where preflights are kept."""
    from rcb_agent.tasks.cache import cache_folder as cache_root

    return cache_root() / "preflight"


def gold_files(answer: Answer) -> dict[str, bytes]:
    """Return the annotated files as the authors wrote them, without any marker."""
    return {file.path: SourceFile(file.path, strip_markers(file.text)).encode() for file in answer.files}


def preflight_key(answer: Answer, runtime: Runtime, conditions: Iterable[str]) -> str:
    """Return the hash under which a paper's preflight is kept."""
    parts: list[Any] = [
        _hashes(gold_files(answer)),
        _hashes(answer.shared_bytes),
        _hashes(answer.hidden_bytes),
        answer.test_path,
        list(answer.modules),
        asdict(answer.rules),
        runtime.digest,
        list(conditions),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def describe_processor() -> str:
    """Name the processor by what programs choose their arithmetic by: the last bits of floats follow it, and a folder of
    kept runs may be seen from several machines."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
        told = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
        return hashlib.sha256("\n".join([platform.machine(), *told]).encode()).hexdigest()[:16]
    return platform.machine()


def candidate_key(paper_key: str, files: dict[str, bytes]) -> str:
    """Return the hash under which the grade of fixed candidate files is kept."""
    return hashlib.sha256(json.dumps([paper_key, _hashes(files)]).encode()).hexdigest()


def gold_record(
    rules: GradingRules, salt: str, run: Callable[[], tuple[PairResult, Grade]]
) -> tuple[dict[str, Any], bool]:
    """Run the gold code twice; return what is kept of it, and whether it may be kept on disk.

    What differs between the runs is no part of the form.
    """
    verdicts: list[Mapping[str, Any]] = []
    for _ in range(2):
        result, grade = run()
        if grade.verdict != PASSED or result.verdict is None:
            return {"failure": f"{grade.reason}: {grade.message}"}, False
        verdicts.append(result.verdict)
    if unused := verdicts[0]["unused"]:
        return {
            "failure": f"{', '.join(unused)}: declared, but no test comes to it: correct the label (docs/adapters.md), for a "
            "rule that is never applied protects nothing"
        }, False
    values = stable_values(verdicts[0], verdicts[1], tolerance_of(rules))
    if not rules.asserts and not values.count:
        return {
            "failure": "nothing decides: asserts are off and no two runs of the gold code give the same values"
        }, False
    if verdicts[0]["kept"] != verdicts[1]["kept"]:
        return {"failure": "a value that is declared as trusted is not the same in two runs of the gold code"}, False
    record = {
        "failure": "",
        "manifest": [test.id for test in grade.tests],
        "trace": stable_part(verdicts[0]["trace"], verdicts[1]["trace"]),
        "irregular": verdicts[0]["irregular"],
        "live": verdicts[0]["live"],
        "names": stable_names(verdicts[0]["names"], verdicts[1]["names"]),
        "values": values.values,
        "updates": values.updates,
        "kept": verdicts[0]["kept"],
        "salt": salt,
        "seconds": round(grade.seconds, 3),
    }
    return record, True


def expected_from(record: dict[str, Any], rules: GradingRules) -> Expected:
    """Return what a kept record says of the gold code's run."""
    return Expected(
        tuple(record["manifest"]),
        record["trace"],
        record["irregular"],
        live=record["live"],
        names=record["names"],
        values=GoldValues(record["values"], record["updates"]) if rules.values else None,
        kept=record["kept"],
        salt=record["salt"],
        tolerance=tolerance_of(rules),
    )


def tolerance_of(rules: GradingRules) -> Tolerance:
    """Return how far a number may be from the gold's; nothing, where numbers are not compared."""
    return Tolerance(rules.values.rtol, rules.values.atol) if rules.values else Tolerance(0.0, 0.0)


def _hashes(files: dict[str, bytes]) -> list[list[str]]:
    return sorted([path, hashlib.sha256(data).hexdigest()] for path, data in files.items())
