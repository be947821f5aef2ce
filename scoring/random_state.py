"""Random state: T starts at a fixed one and ships its own to C, where the candidate draws from it. Never back.

Every grade of a paper therefore sees the same inputs, and a seed set by a test counts on both sides. This file also
runs inside sandboxes: standard library only, numpy only where it was imported anyway.
"""

import random
import struct
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport
from rcb_agent.scoring.values import Node, expect
from rcb_agent.scoring.wire import WireError

START_SEED = 20250603
_WORDS = 624
_PYTHON, _NUMPY = "random", "numpy.random"


def start_at_fixed_state() -> AfterImport:
    """Seed ``random`` now and numpy's legacy generator as soon as it is imported."""
    random.seed(START_SEED)
    return AfterImport({_NUMPY: lambda module: module.seed(START_SEED)})


class StateSender:
    """Says what of T's random state C does not have yet."""

    def __init__(self) -> None:
        self._sent: dict[str, Any] = {}
        self._unseeded = 0

    def hooks(self) -> AfterImport:
        """Start at the fixed state and notice reseeding: to the same state must count as well."""
        random.seed(START_SEED)
        self._watch(random, _PYTHON, ("seed", "setstate"))
        return AfterImport({_NUMPY: self._prepare_numpy})

    def changes(self, blobs: list[bytes]) -> Node:
        """Return the states that changed since they were last sent; their words go into ``blobs``."""
        changed: Node = {}
        states = {_PYTHON: _python_state()}
        if _NUMPY in sys.modules:
            states[_NUMPY] = _numpy_state(sys.modules[_NUMPY].get_state())
        for name, state in states.items():
            if self._sent.get(name) != state:
                self._sent[name] = state
                words, rest = state
                blobs.append(words)
                changed[name] = [len(blobs) - 1, *rest]
        return changed

    def _prepare_numpy(self, module: ModuleType) -> None:
        module.seed(START_SEED)
        self._watch(module, _NUMPY, ("seed", "set_state"))
        module.__dict__["default_rng"] = self._seeded(module.default_rng)

    def _watch(self, module: ModuleType, key: str, names: tuple[str, ...]) -> None:
        for name in names:
            module.__dict__[name] = self._forgetting(key, module.__dict__[name])

    def _forgetting(self, key: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def seed(*arguments: Any, **keywords: Any) -> Any:
            self._sent.pop(key, None)
            return function(*arguments, **keywords)

        return seed

    def _seeded(self, default_rng: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(default_rng)
        def make(seed: Any = None) -> Any:
            if seed is None:  # inputs must be the same in the gold's and in the candidate's grade
                self._unseeded += 1
                seed = START_SEED + self._unseeded
            return default_rng(seed)

        return make


def apply_changes(changed: Node, blobs: list[bytes]) -> None:
    """Take over in C what ``StateSender.changes`` said."""
    if _PYTHON in changed:
        index, version, position, gauss = changed[_PYTHON]
        words = struct.unpack(f"<{_WORDS}I", blobs[index])
        random.setstate((version, (*words, position), None if gauss is None else float.fromhex(gauss)))
    if _NUMPY in changed:
        import numpy as np

        index, position, has_gauss, cached = changed[_NUMPY]
        words_array = np.frombuffer(blobs[index], dtype="<u4")
        np.random.set_state(("MT19937", words_array, position, has_gauss, float.fromhex(cached)))  # noqa: NPY002


def _python_state() -> tuple[bytes, tuple[Any, ...]]:
    version, words, gauss = random.getstate()
    rest = (version, words[_WORDS], None if gauss is None else gauss.hex())
    return struct.pack(f"<{_WORDS}I", *words[:_WORDS]), rest


def _numpy_state(state: Any) -> tuple[bytes, tuple[Any, ...]]:
    _, words, position, has_gauss, cached = state
    return words.astype("<u4").tobytes(), (int(position), int(has_gauss), float(cached).hex())


def describe_generator(generator: Any) -> Node | None:
    """Return kind and state of a generator object of ``random`` or numpy, or None if it is none."""
    if type(generator) is random.Random:
        version, words, gauss = generator.getstate()
        return {"kind": "Random", "state": [version, list(words), gauss if gauss is None else gauss.hex()]}
    numpy_random = sys.modules.get(_NUMPY)
    if numpy_random is None:
        return None
    if type(generator) is numpy_random.Generator:
        return {"kind": "Generator", "state": _plain(generator.bit_generator.state)}
    if type(generator) is numpy_random.RandomState:
        return {"kind": "RandomState", "state": _plain(generator.get_state(legacy=False))}
    return None


def build_generator(kind: str, state: Any, known: Any = None) -> Any:
    """Return a generator in that state; ``known`` is the one C built for the same object before."""
    if kind == "Random":
        generator = known or random.Random()  # noqa: S311 (an experiment's randomness, not a secret's)
        version, words, gauss = state
        generator.setstate((version, tuple(words), None if gauss is None else float.fromhex(gauss)))
        return generator
    import numpy as np

    state = _arrays(state)
    if kind == "RandomState":
        generator = known or np.random.RandomState()
        generator.set_state(state)
        return generator
    name = expect(state["bit_generator"], str)
    if name not in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"):
        raise WireError("not a bit generator")
    generator = known or np.random.Generator(getattr(np.random, name)())
    generator.bit_generator.state = state
    return generator


def _plain(state: Any) -> Any:
    """Return a bit generator's state with arrays as tagged lists and floats as hex."""
    if isinstance(state, dict):
        return {key: _plain(item) for key, item in state.items()}
    if isinstance(state, float):
        return {"hex": state.hex()}
    if hasattr(state, "tolist"):
        return {"array": state.tolist(), "dtype": str(state.dtype)}
    return state


def _arrays(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if "hex" in state:
        return float.fromhex(state["hex"])
    if "array" in state:
        import numpy as np

        return np.array(state["array"], dtype=state["dtype"])
    return {key: _arrays(item) for key, item in state.items()}
