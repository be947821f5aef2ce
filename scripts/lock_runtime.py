"""Prints a lock for a runtime: exact versions with the hashes of their wheels for every Python and machine we name.

    python scripts/lock_runtime.py numpy==2.4.6 scipy==1.17.1 matplotlib==3.11.2 > environments/data/scipy.txt

``--alone NAME==VERSION`` leaves out what a package asks for (torchvision: a torch for CUDA); ``--source NAME==VERSION`` is for one that
has no wheel: it is built from its hashed source at installation.
Versions are resolved once, for the first Python; the hashes are those that PyPI gives, whatever pip's configuration
on this machine says. Put the two comment lines of the other locks on top, and the name into RUNTIMES.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
WHEELS = "--only-binary=:all:"
GLIBC = ("2_28", "2_27", "2_26", "2_24", "2_17")


def ask_pip(words: list[str], python: str, machine: str) -> list[Any]:
    """Return what pip would install."""
    options = [
        "--dry-run",
        "--quiet",
        "--disable-pip-version-check",
        f"--python-version={python}",
    ]
    options += [f"--platform=manylinux_{version}_{machine}" for version in GLIBC]
    environment = {name: value for name, value in os.environ.items() if name not in ("PIP_FIND_LINKS", "PIP_INDEX_URL")}
    with TemporaryDirectory() as place:
        report = Path(place, "report.json")
        command = [sys.executable, "-m", "pip", "install", *options, f"--target={place}", f"--report={report}", *words]
        subprocess.run(command, env={**environment, "PIP_CONFIG_FILE": os.devnull}, check=True)
        return list(json.loads(report.read_text())["install"])


def pin_of(item: Any) -> str:
    """``name==version`` of one entry of a report."""
    name = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower()
    return f"{name}=={item['metadata']['version']}"


def main() -> None:
    """Resolve, then collect hashes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirements", nargs="+")
    parser.add_argument("--alone", action="append", default=[])
    parser.add_argument("--source", action="append", default=[])
    options = parser.parse_args()
    found = {pin_of(item) for item in ask_pip([WHEELS, *options.requirements], PYTHONS[0], MACHINES[0])}
    print_pins(sorted(found | set(options.alone)), WHEELS)
    for pin in options.source:
        without = f"--no-binary={pin.partition('==')[0]}"
        print(without)
        print_pins([pin], without)


def print_pins(pins: list[str], kind: str) -> None:
    """Print versions with all their hashes."""
    hashes: dict[str, list[str]] = defaultdict(list)
    for python in PYTHONS:
        for machine in MACHINES:
            for item in ask_pip(["--no-deps", kind, *pins], python, machine):
                digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
                if digest not in hashes[pin_of(item)]:
                    hashes[pin_of(item)].append(digest)
    for pin in pins:
        print(" \\\n    ".join([pin, *(f"--hash=sha256:{digest}" for digest in hashes[pin])]))


if __name__ == "__main__":
    main()
