"""Comparisons in T that cannot be passed by a degenerate value: ``allclose(empty, anything)`` is true by broadcasting.

numpy's, torch's and jax's comparisons need equal, non-empty shapes. Where the gold code's own run compared otherwise (a scalar expected
for an array, an empty result for an empty input), that very comparison of that very test may do so again, with the
same shapes. This file also runs inside sandboxes: standard library only, numpy and torch only once the test
imported them.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport
from rcb_agent.scoring.form import Trace
from rcb_agent.scoring.jax_arrays import is_jax_array
from rcb_agent.scoring.tensors import is_tensor

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
_TORCH_ASSERTIONS = ("assert_allclose", "assert_close")
_PAIR_NAMES = ("a", "b", "a1", "a2", "x", "y", "actual", "desired", "input", "other", "expected")

Irregular = dict[str, dict[str, list[list[int]]]]
Function = Callable[..., Any]
Guard = Callable[[Function], Function]


class ComparisonGate:
    """Admits comparisons. ``irregular``: test -> ordinal -> the two shapes; ``allowed`` None means the gold's run."""

    def __init__(self, trace: Trace, allowed: Irregular | None) -> None:
        self.irregular: Irregular = {}
        self._trace = trace
        self._allowed = allowed
        self._counts: dict[str, int] = {}
        self._inside = threading.local()

    def hooks(self) -> AfterImport:
        """Put the gate before the comparisons of numpy and torch once they are imported."""
        return AfterImport(
            {
                "numpy": lambda module: self._guard(module, _PREDICATES, self._predicate(module.False_)),
                "numpy.testing": lambda module: self._guard(module, _ASSERTIONS, self._assertion),
                "jax.numpy": lambda module: self._guard(module, _PREDICATES, self._predicate(_numpy_false())),
                "torch": self._guard_torch,
                "torch.testing": lambda module: self._guard(module, _TORCH_ASSERTIONS, self._assertion),
            }
        )

    def refusal(self, pair: list[Any]) -> str:
        """Say why two values may not be compared, or return ""."""
        if any(is_tensor(value) and value.device.type == "meta" for value in pair):
            return "a tensor without values cannot be compared"
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

    def _guard_torch(self, torch: ModuleType) -> None:
        for home in (torch, torch.Tensor):
            self._guard(home, ("allclose", "equal"), self._predicate(no=False))
            self._guard(home, ("isclose",), self._predicate(torch.tensor(data=False)))

    def _guard(self, home: Any, names: tuple[str, ...], guard: Guard) -> None:
        for name in names:
            if hasattr(home, name):
                setattr(home, name, guard(getattr(home, name)))

    def _predicate(self, no: Any) -> Guard:
        def guard(function: Function) -> Function:
            return self._guarded(function, lambda _: no)

        return guard

    def _assertion(self, function: Function) -> Function:
        def refuse(reason: str) -> Any:
            raise AssertionError(reason)

        return self._guarded(function, refuse)

    def _guarded(self, function: Function, refuse: Callable[[str], Any]) -> Function:
        @wraps(function)
        def compare(*arguments: Any, **keywords: Any) -> Any:
            with self._enter() as is_outermost:  # what a library compares inside its own comparison is its business
                if is_outermost and (reason := self.refusal(_pair(arguments, keywords))):
                    return refuse(reason)
                return function(*arguments, **keywords)

        return compare

    @contextmanager
    def _enter(self) -> Iterator[bool]:
        depth = getattr(self._inside, "depth", 0)
        self._inside.depth = depth + 1
        try:
            yield depth == 0
        finally:
            self._inside.depth = depth


def _numpy_false() -> Any:
    return sys.modules["numpy"].False_


def _pair(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    return [*arguments, *(keywords[name] for name in _PAIR_NAMES if name in keywords)][:2]


def _shape_of(value: Any) -> list[int] | None:
    """Return the shape of what is, or could become, an array; None for what has none."""
    if is_tensor(value) or is_jax_array(value):
        return list(value.shape)
    if isinstance(value, int | float | complex):
        return []
    np = sys.modules.get("numpy")
    if np is None or not isinstance(value, np.ndarray | np.generic | list | tuple):
        return None
    if isinstance(value, list | tuple) and any(
        is_tensor(item) or is_jax_array(item) for item in value
    ):  # compared item by item
        return None
    try:
        return list(np.shape(value))
    except ValueError:  # ragged
        return None
