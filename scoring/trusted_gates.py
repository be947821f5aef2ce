"""Comparisons in T that cannot be passed by a degenerate value: ``allclose(empty, anything)`` is true by broadcasting.

numpy's comparisons need equal, non-empty shapes. Where the gold code's own run compared otherwise (a scalar expected
for an array, an empty result for an empty input), that very comparison of that very test may do so again, with the
same shapes. This file also runs inside sandboxes: standard library only, numpy only once the test imported it.
"""

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport
from rcb_agent.scoring.form import Trace

_PREDICATES = ("allclose", "isclose", "array_equal", "array_equiv")
_ASSERTIONS = (
    "assert_allclose",
    "assert_almost_equal",
    "assert_approx_equal",
    "assert_array_almost_equal",
    "assert_array_almost_equal_nulp",
    "assert_array_equal",
    "assert_array_less",
    "assert_array_max_ulp",
    "assert_equal",
)
_PAIR_NAMES = ("a", "b", "a1", "a2", "x", "y", "actual", "desired")

Irregular = dict[str, dict[str, list[list[int]]]]


class ComparisonGate:
    """Admits comparisons. ``irregular``: test -> ordinal -> the two shapes; ``allowed`` None means the gold's run."""

    def __init__(self, trace: Trace, allowed: Irregular | None) -> None:
        self.irregular: Irregular = {}
        self._trace = trace
        self._allowed = allowed
        self._counts: dict[str, int] = {}

    def hooks(self) -> AfterImport:
        """Put the gate before numpy's comparisons once numpy is imported."""
        return AfterImport({"numpy": self._guard_predicates, "numpy.testing": self._guard_assertions})

    def refusal(self, pair: list[Any]) -> str:
        """Say why two values may not be compared, or return ""."""
        test = self._trace.current
        self._counts[test] = ordinal = self._counts.get(test, 0) + 1
        shapes = [shape for value in pair if (shape := _shape_of(value)) is not None]
        if len(shapes) < 2 or (shapes[0] == shapes[1] and 0 not in shapes[0]):
            return ""
        if self._allowed is None:
            self.irregular.setdefault(test, {})[str(ordinal)] = shapes
        elif self._allowed.get(test, {}).get(str(ordinal)) != shapes:
            return f"shapes {tuple(shapes[0])} and {tuple(shapes[1])} cannot be compared"
        return ""

    def _guard_predicates(self, numpy: ModuleType) -> None:
        for name in _PREDICATES:
            numpy.__dict__[name] = self._predicate(numpy.__dict__[name], numpy.False_)

    def _guard_assertions(self, testing: ModuleType) -> None:
        for name in _ASSERTIONS:
            if name in testing.__dict__:
                testing.__dict__[name] = self._assertion(testing.__dict__[name])

    def _predicate(self, function: Callable[..., Any], no: Any) -> Callable[..., Any]:
        @wraps(function)
        def compare(*arguments: Any, **keywords: Any) -> Any:
            return no if self.refusal(_pair(arguments, keywords)) else function(*arguments, **keywords)

        return compare

    def _assertion(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def check(*arguments: Any, **keywords: Any) -> Any:
            if reason := self.refusal(_pair(arguments, keywords)):
                raise AssertionError(reason)
            return function(*arguments, **keywords)

        return check


def _pair(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    return [*arguments, *(keywords[name] for name in _PAIR_NAMES if name in keywords)][:2]


def _shape_of(value: Any) -> list[int] | None:
    """Return the shape of what is, or could become, an array; None for what has none."""
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic | int | float | complex | list | tuple):
        return None
    try:
        return list(np.shape(value))
    except ValueError:  # ragged
        return None
