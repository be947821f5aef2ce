"""Tensors in C: which of them T knows by number, and what is needed to answer for their gradients.

Parameters and tensors read as attributes are shared, so that what a test writes into one (``weight.data.fill_``, an
optimizer's step) reaches the candidate's own. Results that carry a graph go out as numbered outputs of it, for T to ask
their gradients later. Runs inside sandboxes: standard library only, torch only where it was imported.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.scoring.shared_tensors import TensorBook
from rcb_agent.scoring.tensors import encode_tensor, holds_numbers, is_tensor, plain_copy, read_tensor
from rcb_agent.scoring.values import Decoder, Encoder, Node

_USUAL_MODE = [True, "float32"]


@dataclass(slots=True)
class Crossing:
    """One request: T's tensors that want a gradient, by number, and the outputs that carry a graph."""

    is_attribute: bool
    may_be_live: bool = True
    inputs: dict[int, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Graph:
    """What a backward pass through one answer needs."""

    outputs: list[Any]
    inputs: list[Any]


class CandidateTensors:
    """The tensors of the candidate's side."""

    def __init__(self) -> None:
        self._book = TensorBook()
        self._graphs: dict[int, Graph] = {}
        self._count = 0

    def begin(self, frame: Node, decoder: Decoder) -> None:
        """Take over what T says beside a request or a callback's answer."""
        _set_mode(frame.get("mode"))
        self._book.take(frame.get("shared", []), decoder)
        for number in frame.get("graphs", ()):
            self._graphs.pop(number, None)

    def read(self, decoder: Decoder, node: Node, crossing: Crossing | None) -> Any:
        """Return the tensor of a node."""
        if node["t"] == "shared":
            tensor = self._find(decoder, node)
            leaf = tensor
        else:
            leaf = _furnish(read_tensor(decoder, node), node)
            tensor = leaf if node.get("leaf", True) else _no_leaf(leaf)
        if crossing is not None and "x" in node:
            crossing.inputs[node["x"]] = leaf
        return tensor

    def _find(self, decoder: Decoder, node: Node) -> Any:
        if not self._book.holds(node["i"]):
            self._book.add(node["i"], _furnish(read_tensor(decoder, node), node))
        return self._book[node["i"]]

    def write(self, encoder: Encoder, value: Any, crossing: Crossing | None) -> Node | None:
        """Return the node of a tensor, or None for anything else."""
        if not is_tensor(value) or not holds_numbers(value):
            return encode_tensor(encoder, value)
        torch = sys.modules["torch"]
        if crossing is None:
            return encode_tensor(encoder, value)
        if crossing.may_be_live:
            number = self._book.number(value)
            if number is not None:
                return {"t": "shared", "i": number}
            if isinstance(value, torch.nn.Parameter) or (crossing.is_attribute and value.grad_fn is None):
                return self._share(encoder, value)
        if value.requires_grad and torch.is_grad_enabled():
            crossing.outputs.append(value)
            return {"t": "output", "o": len(crossing.outputs) - 1}
        return encode_tensor(encoder, value)

    def _share(self, encoder: Encoder, value: Any) -> Node:
        self._count += 1
        self._book.add(self._count, value)
        node = encode_tensor(encoder, value)
        if value.grad is not None and node is not None:
            node["grad"] = encode_tensor(encoder, value.grad)
        parameter = isinstance(value, sys.modules["torch"].nn.Parameter)
        return {**(node or {}), "t": "shared", "i": self._count, "rg": value.requires_grad, "p": parameter}

    def end(self, head: Node, encoder: Encoder, crossing: Crossing | None) -> None:
        """Put into an answer what T needs beside the value."""
        if crossing is not None and crossing.outputs:
            inputs = [crossing.inputs[place] for place in sorted(crossing.inputs)]
            leaves = list(_leaves(crossing.outputs, {id(tensor) for tensor in inputs}))
            self._count += 1
            self._graphs[self._count] = Graph(list(crossing.outputs), [*inputs, *leaves])
            head["graph"] = self._count
            head["outputs"] = [encode_tensor(encoder, tensor) for tensor in crossing.outputs]
            head["leaves"] = [self._known(encoder, leaf) for leaf in leaves]
        if changed := self._book.changes(encoder.blobs):
            head["shared"] = changed

    def _known(self, encoder: Encoder, leaf: Any) -> Node:
        number = self._book.number(leaf)
        return self._share(encoder, leaf) if number is None else {"t": "shared", "i": number}

    def backward(self, number: int, gradients: list[Any]) -> list[Any]:
        """Return the gradients of a graph's inputs."""
        torch = sys.modules["torch"]
        graph = self._graphs[number]
        pairs = [(out, grad) for out, grad in zip(graph.outputs, gradients, strict=True) if grad is not None]
        outputs, wanted = [out for out, _ in pairs], [grad for _, grad in pairs]
        with torch.enable_grad():
            found = torch.autograd.grad(outputs, graph.inputs, wanted, allow_unused=True, retain_graph=True)
        return [None if grad is None else plain_copy(grad) for grad in found]


def _set_mode(mode: Any) -> None:
    """Take over T's switches: whether gradients are recorded, and the default dtype."""
    if mode is None or ("torch" not in sys.modules and mode == _USUAL_MODE):
        return
    import torch

    torch.set_grad_enabled(mode[0])
    torch.set_default_dtype(getattr(torch, mode[1]))


def _furnish(tensor: Any, node: Node) -> Any:
    torch = sys.modules["torch"]
    wants = bool(node.get("rg"))
    return torch.nn.Parameter(tensor, requires_grad=wants) if node.get("p") else tensor.requires_grad_(wants)


def _no_leaf(leaf: Any) -> Any:
    """Return the same values as the result of an operation: in T the tensor is one, and may be changed in place."""
    with sys.modules["torch"].enable_grad():
        return leaf.clone()


def _leaves(outputs: list[Any], known: set[int]) -> Iterator[Any]:
    """Yield the leaves of the outputs' graph that are not known."""
    waiting, seen = [tensor.grad_fn for tensor in outputs], set()
    yield from (tensor for tensor in outputs if tensor.grad_fn is None and id(tensor) not in known)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            known.add(id(leaf))
            yield leaf
        waiting += [before for before, _ in node.next_functions]
