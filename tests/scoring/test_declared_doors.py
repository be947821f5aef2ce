"""Guards: what a candidate feeds into the reference or an expected value, where its paper declares that it cannot."""

import pytest

from rcb_agent.scoring.base import FAILED, PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.trusted_session import Adapter
from rcb_agent.tasks.base import GradingRules, Task
from tests.scoring.peers import session_with
from tests.scoring.support import SANDBOXED, grade_text, make_task
from tests.scoring.torch_support import NEEDS_TORCH, make_torch_grader

CODE = """
import numpy as np
from dataclasses import dataclass, field

@dataclass
class Config:
    size: int
    scale: float = 2.0
    double: float = field(init=False)

    def __post_init__(self):
        self.double = 2 * self.scale

class Rates:
    def __init__(self):
        self.source = np.random

    def draw(self, n):
        return self.source.normal(size=n)

class Model:
    def __init__(self, config, options):
        self.config = config
        self.rates = Rates()
        self.shift = options.shift

    def run(self, x):
        # <paper2code name="run">
        return x * self.config.scale + self.shift + 0 * self.config.double
        # </paper2code name="run">

    def mask(self, rates):
        return rates > 0
"""

TEST = """
import unittest
from argparse import Namespace
import numpy as np
from model import Config, Model
from model_ref import Model as ModelRef

class TestModel(unittest.TestCase):
    def setUp(self):
        np.random.seed(0)
        self.config = Config(size=3)
        self.options = Namespace(shift=0.5)
        self.model = Model(self.config, self.options)

    def test_run(self):
        x = np.random.normal(size=self.config.size)
        self.assertTrue(np.allclose(self.model.run(x), ModelRef(self.config, self.options).run(x)))

    def test_mask(self):
        rates = self.model.rates.draw(4)
        self.assertEqual(self.model.mask(rates).sum(), (np.asarray(rates) > 0).sum())
"""

DECLARED = GradingRules(plain={"model.Config": "model_ref.Config"}, trusted=("Model().rates.draw()",))
SCALE = ("scale: float = 2.0", "scale: float = 0.0")
RUN = ("return x * self.config.scale + self.shift + 0 * self.config.double", "return x * 0 + self.shift")
DRAW = ("return self.source.normal(size=n)", "return -np.ones(n)")
MASK = ("return rates > 0", "return np.zeros(len(rates), bool)")


def change(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def task_of(rules: GradingRules) -> Task:
    return make_task(CODE, TEST, hidden={"model_ref.py": CODE}, rules=rules)


@pytest.mark.sandbox
@SANDBOXED[1]
@pytest.mark.parametrize(
    ("cheat", "rules", "verdict"),
    [
        ((SCALE, RUN), GradingRules(), PASSED),
        ((SCALE, RUN), DECLARED, FAILED),
        ((DRAW, MASK), GradingRules(plain=DECLARED.plain), PASSED),
        ((DRAW, MASK), DECLARED, FAILED),
    ],
    ids=["own class", "declared class", "own draws", "declared draws"],
)
def test_both_sides_of_a_comparison(
    grader: SplitGrader, cheat: tuple[tuple[str, str], ...], rules: GradingRules, verdict: str
) -> None:
    """Without the declaration the candidate's own class or draws make the expected value."""
    found = grade_text(grader, task_of(rules), change(CODE, *cheat))
    assert found.verdict == verdict, found.message


@pytest.mark.sandbox
@SANDBOXED[1]
def test_honest_code_passes_where_doors_are_declared(grader: SplitGrader) -> None:
    """The declared class arrives as the candidate's own, with a field more; settings as settings; draws may differ."""
    rewrite = (
        ("scale: float = 2.0", "scale: float = 2.0\n    extra: int = 0"),
        ("return self.source.normal(size=n)", "return np.random.default_rng(5).normal(size=n)"),
        ("self.shift = options.shift", "self.shift = vars(options)['shift']"),
        ("return rates > 0", "return np.sign(rates) == 1"),
    )
    found = grade_text(grader, task_of(DECLARED), change(CODE, *rewrite))
    assert (found.verdict, found.message) == (PASSED, "")


@pytest.mark.sandbox
@SANDBOXED[1]
def test_an_object_cannot_be_declared_as_trusted(grader: SplitGrader) -> None:
    """The gold's object lives in the candidate's process: only a value can be kept."""
    found = grade_text(grader, task_of(GradingRules(plain=DECLARED.plain, trusted=("Model().rates",))), CODE)
    assert found.reason == "gold_fails"
    assert "declare what the test reads of it" in found.message


@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_prelude_runs_before_the_candidate_and_nowhere_else(grader: SplitGrader) -> None:
    """What it changes is changed on the candidate's side; a broken one fails the gold, not the candidate."""
    prelude = "import math\nmath.tau = 1.0\n"
    code = "import math\ndef full():\n    # <paper2code name='full'>\n    return math.tau\n    # </paper2code name='full'>\n"
    code = code.replace("'", '"')
    test = "import math, unittest\nfrom model import full\nclass T(unittest.TestCase):\n    def test(self):\n"
    test += "        self.assertEqual(full(), 1.0)\n        self.assertGreater(math.tau, 6)\n"
    assert grade_text(grader, make_task(code, test, rules=GradingRules(prelude=prelude)), code).verdict == PASSED
    broken = make_task(code, test, rules=GradingRules(prelude="import nothing_of_this_name"))
    assert grade_text(grader, broken, code).reason == "gold_fails"


MADE = """
class Net:
    _made_with = ((0,), {})
    def state_dict(self): return {"weight": 0.0}
    def load_state_dict(self, state): self.state = state
    def weight(self): return self.state["weight"]

def make(n): return Net()
def several(n): return [Net()]
"""


class Reference:
    """What the trusted side builds in place of the candidate's object."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def state_dict(self) -> dict[str, float]:
        """Return its one weight."""
        return {"weight": self.weight}


def test_the_arguments_of_a_reference_are_the_tests_own() -> None:
    """A candidate's object has no say in how the reference is made, nor in the weights that the test sees."""
    here = f"{__name__}.Reference"
    adapter = Adapter(weights={"make().state_dict()": here, "several().state_dict()": here})
    with session_with(MADE, adapter=adapter) as (session, module):
        made = module.make(0.25)
        assert made.state_dict() == {"weight": 0.25}
        assert made.weight() == 0.25
        assert [label for label, _ in session.trace.entries[""]].count("weights: make().state_dict()") == 1
        with pytest.raises(RemoteError, match="did not make"):
            module.several(0.5)[0].state_dict()


NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, encoder, size):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(size, size)

    def forward(self, x):
        # <paper2code name="forward">
        return self.head(torch.tanh(self.encoder(x)))
        # </paper2code name="forward">
