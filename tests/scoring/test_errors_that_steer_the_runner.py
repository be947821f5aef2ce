"""Guards: an exception of the candidate that acts as control flow of the test runner, or passes for another one."""

import unittest

import pytest

from rcb_agent.scoring.trusted_errors import RAISABLE, RemoteError
from tests.scoring.peers import session_with

SOURCE = """
import unittest, enum
class StepError(ValueError): pass
class PaperError(Exception): pass
class DamagedError(PaperError, ValueError): pass
class Evil(unittest.SkipTest): pass
class ValueErrorLike(BaseException): pass
class Nasty(Exception):
    def __str__(self): raise SystemExit(0)
def raise_(kind, *arguments):
    raise kind(*arguments)
def skip(): raise unittest.SkipTest("no GPU")
def leave(): raise SystemExit(0)
def stop(): raise StopIteration
def step(): raise StepError("bad step")
def paper(): raise PaperError("bad paper")
def damaged(): raise DamagedError("bad pack")
def evil(): raise Evil()
def nasty(): raise Nasty()
def key(): raise KeyError("name")
"""

STEERING = {
    "SkipTest": "skip",
    "SystemExit": "leave",
    "StopIteration": "stop",
    "a derived SkipTest": "evil",
    "one whose text raises SystemExit": "nasty",
}


@pytest.mark.parametrize("name", STEERING.values(), ids=STEERING)
def test_steering_exceptions_arrive_as_remote_errors(name: str) -> None:
    """Nothing but a plain error reaches the runner."""
    with session_with(SOURCE) as (session, module):
        with pytest.raises(RemoteError):
            getattr(module, name)()
        assert session.ended is None


def test_the_list_holds_no_class_that_steers() -> None:
    """What may be raised by name is an ordinary error."""
    steering = (unittest.SkipTest, StopIteration, StopAsyncIteration, Warning)
    assert not [kind for kind in RAISABLE.values() if issubclass(kind, steering) or not issubclass(kind, Exception)]


def test_a_candidates_own_class_counts_as_its_builtin_ancestor() -> None:
    """``class StepError(ValueError)`` satisfies ``assertRaises(ValueError)``, and only that."""
    with session_with(SOURCE) as (_, module):
        with pytest.raises(ValueError, match="bad step") as caught:
            module.step()
        assert type(caught.value) is ValueError
        with pytest.raises(RemoteError, match="PaperError: bad paper"):
            module.paper()
        with pytest.raises(KeyError, match="name"):
            module.key()


def test_exception_classes_of_the_module_are_mirrored() -> None:
    """A test may expect a class that the candidate's module defines; it catches that class and no other."""
    with session_with(SOURCE) as (_, module):
        paper_error = module.PaperError
        assert paper_error is module.PaperError
        assert paper_error.__name__ == "PaperError"
        assert paper_error.__mro__[1:] == Exception.__mro__
        with pytest.raises(paper_error, match="bad paper"):
            module.paper()
        with pytest.raises(paper_error) as caught:
            module.raise_(module.DamagedError, "bad pack")
        assert isinstance(caught.value, ValueError)
        with pytest.raises(RemoteError):
            module.leave()
        assert not issubclass(RemoteError, paper_error)


def test_a_mirror_never_steers() -> None:
    """The mirror of a derived SkipTest or of a BaseException is an ordinary exception."""
    with session_with(SOURCE) as (_, module):
        for mirror in (module.Evil, module.ValueErrorLike):
            assert issubclass(mirror, Exception)
            assert not issubclass(mirror, unittest.SkipTest)
