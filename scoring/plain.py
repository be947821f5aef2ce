"""What crosses as a plain value although its class is none of the base types: derived classes, views, iterators.

Named tuples and enum members stay objects: what tests use of them is their attributes and identity. Where only values
are wanted, because the gold code's own value was one, they too cross as what they hold, and so does any iterator.
This file also runs inside sandboxes: standard library only.
"""

import enum
import functools
import itertools
import types
from collections import deque, namedtuple
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import Any, cast

from rcb_agent.scoring.values import MAX_NODES, Decoder, Encoder, Node

_LISTED: tuple[type, ...] = (
    range,
    deque,
    KeysView,
    ValuesView,
    ItemsView,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
)
_ITERATOR_HOMES = ("builtins", "itertools")

_BASES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: lambda value: bytes(memoryview(value)),
    dict: dict,
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}


def encode_plain(encoder: Encoder, value: Any, depth: int, *, only_values: bool = False) -> Node | None:
    """Return the node of what crosses as a plain value, or None. Of an iterator it takes no more than may cross."""
    if isinstance(value, Iterator) and (only_values or type(value).__module__ in _ITERATOR_HOMES):
        return encoder.items("iterator", itertools.islice(value, MAX_NODES), depth)
    plain = value if has_names(value) and not only_values else _as_plain(value)
    return None if plain is value else encoder.encode(plain, depth)


def has_names(value: Any) -> bool:
    """Say whether a value is a named tuple or an enum member."""
    return isinstance(value, enum.Enum) or (isinstance(value, tuple) and hasattr(value, "_fields"))


def is_class(value: Any) -> bool:
    """Say whether a value is a class other than of exceptions."""
    return isinstance(value, type) and not issubclass(value, BaseException)


def _as_plain(value: Any) -> Any:
    if isinstance(value, _LISTED):
        return list(cast("Iterable[Any]", value))
    for base, convert in _BASES.items():
        if isinstance(value, base) and type(value) is not base:
            return convert(value)
    return value


def encode_exact(encoder: Encoder, value: Any, depth: int) -> Node | None:
    """Return T's node of what C builds as the same class, or None."""
    if type(value) is range:
        return {"t": "range", "v": [value.start, value.stop, value.step]}
    if type(value) is deque:
        return {**encoder.items("deque", value, depth), "m": value.maxlen}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {**encoder.items("named", value, depth), "n": type(value).__name__, "f": list(value._fields)}
    return None


@functools.cache
def _named_class(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)  # noqa: PYI024 (made from data)


BUILDERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "range": lambda _, node, __: range(*node["v"]),
    "deque": lambda decoder, node, depth: deque(decoder.items(node, depth), node["m"]),
    "named": lambda decoder, node, depth: _named_class(node["n"], tuple(node["f"]))._make(decoder.items(node, depth)),
    "namespace": lambda decoder, node, depth: types.SimpleNamespace(**decoder.decode(node["v"], depth + 1)),
}
