"""Real sandboxes for tests, with a runtime that needs no network to build."""

import atexit
import shutil
import venv
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from rcb_agent.environments.base import Container, Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import open_bubblewrap
from rcb_agent.environments.docker import open_docker
from rcb_agent.environments.images import build_image
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.environments.warm import Program, WarmSandboxes
from rcb_agent.errors import EnvironmentFault
from tests.engine import provide_base

OpenBox = Callable[..., SupervisedSandbox]
IDLE = Program("idle", (("idle", "def main(settings):\n    pass\n"),))
POC = Path(__file__).parent.parent / "attacks" / "poc"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without bubblewrap the tests that need it are skipped, by name of what is missing."""
    if shutil.which("bwrap"):
        return
    for item in items:
        if item.get_closest_marker("sandbox") and not item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.skip(reason="bwrap is not on PATH (apt-get install bubblewrap)"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``isolated`` run in every sandbox that isolates."""
    if "sandbox_kind" in metafunc.fixturenames and is_for_all(metafunc.definition):
        kinds = ["bubblewrap", "warm", pytest.param("docker", marks=pytest.mark.docker)]
        metafunc.parametrize("sandbox_kind", kinds)


def is_for_all(test: pytest.Item) -> bool:
    """Whether a test is marked so, and does not name its kinds itself."""
    named = any("sandbox_kind" in mark.args[0] for mark in test.iter_markers("parametrize"))
    return test.get_closest_marker("isolated") is not None and not named


@cache
def warm() -> WarmSandboxes:
    """One for all tests of a process."""
    kept = WarmSandboxes()
    atexit.register(kept.close)
    return kept


@pytest.fixture
def sandbox_kind() -> str:
    """Which sandbox a test is about."""
    return "bubblewrap"


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


@pytest.fixture(scope="session")
def base_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a base image."""
    return provide_base(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def bare_image(runtime: Runtime, base_image: str) -> str:
    """The id of an image of ``runtime``."""
    return build_image(runtime, base_image, lambda _line: None).id


@pytest.fixture(scope="session")
def mini_image(mini: Runtime, base_image: str) -> str:
    """The id of an image of the runtime of the mini suite."""
    return build_image(mini, base_image, lambda _line: None).id


@pytest.fixture
def open_box(runtime: Runtime, sandbox_kind: str, request: pytest.FixtureRequest) -> Iterator[OpenBox]:
    """Opens sandboxes that are closed after the test."""
    opened: list[SupervisedSandbox] = []
    container = None
    if sandbox_kind == "docker":
        container = Container({runtime.name: request.getfixturevalue("bare_image")})
    kinds: dict[str, Callable[[SandboxSpec], SupervisedSandbox]] = {
        "bubblewrap": open_bubblewrap,
        "docker": open_docker,
        "warm": lambda spec: warm().open(spec, IDLE),
    }
    opening = kinds[sandbox_kind]

    def opener(
        files: dict[str, bytes] | None = None, limits: Limits | None = None, **more: object
    ) -> SupervisedSandbox:
        given = {"files": files or {}, "limits": limits or Limits(), "container": container, **more}
        opened.append(opening(SandboxSpec(runtime, **given)))  # type: ignore[arg-type]
        return opened[-1]

    yield opener
    for box in opened:
        box.close()


@pytest.fixture
def box(open_box: OpenBox) -> SupervisedSandbox:
    """One sandbox with a model.py."""
    return open_box({"model.py": b"x = 1\n"})


@pytest.fixture
def poc() -> Callable[[str], bytes]:
    """Reads an attack program by its id."""

    def reader(identifier: str) -> bytes:
        (path,) = POC.glob(f"{identifier}_*.py")
        return path.read_bytes()

    return reader
