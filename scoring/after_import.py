"""Runs a function right after a module was imported, so that a library nobody uses is never imported for its sake.

This file also runs inside sandboxes: standard library only.
"""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

Hook = Callable[[ModuleType], object]


class AfterImport(importlib.abc.MetaPathFinder):
    """A finder that lets the others find a module and calls its hook once the module has been executed."""

    def __init__(self, hooks: dict[str, Hook]) -> None:
        self._waiting = dict(hooks)

    def install(self) -> None:
        """Watch imports from now on; hooks of modules that are already there run at once."""
        for name in [name for name in self._waiting if name in sys.modules]:
            self._waiting.pop(name)(sys.modules[name])
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec the other finders give, with a loader that calls the hook afterwards."""
        hook = self._waiting.pop(fullname, None)  # popped first: the search below comes through here again
        spec = importlib.util.find_spec(fullname) if hook else None
        if spec is not None and spec.loader is not None and hook is not None:
            spec.loader = _HookedLoader(spec.loader, hook)
        return spec


class _HookedLoader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader  # the module itself sees nothing unusual
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._hook(module)
