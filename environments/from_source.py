"""Builds wheels of packages that are published as source only, with tools that are pinned as well.

pip's own isolated build would take whatever setuptools an index has on that day. Here a venv of its own holds exactly what
``data/build.txt`` pins, by hash, and behind that what the runtime has got so far: some of these packages ask for PyTorch
when they are built. pip keeps no wheel of it, for it would compare that with the hash of the source.
"""

import venv
from importlib import resources
from pathlib import Path

from rcb_agent.environments.installing import OPTIONS, Sources, links_of, run_pip
from rcb_agent.errors import EnvironmentFault

TOOLS = "build.txt"


def read_tools() -> str:
    """Return the lock of the build tools."""
    return resources.files("rcb_agent.environments").joinpath("data", TOOLS).read_text()


def install_from_source(home: Path, requirements: Path, sources: Sources) -> None:
    """Build a part of a lock beside a venv ``home`` and install its wheels there. Raises EnvironmentFault."""
    builder, wheels = home.parent / "builder", home.parent / "wheels"
    make_builder(builder, home, sources)
    build = [*links_of(sources), "--no-build-isolation", "--no-cache-dir", "--no-deps", f"--wheel-dir={wheels}"]
    if reason := run_pip(builder, ["wheel", *build, "-r", str(requirements)]):
        raise EnvironmentFault(f"pip could not build {requirements}: {reason}")
    built = [str(wheel) for wheel in sorted(wheels.glob("*.whl"))]
    if reason := run_pip(home, ["install", *OPTIONS, "--no-index", *built]):
        raise EnvironmentFault(f"pip could not install what was built of {requirements}: {reason}")


def make_builder(builder: Path, home: Path, sources: Sources) -> None:
    """Make the venv that builds: the pinned tools first, then the packages of ``home``."""
    venv.EnvBuilder(symlinks=True, with_pip=False, clear=True).create(builder)
    tools = builder / TOOLS
    tools.write_text(read_tools())
    if reason := run_pip(builder, ["install", *OPTIONS, *links_of(sources), "-r", str(tools)]):
        raise EnvironmentFault(f"pip could not install the build tools: {reason}")
    (packages,) = builder.glob("lib/python*/site-packages")
    (theirs,) = home.glob("lib/python*/site-packages")
    (packages / "runtime.pth").write_text(f"{theirs}\n")
