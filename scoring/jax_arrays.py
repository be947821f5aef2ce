"""How jax's arrays cross: by value, both ways, as numpy's do; random keys by what they hold. This file also runs inside
sandboxes: standard library only, jax only where an array of its is at hand or was announced.
"""

import sys
from collections.abc import Callable
from typing import Any

from rcb_agent.scoring.values import Decoder, Encoder, Node, expect, read_array
from rcb_agent.scoring.wire import WireError

_KEYS = ("threefry2x32", "rbg", "unsafe_rbg")


def is_jax_array(value: Any) -> bool:
    """Say whether a value is an array of jax's, without importing jax."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, getattr(jax, "Array", ()))


def encode_jax(encoder: Encoder, value: Any) -> Node | None:
    """Return the node of an array or a random key, or None for anything else. A tracer has no value to cross."""
    if not is_jax_array(value):
        return None
    import jax
    import numpy as np

    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = encoder.array(np.asarray(jax.random.key_data(value)))
        return {"t": "jax_key", "n": str(jax.random.key_impl(value)), "v": data}
    return {**encoder.array(np.asarray(value)), "t": "jax"}


def _read_jax(decoder: Decoder, node: Node, depth: int) -> Any:
    array = read_array(decoder, node, depth)
    import jax.numpy as jnp

    return jnp.asarray(array)


def _read_key(decoder: Decoder, node: Node, depth: int) -> Any:
    name, data = expect(node["n"], str), decoder.decode(node["v"], depth + 1)
    if name not in _KEYS or getattr(data, "dtype", None) != "uint32" or not data.size or data.size > 1 << 16:
        raise WireError("not a random key")
    import jax

    return jax.random.wrap_key_data(data, impl=name)


BUILDERS: dict[str, Callable[[Decoder, Node, int], Any]] = {"jax": _read_jax, "jax_key": _read_key}
