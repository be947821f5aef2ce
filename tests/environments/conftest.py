"""Real sandboxes for tests, with a runtime that needs no network to build."""

import shutil
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import BubblewrapSandbox, open_bubblewrap
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import EnvironmentFault

OpenBox = Callable[..., BubblewrapSandbox]
POC = Path(__file__).parent.parent / "attacks" / "poc"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without bubblewrap the tests that need it are skipped, by name of what is missing."""
    if shutil.which("bwrap"):
        return
    for item in items:
        if item.get_closest_marker("sandbox"):
            item.add_marker(pytest.mark.skip(reason="bwrap is not on PATH (apt-get install bubblewrap)"))


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """A Python without packages."""
    home = tmp_path_factory.mktemp("runtime") / "venv"
    venv.EnvBuilder(symlinks=True, with_pip=False).create(home)
    return Runtime("bare", home / "bin" / "python", (), "0" * 64)


@pytest.fixture(scope="session")
def mini() -> Runtime:
    """The runtime of the mini suite, as it is built."""
    try:
        return load_runtime("mini")
    except EnvironmentFault as fault:
        pytest.skip(str(fault))


@pytest.fixture
def open_box(runtime: Runtime) -> Iterator[OpenBox]:
    """Opens sandboxes that are closed after the test."""
    opened: list[BubblewrapSandbox] = []

    def opener(
        files: dict[str, bytes] | None = None, limits: Limits | None = None, **more: object
    ) -> BubblewrapSandbox:
        spec = SandboxSpec(runtime, files=files or {}, limits=limits or Limits(), **more)  # type: ignore[arg-type]
        opened.append(open_bubblewrap(spec))
        return opened[-1]

    yield opener
    for box in opened:
        box.close()


@pytest.fixture
def box(open_box: OpenBox) -> BubblewrapSandbox:
    """One sandbox with a model.py."""
    return open_box({"model.py": b"x = 1\n"})


@pytest.fixture
def poc() -> Callable[[str], bytes]:
    """Reads an attack program by its id."""

    def reader(identifier: str) -> bytes:
        (path,) = POC.glob(f"{identifier}_*.py")
        return path.read_bytes()

    return reader
