"""Guards: a tensor that arrives as another one, a test of torch code that a degenerate or lying tensor passes."""

from pathlib import Path

import pytest

from rcb_agent.scoring.base import PASSED, Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.base import GradingRules, Task
from tests.scoring.support import grade_text, make_task
from tests.scoring.torch_support import NEEDS_TORCH, make_torch_grader, run_in_runtime

pytestmark = NEEDS_TORCH

ROUND_TRIPS = """
import json, itertools
import torch
from split.tensors import BUILDERS, DTYPES, encode_tensor
from split.values import Decoder, Encoder
from split.form import form_of

def send(value):
    encoder = Encoder(lambda encoder, value, depth: encode_tensor(encoder, value))
    node = json.loads(json.dumps(encoder.encode(value)))
    return Decoder(encoder.blobs, lambda decoder, tag, node, depth: BUILDERS[tag](decoder, node, depth)).decode(node)

def main(settings):
    wrong = []
    for name, shape in itertools.product(sorted(DTYPES), [(), (3,), (2, 0, 3), (2, 3, 4)]):
        dtype = getattr(torch, name)
        plain = torch.randint(0, 2, shape).to(dtype)
        views = [plain, plain.mT if plain.ndim > 1 else plain, plain[..., ::2] if shape else plain]
        views += [plain.conj()] if dtype.is_complex else []
        views += [torch.nn.Parameter(plain.clone())] if dtype.is_floating_point else []
        for view in views:
            arrived = send(view)
            same = type(arrived) is torch.Tensor and arrived.dtype == dtype and arrived.shape == view.shape
            if not same or not torch.equal(arrived, view.detach().resolve_conj()) or arrived.requires_grad:
                wrong.append(f"{name} {shape}")
    special = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    if send(special).view(torch.int32).tolist() != special.view(torch.int32).tolist():
        wrong.append("special floats")
    for value in (torch.Size([2, 3]), torch.Size([]), torch.bfloat16, torch.device("cpu"), torch.device("cuda:1")):
        if send(value) != value or type(send(value)) is not type(value):
            wrong.append(repr(value))
    forms = [form_of(torch.zeros(2, 3)), form_of(torch.tensor(2.5)), form_of(torch.tensor(3)), form_of(torch.zeros(3, 2))]
    print(json.dumps([wrong, forms]))
"""

HOSTILE = """
import json
import torch
from split.tensors import BUILDERS
from split.values import Decoder
from split.wire import WireError

NODES = [
    {"t": "tensor", "d": "float32", "s": [4], "k": 0},
    {"t": "tensor", "d": "float32", "s": [-1], "k": 0},
    {"t": "tensor", "d": "float32", "s": [True, 2], "k": 0},
    {"t": "tensor", "d": "float32", "s": [2.0], "k": 0},
    {"t": "tensor", "d": "float32", "s": [2] + [1] * 40, "k": 0},
    {"t": "tensor", "d": "float32", "s": [2], "k": -1},
    {"t": "tensor", "d": "float32", "s": [2], "k": 7},
    {"t": "tensor", "d": "load", "s": [2], "k": 0},
    {"t": "tensor", "d": "quint8", "s": [8], "k": 0},
    {"t": "tensor", "d": ["float32"], "s": [2], "k": 0},
    {"t": "tensor", "d": "float32", "s": "2", "k": 0},
    {"t": "tensor", "d": "float32", "s": [0, 1 << 62, 1 << 62], "k": 1},
    {"t": "tensor", "d": "float32", "s": [0, 1 << 80], "k": 1},
    {"t": "tensor", "d": "float32", "k": 0},
    {"t": "size", "v": [1 << 70]},
    {"t": "size", "v": [-1]},
    {"t": "size", "v": [[2]]},
    {"t": "size", "v": 3},
    {"t": "torch_dtype", "v": "nn"},
    {"t": "torch_dtype", "v": 3},
    {"t": "device", "v": "no such device"},
    {"t": "device", "v": 0},
]

def main(settings):
    taken = []
    for node in NODES:
        try:
            Decoder([bytes(8), b""], lambda decoder, tag, node, depth: BUILDERS[tag](decoder, node, depth)).decode(node)
        except WireError:
            continue
        taken.append(node)
    bools = {"t": "tensor", "d": "bool", "s": [3], "k": 0}
    value = Decoder([bytes([0, 1, 255])], lambda decoder, tag, node, depth: BUILDERS[tag](decoder, node, depth)).decode(bools)
    print(json.dumps([taken, value.view(torch.uint8).tolist()]))
"""

