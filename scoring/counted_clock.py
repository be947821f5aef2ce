"""Clocks that count their readings instead of the time, for code that stops on measured time.

Each reading of any of the ``time`` module's clocks advances them all by a fixed step, so that a loop "for 0.1 s" makes
the same number of turns on every machine. The functions are replaced in the module: what was taken from it by name
before (``threading``, this grader) keeps real time, and so does ``datetime``. Sleeping really sleeps. This file also
runs inside sandboxes: standard library only.
"""

import itertools
import time
from collections.abc import Callable

START = 1_700_000_000_000_000_000  # nanoseconds: a plausible date for what prints one
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


def install(step: float) -> None:
    """Replace the clocks by ones that advance by ``step`` seconds a reading; with 0 leave them as they are."""
    if not step:
        return
    readings = itertools.count(START, max(1, round(step * 1e9)))
    for name in _CLOCKS:
        time.__dict__[name] = _in_seconds(readings)
        time.__dict__[f"{name}_ns"] = readings.__next__


def _in_seconds(readings: "itertools.count[int]") -> Callable[[], float]:
    def read() -> float:
        return next(readings) / 1e9

    return read
