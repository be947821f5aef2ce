"""Random state: T starts at a fixed one and ships its own to C, where the candidate draws from it. Never back.

Every grade of a paper therefore sees the same inputs, and a seed set by a test counts on both sides. This file also
runs inside sandboxes: standard library only, numpy and torch only where they were imported anyway.
"""

import random
import struct
import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport
from rcb_agent.scoring.tensors import byte_tensor, bytes_of
from rcb_agent.scoring.values import Node, expect
from rcb_agent.scoring.wire import WireError

START_SEED = 20250603
_WORDS = 624
_PYTHON, _NUMPY, _TORCH = "random", "numpy.random", "torch"


def start_at_fixed_state(seed: int = START_SEED) -> AfterImport:
    """Seed ``random`` now, numpy's legacy generator and torch's default one as soon as they are imported."""
    random.seed(seed)
    return AfterImport(
        {
            _NUMPY: lambda module: module.seed(seed),
            _TORCH: lambda module: module.default_generator.manual_seed(seed),
        }
    )


class StateSender:
    """Says what of T's random state C does not have yet."""

    def __init__(self) -> None:
        self._sent: dict[str, Any] = {}
        self._unseeded = 0
        self._start = START_SEED

    def hooks(self, seed: int = START_SEED) -> AfterImport:
        """Start at the fixed state and notice reseeding: to the same state must count as well."""
        self._start = seed
        random.seed(seed)
        self._watch(random, _PYTHON, ("seed", "setstate"))
        return AfterImport({_NUMPY: self._prepare_numpy, _TORCH: self._prepare_torch})

    def changes(self, blobs: list[bytes]) -> Node:
        """Return the states that changed since they were last sent; their words go into ``blobs``."""
        changed: Node = {}
        states = {_PYTHON: _python_state()}
        if _NUMPY in sys.modules:
            states[_NUMPY] = _numpy_state(sys.modules[_NUMPY].get_state())
        if (torch := _torch()) is not None:
            states[_TORCH] = bytes_of(torch.default_generator.get_state()), ()
        for name, state in states.items():
            if self._sent.get(name) != state:
                self._sent[name] = state
                words, rest = state
                blobs.append(words)
                changed[name] = [len(blobs) - 1, *rest]
        return changed

    def _prepare_numpy(self, module: ModuleType) -> None:
        module.seed(self._start)
        self._watch(module, _NUMPY, ("seed", "set_state"))
        module.__dict__["default_rng"] = self._seeded(module.default_rng)

    def _prepare_torch(self, module: ModuleType) -> None:
        module.default_generator.manual_seed(self._start)
        for home in (module, module.random):
            self._watch(home, _TORCH, ("manual_seed", "seed", "set_rng_state"))

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
                seed = self._start + self._unseeded
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
    if _TORCH in changed:
        import torch

        torch.default_generator.set_state(byte_tensor(blobs[changed[_TORCH][0]]))


def _python_state() -> tuple[bytes, tuple[Any, ...]]:
    version, words, gauss = random.getstate()
    rest = (version, words[_WORDS], None if gauss is None else gauss.hex())
    return struct.pack(f"<{_WORDS}I", *words[:_WORDS]), rest


def _numpy_state(state: Any) -> tuple[bytes, tuple[Any, ...]]:
    _, words, position, has_gauss, cached = state
    return words.astype("<u4").tobytes(), (int(position), int(has_gauss), float(cached).hex())


def _torch() -> ModuleType | None:
    """Return torch once its import has ended."""
    torch = sys.modules.get(_TORCH)
    return torch if torch is not None and hasattr(torch, "default_generator") else None


def describe_generator(generator: Any) -> Node | None:
    """Return kind and state of a generator object of ``random``, numpy or torch, or None if it is none."""
    if type(generator) is random.Random:
        version, words, gauss = generator.getstate()
        return {"kind": "Random", "state": [version, list(words), gauss if gauss is None else gauss.hex()]}
    torch = _torch()
    if torch is not None and type(generator) is torch.Generator and generator.device.type == "cpu":
        return {"kind": "torch.Generator", "state": bytes_of(generator.get_state()).hex()}
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
    if kind == "torch.Generator":
        import torch

        generator = known or torch.Generator()
        generator.set_state(byte_tensor(bytes.fromhex(state)))
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
