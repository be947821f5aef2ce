"""The two programs of a split grade, as text that an interpreter in a sandbox reads from its standard input.

Nothing of them lies in the sandbox as a file, and their modules get neutral names, so that neither side's file system
or tracebacks say what grades.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

_PACKAGE = "rcb_agent.scoring"
_SHARED = ("wire", "values", "plain", "tensors", "after_import", "counted_clock", "random_state", "shared_tensors")
CANDIDATE = (*_SHARED, "candidate_tensors", "candidate_side")
TRUSTED = (
    *_SHARED,
    "form",
    "trusted_errors",
    "trusted_in_place",
    "trusted_tensors",
    "trusted_session",
    "trusted_proxies",
    "trusted_gates",
    "trusted_side",
)

_JUDGING = ("gold_form", "judge", "pair", "preflight", "split")

BOOTSTRAP = """\
import json, sys, types
def run(program):
    for name, text in program["modules"]:
        package, _, _ = name.rpartition(".")
        if package not in sys.modules:
            sys.modules[package] = types.ModuleType(package)
        module = sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[package], name.rpartition(".")[2], module)
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
    module.main(program["settings"])
run(json.loads(sys.stdin.buffer.read()))
"""


def command() -> list[str]:
    """Return the argv that starts either program with the runtime's Python."""
    return ["python", "-I", "-B", "-c", BOOTSTRAP]


def program(modules: tuple[str, ...], settings: Mapping[str, Any]) -> bytes:
    """Return what the program reads from its standard input."""
    texts = [[f"split.{name}", _source(name)] for name in modules]
    return json.dumps({"modules": texts, "settings": settings}).encode("ascii")


def digest() -> str:
    """Return a short hash of both programs and of what judges them: a grade says which code gave it."""
    texts = [_source(name) for name in dict.fromkeys((*CANDIDATE, *TRUSTED, *_JUDGING))]
    return hashlib.sha256("\0".join((BOOTSTRAP, *texts)).encode()).hexdigest()[:8]


def _source(name: str) -> str:
    return (files(_PACKAGE) / f"{name}.py").read_text(encoding="utf-8").replace(_PACKAGE, "split")
