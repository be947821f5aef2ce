"""Guards: a shim that is not in the venv, the wheel's data or the image, that replaces a package, or that nothing names."""

import hashlib
import io
import sys
import tarfile
from pathlib import Path

import pytest

from rcb_agent.environments import runtimes, shims
from rcb_agent.environments.base import Runtime
from rcb_agent.environments.images import pack_files
from rcb_agent.environments.installing import Sources
from rcb_agent.environments.preloads import imports_of
from rcb_agent.environments.venvs import lock_pins, make_venv
from rcb_agent.errors import EnvironmentFault

LOCK = "# a word\n# shim: tide\n"
TORCH = {
    "torch/__init__.py": "from torch import library, ops\n",
    "torch/ops.py": "def load_library(path):\n    raise OSError(path)\n",
    "torch/library.py": "made = []\nclass Library:\n    def __init__(self, *words):\n        made.append(words)\n"
    "    def define(self, schema):\n        made.append(schema.partition('(')[0])\n",
    "torchvision/__init__.py": "import torch\nfound = list(torch.library.made)\n",
    "torchvision/_C.so": "",
}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shim of one module, one file inside another package, and one line that is run when a Python starts."""
    folder = tmp_path / "shims" / "tide"
    files = {"tide.py": "height = 3\n", "kelp/leaf.py": "x = 1\n", "tide.pth": "import sys; sys.tide = 1\n"}
    write(folder, files)
    monkeypatch.setattr(shims, "SHIPPED", tmp_path / "shims")
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    """Write text files."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def build(home: Path, lock: str) -> Path:
    """Make a venv of a lock and return its Python."""
    make_venv(home / "venv", lock, Sources(), lambda _line: None)
    return home / "venv" / "bin" / "python"


@pytest.mark.usefixtures("shipped")
def test_a_venv_holds_the_files_with_byte_code_and_an_image_all_of_it(tmp_path: Path) -> None:
    """They are imported, are compiled for the place at which they are shown, and go into an image as packages do."""
    python = build(tmp_path, LOCK)
    assert runtimes.run_python(python, "import sys, tide, kelp.leaf; print(tide.height, sys.tide)") == "3 1\n"
    (code,) = tmp_path.glob("venv/lib/*/site-packages/__pycache__/tide.*.pyc")
    assert b"/opt/runtime/lib" in code.read_bytes()
    runtimes.check_packages(python, runtimes.lock_packages(LOCK))
    pipe = io.BytesIO()
    pack_files(pipe, python.parent.parent)
    with tarfile.open(fileobj=io.BytesIO(pipe.getvalue())) as tar:
        names = {Path(name).name for name in tar.getnames()}
    assert {"tide.py", "tide.pth", "leaf.py", code.name} <= names


def test_a_shim_is_named_and_its_content_is_part_of_the_digest(shipped: Path) -> None:
    """Another content is another runtime; a lock without shims has the digest it always had."""
    (listed,) = runtimes.lock_packages(LOCK)
    before = runtimes.lock_digest(LOCK)
    assert listed.startswith("shim:tide==")
    write(shipped, {"tide.py": "height = 4\n"})
    assert runtimes.lock_digest(LOCK) != before
    assert runtimes.lock_packages(LOCK) != [listed]
    plain = "# words\nnumpy==1.0\n"
    assert runtimes.lock_digest(plain) == hashlib.sha256(b"numpy==1.0").hexdigest()


@pytest.mark.parametrize(
    "installed", ["tide.py", "tide/__init__.py", "tide.cpython-311-x86_64-linux-gnu.so", "kelp/leaf/x.py"]
)
@pytest.mark.usefixtures("shipped")
def test_a_shim_never_stands_in_for_a_package(tmp_path: Path, installed: str) -> None:
    """Not by replacing a file, nor by a name that a folder or a library has already."""
    packages = tmp_path / "packages"
    write(packages, {installed: "", "kelp/__init__.py": ""})
    with pytest.raises(EnvironmentFault, match=r"the shim tide cannot be laid: .* is in the way of"):
        shims.lay_shims(LOCK, packages)


@pytest.mark.usefixtures("shipped")
def test_a_shim_that_is_not_there_is_a_fault() -> None:
    """In one line that names it."""
    with pytest.raises(EnvironmentFault, match="the shim 'ebb', which is not shipped"):
        shims.list_shims("# shim: ebb\n")


def test_every_shipped_shim_is_used_and_hides_nothing() -> None:
    """What no lock names would rot; a module of the standard library cannot be meant."""
    named = {name for runtime in runtimes.RUNTIMES for name in shims.shims_of(runtimes.read_lock(runtime))}
    assert named == {entry.name for entry in shims.SHIPPED.iterdir() if entry.is_dir()}
    modules = {Path(path.split("/")[0]).stem for name in named for path in shims.read_shim(name)}
    assert not modules & set(sys.stdlib_module_names)


@pytest.mark.parametrize("loads", [False, True])
def test_the_operators_are_declared_only_where_torchvision_cannot(tmp_path: Path, *, loads: bool) -> None:
    """Before its first import, once; where its own part loads, a second declaration would end the process."""
    python = build(tmp_path, "# shim: torchvision-ops\n")
    (packages,) = tmp_path.glob("venv/lib/*/site-packages")
    write(packages, TORCH)
    if loads:
        write(packages, {"torch/ops.py": "def load_library(path):\n    assert path.endswith('_C.so')\n"})
    code = (
        "import sys\nassert 'torch' not in sys.modules\nimport torchvision, importlib\nimportlib.reload(torchvision)\n"
    )
    expected = [] if loads else [("torchvision", "DEF"), "nms", "qnms"]
    assert runtimes.run_python(python, f"{code}print(torchvision.found)") == f"{expected}\n"
    assert lock_pins("# shim: torchvision-ops\n") == []


def test_what_is_loaded_ahead_is_what_a_runtime_has() -> None:
    """A shim is no package to import ahead: it says itself when it is needed."""
    names = imports_of(
        Runtime("vision", Path("python"), tuple(runtimes.lock_packages(runtimes.read_lock("vision"))), "")
    )
    assert {"torch", "timm", "torchvision", "omegaconf", "scipy.stats"} <= set(names)
    assert not {name for name in names if "shim" in name or name in ("wandb", "flax", "pandas")}
