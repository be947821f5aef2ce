"""Runtimes: the locked packages a paper needs, as a venv of its own, never the harness's.

A venv is built in place (its programs know where they lie) under a lock, and is complete when, and only when,
its marker file exists; the folder's name says lock and Python, so a change of either is another folder.
``RCB_AGENT_RUNTIME_<NAME>`` names a Python to use as it is. A paper's id stands for the runtime it needs.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.from_source import read_tools
from rcb_agent.environments.installing import BUILD_SECONDS, Sources
from rcb_agent.environments.interpreters import describe_interpreter
from rcb_agent.environments.shims import list_shims, without_shims
from rcb_agent.environments.venvs import is_built, lock_pins, make_venv
from rcb_agent.errors import EnvironmentFault, UsageError
from rcb_agent.tasks.cache import cache_folder
from rcb_agent.tasks.overlay import runtime_of_paper

RUNTIMES = ("mini", "scipy", "torch", "jax", "tables", "vision", "torchrl", "diffusers")
MARKER = "complete.json"
ABOUT = "# about: "  # a lock's line that says what a build costs

INSTALLED = """\
import importlib.metadata as metadata
print(*sorted({f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()}), sep="\\n")
"""
IMPORT_ALL = """\
import importlib, importlib.metadata as metadata, importlib.util, re, sys
plain = lambda name: re.sub(r"[-_.]+", "-", name).lower()
modules = {}
for module, names in metadata.packages_distributions().items():
    for name in names:
        modules.setdefault(plain(name), []).append(module)
for pin in sys.argv[1:]:
    name, version = pin.split("==")
    found = metadata.version(name)
    if found != version:
        sys.exit(f"{name} is {found}, not {version}")
    named = [module for module in modules.get(plain(name), ()) if module.isidentifier()]
    there = [module for module in named if importlib.util.find_spec(module)]  # a wheel may name what it does not hold
    for module in there or named:
        importlib.import_module(module)
torch = sys.modules.get("torch")
if torch is not None and torch.version.cuda is not None:
    sys.exit(f"torch is built for CUDA {torch.version.cuda}, not for the CPU")
"""


def runtime_path(name: str) -> Path:
    """Return the folder in which the venv of a runtime is, or will be."""
    return cache_folder() / "runtimes" / f"{name}-{lock_digest(read_lock(name))[:12]}-{sys.implementation.cache_tag}"


def load_runtime(name: str, python: str | None = None) -> Runtime:
    """Return a runtime that is ready to use, or raise EnvironmentFault with the command that builds it.

    ``python`` is used as it is in place of what is built.
    """
    chosen = python or chosen_python(name)
    if chosen:
        return adopt_runtime(name, Path(chosen).absolute())
    name = runtime_name(name)
    lock = read_lock(name)
    folder = runtime_path(name)
    if not (folder / MARKER).is_file():
        raise EnvironmentFault(f"the runtime {name} is not built: run `rcb-agent env build {name}`")
    return Runtime(name, folder / "venv" / "bin" / "python", tuple(lock_packages(lock)), lock_digest(lock))


def chosen_python(name: str) -> str | None:
    """Return the Python that the environment names for a runtime."""
    return os.environ.get(runtime_variable(name)) or None


def runtime_variable(name: str) -> str:
    """Return the variable that may name a Python to use as this runtime."""
    return f"RCB_AGENT_RUNTIME_{re.sub('[^A-Z0-9]', '_', name.upper())}"


def runtime_name(name: str) -> str:
    """Return the runtime that is meant by a runtime's name or by the id of a paper."""
    return name if name in RUNTIMES else runtime_of_paper(name) or name


@lru_cache(maxsize=16)
def adopt_runtime(name: str, python: Path) -> Runtime:
    """Describe a Python that somebody else has furnished."""
    describe_interpreter(python)
    packages = tuple(line for line in run_python(python, INSTALLED).splitlines() if line)
    return Runtime(name, python, packages, hashlib.sha256("\n".join(packages).encode()).hexdigest())


def build_runtime(name: str, report: Callable[[str], None], sources: Sources | None = None) -> Runtime:
    """Build a runtime unless it is there; several builders wait for the first."""
    from filelock import FileLock

    name = runtime_name(name)
    folder = runtime_path(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=BUILD_SECONDS):
        if (folder / MARKER).is_file():
            report(f"{name}: already built in {folder}")
            check_packages(folder / "venv" / "bin" / "python", lock_pins(read_lock(name)))
        else:
            report(f"{name}: {estimate(name, folder.parent)}")
            shutil.rmtree(folder, ignore_errors=True)
            fill_folder(folder, read_lock(name), sources or Sources(), report)
            report(f"{name}: built in {folder}")
    return load_runtime(name)


def estimate(name: str, place: Path) -> str:
    """Say what a build costs, before it does."""
    about = [line.removeprefix(ABOUT) for line in read_lock(name).splitlines() if line.startswith(ABOUT)]
    return f"{', '.join(about) or 'size unknown'} ({shutil.disk_usage(place).free >> 20:,} MB free in {place})"


def fill_folder(folder: Path, lock: str, sources: Sources, report: Callable[[str], None]) -> None:
    """Make the venv, install exactly the lock, try it, then put the marker."""
    make_venv(folder / "venv", lock, sources, report)
    report("trying every package")
    check_packages(folder / "venv" / "bin" / "python", lock_pins(lock))
    draft = folder / f"{MARKER}.part"
    draft.write_text(json.dumps({"digest": lock_digest(lock), "packages": lock_packages(lock)}))
    draft.replace(folder / MARKER)


def check_packages(python: Path, pins: Sequence[str]) -> None:
    """Import every package for real, at the version that is promised; EnvironmentFault if one fails."""
    run_python(python, IMPORT_ALL, *without_shims(pins))


def run_python(python: Path, code: str, *arguments: str) -> str:
    """Run a few lines in a runtime and return what they print."""
    command = [str(python), "-I", "-B", "-c", code, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"{python} does not run: {error}") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise EnvironmentFault(f"{python} cannot be used: {reason[-1]}")
    return done.stdout


def read_lock(name: str) -> str:
    """Return the text of a shipped lock."""
    if name not in RUNTIMES:
        raise UsageError(
            f"unknown runtime {name}; known: {', '.join(RUNTIMES)}. {runtime_variable(name)} may name a Python that has "
            "what it needs, and so may `run --python`"
        )
    return resources.files("rcb_agent.environments").joinpath("data", f"{name}.txt").read_text()


def lock_packages(lock: str) -> list[str]:
    """Return what a lock furnishes: packages, then shims."""
    return [*lock_pins(lock), *list_shims(lock)]


def lock_digest(lock: str) -> str:
    """Hash what a lock pins and what its shims hold, not its comments; where it is built from source, the tools as well."""
    tools = lock_pins(read_tools()) if is_built(lock) else []
    return hashlib.sha256("\n".join([*lock_packages(lock), *tools]).encode()).hexdigest()
