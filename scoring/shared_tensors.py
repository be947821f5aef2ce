"""Tensors that both sides know by number: parameters and attributes of the candidate, and what a test shares on purpose.

Each side compares what it has with what the other side last saw, value and gradient, byte by byte (a NaN equals itself),
and sends what changed along with the next frame. A shared tensor never changes its shape or dtype. This file also
runs inside sandboxes: standard library only, torch only where a tensor is at hand or was announced.
"""

from typing import Any

from rcb_agent.scoring.tensors import bytes_of, describe, read_tensor
from rcb_agent.scoring.values import Decoder, Node, expect
from rcb_agent.scoring.wire import WireError

MOST_TENSORS = 20_000


class TensorBook:
    """The shared tensors of one side. They stay alive, so that an id stays its own."""

    def __init__(self) -> None:
        self._tensors: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, tuple[bytes, bytes | None]] = {}

    def __getitem__(self, number: int) -> Any:
        return self._tensors[number]

    def __len__(self) -> int:
        return len(self._tensors)

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor that is shared."""
        return self._numbers.get(id(tensor))

    def add(self, number: int, tensor: Any) -> None:
        """Share a tensor whose value and gradient the other side has, or gets with this frame."""
        if len(self._tensors) >= MOST_TENSORS:
            raise WireError(f"more than {MOST_TENSORS} tensors are shared")
        self._tensors[number] = tensor
        self._numbers[id(tensor)] = number
        self._seen[number] = _state(tensor)

    def holds(self, number: int) -> bool:
        """Say whether a number is taken."""
        return number in self._tensors

    def changes(self, blobs: list[bytes]) -> list[Node]:
        """Return what the other side has not seen; the bytes go into ``blobs``."""
        changed = []
        for number, tensor in self._tensors.items():
            state = _state(tensor)
            if state == self._seen[number]:
                continue
            node: Node = {"i": number, **describe(tensor)}
            if state[0] != self._seen[number][0]:
                blobs.append(state[0])
                node["k"] = len(blobs) - 1
            if state[1] != self._seen[number][1]:
                node["grad"] = None if state[1] is None else len(blobs)
                blobs += [] if state[1] is None else [state[1]]
            self._seen[number] = state
            changed.append(node)
        return changed

    def take(self, changed: Any, decoder: Decoder) -> None:
        """Take over what the other side changed. Raises WireError for a tensor that is not shared or became another."""
        for node in expect(changed, list):
            number = expect(expect(node, dict)["i"], int)
            if number not in self._tensors:
                raise WireError("a change of a tensor that is not shared")
            tensor = self._tensors[number]
            if describe(tensor) != {"d": node["d"], "s": node["s"]}:
                raise WireError("a shared tensor changed its shape or dtype")
            if "k" in node:
                tensor.data.copy_(read_tensor(decoder, node))
            if "grad" in node:
                blob = node["grad"]
                tensor.grad = None if blob is None else read_tensor(decoder, {**node, "k": blob})
            self._seen[number] = _state(tensor)


def _state(tensor: Any) -> tuple[bytes, bytes | None]:
    grad = tensor.grad if tensor.is_leaf else None
    return bytes_of(tensor.detach().contiguous()), None if grad is None else bytes_of(grad.detach().contiguous())
