"""Guards: a package that is built by whatever tools an index has that day, without what it needs, or left half there."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from rcb_agent.environments import from_source, runtimes
from rcb_agent.environments.installing import Sources
from rcb_agent.environments.venvs import lock_pins, make_venv
from rcb_agent.errors import EnvironmentFault
from tests.environments.test_locks_in_two_parts import make_wheel

# Builds its wheel with the pinned tool and with a package of the runtime, both of which write into it.
BACKEND = """\
import os, zipfile
import sandtools, kelp

def build_wheel(folder, settings=None, metadata=None):
    name = "dune-2.0-py3-none-any.whl"
    info = "dune-2.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        wheel.writestr("dune.py", f"made_with = {sandtools.version!r}, {kelp.x!r}\\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: dune\\nVersion: 2.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", f"dune.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n")
    return name
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "dune"\nversion = "2.0"\n'


def make_source(folder: Path) -> str:
    """Write the source of a package; return its hash."""
    with tarfile.open(folder / "dune-2.0.tar.gz", "w:gz") as tar:
        for name, text in {
            "pyproject.toml": PROJECT,
            "backend.py": BACKEND,
            "PKG-INFO": "Metadata-Version: 2.1\nName: dune\nVersion: 2.0\n",
        }.items():
            entry = tarfile.TarInfo(f"dune-2.0/{name}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return digest_of(folder / "dune-2.0.tar.gz")


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that is needed; pip knows of nothing else, and the tools are those of the test."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "kelp", "1.0", "x = 7\n")
    make_wheel(folder, "sandtools", "3.0", "version = 3\n")
    make_wheel(folder, "sandtools", "4.0", "version = 4\n")
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "PIP_NO_INDEX": "1"}.items():
        monkeypatch.setenv(name, value)
    tools = f"sandtools==3.0 --hash=sha256:{digest_of(folder / 'sandtools-3.0-py3-none-any.whl')}\n"
    monkeypatch.setattr(from_source, "read_tools", lambda: tools)
    return folder


def lock_of(shelf: Path, digest: str) -> str:
    """What is built stands first and is installed last."""
    kelp = digest_of(shelf / "kelp-1.0-py3-none-any.whl")
    return f"--no-binary=dune\ndune==2.0 --hash=sha256:{digest}\n--index-url http://127.0.0.1:9/\nkelp==1.0 --hash=sha256:{kelp}\n"


def test_it_is_built_with_the_pinned_tools_and_what_is_installed(tmp_path: Path, shelf: Path) -> None:
    """Not with a newer tool that lies there as well; the wheel alone is installed, and nothing is left of the build."""
    lock = lock_of(shelf, make_source(shelf))
    home = tmp_path / "r" / "venv"
    make_venv(home, lock, Sources(find_links=(str(shelf),)), lambda _line: None)
    python = home / "bin" / "python"
    assert runtimes.run_python(python, "import dune; print(*dune.made_with)") == "3 7\n"
    runtimes.check_packages(python, lock_pins(lock))
    assert "sandtools" not in runtimes.run_python(python, runtimes.INSTALLED)
    assert {path.name for path in home.parent.iterdir()} == {"venv", "lock.txt"}


def test_another_source_than_the_pinned_one_is_refused(tmp_path: Path, shelf: Path) -> None:
    """Its setup would have run on this machine."""
    make_source(shelf)
    with pytest.raises(EnvironmentFault, match="could not build"):
        make_venv(
            tmp_path / "r" / "venv", lock_of(shelf, "0" * 64), Sources(find_links=(str(shelf),)), lambda _line: None
        )


def test_other_tools_are_another_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built by others is not the same; a lock without any does not depend on them."""
    with_source, without = "a==1\n--no-binary=b\nb==2\n", "a==1\nb==2\n"
    before = runtimes.lock_digest(with_source), runtimes.lock_digest(without)
    monkeypatch.setattr(runtimes, "read_tools", lambda: "setuptools==1\n")
    assert runtimes.lock_digest(with_source) != before[0]
    assert runtimes.lock_digest(without) == before[1]


def test_a_name_that_a_wheel_does_not_hold_is_passed_over(tmp_path: Path, shelf: Path) -> None:
    """Some list modules that they lack; one that has none of those it names is still refused."""
    home = tmp_path / "r" / "venv"
    make_venv(home, "kelp==1.0\n", Sources(find_links=(str(shelf),)), lambda _line: None)
    (listed,) = home.glob("lib/python*/site-packages/kelp-1.0.dist-info")
    (listed / "top_level.txt").write_text("kelp\nbuild_only\n")
    runtimes.check_packages(home / "bin" / "python", ["kelp==1.0"])
    (listed / "top_level.txt").write_text("build_only\n")
    with pytest.raises(EnvironmentFault, match="build_only"):
        runtimes.check_packages(home / "bin" / "python", ["kelp==1.0"])
