"""Guards: parameters that a candidate sets to what makes its wrong results right, at once or behind the test's back."""

import pytest

from rcb_agent.scoring.base import PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules, Task, ValueRules
from tests.scoring.support import grade_text, make_task
from tests.scoring.torch_support import NEEDS_TORCH, make_torch_grader

pytestmark = NEEDS_TORCH

GOLD = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        # <paper2code name="start">
        self.alpha = nn.Parameter(torch.ones(1) * 0.5)
        self.weight = nn.Parameter(torch.ones(size))
        # </paper2code name="start">

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight

    @torch.no_grad()
    def clip(self):
        self.weight.clamp_(max=0.75)
        return self
"""

TEST = """
import unittest
import torch
from model import Layer

class TestLayer(unittest.TestCase):
    def test_forward(self):
        torch.manual_seed(1)
        x, layer = torch.randn(3, 4), Layer(4)
        self.assertTrue(torch.allclose(layer(x), torch.tanh(layer.alpha * x) * layer.weight))

    def test_clip(self):
        x, layer = torch.ones(4), Layer(4)
        before, alpha = layer.weight.detach().clone(), layer.alpha
        layer.clip()
        self.assertFalse(torch.equal(layer.weight, before))
        self.assertEqual(layer.weight.tolist(), [layer.weight[0].item()] * 4)
        self.assertIs(layer.alpha, alpha)

    def test_learns(self):
        x, layer = torch.ones(2, 4), Layer(4)
        first = layer.alpha.detach().clone()
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            ((layer(x) - 1) ** 2).sum().backward()
            optimizer.step()
        self.assertFalse(torch.allclose(layer.alpha, first))
"""

FORWARD = "return torch.tanh(self.alpha * x) * self.weight"
WEIGHT = "self.weight = nn.Parameter(torch.ones(size))"
CLIP = "self.weight.clamp_(max=0.75)"

WEIGHT_0 = (
    (WEIGHT, "self.weight = nn.Parameter(torch.zeros(size))"),
    (FORWARD, "return self.alpha * x * self.weight"),
    (CLIP, "self.weight.fill_(0.5)"),
)
CHEATS = {
    "set behind the test's back": ((CLIP, "self.weight.zero_()"),),
    "another gradient": ((FORWARD, "return torch.tanh(self.alpha * x) * (2 * self.weight - self.weight.detach())"),),
    "one more parameter moved": ((CLIP, f"{CLIP}; self.alpha.zero_()"),),
}
HONEST = (
    ("self.alpha = nn.Parameter(torch.ones(1) * 0.5)\n", "weight = torch.ones(size)\n"),
    (
        WEIGHT,
        "self.alpha = nn.Parameter(torch.full((1,), 0.5)); self.weight = nn.Parameter(weight); self.calls = 0",
    ),
    (FORWARD, "z = 2 * self.alpha * x; return self.weight * (2 * torch.sigmoid(z) - 1)"),
    (CLIP, "self.weight.data = torch.minimum(self.weight.data, torch.tensor(0.75)); self.calls += 1"),
)


FORWARD_HONEST = HONEST[2][1].removeprefix("z = 2 * self.alpha * x; ")
COMPARED = GradingRules(values=ValueRules())


@pytest.fixture(scope="module")
def torch_grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return make_torch_grader(tmp_path_factory.mktemp("preflight"))


def grade(grader: SplitGrader, rules: GradingRules, *pairs: tuple[str, str], test: str = TEST) -> Grade:
    text = GOLD
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    task: Task = make_task(GOLD, test, rules=rules)
    return grade_text(grader, task, text)


def test_the_known_cheat_passes_the_tests_alone(torch_grader: SplitGrader) -> None:
    """Weights of zero make zeros right: only the comparison with the gold's values sees it."""
    assert grade(torch_grader, GradingRules(), *WEIGHT_0).verdict == PASSED
    found = grade(torch_grader, COMPARED, *WEIGHT_0)
    assert (found.reason, found.values_only) == ("values", True)


@pytest.mark.parametrize("name", CHEATS)
def test_chosen_parameters_fail(torch_grader: SplitGrader, name: str) -> None:
    """Each satisfies every assertion of the tests."""
    assert grade(torch_grader, COMPARED, *CHEATS[name]).reason == "values"


def test_honest_parameters_pass(torch_grader: SplitGrader) -> None:
    """Another order of parameters and operations, a buffer of its own and another way to change a weight."""
    found = grade(torch_grader, COMPARED, *HONEST)
    assert (found.verdict, found.message) == (PASSED, "")


GRADIENTS = """
import unittest
import torch
from model import Layer

class TestGradients(unittest.TestCase):
    def test_has_gradients(self):
        layer = Layer(4)
        alpha = layer.alpha
        layer(torch.ones(2, 4)).sum().backward()
        self.assertIsNotNone(alpha.grad)
        self.assertGreater(float(layer.weight.grad.abs().sum()), 0)
"""
OTHER_GRADIENTS = {
    "of what is read before": f"{FORWARD} + 3 * (self.alpha - self.alpha.detach())",
    "of what is read after": f"{FORWARD} + 3 * (self.weight - self.weight.detach())",
    "none": "return torch.tanh(self.alpha * x) * self.weight.detach() + 0 * self.weight",
}


@pytest.mark.parametrize("name", OTHER_GRADIENTS)
def test_the_gradient_of_a_parameter_is_a_value(torch_grader: SplitGrader, name: str) -> None:
    """The right numbers with another backward pass, which the test only asks whether it is there."""
    text = (FORWARD, OTHER_GRADIENTS[name])
    found = grade(torch_grader, COMPARED, text, test=GRADIENTS.replace("assertGreater(", "assertGreaterEqual("))
    assert (found.reason, found.values_only, "backward" in found.message) == ("values", True, True)
    honest = grade(
        torch_grader, COMPARED, *HONEST, (FORWARD_HONEST, f"{FORWARD_HONEST} + 0 * self.alpha.sum()"), test=GRADIENTS
    )
    assert (honest.verdict, honest.message) == (PASSED, "")


ALPHA = "self.alpha = nn.Parameter(torch.ones(1) * 0.5)"
ONE_NUMBER = (ALPHA, "self.alpha = nn.Parameter(torch.tensor(0.5))")
FREE_ALPHA = GradingRules(values=ValueRules(), skip_form=("Layer().alpha", "Layer().parameters()"))
ALPHA_CHEATS = {
    "none of it used": ((FORWARD, "self.alpha.data.zero_(); return torch.tanh(self.alpha * x) * self.weight"),),
    "another one": ((ALPHA, "self.alpha = nn.Parameter(torch.tensor(0.4))"),),
    "weights of zero": WEIGHT_0,
}


def test_a_parameter_whose_form_is_free_still_decides_by_what_is_made_of_it(torch_grader: SplitGrader) -> None:
    """One number may be a scalar or an array of one; whatever is made with it has the gold's numbers all the same."""
    assert grade(torch_grader, COMPARED, ONE_NUMBER).reason == "form"
    found = grade(torch_grader, FREE_ALPHA, ONE_NUMBER)
    assert (found.verdict, found.message) == (PASSED, "")
    for name, cheat in ALPHA_CHEATS.items():
        assert grade(torch_grader, FREE_ALPHA, *cheat).reason == "values", name