"""

NET_TEST = """
import unittest
import torch
from encoder import Encoder
from model import Net
from model_ref import Net as NetRef

class TestNet(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.encoder = Encoder(3)
        self.model, self.other = Net(self.encoder, 3), NetRef(self.encoder, 3)
        self.other.load_state_dict(self.model.state_dict())

    def test_forward(self):
        x = torch.randn(2, 3)
        self.assertTrue(torch.allclose(self.model(x), self.other(x), atol=1e-6))
"""

ENCODER = """
from torch import nn

class Encoder(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        return self.layer(x)
"""

BY_VALUE = GradingRules(by_value=("encoder.Encoder",))
GIVEN = GradingRules(by_value=("encoder.Encoder",), weights={"Net().state_dict()": "model_ref.Net"})
ZERO = (
    (
        "self.head = nn.Linear(size, size)",
        "self.head = nn.Linear(size, size)\n        for p in self.parameters(): p.data.zero_()",
    ),
    ("return self.head(torch.tanh(self.encoder(x)))", "return torch.zeros_like(x)"),
)
ALIAS = """
class Net(Net):
    kept = None
    def __new__(cls, *a):
        return super().__new__(cls)
    def state_dict(self, *a, **k):
        return {key: value * 0 for key, value in super().state_dict(*a, **k).items()}
    def load_state_dict(self, *a, **k):
        pass
    def forward(self, x):
        return torch.zeros_like(x)
"""


@pytest.fixture(scope="module")
def torch_grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return make_torch_grader(tmp_path_factory.mktemp("preflight"))


def grade_net(grader: SplitGrader, rules: GradingRules, text: str) -> Grade:
    task = make_task(NET, NET_TEST, hidden={"model_ref.py": NET}, support={"encoder.py": ENCODER}, rules=rules)
    return grade_text(grader, task, text)


@pytest.mark.parametrize("rules", [pytest.param(GIVEN, marks=NEEDS_TORCH)], ids=["torch"])
def test_weights_are_made_on_the_trusted_side(torch_grader: SplitGrader, rules: GradingRules) -> None:
    """Zeros in the candidate's state dict make zeros right; given weights do not."""
    assert grade_net(torch_grader, rules, NET).verdict == PASSED
    assert grade_net(torch_grader, rules, change(NET, *ZERO)).verdict == FAILED
    assert grade_net(torch_grader, rules, NET + ALIAS).verdict == FAILED
    assert grade_net(torch_grader, BY_VALUE, change(NET, *ZERO)).verdict == PASSED


CHAINED = ("Net(self.encoder, 3).eval()", "Net(self.encoder, 3).to(torch.device('cpu'))")
LATER = "Net(self.encoder, 3)\n        self.model.eval()\n        self.model = self.model.train()"


@pytest.mark.parametrize(
    "made", [pytest.param(made, marks=NEEDS_TORCH) for made in (*CHAINED, LATER)], ids=["eval", "to", "later"]
)
def test_weights_stay_trusted_whatever_is_called_in_between(torch_grader: SplitGrader, made: str) -> None:
    """The object that a method returns is the one it was called on: by the label, and by the arguments, of its making."""
    test = change(
        NET_TEST, ("self.model, self.other = Net(self.encoder, 3), NetRef(self.encoder, 3)", "self.model = MADE")
    )
    test = test.replace("MADE", f"{made}\n        self.other = NetRef(self.encoder, 3)")
    task = make_task(NET, test, hidden={"model_ref.py": NET}, support={"encoder.py": ENCODER}, rules=GIVEN)
    assert grade_text(torch_grader, task, NET).verdict == PASSED
    assert grade_text(torch_grader, task, change(NET, *ZERO)).verdict == FAILED


def test_a_label_that_no_test_comes_to_is_said(grader: SplitGrader) -> None:
    """A misspelt label would leave the door open without a word."""
    rules = GradingRules(trusted=("Model().rates.draws()",), skip_form=("Model().mask()",))
    grade = grade_text(grader, task_of(rules), CODE)
    assert grade.reason == "gold_fails"
    assert "Model().rates.draws(): declared, but no test comes to it" in grade.message
