"""How values cross between the two sides: JSON nodes for structure, raw blobs for arrays. No pickle.

A node is a dict with the tag ``t``. Only exact base types are values; the receiving side builds every object anew,
so nothing of the sender's classes, operators or memory comes along. Whatever is no plain value (handles, the other
side's callables, exception classes) goes through a hook each side brings. Decoding anything raises WireError or
returns; a blob may be used once, so that a small frame cannot become a large value.
"""

import math
import sys
from collections.abc import Callable
from typing import Any

from rcb_agent.scoring.wire import WireError

Node = dict[str, Any]

MAX_DEPTH = 32
MAX_NODES = 200_000
MAX_STRING = 1 << 20
MAX_INT_BITS = 4096
MAX_DIMENSIONS = 32

INTS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = frozenset({"bool", *INTS, "float16", "float32", "float64", "complex64", "complex128"})
_WIDE = {"longdouble": "float64", "clongdouble": "complex128", "float128": "float64", "complex256": "complex128"}
BUILTIN_TYPES = {
    kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
}
_SIMPLE_KEYS = (type(None), bool, int, float, complex, str, bytes)


class Encoder:
    """Writes values as nodes and collects their blobs; ``other`` writes what is no plain value."""

    def __init__(self, other: Callable[["Encoder", Any, int], Node]) -> None:
        self.blobs: list[bytes] = []
        self._other = other
        self._nodes = 0

    def encode(self, value: Any, depth: int = 0) -> Node:
        """Return the node of a value."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise WireError("a value is too deep or too large to cross")
        writer = _WRITERS.get(type(value))
        if writer is not None:
            return writer(self, value, depth)
        return self._numpy(value) or self._other(self, value, depth)

    def items(self, tag: str, values: Any, depth: int) -> Node:
        """Return a node that holds several values."""
        return {"t": tag, "v": [self.encode(value, depth + 1) for value in values]}

    def members(self, tag: str, value: Any, depth: int) -> Node:
        """Return the node of a set; one whose members are no plain values is no plain value itself."""
        if all(_is_simple_key(member) for member in value):
            return self.items(tag, value, depth)
        return self._other(self, value, depth)

    def array(self, value: Any) -> Node:
        """Return the node of a numpy array or scalar of numbers."""
        import numpy as np

        name = _WIDE.get(value.dtype.name, value.dtype.name)
        if name not in DTYPES:
            raise WireError(f"an array of dtype {value.dtype.name} cannot cross")
        tag = "array" if isinstance(value, np.ndarray) else "scalar"
        plain = np.asarray(value).astype(np.dtype(name).newbyteorder("<"), copy=False)
        self.blobs.append(plain.tobytes())
        return {"t": tag, "d": name, "s": list(plain.shape), "k": len(self.blobs) - 1}

    def mapping(self, value: dict[Any, Any], depth: int) -> Node:
        """Return the node of a dict; one with keys that are no plain values is no plain value itself."""
        if not all(_is_simple_key(key) for key in value):
            return self._other(self, value, depth)
        pairs = [[self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in value.items()]
        return {"t": "dict", "v": pairs}

    def _numpy(self, value: Any) -> Node | None:
        np = sys.modules.get("numpy")
        if np is None:
            return None
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
            return self.array(value)
        if isinstance(value, np.dtype) and value.name in DTYPES:
            return {"t": "dtype", "v": value.name}
        if isinstance(value, type) and issubclass(value, np.generic) and value.__name__.rstrip("_") in DTYPES:
            return {"t": "type", "v": f"numpy.{np.dtype(value).name}"}
        return None


def _is_simple_key(key: Any) -> bool:
    if type(key) is tuple:
        return all(_is_simple_key(part) for part in key)
    np = sys.modules.get("numpy")
    return type(key) in _SIMPLE_KEYS or (np is not None and isinstance(key, np.bool_ | np.number))


def _write_int(_: Encoder, value: int, __: int) -> Node:
    if value.bit_length() > MAX_INT_BITS:
        raise WireError("an int is too large to cross")
    return {"t": "int", "v": value}


def _write_string(_: Encoder, value: str, __: int) -> Node:
    if len(value) > MAX_STRING:
        raise WireError("a string is too long to cross")
    return {"t": "str", "v": value}


def _write_bytes(encoder: Encoder, value: bytes, _: int) -> Node:
    encoder.blobs.append(value)
    return {"t": "bytes", "k": len(encoder.blobs) - 1}


def _write_type(encoder: Encoder, value: type, depth: int) -> Node:
    if BUILTIN_TYPES.get(value.__name__) is value:
        return {"t": "type", "v": f"builtins.{value.__name__}"}
    return encoder._numpy(value) or encoder._other(encoder, value, depth)  # noqa: SLF001 (a writer is part of it)


_WRITERS: dict[type, Callable[[Encoder, Any, int], Node]] = {
    type(None): lambda _, __, ___: {"t": "none"},
    bool: lambda _, value, __: {"t": "bool", "v": value},
    int: _write_int,
    float: lambda _, value, __: {"t": "float", "v": value.hex()},
    complex: lambda _, value, __: {"t": "complex", "v": [value.real.hex(), value.imag.hex()]},
    str: _write_string,
    bytes: _write_bytes,
    list: lambda encoder, value, depth: encoder.items("list", value, depth),
    tuple: lambda encoder, value, depth: encoder.items("tuple", value, depth),
    set: lambda encoder, value, depth: encoder.members("set", value, depth),
    frozenset: lambda encoder, value, depth: encoder.members("frozenset", value, depth),
    dict: lambda encoder, value, depth: encoder.mapping(value, depth),
    slice: lambda encoder, value, depth: encoder.items("slice", (value.start, value.stop, value.step), depth),
    type(...): lambda _, __, ___: {"t": "ellipsis"},
    type: _write_type,
}


class Decoder:
    """Builds values from the nodes of one frame; ``other`` builds what is no plain value, ``iterator`` what an iterator becomes."""

    def __init__(
        self,
        blobs: list[bytes],
        other: Callable[["Decoder", str, Node, int], Any],
        iterator: Callable[[list[Any]], Any] = iter,
    ) -> None:
        self._blobs: list[bytes | None] = list(blobs)
        self._other = other
        self.iterator = iterator
        self._nodes = 0

    def decode(self, node: Any, depth: int = 0) -> Any:
        """Return the value of a node; raises WireError on anything that is none."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise WireError("a value is too deep or too large")
        if type(node) is not dict or type(node.get("t")) is not str:
            raise WireError("not a value")
        reader = _READERS.get(node["t"])
        try:
            return reader(self, node, depth) if reader else self._other(self, node["t"], node, depth)
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, ImportError) as error:
            raise WireError(f"not a value: {type(error).__name__}") from None

    def items(self, node: Node, depth: int) -> list[Any]:
        """Return the values that a node holds."""
        return [self.decode(item, depth + 1) for item in expect(node["v"], list)]

    def blob(self, node: Node) -> bytes:
        """Return the blob a node names, once."""
        index: int = expect(node["k"], int)
        blob = self._blobs[index] if index >= 0 else None
        if blob is None:
            raise WireError("a blob is used twice or missing")
        self._blobs[index] = None
        return blob


