"""In-place arguments in T: what the candidate made of an argument, where the paper declares that it may change it.

This file also runs inside sandboxes: standard library only.
"""

import sys
from typing import Any

from rcb_agent.scoring.tensors import is_tensor
from rcb_agent.scoring.trusted_errors import RemoteError


def copy_back(target: Any, result: Any) -> None:
    """Write an in-place result into T's own object; it must have the same type, dtype, shape, length and keys."""
    if is_tensor(target):
        _copy_tensor_back(target, result)
    elif _is_array(target):
        if not _is_array(result) or result.shape != target.shape or result.dtype != target.dtype:
            raise RemoteError("an in-place result has another type or shape than the argument")
        target[...] = result
    elif type(target) in (list, dict) and type(result) is type(target) and len(result) == len(target):
        keys = range(len(target)) if type(target) is list else list(target)
        if type(target) is dict and set(result) != set(target):
            raise RemoteError("an in-place result has other keys than the argument")
        for key in keys:
            _copy_item_back(target, key, result[key])
    else:
        raise RemoteError("an in-place result has another type or length than the argument")


def _is_array(value: Any) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and type(value) is np.ndarray


def _copy_tensor_back(target: Any, result: Any) -> None:
    if not is_tensor(result) or result.shape != target.shape or result.dtype != target.dtype:
        raise RemoteError("an in-place result has another type or shape than the argument")
    with sys.modules["torch"].no_grad():  # the argument may be a parameter
        target.copy_(result)


def _copy_item_back(target: Any, key: Any, result: Any) -> None:
    if type(target[key]) in (list, dict) or _is_array(target[key]) or is_tensor(target[key]):
        copy_back(target[key], result)
    elif type(target[key]) is type(result):
        target[key] = result
    else:
        raise RemoteError("an element of an in-place result has another type than the argument's")
