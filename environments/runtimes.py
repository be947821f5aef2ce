"""Runtimes: the locked packages a paper needs, as a venv of its own, never the harness's.

A venv is built in place (its programs know where they lie) under a lock, and is complete when, and only when,
its marker file exists; the folder's name says lock and Python, so a change of either is another folder.
``RCB_AGENT_RUNTIME_<NAME>`` names a Python to use as it is.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from pathlib import Path

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.interpreters import describe_interpreter
from rcb_agent.errors import EnvironmentFault, UsageError

RUNTIMES = ("mini",)
MARKER = "complete.json"
SHOWN_AT = "/opt/runtime"  # where sandboxes show a runtime's venv
BUILD_SECONDS = 1800

INSTALLED = """\
import importlib.metadata as metadata
print(*sorted({f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()}), sep="\\n")
"""
IMPORT_ALL = """\
import importlib, importlib.metadata as metadata, re, sys
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
    for module in modules.get(plain(name), ()):
        if module.isidentifier():
            importlib.import_module(module)
"""


def cache_folder() -> Path:
    """Where built things are kept: ``RCB_AGENT_CACHE`` or the user's cache folder."""
    chosen = os.environ.get("RCB_AGENT_CACHE")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("rcb-agent"))


def runtime_path(name: str) -> Path:
    """Return the folder in which the venv of a runtime is, or will be."""
    version = f"{sys.implementation.cache_tag}"
    return cache_folder() / "runtimes" / f"{name}-{lock_digest(read_lock(name))[:12]}-{version}"


def runtime_variable(name: str) -> str:
    """Return the variable that may name a Python to use as this runtime."""
    return f"RCB_AGENT_RUNTIME_{re.sub('[^A-Z0-9]', '_', name.upper())}"


def load_runtime(name: str) -> Runtime:
    """Return a runtime that is ready to use, or raise EnvironmentFault with the command that builds it."""
    chosen = os.environ.get(runtime_variable(name))
    if chosen:
        return adopt_runtime(name, Path(chosen).absolute())
    lock = read_lock(name)
    folder = runtime_path(name)
    if not (folder / MARKER).is_file():
        raise EnvironmentFault(f"the runtime {name} is not built: run `rcb-agent env build {name}`")
    return Runtime(name, folder / "venv" / "bin" / "python", tuple(lock_pins(lock)), lock_digest(lock))


@lru_cache(maxsize=16)
def adopt_runtime(name: str, python: Path) -> Runtime:
    """Describe a Python that somebody else has furnished."""
    describe_interpreter(python)
    packages = tuple(line for line in run_python(python, INSTALLED).splitlines() if line)
    return Runtime(name, python, packages, hashlib.sha256("\n".join(packages).encode()).hexdigest())


def build_runtime(name: str, report: Callable[[str], None]) -> Runtime:
    """Build a runtime unless it is there; several builders wait for the first."""
    from filelock import FileLock

    folder = runtime_path(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", timeout=BUILD_SECONDS):
        if (folder / MARKER).is_file():
            report(f"{name}: already built in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
            fill_folder(folder, read_lock(name), report)
            report(f"{name}: built in {folder}")
    runtime = load_runtime(name)
    check_runtime(runtime)
    return runtime


def fill_folder(folder: Path, lock: str, report: Callable[[str], None]) -> None:
    """Make the venv, install exactly the lock, then put the marker."""
    import venv

    home = folder / "venv"
    report(f"making a venv with Python {sys.version.split()[0]}")
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    requirements = folder / "lock.txt"
    requirements.write_text(lock)
    report(f"installing {', '.join(lock_pins(lock))}")
    install(home / "bin" / "python", requirements)
    make_movable(home)
    compile_packages(home)
    draft = folder / f"{MARKER}.part"
    draft.write_text(json.dumps({"digest": lock_digest(lock), "packages": lock_pins(lock)}))
    draft.replace(folder / MARKER)


def install(python: Path, requirements: Path) -> None:
    """Install a lock with the harness's pip."""
    options = (
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
    )
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, "-r", str(requirements)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"pip could not be run: {error}") from None
    if done.returncode:
        reason = done.stderr.strip().splitlines() or ["no message"]
        raise EnvironmentFault(f"pip could not install {requirements}: {reason[-1]}")


def make_movable(home: Path) -> None:
    """Take the venv's own place out of it: it is shown elsewhere in a sandbox, and need not say where it came from."""
    config = home / "pyvenv.cfg"
    kept = [line for line in config.read_text().splitlines() if not line.startswith(("command", "prompt"))]
    config.write_text("\n".join(kept) + "\n")
    for script in (home / "bin").iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        if script.name.lower().startswith("activate"):
            script.unlink()
            continue
        first, _, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and os.fsencode(home) in first:
            script.write_bytes(b"#!/usr/bin/env python\n" + rest)


def compile_packages(home: Path) -> None:
    """Write byte code that names the place at which a sandbox shows the venv; a sandbox cannot write any."""
    command = [str(home / "bin" / "python"), "-I", "-m", "compileall", "-q", "-f", "-s", str(home), "-p", SHOWN_AT]
    subprocess.run([*command, str(home / "lib")], capture_output=True, timeout=BUILD_SECONDS, check=False)


def check_runtime(runtime: Runtime) -> None:
    """Import every package for real, at the version that is promised; EnvironmentFault if one fails."""
    run_python(runtime.python, IMPORT_ALL, *runtime.packages)


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
            f"unknown runtime {name}; known: {', '.join(RUNTIMES)}. "
            f"{runtime_variable(name)} may name a Python that has what it needs"
        )
    return resources.files("rcb_agent.environments").joinpath("data", f"{name}.txt").read_text()


def lock_pins(lock: str) -> list[str]:
    """Return the ``name==version`` lines of a lock."""
    words = [line.split("#")[0].strip().rstrip("\\").strip() for line in lock.splitlines()]
    return [word.split()[0] for word in words if word and not word.startswith("--")]


def lock_digest(lock: str) -> str:
    """Hash what a lock pins, not its comments."""
    return hashlib.sha256("\n".join(lock_pins(lock)).encode()).hexdigest()
