"""Tensors that both sides know by number: parameters and attributes of the candidate, and what a test shares on purpose.

Each side compares what it has with what the other side last saw, value and gradient, byte by byte (a NaN equals itself),
and sends what changed along with the next frame. One of the candidate's may change its dtype or shape (``model.double()``),
one of the test's never. This file also runs inside sandboxes: standard library only, torch only where a tensor is at hand or was announced.
"""

from dataclasses import dataclass
from typing import Any

from rcb_agent.scoring.tensors import bytes_of, describe, has_bytes, plain_copy, read_tensor
from rcb_agent.scoring.values import Decoder, Node, expect
from rcb_agent.scoring.wire import OverLimit, WireError

MOST_TENSORS = 20_000
MOST_BYTES = 384 << 20

Change = dict[str, Any]


class TensorBook:
    """The shared tensors of one side. They stay alive, so that an id stays its own.

    T's must also outlive the test's use of them: a parameter that is read again is then what T knew of it, and not what
    the candidate made of it meanwhile.

    Positive numbers are given by C to its own, negative ones by T to those of the test, whose dtype, shape and wish for a
    gradient the other side cannot change where ``guards_own`` is set.
    """

    def __init__(self, *, guards_own: bool = False) -> None:
        self._guards_own = guards_own
        self._tensors: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, State] = {}
        self._homes: dict[int, int] = {}
        self._waiting: dict[int, Change] = {}
        self._bytes = 0

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
            raise OverLimit(f"more than {MOST_TENSORS} tensors are shared")
        self._bytes += tensor.numel() * tensor.element_size()
        if self._bytes > MOST_BYTES:
            raise OverLimit(f"shared tensors of more than {MOST_BYTES} bytes")
        self._tensors[number] = tensor
        self._homes[number] = tensor.data_ptr()
        self._numbers[id(tensor)] = number
        self._seen[number] = _state(tensor)

    def holds(self, number: int) -> bool:
        """Say whether a number is taken."""
        return number in self._tensors

    def changes(self, blobs: list[bytes]) -> list[Node]:
        """Return what the other side has not seen; the bytes go into ``blobs``."""
        changed = []
        for number, tensor in self._tensors.items():
            seen = self._seen[number]
            if _is_as_seen(tensor, seen):
                continue
            state = _state(tensor)
            node: Node = {"i": number, **describe(tensor)}
            if (state.value, state.kind) != (seen.value, seen.kind):
                blobs.append(state.value)
                node["k"] = len(blobs) - 1
            if state.grad != seen.grad:
                node["grad"] = None if state.grad is None else len(blobs)
                blobs += [] if state.grad is None else [state.grad]
            if state.wants_grad != seen.wants_grad:
                node["rg"] = state.wants_grad
            self._seen[number] = state
            changed.append(node)
        return changed

    def take(self, changed: Any, decoder: Decoder, *, at_once: bool = True) -> list[int]:
        """Take over what the other side changed, with what waits from before; or let it wait. Return whose it was.

        Raises WireError for a tensor that is not shared or became another.
        """
        for node in expect(changed, list):
            number = expect(expect(node, dict)["i"], int)
            if number not in self._tensors:
                raise WireError("a change of a tensor that is not shared")
            waiting = self._waiting.setdefault(number, {})
            waiting |= _read_change(self._tensors[number], node, decoder, is_own=self._guards_own and number < 0)
        taken = sorted(self._waiting) if at_once else []
        for number in taken:
            self._change(number, self._waiting.pop(number))
        return taken

    def _change(self, number: int, change: Change) -> None:
        """Write into a tensor only what is its own: a test may have bound it to memory of something else."""
        tensor = self._tensors[number]
        if (value := change.get("value")) is not None:
            if value.shape != tensor.shape or value.dtype != tensor.dtype:
                tensor.grad = None
            if value.shape == tensor.shape and value.dtype == tensor.dtype and tensor.data_ptr() == self._homes[number]:
                tensor.data.copy_(value)
            else:
                tensor.data = value
            self._homes[number] = tensor.data_ptr()
        if "rg" in change:
            tensor.requires_grad_(change["rg"])
        if "grad" in change:
            tensor.grad = None if change["grad"] is None else change["grad"].to(tensor.dtype)
        self._seen[number] = _state(tensor)


def _read_change(tensor: Any, node: Node, decoder: Decoder, *, is_own: bool) -> Change:
    """Return value, gradient and whether one is wanted; what belongs to this side keeps its dtype and shape."""
    change: Change = {"value": read_tensor(decoder, node)} if "k" in node else {}
    if is_own and describe(tensor) != {"d": node["d"], "s": node["s"]}:
        raise WireError("a shared tensor changed its shape or dtype")
    if "rg" in node:
        if is_own:
            raise WireError("a shared tensor of the other side")
        change["rg"] = expect(node["rg"], bool)
    if "grad" in node:
        blob = node["grad"]
        change["grad"] = None if blob is None else read_tensor(decoder, {**node, "k": blob})
    return change


@dataclass(frozen=True, slots=True)
class State:
    """What the other side last saw of a tensor; ``kind`` is dtype and shape."""

    kind: tuple[Any, Any]
    value: bytes
    grad: bytes | None
    wants_grad: bool


def _state(tensor: Any) -> State:
    grad = tensor.grad if tensor.is_leaf else None
    return State(
        (tensor.dtype, tensor.shape),
        bytes_of(plain_copy(tensor)),
        None if grad is None else bytes_of(plain_copy(grad)),
        tensor.requires_grad,
    )


def _is_as_seen(tensor: Any, seen: State) -> bool:
    """Say whether nothing has changed. All that is shared is looked at with every frame: it is compared where it lies."""
    if (tensor.dtype, tensor.shape) != seen.kind or tensor.requires_grad != seen.wants_grad:
        return False
    grad = tensor.grad if tensor.is_leaf else None
    if grad is None or seen.grad is None:
        return grad is seen.grad and has_bytes(plain_copy(tensor), seen.value)
    return has_bytes(plain_copy(tensor), seen.value) and has_bytes(plain_copy(grad), seen.grad)
