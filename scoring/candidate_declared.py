"""What C builds of objects that a paper declares, out of what T says. Runs inside sandboxes: standard library only."""

import dataclasses
import importlib
import pickle
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from rcb_agent.scoring.values import Decoder, Node


def _build_own(decoder: Decoder, node: Node, depth: int) -> Any:
    """Return the candidate's own class of that name, or an instance made of fields."""
    kind = getattr(importlib.import_module(node["m"]), node["n"])
    if "v" not in node:
        return kind
    fields = decoder.decode(node["v"], depth + 1)
    make: Callable[..., Any] = kind
    if dataclasses.is_dataclass(kind):
        made_later = {field.name for field in dataclasses.fields(kind) if not field.init}
        built = make(**{name: value for name, value in fields.items() if name not in made_later})
        for name in made_later & fields.keys():
            object.__setattr__(built, name, fields[name])  # it may be frozen
        return built
    built = kind.__new__(kind)
    vars(built).update(fields)
    return built


def _build_config(decoder: Decoder, node: Node, depth: int) -> Any:
    values = decoder.decode(node["v"], depth + 1)
    if node["n"] == "omegaconf":
        return importlib.import_module("omegaconf").OmegaConf.create(values)
    if node["n"] == "ml_collections":
        return importlib.import_module("ml_collections").ConfigDict(values)
    return Namespace(**values)


BUILDERS: dict[str, Callable[[Decoder, Node, int], Any]] = {
    "own": _build_own,
    "config": _build_config,
    "whole": lambda decoder, node, _: pickle.loads(decoder.blob(node)),  # noqa: S301 (T is trusted, C is not)
}
