"""Guards: a missing program, runtime or permission that ends in a traceback or, worse, in no sandbox at all."""

import os
import sys
from pathlib import Path

import pytest

from rcb_agent.environments import runtimes
from rcb_agent.environments.base import Bind, Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import explain_refusal, open_bubblewrap
from rcb_agent.environments.registry import SANDBOXES, open_sandbox
from rcb_agent.environments.venvs import lock_pins
from rcb_agent.errors import EnvironmentFault, UsageError


def test_no_bubblewrap_is_said_in_one_line(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message says what to install; nothing runs unsandboxed instead."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="apt-get install bubblewrap"):
        open_bubblewrap(SandboxSpec(runtime))


def test_a_refused_bubblewrap_is_explained(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that cannot make namespaces: its own words and a hint, and no process left."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(EnvironmentFault, match=r"No permissions to create a new namespace; user namespaces may"):
        open_bubblewrap(SandboxSpec(runtime))
    assert "user namespaces" not in explain_refusal("out of disk")


@pytest.mark.sandbox
def test_a_source_that_is_not_there(runtime: Runtime) -> None:
    """A bind of nothing is a fault in words."""
    with pytest.raises(EnvironmentFault, match="no-such-folder"):
        open_bubblewrap(SandboxSpec(runtime, binds=(Bind(Path("/no-such-folder"), "/data"),)))


@pytest.mark.sandbox
def test_binds_and_environment_arrive(runtime: Runtime, tmp_path: Path) -> None:
    """A declared path is shown read-only; declared variables are added, others are not inherited."""
    (tmp_path / "numbers").write_text("42\n")
    tmp_path.chmod(0o755)
    spec = SandboxSpec(runtime, binds=(Bind(tmp_path, "/data/in"),), env={"EXTRA": "1"})
    with open_bubblewrap(spec) as box:
        script = "cat /data/in/numbers; echo $EXTRA $MORE; touch /data/in/x"
        shown = box.run(["sh", "-c", script], timeout=5, env={"MORE": "2"})
        assert shown.stdout == b"42\n1 2\n"
        assert b"Read-only" in shown.stderr
        assert set(box.run(["env"], timeout=5).stdout.decode().split("\n")) >= {"TZ=UTC", "LANG=C.UTF-8", "PAGER=cat"}


def test_an_unknown_sandbox_names_the_known(runtime: Runtime) -> None:
    """No guessing, and no import errors as tracebacks."""
    with pytest.raises(UsageError, match="unknown sandbox nothing; known: bubblewrap"):
        open_sandbox("nothing", SandboxSpec(runtime))
    for kind in ("no_such_module:x", "rcb_agent.environments.bubblewrap:nothing", ":"):
        with pytest.raises(UsageError, match="cannot be loaded"):
            open_sandbox(kind, SandboxSpec(runtime))
    assert "bubblewrap" in SANDBOXES


@pytest.mark.sandbox
def test_a_sandbox_by_its_dotted_name(runtime: Runtime) -> None:
    """Any callable that takes a spec will do."""
    sandbox = open_sandbox("rcb_agent.environments.bubblewrap:open_bubblewrap", SandboxSpec(runtime, limits=Limits()))
    sandbox.close()
    assert sandbox.kind == "bubblewrap"


def test_a_runtime_that_is_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command that builds it is named; a half-built one does not count."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    monkeypatch.delenv("RCB_AGENT_RUNTIME_MINI", raising=False)
    (runtimes.runtime_path("mini") / "venv" / "bin").mkdir(parents=True)
    (runtimes.runtime_path("mini") / "venv" / "bin" / "python").touch()
    with pytest.raises(EnvironmentFault, match="rcb-agent env build mini"):
        runtimes.load_runtime("mini")
    with pytest.raises(UsageError, match="RCB_AGENT_RUNTIME_NO_SUCH"):
        runtimes.load_runtime("no-such")


def test_a_python_of_ones_own(monkeypatch: pytest.MonkeyPatch, runtime: Runtime, tmp_path: Path) -> None:
    """A named Python is used as it is; one that does not run is a fault."""
    monkeypatch.setenv("RCB_AGENT_RUNTIME_MY_OWN", str(runtime.python))
    loaded = runtimes.load_runtime("my-own")
    assert (loaded.python, loaded.packages) == (runtime.python, ())
    monkeypatch.setenv("RCB_AGENT_RUNTIME_MY_OWN", str(tmp_path / "python"))
    with pytest.raises(EnvironmentFault, match="does not run as a Python"):
        runtimes.load_runtime("my-own")


def test_a_failed_build_is_never_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pip that cannot reach anything: a fault in one line, no marker, and the next try starts afresh."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(EnvironmentFault, match="pip could not install"):
        runtimes.build_runtime("mini", lambda _line: None)
    with pytest.raises(EnvironmentFault, match="not built"):
        runtimes.load_runtime("mini")


def test_a_runtime_that_lacks_a_package(runtime: Runtime) -> None:
    """Checking imports for real."""
    runtimes.check_packages(runtime.python, runtime.packages)
    lacking = Runtime("lacking", runtime.python, ("numpy==1.0",), "")
    with pytest.raises(EnvironmentFault, match="cannot be used"):
        runtimes.check_packages(lacking.python, lacking.packages)


def test_the_shipped_lock_is_exact() -> None:
    """Every line pins one version; comments do not change the digest."""
    lock = runtimes.read_lock("mini")
    assert lock_pins(lock)
    assert all("==" in pin for pin in lock_pins(lock))
    assert runtimes.lock_digest(lock) == runtimes.lock_digest("# more words\n" + lock)
    assert runtimes.lock_digest(lock) != runtimes.lock_digest(lock + "more==1\n")
    assert sys.implementation.cache_tag in runtimes.runtime_path("mini").name