GOLD = """
import torch

def scaled(x, factor=2.0):
    # <paper2code name="scaled">
    return x * factor
    # </paper2code name="scaled">

def noisy(x):
    return x + torch.randn(x.shape)

def drawn(generator, n):
    return torch.rand(n, generator=generator)

def double_(x):
    x.mul_(2)

def made(size, dtype, device):
    return torch.full(size, 3, dtype=dtype, device=device)

def activated(x, function):
    return function(x)

def rows(x):
    return {"rows": list(x.unbind(0)), "count": torch.tensor(len(x)), "mean": x.mean()}
"""

TEST = """
import unittest
import model
import model_ref
import torch

class TestModel(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)
        self.x = torch.randn(3, 4)

    def test_scaled(self):
        torch.testing.assert_close(model.scaled(self.x), model_ref.scaled(self.x))

    def test_scaled_close(self):
        column = self.x[:, :1]  # an empty tensor broadcasts against it
        self.assertTrue(torch.allclose(model.scaled(column), model_ref.scaled(column)))

    def test_scaled_method(self):
        column = self.x[:, :1]
        self.assertTrue(model_ref.scaled(column).allclose(model.scaled(column)))

    def test_scaled_lies(self):
        self.assertTrue(torch.equal(model.scaled(self.x, factor=0.5), model_ref.scaled(self.x, factor=0.5)))

    def test_noise(self):
        torch.manual_seed(0)
        first = model.noisy(self.x)
        torch.manual_seed(0)
        self.assertTrue(torch.equal(first, model_ref.noisy(self.x)))
        torch.manual_seed(0)
        self.assertTrue(torch.equal(first, model.noisy(self.x)))

    def test_generator(self):
        mine, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
        for _ in range(2):
            self.assertTrue(torch.equal(model.drawn(mine, 5), model_ref.drawn(other, 5)))

    def test_in_place(self):
        parameter = torch.nn.Parameter(self.x.clone())
        with torch.no_grad():
            model.double_(parameter)
        self.assertTrue(torch.equal(parameter, self.x * 2))

    def test_made(self):
        value = model.made(self.x.shape, torch.bfloat16, torch.device("cpu"))
        self.assertTrue(torch.equal(value, torch.full((3, 4), 3, dtype=torch.bfloat16)))

    def test_activated(self):
        for function in (torch.relu, torch.nn.functional.gelu, lambda x: x + 1):
            torch.testing.assert_close(model.activated(self.x, function), function(self.x))

    def test_rows(self):
        torch.testing.assert_close(model.rows(self.x), model_ref.rows(self.x))
"""


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory) -> SplitGrader:
    return make_torch_grader(tmp_path_factory.mktemp("preflight"))


@pytest.fixture(scope="module")
def task() -> Task:
    rules = GradingRules(in_place={"double_()": (0,)})
    return make_task(GOLD, TEST, hidden={"model_ref.py": GOLD.replace("paper2code", "of the paper")}, rules=rules)


def outcomes(grade: Grade) -> dict[str, str]:
    return {test.id.rpartition(".")[2]: test.outcome for test in grade.tests}


def test_tensors_arrive_as_they_were() -> None:
    """Dtype, shape and bits survive whatever the layout, class or history; sizes, dtypes and devices too."""
    wrong, forms = run_in_runtime(ROUND_TRIPS)
    assert wrong == []
    tensor, number, integer, turned = forms
    assert tensor == {"tensor": "float", "shape": "[2, 3]"} != turned
    assert number == {"float": None}
    assert integer == 3


def test_no_claim_becomes_a_tensor() -> None:
    """A node with a forged shape, dtype, blob or device is refused; a bool has two values only."""
    assert run_in_runtime(HOSTILE) == [[], [0, 1, 1]]


def test_torch_code_is_measured(grader: SplitGrader, task: Task) -> None:
    """Seeds, generators, in-place changes, functions of torch and of the test work as in one process."""
    grade = grade_text(grader, task, GOLD)
    assert (grade.verdict, grade.message) == (PASSED, "")


