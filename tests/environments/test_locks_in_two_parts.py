"""Guards: a CUDA build of torch by accident, a wheel from the wrong place, and a failure that names no way out."""

import sys
import venv
import zipfile
from pathlib import Path

import pytest

from rcb_agent.environments import runtimes
from rcb_agent.environments.installing import OPTIONS, Sources
from rcb_agent.environments.venvs import lock_pins, make_venv, split_lock
from rcb_agent.errors import EnvironmentFault
from rcb_agent.tasks.overlay import runtime_of_paper

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(autouse=True)
def only_what_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip knows of nothing on this machine and does not try again."""
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "PIP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)


def make_wheel(folder: Path, name: str, version: str, code: str) -> None:
    """Write the smallest wheel there is."""
    info = f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", code)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


@pytest.mark.parametrize("name", runtimes.RUNTIMES)
def test_what_has_an_index_of_its_own_is_pinned_to_it(name: str) -> None:
    """Everything from PyPI has a hash; everything from elsewhere a local version, which PyPI cannot have."""
    parts = [part for part in split_lock(runtimes.read_lock(name)) if part.text]
    for part in parts:
        pins = lock_pins(part.text)
        assert pins
        assert all("==" in pin for pin in pins)
        assert [part.text.count("--hash=sha256:") > 0, all("+" in pin for pin in pins)] == [
            not part.index,
            bool(part.index),
        ]
    assert [pin for part in parts for pin in lock_pins(part.text)] == lock_pins(runtimes.read_lock(name))
    assert "no-deps" in " ".join(OPTIONS)


@pytest.mark.parametrize("name", runtimes.RUNTIMES)
def test_the_package_that_holds_an_answer_is_in_no_runtime_of_its_paper(name: str) -> None:
    """Transformers has all of minp's core: whoever samples there would read it."""
    has_answer = any(pin.startswith("transformers==") for pin in lock_pins(runtimes.read_lock(name)))
    assert has_answer == (name == "diffusers")
    assert runtime_of_paper("minp") != "diffusers"


def test_a_wheel_at_hand_is_enough(tmp_path: Path) -> None:
    """A folder with the file does without the index, and byte code is written once, for where it is shown."""
    make_wheel(tmp_path / "wheels", "kelp", "1.0+cpu", "x = 1\n")
    lock = f"--index-url {NOWHERE}\nkelp==1.0+cpu\n"
    make_venv(tmp_path / "r" / "venv", lock, Sources(find_links=(str(tmp_path / "wheels"),)), lambda _line: None)
    runtimes.check_packages(tmp_path / "r" / "venv" / "bin" / "python", lock_pins(lock))
    (code,) = (tmp_path / "r").rglob(f"kelp/__pycache__/*{sys.implementation.cache_tag}.pyc")
    assert b"/opt/runtime/lib" in code.read_bytes()


def test_a_wheel_that_is_nowhere_names_the_ways_out(tmp_path: Path) -> None:
    """Another index, a folder, a Python of one's own; the index that was asked is the one that was given."""
    lock = "--index-url http://127.0.0.1:1/\nkelp==1.0+cpu\n"
    with pytest.raises(EnvironmentFault) as caught:
        make_venv(tmp_path / "r" / "venv", lock, Sources(index=NOWHERE), lambda _line: None)
    for part in ("kelp==1.0+cpu is not to be had from", NOWHERE, "--index URL", "--find-links DIR", "--python PATH"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_torch_for_cuda_is_refused(tmp_path: Path) -> None:
    """Whatever its version says."""
    make_wheel(tmp_path / "wheels", "torch", "2.0+cpu", "class version:\n    cuda = '12.4'\n")
    home = tmp_path / "venv"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    (packages,) = home.glob("lib/python*/site-packages")
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "torch-2.0+cpu.dist-info" / "top_level.txt").write_text("torch\n")
    with pytest.raises(EnvironmentFault, match=r"torch is built for CUDA 12.4, not for the CPU"):
        runtimes.check_packages(home / "bin" / "python", ["torch==2.0+cpu"])


def test_a_papers_id_is_a_name_of_its_runtime() -> None:
    """For building and for suites that are read from a checkout."""
    assert [runtimes.runtime_name(name) for name in ("LEN", "minp", "mini", "x")] == ["scipy", "torch", "mini", "x"]


def test_a_build_says_what_it_costs_before(tmp_path: Path) -> None:
    """Each lock carries an estimate."""
    for name in runtimes.RUNTIMES:
        assert "MB to download" in runtimes.estimate(name, tmp_path)
