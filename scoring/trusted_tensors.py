"""Tensors in T: mirrors of those the candidate owns, and gradients that are asked for across the pipe.

A mirror keeps its identity, so that an optimizer of the test holds on to it; what the test does to it is sent along with
the next request, what the candidate does to its own comes back with the answer. A result that carries a graph is the
output of a function whose backward pass asks C. Everything is rebuilt from bytes; a gradient must have the shape and
dtype of what it belongs to. This file also runs inside sandboxes: standard library only, torch only where it is used.
"""

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.scoring.shared_tensors import TensorBook
from rcb_agent.scoring.tensors import encode_tensor, holds_numbers, is_tensor, read_tensor
from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.values import Decoder, Encoder, Node, expect
from rcb_agent.scoring.wire import OverLimit, WireError

MOST_GRAPHS, MOST_IN_GRAPH = 20_000, 10_000

AskGradients = Callable[[int, list[int], tuple[Any, ...]], Any]


@dataclass(slots=True)
class Outgoing:
    """One request: whether its tensors become shared ones, and those that want a gradient, in order."""

    shares: bool = False
    inputs: list[Any] | None = None


@dataclass(slots=True)
class Incoming:
    """One answer: by which name the test asked for it; whether it may hold shared tensors, and holds one; its graph's
    outputs, once they are there."""

    name: str = ""
    may_be_live: bool = False
    is_live: bool = False
    outputs: list[Any] = field(default_factory=list)


class _Token:
    """Lives as long as somebody may ask for a graph's gradients."""


class TrustedTensors:
    """The tensors of the trusted side."""

    def __init__(self) -> None:
        self._book = TensorBook(guards_own=True)
        self._own = 0
        self._mode: list[Any] | None = None
        self._dead_graphs: set[int] = set()
        self._graphs = 0
        self._names: dict[int, str] = {}
        self._named: dict[str, int] = {}
        self._of_unnamed: dict[int, Any] = {}
        self._gradients: list[tuple[str, Any]] = []

    def begin(self, head: Node, blobs: list[bytes]) -> None:
        """Put into a request, or a callback's answer, what C has not seen of T's tensors and switches."""
        if (torch := _torch()) is None:
            return
        mode = [torch.is_grad_enabled(), str(torch.get_default_dtype()).removeprefix("torch.")]
        if mode != self._mode:
            self._mode = head["mode"] = mode
        if changed := self._book.changes(blobs):
            head["shared"] = changed
        if self._dead_graphs:
            head["graphs"] = [self._dead_graphs.pop() for _ in range(len(self._dead_graphs))]
        self._graphs -= len(head.get("graphs", ()))

    def write(self, encoder: Encoder, value: Any, outgoing: Outgoing) -> Node | None:
        """Return the node of a tensor, or None for anything else."""
        if not is_tensor(value) or not holds_numbers(value):
            return encode_tensor(encoder, value)
        number = self._book.number(value)
        if number is not None:
            node: Node = {"t": "shared", "i": number}
        else:
            node = encode_tensor(encoder, value) or {}
            parameter = isinstance(value, sys.modules["torch"].nn.Parameter)
            node |= {"rg": value.requires_grad, "p": parameter, "leaf": value.is_leaf}
            if outgoing.shares and value.is_leaf:
                node |= {"t": "shared", "i": self._share(value)}
        if outgoing.inputs is not None and value.requires_grad and sys.modules["torch"].is_grad_enabled():
            node["x"] = len(outgoing.inputs)
            outgoing.inputs.append(value)
        return node

    def _share(self, value: Any) -> int:
        self._own += 1
        self._book.add(-self._own, value)
        return -self._own

    def read(self, decoder: Decoder, node: Node, incoming: Incoming) -> Any:
        """Return the tensor of a node that is no plain value: a shared one, or an output."""
        if node["t"] == "output":
            place = expect(node["o"], int)
            if not 0 <= place < len(incoming.outputs):
                raise WireError("an output that is not there")
            return incoming.outputs[place]
        if not incoming.may_be_live:
            raise WireError("a shared tensor where the gold code has none")
        incoming.is_live = True
        found = self._find(decoder, node)
        if node["i"] not in self._names:  # by what the test asked for: the candidate's own numbers say nothing
            self._named[incoming.name] = ordinal = self._named.get(incoming.name, 0) + 1
            self._names[node["i"]] = f"{incoming.name} {ordinal}"
            if (gradient := self._of_unnamed.pop(node["i"], None)) is not None:
                self.note_gradient(node["i"], gradient)
        return found

    def _find(self, decoder: Decoder, node: Node) -> Any:
        number = expect(node["i"], int)
        if not self._book.holds(number):
            if number <= 0:
                raise WireError("a shared tensor nobody knows")
            with _claims():
                self._book.add(number, _build_mirror(decoder, node))
        return self._book[number]

    def take(self, changed: Any, decoder: Decoder, *, at_once: bool) -> list[tuple[str, Any]]:
        """Take over what C changed in shared tensors, at once or when the next change is taken at once.

        Return values and gradients that changed, by the names under which the test came to the tensors.
        """
        with _claims():
            taken = self._book.take(changed, decoder, at_once=at_once)
        found: list[tuple[str, Any]] = []
        for number in taken:
            if name := f"argument {-number}" if number < 0 else self._names.get(number, ""):
                tensor = self._book[number]
                found += [(name, tensor), *([] if tensor.grad is None else [(f"{name} gradient", tensor.grad)])]
        return sorted(found, key=lambda pair: pair[0])

    def note_gradient(self, number: int, gradient: Any) -> None:
        """Keep what a backward pass of the test's gave one of C's tensors, under the name by which the test comes to it."""
        if not is_tensor(gradient) or not bool(gradient.count_nonzero()):
            return  # none and zero are the same to whoever adds it up
        if name := self._names.get(number, ""):
            self._gradients.append((f"{name} backward", gradient))
            return
        known = self._of_unnamed.get(number)
        fits = known is not None and known.shape == gradient.shape
        self._of_unnamed[number] = known + gradient if fits else gradient

    def take_gradients(self) -> list[tuple[str, Any]]:
        """Return, once, what was noted of gradients since the last time."""
        taken, self._gradients = sorted(self._gradients, key=lambda pair: pair[0]), []
        return taken

    def attach(self, answer: Node, decoder: Decoder, inputs: list[Any], ask: AskGradients) -> list[Any]:
        """Return the outputs of an answer's graph, joined to T's own tensors and to mirrors of C's."""
        if "graph" not in answer:
            return []
        self._graphs += 1
        with _claims():
            number = expect(answer["graph"], int)
            if self._graphs > MOST_GRAPHS or _sizes_of(answer) > MOST_IN_GRAPH:
                raise OverLimit(f"more than {MOST_GRAPHS} graphs, or than {MOST_IN_GRAPH} tensors in one")
            values = [_read_output(decoder, node) for node in expect(answer.get("outputs"), list)]
            leaves = [self._find(decoder, _shared_node(node)) for node in expect(answer.get("leaves"), list)]
        token = _Token()
        weakref.finalize(token, self._dead_graphs.add, number).atexit = False
        joined = [*inputs, *leaves]
        numbers = [expect(node["i"], int) for node in answer["leaves"]]
        return _join(values, joined, token, lambda grads: _checked(ask(number, numbers, grads), joined))


