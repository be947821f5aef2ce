"""Makes a venv from a lock: installs exactly what is pinned, takes its own place out of it, writes byte code.

A lock is a requirements file. What stands below a line ``--index-url URL`` is installed by itself, from that index and
no other: hashes are all or nothing within one install. A line ``--no-binary=NAME`` lets a package without wheels be built
from its hashed source.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.environments.from_source import install_from_source
from rcb_agent.environments.installing import BUILD_SECONDS, OPTIONS, Sources, links_of, run_pip
from rcb_agent.environments.shims import lay_shims, list_shims
from rcb_agent.errors import EnvironmentFault

SHOWN_AT = "/opt/runtime"  # where sandboxes show a runtime's venv
INDEX = "--index-url "
SOURCE = "--no-binary="


@dataclass(frozen=True, slots=True)
class Part:
    """Requirements that one call of pip installs; ``index`` is empty where it is pip's own."""

    text: str
    index: str
    is_source: bool = False


def split_lock(lock: str) -> Iterator[Part]:
    """Yield the parts of a lock; comments are of no part."""
    index, is_source, lines = "", False, list[str]()
    for line in lock.splitlines():
        if line.startswith((INDEX, SOURCE)):
            yield Part("\n".join(lines), index, is_source)
            is_source = line.startswith(SOURCE)
            index, lines = ("", [line]) if is_source else (line.removeprefix(INDEX).strip(), [])
        elif line.strip() and not line.startswith("#"):
            lines.append(line)
    yield Part("\n".join(lines), index, is_source)


def is_built(lock: str) -> bool:
    """Say whether a lock has packages that are built from source."""
    return any(part.is_source for part in split_lock(lock))


def lock_pins(lock: str) -> list[str]:
    """Return the ``name==version`` lines of a lock."""
    words = [line.split("#")[0].strip().rstrip("\\").strip() for line in lock.splitlines()]
    return [word.split()[0] for word in words if word and not word.startswith("--")]


def make_venv(home: Path, lock: str, sources: Sources, report: Callable[[str], None]) -> None:
    """Make a venv that holds exactly what a lock pins, and its shims. Raises EnvironmentFault."""
    report(f"making a venv with Python {sys.version.split()[0]}")
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    requirements = home.parent / "lock.txt"
    for part in sorted(split_lock(lock), key=lambda part: part.is_source):  # what is built may need what is installed
        if pins := lock_pins(part.text):
            report(f"{'building' if part.is_source else 'installing'} {', '.join(pins)}")
            requirements.write_text(part.text + "\n")
            if part.is_source:
                install_from_source(home, requirements, sources)
            else:
                install(home, requirements, part.index, sources)
    remove_leavings(home)
    requirements.write_text(lock)
    if shims := list_shims(lock):
        report(f"laying {', '.join(shims)}")
        (packages,) = home.glob("lib/python*/site-packages")
        lay_shims(lock, packages)
    report("writing byte code")
    make_movable(home)
    compile_packages(home)


def remove_leavings(home: Path) -> None:
    """Remove what was only there to build."""
    for name in ("builder", "wheels"):
        shutil.rmtree(home.parent / name, ignore_errors=True)


def install(home: Path, requirements: Path, index: str, sources: Sources) -> None:
    """Install a part of a lock with the harness's pip."""
    command = ["install", *OPTIONS, *links_of(sources), "-r", str(requirements)]
    if not index:
        if reason := run_pip(home, command):
            raise EnvironmentFault(f"pip could not install {requirements}: {reason}")
        return
    chosen = sources.index or index
    # Files at hand come first: an index that cannot be reached is asked for minutes.
    if run_pip(home, [*command, "--no-index"]) and (reason := run_pip(home, [*command, f"--index-url={chosen}"])):
        raise EnvironmentFault(
            f"{', '.join(lock_pins(requirements.read_text()))} is not to be had from {chosen} ({reason}): name another "
            "index by --index URL, a folder with the wheel by --find-links DIR, or a Python that has it by "
            "`run --python PATH`"
        )


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
