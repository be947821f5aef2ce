"""Exceptions in T: what a test may see of an error that was raised in the candidate's process.

Only builtin classes of a fixed list are raised by name, along the raised class's own ancestry, so that a candidate's
``class StepError(ValueError)`` still counts as a ValueError. Classes that control a test runner (SkipTest,
SystemExit, KeyboardInterrupt, StopIteration, ...) are not among them: they arrive as RemoteError. This file also runs
inside sandboxes: standard library only.
"""

from typing import Any

from rcb_agent.scoring.values import Node, expect
from rcb_agent.scoring.wire import OverLimit, WireError

RAISABLE: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        ArithmeticError,
        AssertionError,
        AttributeError,
        FileNotFoundError,
        FloatingPointError,
        IndexError,
        KeyError,
        LookupError,
        NameError,
        NotImplementedError,
        OSError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    )
}
_MESSAGE_LIMIT = 300
MOST_CLASSES = 1000


class RemoteError(Exception):
    """An error of the candidate's process that has no name in T, or a use of its objects that is refused."""


class MirroredExceptions:
    """Exception classes of the candidate's modules, as fresh classes of T under the same name.

    A mirror derives from mirrors and listed builtins only, so that catching one never catches a RemoteError.
    """

    def __init__(self) -> None:
        self._by_number: dict[int, type[Exception]] = {}

    def number(self, kind: Any) -> int | None:
        """Return the candidate's number of a mirror."""
        return next((number for number, mirror in self._by_number.items() if mirror is kind), None)

    def build(self, node: Node, depth: int = 0) -> type[Exception]:
        """Return the mirror of an exception class, or the listed builtin itself."""
        name = expect(node["n"], str)
        if "i" not in node:
            return RAISABLE.get(name, Exception)
        number = expect(node["i"], int)
        if number not in self._by_number:
            if len(self._by_number) >= MOST_CLASSES:
                raise OverLimit(f"more than {MOST_CLASSES} exception classes")
            if depth > 16 or not name.isidentifier() or len(name) > 100:
                raise WireError("not an exception class")
            bases = [self.build(expect(base, dict), depth + 1) for base in expect(node["v"], list)]
            self._by_number[number] = _derive(name, [base for base in bases if base is not Exception])
        return self._by_number[number]

    def rebuild(self, description: Any) -> Exception:
        """Return the exception to raise for what C reported; never one that steers a test runner."""
        description = expect(description, dict)
        message = expect(description.get("message"), str)[:_MESSAGE_LIMIT]
        for ancestor in expect(description.get("lineage"), list):
            if type(ancestor) is int and ancestor in self._by_number:
                return self._by_number[ancestor](message)
            if type(ancestor) is str and ancestor in RAISABLE:
                return RAISABLE[ancestor](message)
        return RemoteError(f"{expect(description.get('kind'), str)[:60]}: {message}")


def _derive(name: str, bases: list[type[Exception]]) -> type[Exception]:
    try:
        return type(name, tuple(dict.fromkeys(bases)) or (Exception,), {})
    except TypeError:  # bases that cannot be combined in T
        return type(name, (bases[0],), {})
