"""Guards: gradients, parameters and optimizers across the pipe that differ from one process, or that a candidate forges."""

import pytest

from rcb_agent.scoring.base import PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules, Task
from tests.scoring.support import grade_text, make_task
from tests.scoring.torch_support import NEEDS_TORCH, make_torch_grader

pytestmark = NEEDS_TORCH

GOLD = """
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("shift", torch.zeros(size))

    def forward(self, x):
        # <paper2code name="forward">
        return torch.tanh(x * self.weight + self.shift)
        # </paper2code name="forward">


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


def square(x):
    return Square.apply(x)


def scaled_in_place(x):
    x.mul_(3)
    return x.sum()


class Descent:
    def __init__(self, parameters, rate):
        self.parameters = list(parameters)
        self.rate = rate
        self.state = {p: torch.zeros_like(p) for p in self.parameters}

    def update(self, p):
        with torch.no_grad():
            p.sub_(self.rate)

    def step(self):
        with torch.no_grad():
            for p in self.parameters:
                self.state[p].add_(p.grad)
                p.sub_(self.rate * self.state[p])


class Doubled(Layer):
    def forward(self, x):
        self.double()
        return super().forward(x.double())

    def freeze(self):
        for p in self.parameters():
            p.requires_grad_(False)


class Metric:
    def update(self, x):
        return x.exp() * 3 + 1


def encode(x):
    return torch.tanh(x) + 1


def decode(z):
    return z.exp() * z.cumsum(0)


def precision():
    return torch.float32


def loss_of(model, x):
    return model(x).pow(2).mean()


def switches():
    return torch.is_grad_enabled(), torch.get_default_dtype(), torch.zeros(1).dtype
"""

TEST = """
import unittest
import model
import model_ref
import torch


def flat(layer):
    return [p.detach().clone() for p in layer.parameters()]


class TestModel(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        self.x = torch.randn(4, 5, requires_grad=True)
        self.mine, self.other = model.Layer(5), model_ref.Layer(5)
        start = torch.randn(5)
        for layer in (self.mine, self.other):
            layer.weight.data.copy_(start)
            layer.shift.fill_(0.5)

    def test_values(self):
        torch.testing.assert_close(self.mine(self.x), self.other(self.x))

    def test_gradients(self):
        first = self.mine(self.x * 2)
        first.pow(3).sum().backward()
        mine, self.x.grad = self.x.grad, None
        self.other(self.x * 2).pow(3).sum().backward()
        torch.testing.assert_close(mine, self.x.grad)
        torch.testing.assert_close(self.mine.weight.grad, self.other.weight.grad)

    def test_own_backward(self):
        model.square(self.x).sum().backward()
        torch.testing.assert_close(self.x.grad, 2 * self.x.detach())

    def test_no_leaf_in_place(self):
        y = self.x * 1
        total = model.scaled_in_place(y)
        torch.testing.assert_close(total, (self.x * 3).sum())
        total.backward()
        torch.testing.assert_close(self.x.grad, torch.full((4, 5), 3.0))

    def test_optimizer_of_the_test(self):
        mine = torch.optim.Adam(self.mine.parameters(), lr=0.1)
        other = torch.optim.Adam(self.other.parameters(), lr=0.1)
        for _ in range(3):
            for layer, optimizer in ((self.mine, mine), (self.other, other)):
                optimizer.zero_grad()
                layer(self.x.detach()).pow(2).mean().backward()
                optimizer.step()
        for one, two in zip(flat(self.mine), flat(self.other)):
            torch.testing.assert_close(one, two)
        torch.testing.assert_close(self.mine(self.x), self.other(self.x))

    def test_optimizer_of_the_candidate(self):
        mine, other = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
        ours, theirs = model.Descent([mine], 0.1), model_ref.Descent([other], 0.1)
        for turn in range(3):
            for p, optimizer in ((mine, ours), (other, theirs)):
                p.grad = None
                (p * torch.arange(3.0)).pow(2).sum().backward()
                optimizer.step()
            torch.testing.assert_close(mine, other)
            torch.testing.assert_close(ours.state[mine], theirs.state[other])

    def test_candidate_uses_its_own_model(self):
        loss = model.loss_of(self.mine, self.x)
        loss.backward()
        model_ref.loss_of(self.other, self.x).backward()
        torch.testing.assert_close(self.mine.weight.grad, self.other.weight.grad)

    def test_other_dtype_and_no_gradient(self):
        mine, other = model.Doubled(5), model_ref.Doubled(5)
        self.assertEqual(mine.weight.dtype, torch.float32)
        torch.testing.assert_close(mine(self.x), other(self.x))
        self.assertEqual(mine.weight.dtype, torch.float64)
        self.assertTrue(mine.weight.requires_grad)
        mine.freeze()
        self.assertFalse(mine.weight.requires_grad)
        for p in self.mine.parameters():
            p.requires_grad_(False)
        self.assertFalse(self.mine(self.x.detach()).requires_grad)

    def test_result_is_an_input(self):
        z = model.encode(self.x.detach())
        torch.testing.assert_close(z, model_ref.encode(self.x.detach()))
        torch.testing.assert_close(model.decode(z), model_ref.decode(z))

    def test_memory_of_the_reference(self):
        mine, other = model.Layer(5), model_ref.Layer(5)
        mine.weight.data = other.weight.data
        x = self.x.detach()
        torch.testing.assert_close(mine(x), other(x))

    def test_attribute_in_the_expectation(self):
        mine, x = model.Layer(5), self.x.detach()
        torch.testing.assert_close(mine.shift, model_ref.Layer(5).shift)
        mine.weight.data.fill_(2.0)
        found = mine(x)
        torch.testing.assert_close(found, torch.tanh(x * mine.weight.detach() + mine.shift))

    def test_named_precision(self):
        precision = model.precision()
        x = self.x.detach()
        torch.testing.assert_close(model.square(x).to(precision), model_ref.square(x).to(precision))

    def test_precision_of_the_result(self):
        found = model.encode(self.x.detach())
        self.assertTrue(torch.allclose(found, model_ref.encode(self.x.detach()).to(found.dtype)))

    def test_metric(self):
        p = torch.nn.Parameter(torch.ones(3))
        descent = model.Descent([p], 0.1)
        descent.update(p)
        torch.testing.assert_close(p, torch.full((3,), 0.9))
        x = torch.arange(4.0)
        found = model.Metric().update(x)
        torch.testing.assert_close(found, model_ref.Metric().update(x))

    def test_switches(self):
        self.assertEqual(model.switches(), (True, torch.float32, torch.float32))
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            self.assertEqual(model.switches(), (False, torch.float64, torch.float64))
            self.assertFalse(self.mine(self.x).requires_grad)
        torch.set_default_dtype(torch.float32)
        self.assertEqual(model.switches(), (True, torch.float32, torch.float32))
"""


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return make_torch_grader(tmp_path_factory.mktemp("preflight"))


