"""What a paper declares of its own classes and values, so that nothing of the candidate flows into an expected value.

``plain``: a class that the candidate's file defines and the reference uses is the reference's here; its instances go to C by
their fields. ``by_value``: objects of these classes go to C whole. ``weights``: a state dict that the test would take from
the candidate and give to the reference is made here and given to the candidate. ``trusted``: the value of a crossing is the
gold code's, whatever the candidate answered. Nothing of this brings anything from C to T. This file also runs inside
sandboxes: standard library only.
"""

import dataclasses
import importlib
import pickle
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from rcb_agent.scoring import jax_arrays, tensors
from rcb_agent.scoring.jax_arrays import encode_jax
from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.values import Decoder, Encoder, Node
from rcb_agent.scoring.wire import WireError

Kept = dict[str, dict[str, Node]]


def qualified(kind: type) -> str:
    """Return module and name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def find_trusted(path: str) -> Any:
    """Return what a dotted path names in T: a module's attribute."""
    home, _, name = path.rpartition(".")
    return getattr(importlib.import_module(home), name)


def encode_declared(
    encoder: Encoder, value: Any, depth: int, plain: Mapping[str, str], by_value: Sequence[str]
) -> Node | None:
    """Return the node of an object that may go to C because the paper says so, or because it is settings, or None."""
    own = value if isinstance(value, type) else type(value)
    for theirs, ours in plain.items():
        if qualified(own) != ours:
            continue
        home, _, name = theirs.rpartition(".")
        if own is value:
            return {"t": "own", "m": home, "n": name}
        return {"t": "own", "m": home, "n": name, "v": encoder.encode(fields_of(value), depth + 1)}
    if own is not value and qualified(own) in by_value:
        try:
            encoder.blobs.append(pickle.dumps(value))
        except Exception as error:  # noqa: BLE001 (an object may answer anything when it is pickled)
            raise WireError(f"{qualified(own)} cannot go by value: {type(error).__name__}") from None
        return {"t": "whole", "k": len(encoder.blobs) - 1}
    return _encode_settings(encoder, value, depth)


def _encode_settings(encoder: Encoder, value: Any, depth: int) -> Node | None:
    """Return the node of an object that only holds settings, or None: a data class of the test's is one."""
    name = qualified(type(value))
    if name == "omegaconf.dictconfig.DictConfig":
        plain = sys.modules["omegaconf"].OmegaConf.to_container(value)
        return {"t": "config", "n": "omegaconf", "v": encoder.encode(plain, depth + 1)}
    if name == "ml_collections.config_dict.config_dict.ConfigDict":
        return {"t": "config", "n": "ml_collections", "v": encoder.encode(value.to_dict(), depth + 1)}
    if name == "argparse.Namespace":
        return {"t": "config", "n": "argparse", "v": encoder.encode(dict(vars(value)), depth + 1)}
    if name == "types.SimpleNamespace" or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return {"t": "namespace", "v": encoder.encode(fields_of(value), depth + 1)}
    return None


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a data class, or the attributes of any other object."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value))


class KeptValues:
    """The values that the gold code's run gave where the paper says ``trusted``: noted there, given back ever after."""

    def __init__(self, labels: Sequence[str], gold: Kept | None) -> None:
        self.noted: Kept = {}
        self._labels = frozenset(labels)
        self._gold = gold

    def settle(self, test: str, place: int, label: str, value: Any) -> Any:
        """Return what the test gets for a crossing: in the gold's run and where nothing is declared, the value itself.

        Whether a value is the gold's is a matter of the place, which is the gold run's word; a label has the candidate's in it.
        """
        if self._gold is not None:
            node = self._gold.get(test, {}).get(str(place))
            return value if node is None else _build(node)
        if label in self._labels:
            self.noted.setdefault(test, {})[str(place)] = _describe(label, value)
        return value


def _describe(label: str, value: Any) -> Node:
    def other(encoder: Encoder, part: Any, _: int) -> Node:
        node = tensors.encode_tensor(encoder, part) or encode_jax(encoder, part)
        if node is None:
            raise RemoteError(
                f"{label} is declared as trusted, but is no plain value: declare what the test reads of it"
            )
        return node

    encoder = Encoder(other)
    node = encoder.encode(value)
    return {"node": node, "blobs": [b64encode(blob).decode() for blob in encoder.blobs]}


def _build(kept: Node) -> Any:
    def other(decoder: Decoder, tag: str, node: Node, depth: int) -> Any:
        return {**tensors.BUILDERS, **jax_arrays.BUILDERS}[tag](decoder, node, depth)

    return Decoder([b64decode(blob) for blob in kept["blobs"]], other).decode(kept["node"])
