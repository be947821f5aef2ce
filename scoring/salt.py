"""Salted seeds: a seed ``n`` of a test becomes another one, the same on both sides, that nobody knew before the grade.

A candidate that looks up its answers by the inputs that the published seeds give then finds none of them. Seed functions and
makers of generators are wrapped once their module is imported; what takes a seed in a class of its own (``random.Random(3)``,
``RandomState(3)``, ``torch.Generator().manual_seed(3)``) keeps it. This file also runs inside sandboxes: standard library only.
"""

import hashlib
import operator
import random
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport

_SEED_NAMES = ("seed", "a")


def derive(secret: str, paper: str, draw: int) -> str:
    """Return the salt of a paper at a draw: it says nothing of the secret, nor of other papers' salts."""
    return hashlib.sha256(f"{secret}\0{paper}\0{draw}".encode()).hexdigest()[:32]


def salted(seed: Any, salt: str) -> Any:
    """Return what a seed becomes; without salt, and where it is no number or text, the seed itself."""
    if not salt or seed is None:
        return seed
    if isinstance(seed, list | tuple):
        return type(seed)(salted(part, salt) for part in seed)
    if isinstance(seed, float | str | bytes):
        return _hashed(repr(seed), salt)
    try:
        return _hashed(repr(operator.index(seed)), salt)
    except TypeError:  # an array of several numbers; a tracer of jax's, which has none yet
        return salted(seed.tolist(), salt) if getattr(seed, "ndim", None) else seed


def _hashed(text: str, salt: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{salt}\0{text}".encode()).digest()[:4], "big") >> 1


def salting(function: Callable[..., Any], salt: str) -> Callable[..., Any]:
    """Return a function whose first argument, a seed, is salted."""
    if not salt:
        return function

    @wraps(function)
    def seed(*arguments: Any, **keywords: Any) -> Any:
        if arguments:
            arguments = (salted(arguments[0], salt), *arguments[1:])
        for name in _SEED_NAMES:
            if name in keywords:
                keywords[name] = salted(keywords[name], salt)
        return function(*arguments, **keywords)

    return seed


def install(salt: str) -> None:
    """Salt the seed functions of ``random`` now, those of numpy, torch and jax once they are imported."""
    if not salt:
        return
    _wrap(random, ("seed",), salt)
    AfterImport(
        {
            "numpy.random": lambda module: _wrap(module, ("seed", "default_rng"), salt),
            "torch": lambda module: _wrap_torch(module, salt),
            "jax.random": lambda module: _wrap(module, ("PRNGKey", "key"), salt),
        }
    ).install()


def _wrap(module: ModuleType, names: tuple[str, ...], salt: str) -> None:
    for name in names:
        module.__dict__[name] = salting(module.__dict__[name], salt)


def _wrap_torch(module: ModuleType, salt: str) -> None:
    for home in (module, module.random):
        _wrap(home, ("manual_seed",), salt)