def expect(value: Any, kind: type) -> Any:
    """Return ``value`` if it is exactly of a type, else raise WireError."""
    if type(value) is not kind:
        raise WireError(f"expected {kind.__name__}")
    return value


def _read_int(_: Decoder, node: Node, __: int) -> int:
    value: int = expect(node["v"], int)
    if value.bit_length() > MAX_INT_BITS:
        raise WireError("an int is too large")
    return value


def _read_string(_: Decoder, node: Node, __: int) -> str:
    value: str = expect(node["v"], str)
    if len(value) > MAX_STRING:
        raise WireError("a string is too long")
    return value


def _read_complex(_: Decoder, node: Node, __: int) -> complex:
    real, imaginary = expect(node["v"], list)
    return complex(float.fromhex(real), float.fromhex(imaginary))


def _read_set(decoder: Decoder, node: Node, depth: int) -> set[Any]:
    items = decoder.items(node, depth)
    if not all(_is_simple_key(item) for item in items) or len(set(items)) != len(items):
        raise WireError("not the members of a set")
    return set(items)


def _read_dict(decoder: Decoder, node: Node, depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for pair in expect(node["v"], list):
        key_node, item_node = expect(pair, list)
        key = decoder.decode(key_node, depth + 1)
        if not _is_simple_key(key) or key in result:
            raise WireError("not a dict's key")
        result[key] = decoder.decode(item_node, depth + 1)
    return result


def read_array(decoder: Decoder, node: Node, _: int = 0) -> Any:
    """Return a numpy array of dtype ``d``, shape ``s`` and blob ``k``. Raises WireError."""
    import numpy as np

    name, shape = expect(node["d"], str), expect(node["s"], list)
    if name not in DTYPES or len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise WireError("not an array")
    dtype, blob = np.dtype(name), decoder.blob(node)
    if math.prod(shape) * dtype.itemsize != len(blob):
        raise WireError("an array's size does not fit its shape")
    flat = np.frombuffer(blob, dtype=dtype.newbyteorder("<")).astype(dtype)
    if name == "bool":  # a byte other than 0 and 1 would make a bool that is neither
        flat = np.frombuffer(blob, dtype="uint8") != 0
    return flat.reshape(shape)


def _read_type(_: Decoder, node: Node, __: int) -> type:
    home, _dot, name = expect(node["v"], str).partition(".")
    if home == "builtins":
        return BUILTIN_TYPES[name]
    if home != "numpy" or name not in DTYPES:
        raise WireError("not a type that may cross")
    kind: type = _dtype(name).type
    return kind


def _dtype(name: str) -> Any:
    import numpy as np

    if name not in DTYPES:
        raise WireError("not a dtype")
    return np.dtype(name)


_READERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "none": lambda _, __, ___: None,
    "bool": lambda _, node, __: expect(node["v"], bool),
    "int": _read_int,
    "float": lambda _, node, __: float.fromhex(node["v"]),
    "complex": _read_complex,
    "str": _read_string,
    "bytes": lambda decoder, node, _: decoder.blob(node),
    "list": lambda decoder, node, depth: decoder.items(node, depth),
    "tuple": lambda decoder, node, depth: tuple(decoder.items(node, depth)),
    "iterator": lambda decoder, node, depth: decoder.iterator(decoder.items(node, depth)),
    "set": _read_set,
    "frozenset": lambda decoder, node, depth: frozenset(_read_set(decoder, node, depth)),
    "dict": _read_dict,
    "slice": lambda decoder, node, depth: slice(*decoder.items(node, depth)),
    "ellipsis": lambda _, __, ___: ...,
    "array": read_array,
    "scalar": lambda decoder, node, depth: read_array(decoder, node, depth)[()],
    "dtype": lambda _, node, __: _dtype(expect(node["v"], str)),
    "type": _read_type,
}
