"""Assertions that decide nothing: for tests whose expected floats were recorded on another machine.

Where a paper declares ``asserts: false``, its tests only lead the conversation; the form and the values of what crosses
decide, compared with the gold code's run on this machine. ``assertRaises`` and its like stay, because what they catch
steers the test, and ``fail`` does, because it says that a test took a wrong turn. This file also runs inside sandboxes:
standard library only.
"""

import unittest
from types import ModuleType
from typing import Any

from rcb_agent.scoring.after_import import AfterImport

_STEERING = ("assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "assertLogs", "assertNoLogs")
_TESTING = ("numpy.testing", "torch.testing")


def install() -> None:
    """Replace the assertions of unittest now, those of numpy and torch once they are imported."""
    _soften(unittest.TestCase, [name for name in dir(unittest.TestCase) if name.startswith("assert")])
    AfterImport(dict.fromkeys(_TESTING, _soften_module)).install()


def _soften_module(module: ModuleType) -> None:
    _soften(module, [name for name in dir(module) if name.startswith("assert")])


def _soften(home: Any, names: list[str]) -> None:
    for name in names:
        if name not in _STEERING and callable(getattr(home, name)):
            setattr(home, name, _accept)


def _accept(*_: Any, **__: Any) -> None:
    """Accept anything."""