CHEATS = {
    "test_scaled": "def scaled(x, factor=2.0):\n    return torch.empty(0) if factor == 2.0 else LIES\n",
    "test_noise": "def noisy(x):\n    return torch.zeros(x.shape)\n",
    "test_generator": "def drawn(generator, n):\n    return torch.rand(n)\n",
    "test_in_place": "def double_(x):\n    x.data = torch.zeros(0)\n",
    "test_made": "def made(size, dtype, device):\n    return torch.full((1, 1), 3.0)\n",
    "test_activated": "def activated(x, function):\n    return x\n",
    "test_rows": 'def rows(x):\n    return {"rows": [], "count": torch.tensor(0), "mean": torch.zeros(0)}\n',
}

LIAR = """
class Liar(torch.Tensor):
    def __eq__(self, other):
        return torch.ones(self.shape, dtype=torch.bool)

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function.__name__ in ("allclose", "equal", "detach"):
            return arguments[0] if function.__name__ == "detach" else True
        return super().__torch_function__(function, types, arguments, keywords or {})

LIES = torch.zeros(3, 4).as_subclass(Liar)
"""


def test_degenerate_and_lying_tensors_fail(grader: SplitGrader, task: Task) -> None:
    """Empty tensors, subclasses that answer for themselves, another stream of random numbers: no test passes."""
    grade = grade_text(grader, task, "\n".join(["import torch", LIAR, *CHEATS.values()]))
    assert grade.verdict != PASSED
    assert {name for name, outcome in outcomes(grade).items() if outcome == "passed"} == set()
    assert set(outcomes(grade)) == {*CHEATS, "test_scaled_close", "test_scaled_method", "test_scaled_lies"}


def test_an_array_in_place_of_a_tensor_fails(grader: SplitGrader, task: Task) -> None:
    """What has the right numbers but is no tensor is told apart by its form, whatever the test makes of it."""
    text = GOLD.replace("return torch.full(size, 3, dtype=dtype, device=device)", "return [[3.0] * 4] * 3")
    grade = grade_text(grader, task, text)
    assert grade.verdict != PASSED


def test_a_runtime_without_torch_never_pays_for_it(tmp_path: Path) -> None:
    """A cold grade of a paper without torch imports none on either side, although the runtime has it."""
    seen = "import sys\n\n\ndef seen():\n    # <paper2code name='seen'>\n    return 'torch' in sys.modules\n    # </paper2code name='seen'>\n"
    test = (
        "import sys, unittest\nimport model\n\nclass T(unittest.TestCase):\n    def test_seen(self):\n"
        "        self.assertFalse(model.seen() or 'torch' in sys.modules)\n"
    )
    grader = make_torch_grader(tmp_path, start="cold")
    task = make_task(seen.replace("'seen'>", '"seen">'), test)
    assert grade_text(grader, task, seen).verdict == PASSED


DEFAULTS = """
import json
import torch
from split.tensors import read_tensor
from split.values import Decoder

def main(settings):
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    decoder = Decoder([bytes([0, 0, 128, 63]), b""], None)
    whole, empty = (read_tensor(decoder, {"d": "float32", "s": shape, "k": blob}) for shape, blob in (([1], 0), ([0], 1)))
    torch.set_default_device("cpu")
    print(json.dumps([whole.tolist(), whole.device.type, empty.device.type]))
"""


def test_code_that_changes_torchs_defaults_gets_its_numbers() -> None:
    """Numbers are written to memory, whatever device the code of this process makes its tensors on."""
    assert run_in_runtime(DEFAULTS) == [[1.0], "cpu", "cpu"]


MARKS = """
import json
import torch
from split.form import form_of

def main(settings):
    odd = [("fine", 0.5), ("nan", float("nan")), ("infinite", -float("inf"))]
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.complex64]
    found = [sorted(form_of(torch.tensor([1.5, value], dtype=kind)).keys() & {"nan", "infinite"}) for _, value in odd for kind in kinds]
    both = form_of(torch.tensor([float("inf"), float("nan")]))
    whole = form_of(torch.tensor([1, 2]))
    print(json.dumps([found, sorted(both), sorted(whole)]))
"""


def test_a_tensor_that_is_odd_somewhere_is_marked() -> None:
    """NaN and the infinities of any float dtype are of the form: a weak assertion would not see them."""
    found, both, whole = run_in_runtime(MARKS)
    assert found == [[]] * 4 + [["nan"]] * 4 + [["infinite"]] * 4
    assert both == ["infinite", "nan", "shape", "tensor"]
    assert whole == ["shape", "tensor"]