def _torch() -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "get_default_dtype") else None


@contextmanager
def _claims() -> Iterator[None]:
    """Whatever goes wrong while C's words are read is C's fault."""
    try:
        yield
    except (
        AttributeError,
        ImportError,
        IndexError,
        KeyError,
        OverflowError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise WireError(f"not a tensor: {type(error).__name__}") from None


def _read_output(decoder: Decoder, node: Any) -> Any:
    value = read_tensor(decoder, expect(node, dict))
    if not (value.is_floating_point() or value.is_complex()):
        raise WireError("an output that can have no gradient")
    return value


def _sizes_of(answer: Node) -> int:
    return len(expect(answer.get("outputs"), list)) + len(expect(answer.get("leaves"), list))


def _shared_node(node: Any) -> Node:
    if type(node) is not dict or node.get("t") != "shared":
        raise WireError("a leaf that is not shared")
    return node


def _build_mirror(decoder: Decoder, node: Node) -> Any:
    value = read_tensor(decoder, node)
    import torch

    wants = expect(node["rg"], bool) and (value.is_floating_point() or value.is_complex())
    mirror = torch.nn.Parameter(value, requires_grad=wants) if expect(node["p"], bool) else value.requires_grad_(wants)
    if node.get("grad") is not None:
        mirror.grad = read_tensor(decoder, expect(node["grad"], dict))
    return mirror


def _join(values: list[Any], inputs: list[Any], token: _Token, ask: Callable[[tuple[Any, ...]], Any]) -> list[Any]:
    """Return the values as outputs of a function of the inputs, whose gradients are asked for."""
    import torch

    class Remote(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *_: Any) -> tuple[Any, ...]:
            ctx.token = token
            ctx.set_materialize_grads(False)
            return tuple(value.clone() for value in values)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(_: Any, *gradients: Any) -> tuple[Any, ...]:
            return (*ask(gradients), None)

    anchor = torch.zeros(1, requires_grad=True)  # a graph whose inputs are all constant still has a backward pass
    with torch.enable_grad():
        return list(Remote.apply(*inputs, anchor))


def _checked(gradients: Any, inputs: list[Any]) -> list[Any]:
    if type(gradients) is not list or len(gradients) != len(inputs):
        raise RemoteError("the candidate's process answered with too few gradients")
    return [None if one is None else _fitted(one, tensor) for one, tensor in zip(gradients, inputs, strict=True)]


def _fitted(gradient: Any, tensor: Any) -> Any:
    """Return a gradient in its tensor's dtype: the candidate may compute in a wider or narrower float."""
    if not is_tensor(gradient) or gradient.shape != tensor.shape:
        raise RemoteError("a gradient has another shape than its tensor")
    if gradient.dtype != tensor.dtype and not (gradient.is_floating_point() and tensor.is_floating_point()):
        raise RemoteError("a gradient has another dtype than its tensor")
    return gradient.to(tensor.dtype)
