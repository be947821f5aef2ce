"""What kind of mistake a failed trial shows, by rule from its grade: no model is asked.

The reason of the grade comes first (out of time, out of memory), then the names of the exceptions that its tests met. An
exception says more than a failed comparison, so ``functional`` is what is left: the code runs and does the wrong thing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from rcb_agent.scoring.base import FAILED

SYNTAX, NAME, IMPORT, TYPE, ATTRIBUTE, INDEX = "syntax", "name", "import", "type", "attribute", "index/key"
TIMEOUT, RESOURCE, FUNCTIONAL, OTHER, UNKNOWN = "timeout", "resource", "functional", "other", "unknown"
CLASSES = (FUNCTIONAL, SYNTAX, IMPORT, NAME, ATTRIBUTE, TYPE, INDEX, TIMEOUT, RESOURCE, OTHER, UNKNOWN)

PAPER: Mapping[str, tuple[str, float | None]] = {
    FUNCTIONAL: ("functional/semantic", 58.6),
    SYNTAX: ("syntax", 8.0),
    IMPORT: ("import", 7.0),
    NAME: ("name", 9.0),
    ATTRIBUTE: ("attribute", 6.0),
    TYPE: ("type", 8.0),
    INDEX: ("index/key", 2.0),
    TIMEOUT: ("other", None),
    RESOURCE: ("other", None),
    OTHER: ("other", None),
    UNKNOWN: ("", None),
}
"""Class -> the paper's category and its share of 4,333 failures in percent, as the paper rounds it. There a language model
sorted one failure at a time into eight categories, with no category for time; here a rule does, so shares may differ.
"""

_BY_EXCEPTION: Mapping[str, str] = {
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), SYNTAX),
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), IMPORT),
    **dict.fromkeys(("NameError", "UnboundLocalError"), NAME),
    "AttributeError": ATTRIBUTE,
    "TypeError": TYPE,
    **dict.fromkeys(("IndexError", "KeyError", "LookupError"), INDEX),
    "TimeoutError": TIMEOUT,
    **dict.fromkeys(("MemoryError", "RecursionError"), RESOURCE),
}
_BY_REASON: Mapping[str, str] = {
    "time_limit": TIMEOUT,
    "memory_limit": RESOURCE,
    "limit": RESOURCE,
    "form": FUNCTIONAL,
    "values": FUNCTIONAL,
    **dict.fromkeys(("candidate_exited", "protocol", "no_verdict", "file_missing", "markers_lost"), OTHER),
}
_EXCEPTION = re.compile(r"\b([A-Z][A-Za-z]*(?:Error|Exception))\b")
_HEAD = re.compile(r"^(?:RemoteError: )?([A-Za-z_][\w.]*)(?::|$)")
_TRACEBACK = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception))(?::|$)", re.MULTILINE)


def classify_failure(grade: Mapping[str, Any]) -> str | None:
    """Return the class of a grade record (runs/schema/grade.json); None for one that did not fail."""
    if grade["verdict"] != FAILED:
        return None
    if grade["reason"] in _BY_REASON:
        return _BY_REASON[grade["reason"]]
    if grade["reason"] == "import_error":
        return _by_import(grade["message"])
    names = _exceptions(grade)
    return _commonest(names) if names or _has_evidence(grade) else UNKNOWN


def _has_evidence(grade: Mapping[str, Any]) -> bool:
    """Say whether a grade keeps tests or output; imported ones keep neither."""
    return bool(grade["tests"]) or "candidate" in (grade.get("details") or {})


def _by_import(message: str) -> str:
    """Say what kept a module from being imported: its own syntax, a name, or else the import itself."""
    kinds = [_BY_EXCEPTION[name] for name in _EXCEPTION.findall(message) if name in _BY_EXCEPTION]
    return kinds[0] if kinds else IMPORT


def _exceptions(grade: Mapping[str, Any]) -> list[str]:
    """Return the exceptions that tests ended with; in mode upstream they stand in what the program printed."""
    tests = [test for test in grade["tests"] if test["outcome"] != "passed"]
    if tests:
        return [found[1] for test in tests if (found := _HEAD.match(test["message"]))]
    output = ((grade.get("details") or {}).get("candidate") or {}).get("output", "")
    return [name.rpartition(".")[2] for name in _TRACEBACK.findall(output)] or _EXCEPTION.findall(grade["message"])


def _commonest(names: Iterable[str]) -> str:
    """Return the class that most exceptions have; ties by the order of CLASSES, functional only where there is no other."""
    kinds = Counter(kind for name in names if (kind := _BY_EXCEPTION.get(name)))
    return min(kinds, key=lambda kind: (-kinds[kind], CLASSES.index(kind))) if kinds else FUNCTIONAL


def count_classes(grades: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return class -> failed grades, every class in its order."""
    counts = Counter(kind for grade in grades if (kind := classify_failure(grade)))
    return {kind: counts[kind] for kind in CLASSES}
