"""The two programs of a split grade, as text that an interpreter in a sandbox reads from its standard input.

Nothing of them lies in the sandbox as a file, and their modules get neutral names, so that neither side's file system
or tracebacks say what grades.
"""

import hashlib
from functools import lru_cache
from importlib.resources import files

from rcb_agent.environments.warm import Program

_PACKAGE = "rcb_agent.scoring"
_SHARED = (
    "wire",
    "values",
    "plain",
    "tensors",
    "jax_arrays",
    "after_import",
    "counted_clock",
    "salt",
    "random_state",
    "shared_tensors",
)
CANDIDATE = (*_SHARED, "candidate_tensors", "candidate_declared", "candidate_side")
TRUSTED = (
    *_SHARED,
    "form",
    "value_trace",
    "soft_asserts",
    "trusted_errors",
    "trusted_declared",
    "trusted_in_place",
    "trusted_tensors",
    "trusted_session",
    "trusted_proxies",
    "trusted_gates",
    "trusted_side",
)

SIDES = {"trusted": TRUSTED, "candidate": CANDIDATE}
_JUDGING = ("gold_form", "gold_values", "judge", "pair", "preflight", "sides", "split")

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
    """Return the argv that starts either program with the runtime's Python.

    Not isolated mode: it would ignore the fixed hash seed of a sandbox's environment.
    """
    return ["python", "-s", "-P", "-B", "-c", BOOTSTRAP]


@lru_cache(maxsize=2)
def program(name: str) -> Program:
    """Return the program of a side: "trusted" or "candidate"."""
    return Program(name, tuple((f"split.{module}", _source(module)) for module in SIDES[name]))


def digest() -> str:
    """Return a short hash of both programs and of what judges them: a grade says which code gave it."""
    texts = [_source(name) for name in dict.fromkeys((*CANDIDATE, *TRUSTED, *_JUDGING))]
    return hashlib.sha256("\0".join((BOOTSTRAP, *texts)).encode()).hexdigest()[:8]


def _source(name: str) -> str:
    return (files(_PACKAGE) / f"{name}.py").read_text(encoding="utf-8").replace(_PACKAGE, "split")