@pytest.fixture(scope="module")
def task() -> Task:
    rules = GradingRules(shared=("Descent()", "Descent().update()"), in_place={"scaled_in_place()": (0,)})
    return make_task(GOLD, TEST, hidden={"model_ref.py": GOLD.replace("paper2code", "of the paper")}, rules=rules)


def failed(grade: Grade) -> set[str]:
    return {test.id.rpartition(".")[2] for test in grade.tests if test.outcome != "passed"}


def test_a_trained_model_is_the_same_as_in_one_process(grader: SplitGrader, task: Task) -> None:
    """Parameters written by the test, gradients both ways, optimizers on either side, switches of torch."""
    grade = grade_text(grader, task, GOLD)
    assert (grade.verdict, grade.message) == (PASSED, "")


CHEATS = {
    "right values, wrong gradient": ("2 * ctx.saved_tensors[0] * gradient", "3 * gradient", {"test_own_backward"}),
    "no gradient at all": (
        "return torch.tanh(x * self.weight + self.shift)",
        "return torch.tanh(x * self.weight + self.shift).detach()",
        {"test_gradients", "test_optimizer_of_the_test", "test_candidate_uses_its_own_model"},
    ),
    "an optimizer that does nothing": (
        "p.sub_(self.rate * self.state[p])",
        "p.sub_(0 * self.rate)",
        {"test_optimizer_of_the_candidate"},
    ),
}


@pytest.mark.parametrize("name", CHEATS)
def test_wrong_gradients_fail(grader: SplitGrader, task: Task, name: str) -> None:
    """Each fails the tests that look at what it got wrong, and no other."""
    old, new, tests = CHEATS[name]
    assert old in GOLD
    assert failed(grade_text(grader, task, GOLD.replace(old, new))) == tests


LATE = {
    "a result that changes after it was looked at": (
        ("return torch.tanh(x) + 1", "return nn.Parameter(torch.tanh(x) + 1)"),
        ("return z.exp() * z.cumsum(0)", "z.data.zero_()\n    return torch.zeros(z.shape)"),
    ),
    "a precision in which everything is equal": (
        ("return Square.apply(x)", "return torch.zeros(x.shape)"),
        ("return torch.float32", "return torch.int8"),
    ),
    "a result whose dtype rounds the reference away": (
        ("return torch.tanh(x) + 1", "return torch.ones(x.shape, dtype=torch.bool)"),
    ),
    "an object that comes twice, under a label that shares": (
        (
            "        return x.exp() * 3 + 1",
            "        pass\n    def __new__(cls):\n        return Descent.first",
        ),
        ("        self.rate = rate\n", "        self.rate = rate\n        Descent.first = self\n"),
        (
            "            p.sub_(self.rate)\n",
            (
                "            if not isinstance(p, nn.Parameter):\n                p.zero_()\n                return torch.full(p.shape, 4.0)\n"
                "            p.sub_(self.rate)\n"
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_what_the_comparison_rests_on_stays(grader: SplitGrader, task: Task, name: str) -> None:
    """No candidate turns both sides of a comparison into the same: by form, by protocol or by the test itself it fails."""
    text = GOLD
    for old, new in LATE[name]:
        assert old in text
        text = text.replace(old, new)
    assert grade_text(grader, task, text).verdict != PASSED


def test_a_call_does_not_change_what_is_compared_with(grader: SplitGrader, task: Task) -> None:
    """A candidate that writes into its weights while it answers: neither the reference nor the expected value moves."""
    text = GOLD.replace(
        "return torch.tanh(x * self.weight + self.shift)",
        "self.weight.data.zero_()\n        return torch.tanh(self.shift) * torch.ones_like(x)",
    )
    assert {"test_memory_of_the_reference", "test_attribute_in_the_expectation"} <= failed(
        grade_text(grader, task, text)
    )


REWRITES = {
    "another order of the graph": "return torch.tanh(self.shift + self.weight * x)",
    "a look-up in a table of one row": (
        "rows = nn.functional.embedding(torch.zeros(1, dtype=torch.long), self.weight[None], sparse=False)\n"
        "        return torch.tanh(x * rows[0] + self.shift)"
    ),
}


@pytest.mark.parametrize("name", REWRITES)
def test_honest_rewrites_of_a_forward_pass(grader: SplitGrader, task: Task, name: str) -> None:
    """The graph is the candidate's business."""
    grade = grade_text(grader, task, GOLD.replace("return torch.tanh(x * self.weight + self.shift)", REWRITES[name]))
    assert (grade.verdict, grade.message) == (PASSED, "")
