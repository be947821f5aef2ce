"""Lets torchvision be imported beside a PyTorch for the CPU, whose libraries its own C++ part does not find.

At its import torchvision registers shapes for two operators that this part would have declared. Their schemas are declared
here instead, just before, and only if the part cannot be loaded. Transforms, models and utilities work; the operators
on boxes still raise, as torchvision itself says.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

PACKAGE = "torchvision"
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
kept: list[Any] = []  # a library that is let go takes its declarations with it


class FirstImport:
    """Watches for torchvision's first import; finds nothing itself."""

    def find_spec(self, name: str, *_details: Any) -> ModuleSpec | None:
        """Declare what is missing and step aside."""
        if name == PACKAGE:
            sys.meta_path.remove(self)
            declare(PathFinder.find_spec(PACKAGE))
        return None


def declare(spec: ModuleSpec | None) -> None:
    """Declare the schemas unless torchvision's own part does."""
    if spec is None:
        return
    import torch

    for place in spec.submodule_search_locations or ():
        for library in Path(place).glob("_C*.so"):
            try:
                torch.ops.load_library(str(library))
            except OSError:
                continue
            return
    library = torch.library.Library(PACKAGE, "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    kept.append(library)


sys.meta_path.insert(0, FirstImport())
