"""Changes one thing in an honest frame, at random. Standard library only: it also runs in a runtime's Python."""

import random
from copy import deepcopy
from typing import Any

POOL: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    2,
    7,
    1 << 40,
    1 << 5000,
    "",
    "x",
    "tensor",
    "float64",
    "bfloat16",
    [],
    {},
    [0],
    {"t": "none"},
)
NODES: tuple[Any, ...] = (
    {"t": "handle", "i": 1, "c": True},
    {"t": "outside", "i": 0},
    {"t": "shared", "i": 1},
    {"t": "shared", "i": -1},
    {"t": "shared", "i": 99, "d": "float32", "s": [1], "k": 0, "rg": True, "p": True},
    {"t": "output", "o": 0},
    {"t": "tensor", "d": "float32", "s": [1], "k": 0},
    {"t": "array", "d": "float64", "s": [1], "k": 0},
    {"t": "exception", "n": "E", "i": 7, "v": []},
    {"t": "float", "v": "nan"},
    {"t": "device", "v": "meta"},
    {"t": "list", "v": [{"t": "int", "v": 1}]},
)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a tree."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = []
    for key, value in items:
        found.append((tree, key))
        found += places(value)
    return found


def mutate(head: dict[str, Any], blobs: list[bytes], rng: random.Random) -> list[bytes]:
    """Change a frame in place; return its blobs."""
    if blobs and rng.randrange(4) == 0:
        index = rng.randrange(len(blobs))
        return [*blobs[:index], _other_bytes(bytearray(blobs[index]), rng), *blobs[index + 1 :]]
    container, key = rng.choice(places(head))
    _change(container, key, places(head), rng)
    return blobs


def _other_bytes(blob: bytearray, rng: random.Random) -> bytes:
    change = rng.randrange(3)
    if change == 0:
        del blob[rng.randrange(len(blob) + 1) :]
    elif change == 1:
        blob += rng.randbytes(rng.randrange(1, 9))
    elif blob:
        blob[rng.randrange(len(blob))] ^= 1 << rng.randrange(8)
    return bytes(blob)


def _change(container: Any, key: Any, others: list[tuple[Any, Any]], rng: random.Random) -> None:
    change = rng.randrange(5)
    if change == 0 and isinstance(container, dict):
        del container[key]
    elif change == 1 and isinstance(container, list):
        container.append(deepcopy(container[key]))
    elif change == 2:
        other, other_key = rng.choice(others)
        container[key] = deepcopy(other[other_key])
    else:
        container[key] = deepcopy(rng.choice(rng.choice((NODES, POOL))))
