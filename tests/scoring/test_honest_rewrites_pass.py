"""Guards: a right answer refused because its values or objects are of another, equally good class than the gold's."""

import itertools
from collections import Counter, OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

from rcb_agent.scoring.split import SplitGrader
from rcb_agent.scoring.trusted_errors import RemoteError
from tests.scoring.peers import session_with
from tests.scoring.support import SANDBOXED, grade_text, make_task

GOLD = """
import itertools
from collections import namedtuple

Pair = namedtuple("Pair", "left right")

def split(x):
    # <paper2code name="split">
    return x, [2 * x]
    # </paper2code name="split">

def running(xs):
    total = 0.0
    for x in xs:
        total += x
        yield total

def as_list(xs):
    return [x for x in xs]

def pair(x):
    return Pair(x, 1.0)

class Box:
    def get(self):
        return 1.0

def box():
    return Box()
"""
TEST = """
import unittest
import model
from model import *
from model import as_list, box, pair, running, split

class TestAll(unittest.TestCase):
    def test_split(self):
        left, right = split(2.0)
        self.assertEqual((left, right), (2.0, [4.0]))
        self.assertEqual(split(2.0), (2.0, [4.0]))
    def test_running(self):
        self.assertEqual(list(running([1.0, 2.0])), [1.0, 3.0])
    def test_list(self):
        self.assertEqual(as_list((1.0, 2.0)), [1.0, 2.0])
        self.assertEqual(model.as_list(range(2)), [0, 1])
    def test_objects(self):
        self.assertEqual((pair(2.0).left, pair(2.0).right), (2.0, 1.0))
        self.assertEqual(box().get(), 1.0)
        self.assertIsInstance(box(), Box)
"""
TASK = make_task(GOLD, TEST)
SAME = {
    "other classes": """
def split(x):
    return Pair(x, [2 * x])
def running(xs):
    return itertools.accumulate(xs)
as_list = list
class Box:
    def get(self):
        return 1.0
    def __call__(self):
        return 2.0
""",
    "islice and a partial": """
import functools
_running = running
def running(xs):
    return itertools.islice(_running(xs), 100)
as_list = functools.partial(sorted)
""",
    "a class that iterates": """
class running:
    def __init__(self, xs):
        self.xs, self.total = iter(xs), 0.0
    def __iter__(self):
        return self
    def __next__(self):
        self.total += next(self.xs)
        return self.total
""",
    "map and zip": """
def running(xs):
    return map(lambda i: sum(xs[:i + 1]), range(len(xs)))
def split(x):
    return next(zip([x], [[2 * x]]))
""",
}
OTHER = {
    "an endless iterator": ("def running(xs):\n    return itertools.cycle(xs)\n", "tests_failed"),
    "an endless class": (
        "class running:\n    __init__ = lambda self, xs: None\n    __iter__ = lambda self: self\n    __next__ = id\n",
        "tests_failed",
    ),
    "an object that cannot be called": ("as_list = object()\n", "tests_failed"),
    "a longer named tuple": (
        'Pair = namedtuple("Pair", "left right more", defaults=[0.0])\ndef split(x):\n    return Pair(x, [2 * x])\n',
        "tests_failed",
    ),
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.sandbox
@SANDBOXED[1]
def test_another_class_with_the_same_values_passes(grader: SplitGrader, name: str) -> None:
    """What the test does with it works, so it is no form."""
    grade = grade_text(grader, TASK, GOLD + SAME[name])
    assert (grade.verdict, grade.message, grade.flags) == ("passed", "", ())


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.sandbox
@SANDBOXED[1]
def test_what_is_not_the_same_fails(grader: SplitGrader, name: str) -> None:
    """Endless, uncallable or longer is found by the test or by a bound, without an end of the session."""
    text, reason = OTHER[name]
    grade = grade_text(grader, TASK, GOLD + text)
    assert (grade.verdict, grade.reason) == ("failed", reason), grade.message


Point = namedtuple("Point", "x y")  # noqa: PYI024 - as tests of papers do
ARGUMENTS: dict[str, tuple[Callable[[], Any], Any]] = {
    "range": (lambda: range(1, 6, 2), "range [1, 3, 5]"),
    "deque": (lambda: deque([1, 2], maxlen=2), "deque [1, 2]"),
    "generator": (lambda: (n for n in (1, 2)), "list_iterator [1, 2]"),
    "zip": (lambda: zip([1], [2], strict=True), "list_iterator [(1, 2)]"),
    "chain": (lambda: itertools.chain([1], [2]), "list_iterator [1, 2]"),
    "keys": ({"a": 1}.keys, "list ['a']"),
    "values": ({"a": 1}.values, "list [1]"),
    "counter": (lambda: Counter("aab"), "dict ['a', 'b']"),
    "ordered": (lambda: OrderedDict(a=1), "dict ['a']"),
    "named": (lambda: Point(1, 2), "Point [1, 2]"),
    "nested": (lambda: [range(2)], "list [range(0, 2)]"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_tests_iterables_cross_by_value(name: str) -> None:
    """The candidate can do with them what it could in one process."""
    make, expected = ARGUMENTS[name]
    with session_with('def show(xs):\n    return f"{type(xs).__name__} {list(xs)}"\n') as (_, module):
        assert module.show(make()) == expected


def test_named_fields_of_a_tests_tuple_work() -> None:
    """A named tuple arrives with its names."""
    with session_with("def norm(p): return p.x + p.y\n") as (_, module):
        assert module.norm(Point(1.0, 2.0)) == 3.0


def test_an_endless_argument_is_the_tests_own_fault() -> None:
    """It is refused before anything was sent, and the session lives on."""
    with session_with("def f(x): return 1.0\n") as (session, module):
        with pytest.raises(RemoteError, match="cannot cross"):
            module.f(itertools.count())
        assert module.f(0) == 1.0
        assert session.ended is None


PROBES = """
import functools, inspect
def name(f): return f"{f.__name__} {f.__qualname__}"
def wrapped(f):
    @functools.wraps(f)
    def inner(x): return f(x) + 1
    return f"{inner.__name__} {inner(1.0)}"
def probed(f): return str(inspect.signature(f)), callable(f), hasattr(f, "_partialmethod"), inspect.isfunction(f)
def asked(f): return hasattr(f, "call_args")
"""


def test_a_tests_function_can_be_named_wrapped_and_inspected() -> None:
    """What decorators and inspect ask for is answered in the candidate's process, and is no remark."""

    def square(x: float) -> float:
        return x * x

    with session_with(PROBES) as (session, module):
        assert module.name(square) == "square square"
        assert module.wrapped(square) == "square 2.0"
        assert module.probed(square)[1:] == (True, False, False)
        assert session.refused == set()
        assert module.asked(square) is False
        assert session.refused == {"function.call_args"}
