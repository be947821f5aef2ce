"""Stands in for mmcv's operators in C++ and CUDA, which a build without a compiler leaves out.

mmcv looks at its import whether each operator is there, so each name is; a call raises.
"""

from collections.abc import Callable
from typing import NoReturn


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)

    def absent(*_arguments: object, **_named: object) -> NoReturn:
        raise NotImplementedError(f"mmcv is built without its operators here: there is no {name}")

    return absent
