"""Guards: jax code that cannot be graded in two processes, or whose arrays are taken for something else."""

from functools import cache
from pathlib import Path

import pytest

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import RcbAgentError
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules, ValueRules
from tests.scoring.support import OPEN, SANDBOXED, grade_text, make_task


@cache
def jax_runtime() -> Runtime | None:
    try:
        return load_runtime("jax")
    except RcbAgentError:
        return None


pytestmark = [
    *SANDBOXED,
    pytest.mark.skipif(jax_runtime() is None, reason="the runtime jax is not built: rcb-agent env build jax"),
]

GOLD = """
import jax
import jax.numpy as jnp
from flax import linen as nn


class Dense(nn.Module):
    size: int

    @nn.compact
    def __call__(self, x):
        return jnp.tanh(nn.Dense(self.size)(x))


def scaled(x, factor, dtype=jnp.float32):
    # <paper2code name="scaled">
    return jnp.asarray(x, dtype) * factor
    # </paper2code name="scaled">


def noise(key, n):
    return jax.random.normal(key, (n,))


def slopes(f, x):
    return {"slopes": [f(v) for v in x], "count": x.size}
"""

TEST = """
import unittest
import jax
import jax.numpy as jnp
import numpy as np
from model import Dense, noise, scaled, slopes
from model_ref import Dense as DenseRef, noise as noise_ref, scaled as scaled_ref

class TestModel(unittest.TestCase):
    def test_values(self):
        x = jax.random.normal(jax.random.PRNGKey(3), (2, 4))
        self.assertTrue(jnp.allclose(scaled(x, 2.0), scaled_ref(x, 2.0)))
        self.assertTrue(jnp.allclose(scaled(np.asarray(x), 2.0, jnp.float16), scaled_ref(x, 2.0, jnp.float16)))

    def test_keys(self):
        for key in (jax.random.PRNGKey(5), jax.random.key(5)):
            self.assertTrue(jnp.array_equal(noise(key, 3), noise_ref(key, 3)))

    def test_flax(self):
        x, key = jnp.ones((2, 3)), jax.random.PRNGKey(0)
        mine, other = Dense(4), DenseRef(4)
        variables = mine.init(key, x)
        self.assertTrue(jnp.allclose(mine.apply(variables, x), other.apply(other.init(key, x), x)))

    def test_callback(self):
        found = slopes(lambda v: v * 3, jnp.arange(3.0))
        self.assertEqual(found["count"], 3)
        self.assertTrue(jnp.allclose(jnp.stack(found["slopes"]), jnp.arange(3.0) * 3))
"""

BODY = "return jnp.asarray(x, dtype) * factor"
CASES = {
    "gold": (BODY, ""),
    "numpy": ("import numpy as np; return np.asarray(x).astype(dtype) * np.asarray(factor, dtype)", ""),
    "wrong": ("return jnp.asarray(x, dtype) * factor + 0.01", "tests_failed"),
    "empty": ("return jnp.zeros((0,))", "tests_failed"),
    "one for all": ("return jnp.asarray(x, dtype).mean() * 0", "tests_failed"),
}


@pytest.fixture(scope="module")
def jax_grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return SplitGrader(OPEN, lambda _: load_runtime("jax"), cache=Path(tmp_path_factory.mktemp("preflight")))


@pytest.mark.parametrize("name", CASES)
def test_arrays_keys_modules_and_callbacks(jax_grader: SplitGrader, name: str) -> None:
    """Values cross both ways; a numpy array in place of jax's is as good; degenerate ones are not."""
    new, reason = CASES[name]
    task = make_task(GOLD, TEST, hidden={"model_ref.py": GOLD}, rules=GradingRules(values=ValueRules(rtol=1e-3)))
    found = grade_text(jax_grader, task, GOLD.replace(BODY, new))
    assert (found.reason, found.message if not reason else "") == (reason, "")
