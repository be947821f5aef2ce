"""Makes a venv from a lock: installs exactly what is pinned, takes its own place out of it, writes byte code.

A lock is a requirements file. What stands below a line ``--index-url URL`` is installed by itself, from that index and
no other: hashes are all or nothing within one install. A line ``--no-binary=NAME`` lets a package without wheels be built
from its hashed source.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.environments.shims import lay_shims, list_shims
from rcb_agent.errors import EnvironmentFault

SHOWN_AT = "/opt/runtime"  # where sandboxes show a runtime's venv
BUILD_SECONDS = 1800
INDEX = "--index-url "
OPTIONS = (
    "--no-deps",
    "--no-compile",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)


@dataclass(frozen=True, slots=True)
class Part:
    """Requirements that one call of pip installs; ``index`` is empty where it is pip's own."""

    text: str
    index: str


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a builder finds packages: ``index`` in place of the one a lock names, folders or pages with files."""

    index: str = ""
    find_links: tuple[str, ...] = ()


def split_lock(lock: str) -> Iterator[Part]:
    """Yield the parts of a lock; comments are of no part."""
    index, lines = "", list[str]()
    for line in lock.splitlines():
        if line.startswith(INDEX):
            yield Part("\n".join(lines), index)
            index, lines = line.removeprefix(INDEX).strip(), []
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    yield Part("\n".join(lines), index)


def lock_pins(lock: str) -> list[str]:
    """Return the ``name==version`` lines of a lock."""
    words = [line.split("#")[0].strip().rstrip("\\").strip() for line in lock.splitlines()]
    return [word.split()[0] for word in words if word and not word.startswith("--")]


def make_venv(home: Path, lock: str, sources: Sources, report: Callable[[str], None]) -> None:
    """Make a venv that holds exactly what a lock pins, and its shims. Raises EnvironmentFault."""
    report(f"making a venv with Python {sys.version.split()[0]}")
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    requirements = home.parent / "lock.txt"
    for part in split_lock(lock):
        if part.text:
            report(f"installing {', '.join(lock_pins(part.text))}")
            requirements.write_text(part.text + "\n")
            install(home / "bin" / "python", requirements, part.index, sources)
    requirements.write_text(lock)
    if shims := list_shims(lock):
        report(f"laying {', '.join(shims)}")
        (packages,) = home.glob("lib/python*/site-packages")
        lay_shims(lock, packages)
    report("writing byte code")
    make_movable(home)
    compile_packages(home)


def install(python: Path, requirements: Path, index: str, sources: Sources) -> None:
    """Install a part of a lock with the harness's pip."""
    links = [f"--find-links={place}" for place in sources.find_links]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *OPTIONS, *links]
    command += ["-r", str(requirements)]
    if not index:
        if reason := _run_pip(command):
            raise EnvironmentFault(f"pip could not install {requirements}: {reason}")
        return
    chosen = sources.index or index
    # Files at hand come first: an index that cannot be reached is asked for minutes.
    if _run_pip([*command, "--no-index"]) and (reason := _run_pip([*command, f"--index-url={chosen}"])):
        raise EnvironmentFault(
            f"{', '.join(lock_pins(requirements.read_text()))} is not to be had from {chosen} ({reason}): name another "
            "index by --index URL, a folder with the wheel by --find-links DIR, or a Python that has it by "
            "`run --python PATH`"
        )


def _run_pip(command: list[str]) -> str:
    """Run pip; an empty reason says that it went well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=BUILD_SECONDS, env=environment, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFault(f"pip could not be run: {error}") from None
    if not done.returncode:
        return ""
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


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
    options = ("-q", "-f", "-j", "0", "-s", str(home), "-p", SHOWN_AT)
    command = [str(home / "bin" / "python"), "-I", "-m", "compileall", *options, str(home / "lib")]
    subprocess.run(command, capture_output=True, timeout=BUILD_SECONDS, check=False)
