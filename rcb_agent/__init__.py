"""rcb-agent: language-model agents on ResearchCodeBench, graded by the benchmark's own hidden tests.

Public names are resolved on first use (PEP 562), so that ``import rcb_agent`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rcb_agent.scoring.metrics import summarise as summarise
    from rcb_agent.tasks.suites import load_suite as load_suite

__version__ = "0.1.0"

_LAZY = {
    "load_suite": "rcb_agent.tasks.suites",
    "summarise": "rcb_agent.scoring.metrics",
}

__all__ = ["__version__", "load_suite", "summarise"]


def __getattr__(name: str) -> Any:
    """Return a public name, importing its module now."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'rcb_agent' has no attribute {name!r}")
