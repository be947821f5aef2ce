"""Guards: a candidate that changes what the test did not offer, or changes an offered argument into something else."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rcb_agent.scoring.trusted_errors import RemoteError
from tests.scoring.peers import session_with

SOURCE = """
import numpy as np
def scale_(x): x *= 2
def both_(x, y): x += 1; y += 1
def fill_(values): values[0] = 9.0
def nested_(tree): tree["w"][0][...] = 5.0; tree["n"] = 3
def grow_(values): values.append(1.0)
def retype_(values): values[0] = "text"
def rekey_(tree): tree.pop("n"); tree["m"] = 1
def reshape_(x): x.shape = (2, 1)
class Inner:
    def step(self, grads): grads[0] *= 0
"""
LABELS = ("scale_()", "fill_()", "nested_()", "grow_()", "retype_()", "rekey_()", "reshape_()", "Inner().step()")
RULES = {**{label: [0] for label in LABELS}, "both_()": [1]}


def test_declared_arguments_are_copied_back() -> None:
    """Arrays, lists and nested structures keep their identity and take the new contents."""
    with session_with(SOURCE, in_place=RULES) as (_, module):
        x, values, weights = np.ones(3), [1.0, 2.0], [np.zeros(2)]
        tree: dict[str, Any] = {"w": weights, "n": 1}
        module.scale_(x)
        module.fill_(values)
        module.nested_(tree)
        assert x.tolist() == [2.0, 2.0, 2.0]
        assert values == [9.0, 2.0]
        assert tree["w"] is weights
        assert tree["w"][0].tolist() == [5.0, 5.0]
        assert tree["n"] == 3
        grads = [np.ones(2)]
        module.Inner().step(grads)
        assert grads[0].tolist() == [0.0, 0.0]


def test_other_arguments_stay_as_they_are() -> None:
    """Nothing is copied back by default, and only the declared positions are."""
    with session_with(SOURCE, in_place=RULES) as (_, module):
        x, y = np.ones(2), np.ones(2)
        module.both_(x, y)
        assert x.tolist() == [1.0, 1.0]
        assert y.tolist() == [2.0, 2.0]
    with session_with(SOURCE) as (_, module):
        module.scale_(x)
        assert x.tolist() == [1.0, 1.0]


WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "another length": ("grow_", lambda: [1.0]),
    "another element type": ("retype_", lambda: [1.0]),
    "other keys": ("rekey_", lambda: {"n": 1}),
    "another shape": ("reshape_", lambda: np.ones(2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_keeps_its_type_and_size(name: str) -> None:
    """The test's own object never becomes something the test did not make."""
    function, make = WRONG[name]
    with session_with(SOURCE, in_place=RULES) as (_, module):
        argument = make()
        with pytest.raises(RemoteError, match="in-place"):
            getattr(module, function)(argument)
        np.testing.assert_equal(argument, make())
