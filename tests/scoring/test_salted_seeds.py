"""Guards: answers looked up by the inputs that a test's published seeds give."""

from pathlib import Path

import pytest

from rcb_agent.scoring.base import FAILED, PASSED
from rcb_agent.scoring.salt import derive, salted, salting
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules
from tests.scoring.support import OPEN, SANDBOXED, grade_text, make_task, runtime

GOLD = """
import random
import numpy as np

def spread(x):
    # <paper2code name="spread">
    return float(((x - x.mean()) ** 2).sum())
    # </paper2code name="spread">

def draw(seed):
    np.random.seed(seed)
    random.seed(seed)
    return [float(np.random.normal()), random.random(), float(np.random.default_rng(seed).normal())]
"""

TEST = """
import random
import unittest
import numpy as np
from model import draw, spread
from model_ref import draw as draw_ref, spread as spread_ref

class TestSpread(unittest.TestCase):
    def test_spread(self):
        np.random.seed(42)
        x = np.random.normal(size=5)
        self.assertAlmostEqual(spread(x), spread_ref(x))

    def test_draw(self):
        self.assertEqual(draw(7), draw_ref(7))
        self.assertEqual(draw(seed=7), draw_ref(7))
"""

BODY = "    return float(((x - x.mean()) ** 2).sum())\n"
MEMORISED = """    np.random.seed(42)
    known = {round(float(v), 6) for v in np.array([0.49671415, -0.1382643, 0.64768854, 1.52302986, -0.23415337])}
    if {round(float(v), 6) for v in x} & known:
        return 1.9508349
    return 0.0
"""
UNSALTABLE = TEST.replace(
    "np.random.seed(42)", "np.random.seed(42)\n        self.assertAlmostEqual(np.random.normal(), 0.49671415)"
)


def grader_with(cache: Path, secret: str) -> SplitGrader:
    return SplitGrader(OPEN, lambda _: runtime(), cache=cache, secret=secret)


def memorised() -> str:
    import numpy as np

    values = np.random.RandomState(42).normal(size=5)
    answer = float(((values - values.mean()) ** 2).sum())
    text = MEMORISED.replace("1.9508349", repr(answer)).replace("np.random.seed(42)\n", "pass\n")
    assert BODY in GOLD
    return GOLD.replace(BODY, text)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("salted")


@pytest.mark.sandbox
@SANDBOXED[1]
def test_memorised_answers_pass_unsalted_and_fail_salted(cache: Path) -> None:
    """The gold passes with both; its record says which salt it was, and an unsalted paper that there was none."""
    hidden = {"model_ref.py": GOLD}
    task = make_task(GOLD, TEST, hidden=hidden)
    assert grade_text(grader_with(cache, ""), task, memorised()).verdict == PASSED
    salty = grader_with(cache, "a secret")
    found = grade_text(salty, task, memorised())
    assert (found.verdict, found.reason) == (FAILED, "tests_failed")
    gold = grade_text(salty, task, GOLD)
    assert gold.verdict == PASSED
    assert gold.details["salt"] == derive("a secret", "paper", 0)
    assert "a secret" not in str(gold)
    never = make_task(GOLD, TEST, hidden=hidden, rules=GradingRules(salt=False))
    assert grade_text(salty, never, memorised()).details["salt"] == ""


@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_paper_that_stands_no_salt_is_graded_without(cache: Path) -> None:
    """Where the gold fails with every salt that is tried, the record says that there was none."""
    task = make_task(GOLD, UNSALTABLE, hidden={"model_ref.py": GOLD})
    found = grade_text(grader_with(cache, "a secret"), task, GOLD)
    assert (found.verdict, found.details["salt"]) == (PASSED, "")


def test_a_salted_seed_is_a_seed() -> None:
    """The same in every process, another for each salt, of the range that numpy takes; no seed stays none."""
    import numpy as np

    assert salted(3, "") == 3
    assert salted(None, "s") is None
    assert salted(3, "s") == salted(np.int64(3), "s") != salted(3, "t")
    assert salted([3, 4], "s") == [salted(3, "s"), salted(4, "s")]
    assert all(0 <= salted(seed, "s") < 1 << 31 for seed in (0, -1, 1 << 80, "text", b"bytes", 2.5))
    assert salted(np.array([3, 4]), "s") == salted([3, 4], "s")
    assert salted(np.array(3), "s") == salted(3, "s")
    generator = np.random.default_rng(0)
    assert salted(generator, "s") is generator
    assert salting(lambda seed=None: seed, "s")(seed=3) == salted(3, "s")
    assert derive("a", "p", 0) != derive("a", "q", 0) != derive("a", "q", 1)
