"""Where a Python lies: what has to be shown of the machine for an interpreter to run elsewhere."""

import json
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rcb_agent.errors import EnvironmentFault

QUERY = """\
import json, os, sys, sysconfig
paths = sysconfig.get_paths()
print(json.dumps({
    "executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "prefix": sys.prefix,
    "base_prefix": sys.base_prefix,
    "version": sys.version.split()[0],
    "tag": sys.implementation.cache_tag,
    "packages": sorted({paths["purelib"], paths["platlib"]}),
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """One Python: ``executable`` is the real file behind all links, ``packages`` where its packages lie."""

    executable: Path
    prefix: Path
    base_prefix: Path
    version: str
    tag: str
    packages: tuple[Path, ...]

    @property
    def is_venv(self) -> bool:
        """Whether packages and standard library lie apart."""
        return self.prefix != self.base_prefix


@lru_cache(maxsize=32)
def describe_interpreter(python: Path) -> Interpreter:
    """Ask a Python about itself; EnvironmentFault if it does not run."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", QUERY],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise EnvironmentFault(f"{python} does not run as a Python: {error}") from None
    return Interpreter(
        executable=Path(told["executable"]),
        prefix=Path(told["prefix"]),
        base_prefix=Path(told["base_prefix"]),
        version=told["version"],
        tag=told["tag"],
        packages=tuple(Path(path) for path in told["packages"]),
    )


def links_to_executable(python: Path) -> list[tuple[Path, Path]]:
    """Return the links between ``python`` and the file it ends at, as (link, target)."""
    links = []
    for _ in range(16):
        if not python.is_symlink():
            break
        target = python.readlink()
        links.append((python, target))
        python = python.parent / target
    return links
