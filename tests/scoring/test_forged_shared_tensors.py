"""Guards: a claim of the candidate's process about shared tensors, outputs or gradients that T takes for one."""

from tests.scoring.torch_support import NEEDS_TORCH, run_in_runtime

pytestmark = NEEDS_TORCH

FORGED = """
import json
import struct
import torch
from split.trusted_errors import RemoteError
from split.trusted_tensors import Outgoing, TrustedTensors, Incoming, _checked
from split.values import Decoder, Encoder
from split.wire import WireError

def four(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)

KNOWN = {"t": "shared", "i": 1, "d": "float32", "s": [2], "k": 0, "rg": True, "p": True}
FLOATS = {"t": "tensor", "d": "float32", "s": [2], "k": 0}
ANSWERS = {
    "change of a stranger": {"shared": [{"i": 9, "d": "float32", "s": [2], "k": 0}]},
    "ints that want a gradient": {"shared": [{"i": 1, "d": "int32", "s": [2], "k": 0}]},
    "bytes of another shape": {"shared": [{"i": 1, "d": "float32", "s": [3], "k": 0}]},
    "shape of T's own": {"shared": [{"i": -1, "d": "float32", "s": [2], "k": 0}]},
    "dtype of T's own": {"shared": [{"i": -1, "d": "int32", "s": [3], "k": 0}]},
    "gradient of T's own": {"shared": [{"i": -1, "d": "float32", "s": [3], "rg": True}]},
    "gradient of another shape": {"shared": [{"i": 1, "d": "float32", "s": [2], "grad": 7}]},
    "change without a shape": {"shared": [{"i": 1, "k": 0}]},
    "change that is no list": {"shared": {"i": 1}},
    "change of what T has not": {"shared": [{"i": -2, "d": "float32", "s": [3], "k": 0}]},
    "outputs missing": {"graph": 1, "leaves": []},
    "outputs of ints": {"graph": 1, "outputs": [{**FLOATS, "d": "int32"}], "leaves": []},
    "leaf of T's own": {"graph": 1, "outputs": [FLOATS], "leaves": [{"t": "shared", "i": -7}]},
    "leaf that is a value": {"graph": 1, "outputs": [FLOATS], "leaves": [FLOATS]},
    "change without bytes": {"shared": [{"i": 1, "d": "float32", "s": [2], "k": None}]},
    "change by no dict": {"shared": [3]},
    "graph without a number": {"graph": "1", "outputs": [FLOATS], "leaves": []},
}
VALUES = {
    "output that is not there": {"t": "output", "o": 0},
    "output before the first": {"t": "output", "o": -1},
    "shared without bytes": {"t": "shared", "i": 2},
    "T's own that is not shared": {"t": "shared", "i": -3},
    "shared by name": {"t": "shared", "i": "1"},
    "shared with odd marks": {**KNOWN, "i": 3, "rg": 1},
    "gradient of another tensor": {**KNOWN, "i": 3, "grad": {"d": "float32", "s": [1], "k": 0}},
}
LIVE = {"a new one": KNOWN | {"i": 5}, "a known one": {"t": "shared", "i": 1}, "T's own": {"t": "shared", "i": -1}}

def fresh():
    tensors = TrustedTensors()
    decoder = Decoder([four(1, 2)], None)
    tensors.read(decoder, KNOWN, Incoming(may_be_live=True))
    tensors._share(torch.zeros(3))
    return tensors

def main(settings):
    taken = []
    for name, answer in ANSWERS.items():
        tensors, decoder = fresh(), Decoder([four(3, 4)], None)
        try:
            tensors.take(answer.get("shared", []), decoder, at_once=True)
            tensors.attach(answer, decoder, [], None)
        except WireError:
            continue
        taken.append(name)
    for name, node in VALUES.items():
        incoming = Incoming(may_be_live=True)
        decoder = Decoder([four(3, 4)], lambda decoder, tag, node, depth: fresh().read(decoder, node, incoming))
        try:
            decoder.decode(node)
        except WireError:
            continue
        taken.append(name)
    for name, node in LIVE.items():
        decoder = Decoder([four(3, 4)], lambda decoder, tag, node, depth: fresh().read(decoder, node, Incoming()))
        try:
            decoder.decode(node)
        except WireError:
            continue
        taken.append(f"live: {name}")
    tensor = torch.zeros(2)
    for gradients in ([], [torch.zeros(3)], [torch.zeros(2, dtype=torch.int64)], [0.0], "x", [None, None]):
        try:
            _checked(gradients, [tensor])
        except RemoteError:
            continue
        taken.append(repr(gradients))
    print(json.dumps(taken))
"""


def test_no_claim_about_shared_tensors_is_believed() -> None:
    """Numbers nobody gave out, other shapes, outputs and leaves that are none, gradients of another shape."""
    assert run_in_runtime(FORGED) == []
