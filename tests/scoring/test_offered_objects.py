"""Guards: a candidate that reads from the test's own objects what no paper declares: call lists, bases, private parts."""

from collections.abc import Iterator
from typing import Any

import pytest

from rcb_agent.scoring.trusted_session import Adapter
from tests.scoring.peers import session_with

SOURCE = """
def use(thing, *names):
    for name in names:
        thing = thing() if name == "()" else getattr(thing, name)
    return thing

def change(thing, name):
    setattr(thing, name, 0)
    return 1
"""


class Environment:
    """A stand-in that a test defines."""

    size = 3
    secret = 7
    _hidden = 8

    def __init__(self) -> None:
        self.part = Part()

    def __call__(self) -> int:
        return 5

    def step(self) -> int:
        return 6


class Part:
    """A part of it, whose class is declared to offer a call only."""

    weight = 9

    def __call__(self) -> int:
        return 10


ADAPTER = Adapter(offers={"Environment": ["size", "step", "part", "_hidden"], "Part": ["()"]})


@pytest.fixture
def module() -> Iterator[Any]:
    with session_with(SOURCE, adapter=ADAPTER) as (session, proxy):
        yield session, proxy


@pytest.mark.parametrize(("names", "value"), [(("size",), 3), (("step", "()"), 6), (("part", "()"), 10)])
def test_what_is_declared_works(module: Any, names: tuple[str, ...], value: int) -> None:
    """Attributes, methods of a declared name, and a part of a declared class."""
    session, proxy = module
    assert proxy.use(Environment(), *names) == value
    assert not session.refused


@pytest.mark.parametrize(
    ("names", "refused"),
    [
        (("secret",), "Environment.secret"),
        (("()",), "Environment()"),
        (("part", "weight"), "Part.weight"),
        (("step", "func"), "method.func"),
    ],
)
def test_everything_else_is_refused_and_seen(module: Any, names: tuple[str, ...], refused: str) -> None:
    """An undeclared attribute, call, part or detail of a method: AttributeError in C, a remark in the grade."""
    session, proxy = module
    with pytest.raises(AttributeError):
        proxy.use(Environment(), *names)
    assert session.refused == {refused}


@pytest.mark.parametrize("name", ["_hidden", "__dict__", "__class__", "func_globals", "()"])
def test_private_names_cannot_be_declared(name: str) -> None:
    """Whatever a candidate's process asks for by hand: no underscore, although it is declared, and no get of a call."""
    assert not ADAPTER.offers_to(Environment(), "get", name)
    assert not ADAPTER.offers_to(Part(), "get", name)
    assert not ADAPTER.offers_to(Environment(), "set", "size")


def test_nothing_of_the_test_can_be_set(module: Any) -> None:
    """An attribute that the candidate sets stays on its own side."""
    _, proxy = module
    environment = Environment()
    assert proxy.change(environment, "size") == 1
    assert environment.size == 3
