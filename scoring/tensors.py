"""How torch's values cross: tensors as raw bytes, sizes, dtypes and devices by name. Values only: no graph, no identity.

A tensor arrives as a contiguous ``torch.Tensor`` of its own, without history, whatever class, layout or device the
sender had; a tensor that holds no numbers (meta, sparse, quantised, nested) is no value. This file also runs inside
sandboxes: standard library only, torch only where a value of torch's is at hand or was announced.
"""

import ctypes
import math
import re
import sys
from collections.abc import Callable
from typing import Any

from rcb_agent.scoring.values import MAX_DIMENSIONS, Decoder, Encoder, Node, expect
from rcb_agent.scoring.wire import WireError

_compare = ctypes.CDLL(None).memcmp
_compare.argtypes, _compare.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t), ctypes.c_int
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu)(:\d{1,2})?")
DTYPES = frozenset(
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()  # noqa: SIM905
)


def encode_tensor(encoder: Encoder, value: Any) -> Node | None:
    """Return the node of a tensor, size, dtype or device, or None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor"):  # not there, or its import has not ended
        return None
    if isinstance(value, torch.Tensor):
        return _write_tensor(encoder, value)
    if type(value) is torch.Size:
        return {"t": "size", "v": list(value)}
    if type(value) is torch.dtype and _name_of(value) in DTYPES:
        return {"t": "torch_dtype", "v": _name_of(value)}
    if type(value) is torch.device:
        return {"t": "device", "v": str(value)}
    return None


def is_tensor(value: Any) -> bool:
    """Say whether a value is a tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def bytes_of(tensor: Any) -> bytes:
    """Return the bytes of a contiguous tensor on the CPU; numpy need not be installed for it."""
    size = tensor.numel() * tensor.element_size()
    return ctypes.string_at(tensor.data_ptr(), size) if size else b""


def has_bytes(tensor: Any, data: bytes) -> bool:
    """Say whether these are the bytes of a contiguous tensor on the CPU, without a copy of them."""
    size = tensor.numel() * tensor.element_size()
    return size == len(data) and (not size or _compare(tensor.data_ptr(), data, size) == 0)


def byte_tensor(data: bytes) -> Any:
    """Return a tensor of bytes."""
    import torch

    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def holds_numbers(value: Any) -> bool:
    """Say whether a tensor is one whose numbers can cross; raises WireError for an unusual dtype."""
    torch = sys.modules["torch"]
    if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
        return False
    if _name_of(value.dtype) not in DTYPES:
        raise WireError(f"a tensor of dtype {value.dtype} cannot cross")
    return True


def describe(value: Any) -> Node:
    """Return dtype and shape of a tensor."""
    return {"d": _name_of(value.dtype), "s": list(value.shape)}


def plain_copy(value: Any) -> Any:
    """Return the numbers of a tensor, contiguous, on the CPU and without history; a sparse gradient becomes dense."""
    dense = value.detach() if value.layout is sys.modules["torch"].strided else value.detach().to_dense()
    return dense.cpu().resolve_conj().resolve_neg().contiguous()


def _write_tensor(encoder: Encoder, value: Any) -> Node | None:
    if not holds_numbers(value):
        return None
    plain = plain_copy(value)
    encoder.blobs.append(bytes_of(plain))
    return {"t": "tensor", **describe(plain), "k": len(encoder.blobs) - 1}


def read_tensor(decoder: Decoder, node: Node, _: int = 0) -> Any:
    """Return a tensor of dtype ``d``, shape ``s`` and blob ``k``. Raises WireError."""
    name, shape = expect(node["d"], str), expect(node["s"], list)
    if name not in DTYPES or len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("not a tensor")
    import torch

    dtype, blob = getattr(torch, name), decoder.blob(node)
    if math.prod(shape) * dtype.itemsize != len(blob):
        raise WireError("a tensor's size does not fit its shape")
    if not blob:
        return _sized(lambda: torch.empty(shape, dtype=dtype, device="cpu"))
    if name == "bool":  # a byte other than 0 and 1 would make a bool that is neither
        return byte_tensor(blob).ne(0).reshape(shape)
    value = torch.empty(shape, dtype=dtype, device="cpu")  # whatever the default is: "meta" has no memory to write to
    ctypes.memmove(value.data_ptr(), blob, len(blob))
    return value


def _sized(make: Callable[[], Any]) -> Any:
    """Make a tensor of a shape the other side named; one with a zero may still overflow in its other sizes."""
    try:
        return make()
    except RuntimeError:
        raise WireError("not a tensor's shape") from None


def _read_size(_: Decoder, node: Node, __: int) -> Any:
    sizes = expect(node["v"], list)
    if len(sizes) > MAX_DIMENSIONS or not all(type(size) is int and 0 <= size < 1 << 62 for size in sizes):
        raise WireError("not a size")
    import torch

    return torch.Size(sizes)


def _read_dtype(_: Decoder, node: Node, __: int) -> Any:
    if expect(node["v"], str) not in DTYPES:
        raise WireError("not a dtype")
    import torch

    return getattr(torch, node["v"])


def _read_device(_: Decoder, node: Node, __: int) -> Any:
    """Everything is on the CPU here; on the device ``meta`` nothing has a value, so that everything would be equal."""
    if not _DEVICE.fullmatch(expect(node["v"], str)):
        raise WireError("not a device")
    import torch

    return torch.device(node["v"])


BUILDERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "tensor": read_tensor,
    "size": _read_size,
    "torch_dtype": _read_dtype,
    "device": _read_device,
}
