"""Guards: an interpreter that is given code compiled by another version."""

from collections.abc import Callable, Iterator
from types import CodeType

import pytest

from rcb_agent.environments import supervised
from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.errors import EnvironmentFault

pytestmark = pytest.mark.sandbox


@pytest.fixture
def useless_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the harness compiles is of no use, as that of another version would be."""

    def compile_part(_source: bytes) -> CodeType:
        code: CodeType = compile("raise SystemExit(9)", "part", "exec")
        return code

    monkeypatch.setattr(supervised, "compile_part", compile_part)
    supervised.supervisor_sources.cache_clear()
    yield
    supervised.supervisor_sources.cache_clear()


@pytest.mark.usefixtures("useless_code")
def test_another_version_compiles_the_source_itself(
    open_box: Callable[..., SupervisedSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an interpreter of its own byte code the compiled code runs; with any other, the source does."""
    with pytest.raises(EnvironmentFault):
        open_box()
    monkeypatch.setattr(supervised, "MAGIC_NUMBER", b"another")
    assert open_box({"a": b"hello"}).run(["cat", "a"], timeout=10).stdout == b"hello"
