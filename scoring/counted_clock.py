"""Clocks that count their readings instead of the time, for code that stops on measured time.

Each reading of any of the ``time`` module's clocks advances them all by a fixed step, so that a loop "for 0.1 s" makes
the same number of turns on every machine. The functions are replaced in the module: what the grader and what it needs
(``threading``) took from it by name keeps real time, and so does ``datetime``. Packages that were loaded ahead of time
are brought to where they would be had they been imported afterwards. Sleeping really sleeps. This file also runs
inside sandboxes: standard library only.
"""

import itertools
import sys
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

START = 1_700_000_000_000_000_000  # nanoseconds: a plausible date for what prints one
_BUILTIN = type(time.time)
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")


_own: set[str] = set()
_looked_at: dict[str, Any] = {}
_clock_names: list[tuple[dict[str, Any], str]] = []
_clock_defaults: list[FunctionType] = []


def remember_loaded() -> None:
    """Note which modules belong to the grader: called when its own have been made, before any package is imported."""
    _own.update(sys.modules)


def find_clocks() -> None:
    """Note where the clocks are in modules that were not looked at before; done ahead of time, all that is forked has it."""
    clocks = {time.__dict__[f"{name}{unit}"] for name in _CLOCKS for unit in ("", "_ns")}
    for name, module in list(sys.modules.items()):
        if name in _own or _looked_at.get(name) is module:  # one may have been imported anew
            continue
        _looked_at[name] = module
        if isinstance(names := getattr(module, "__dict__", None), dict):  # some packages put other objects there
            _look_at(names, clocks)


def install(step: float) -> None:
    """Replace the clocks by ones that advance by ``step`` seconds a reading; with 0 leave them as they are."""
    if not step:
        return
    find_clocks()
    readings = itertools.count(START, max(1, round(step * 1e9)))
    counted: dict[Callable[[], float], Callable[[], float]] = {}
    for name in _CLOCKS:
        counted[time.__dict__[name]] = _in_seconds(readings)
        counted[time.__dict__[f"{name}_ns"]] = readings.__next__
    for names, name in [*_clock_names, *((time.__dict__, clock.__name__) for clock in counted)]:
        if type(value := names.get(name)) is _BUILTIN and value in counted:  # a module may have two names
            names[name] = counted[value]
    for function in _clock_defaults:
        function.__defaults__ = tuple(
            counted.get(value, value) if type(value) is _BUILTIN else value for value in function.__defaults__ or ()
        )


def _look_at(names: dict[str, Any], clocks: set[Callable[[], float]]) -> None:
    for name, value in list(names.items()):
        if type(value) is _BUILTIN and value in clocks:
            _clock_names.append((names, name))
        elif type(value) is FunctionType:
            _look_at_defaults(value, clocks)
        elif type(value) is type:
            for method in vars(value).values():
                if type(method) is FunctionType:
                    _look_at_defaults(method, clocks)


def _look_at_defaults(function: FunctionType, clocks: set[Callable[[], float]]) -> None:
    """Note clocks among the default arguments, as those of ``timeit``."""
    if function.__defaults__ and any(type(value) is _BUILTIN and value in clocks for value in function.__defaults__):
        _clock_defaults.append(function)


def _in_seconds(readings: "itertools.count[int]") -> Callable[[], float]:
    def read() -> float:
        return next(readings) / 1e9

    return read
