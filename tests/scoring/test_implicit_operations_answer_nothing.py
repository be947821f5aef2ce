"""Guards: an object of the candidate that answers for a value, in T, through an operator."""

import copy
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rcb_agent.scoring.trusted_errors import RemoteError
from tests.scoring.peers import session_with

LIAR = """
class Liar:
    def __eq__(self, other): return True
    def __bool__(self): return True
    def __float__(self): return 0.0
    def __index__(self): return 0
    def __contains__(self, item): return True
    def __array__(self, *a, **k): return None
    def __add__(self, other): return self
    __hash__ = None
liar = Liar()
"""

USES: dict[str, Callable[[Any], Any]] = {
    "eq": lambda x: x == 1,
    "eq itself": lambda x: x == x,  # noqa: PLR0124 - the point
    "reflected eq": lambda x: x == 1.0,
    "ne": lambda x: x != 1,
    "lt": lambda x: x < 1,
    "bool": bool,
    "not": operator.not_,
    "float": float,
    "int": int,
    "index": lambda x: [1, 2][x],
    "round": round,
    "abs": abs,
    "in": lambda x: 1 in x,
    "in a list": lambda x: x in [1, 2],
    "add": lambda x: x + 1,
    "radd": lambda x: 1 + x,
    "array": np.asarray,
    "array add": lambda x: np.ones(2) + x,
    "array eq": lambda x: np.ones(2) == x,
    "allclose": lambda x: np.allclose(x, 1.0),
    "isclose": lambda x: math.isclose(x, 1.0),
    "assert_equal": lambda x: np.testing.assert_array_equal(x, 1.0),
    "sum": lambda x: sum([x, x]),
    "max": lambda x: max(x, 1),
    "subclass": lambda x: types.new_class("Mine", (x,)),
    "issubclass": lambda x: issubclass(int, x),
    "next": next,
}


@pytest.mark.parametrize("use", USES, ids=lambda name: str(name).replace(" ", "_"))
def test_an_implicit_use_raises(use: str) -> None:
    """No operator of the candidate decides anything."""
    with session_with(LIAR) as (_, module):
        liar = module.liar
        with pytest.raises(RemoteError):
            USES[use](liar)


def test_identity_and_text_need_no_answer() -> None:
    """``is``, ``hash`` and printing are T's own."""
    with session_with(LIAR) as (session, module):
        liar, calls = module.liar, session.calls
        assert {liar: 1}[liar] == 1
        assert f"{liar}" == repr(liar) == "<candidate object>"
        assert session.calls == calls


def test_containers_of_derived_classes_arrive_as_plain_ones() -> None:
    """A list that iterates over nothing still has its elements."""
    source = """
class Seq(list):
    def __iter__(self): return iter(())
    def __len__(self): return 99
    def __eq__(self, other): return True
class Same(float):
    def __eq__(self, other): return True
    __hash__ = float.__hash__
values = Seq([0.0, 1.0])
number = Same(2.0)
"""
    with session_with(source) as (_, module):
        assert type(module.values) is list
        assert module.values == [0.0, 1.0]
        assert type(module.number) is float
        assert module.number == 2.0


def test_explicit_uses_work() -> None:
    """Attributes, items, lengths, iteration, copies, ``with`` and isinstance are requests."""
    source = """
from collections import namedtuple
Pair = namedtuple("Pair", "left right")
class Box:
    level = 3
    def __init__(self): self.items = {"a": 1}
    def __len__(self): return 2
    def __getitem__(self, key): return self.items[key]
    def __setitem__(self, key, value): self.items[key] = value
    def __iter__(self): return iter([1.5, 2.5])
    def add(self, n): self.level += n; return self
    def __enter__(self): self.level = 0; return self
    def __exit__(self, *error): self.level = -1
pair = Pair(1.0, [2.0])
"""
    with session_with(source) as (_, module):
        box = module.Box()
        assert box.add(2) is box
        assert box.level == 5
        box.level = 7
        twin = copy.deepcopy(box)
        box["b"] = 2
        assert (len(box), box["a"], box["b"], list(box), twin.level) == (2, 1, 2, [1.5, 2.5], 7)
        assert isinstance(box, module.Box)
        assert not isinstance(3, module.Box)
        with box as same:
            assert same is box
            assert box.level == 0
        assert box.level == -1
        left, right = module.pair
        assert (left, right, module.pair.right) == (1.0, [2.0], [2.0])


def test_handles_are_released() -> None:
    """An object that T no longer holds is forgotten in C, and its number is never given again."""
    source = "class Thing: pass\nclass Watch:\n    alive = 0\nimport gc\ndef count():\n    gc.collect()\n    return sum(isinstance(o, Thing) for o in gc.get_objects())\n"
    with session_with(source, seconds=60) as (_, module):
        things = [module.Thing() for _ in range(5)]
        assert module.count() == 5
        things.clear()
        assert module.count() == 0
