"""Guards: the sandbox ``host`` giving more than it must, or claiming what it does not enforce."""

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_agent.environments import cgroups
from rcb_agent.environments.base import Bind, Limits, Runtime, SandboxSpec
from rcb_agent.environments.host import HostSandbox, open_host
from rcb_agent.environments.registry import is_isolated, open_sandbox
from rcb_agent.errors import EnvironmentFault, SandboxFileError

OpenHost = Callable[..., HostSandbox]
KEY = "sk-a-key-of-the-user"


@pytest.fixture
def open_host_box(runtime: Runtime) -> Iterator[OpenHost]:
    opened: list[HostSandbox] = []

    def opener(**more: object) -> HostSandbox:
        opened.append(open_host(SandboxSpec(runtime, files={"model.py": b"x = 1\n"}, **more)))  # type: ignore[arg-type]
        return opened[-1]

    yield opener
    for box in opened:
        box.close()


@pytest.mark.parametrize("path", ["../outside", "/etc/hostname", "out", "out/x", "d/../../outside"])
def test_file_tools_stay_below_the_workspace(open_host_box: OpenHost, path: str) -> None:
    """Dots, absolute paths and links that lead out are refused for reading, writing, searching and collecting."""
    box = open_host_box()
    box.run(["sh", "-c", "echo secret > ../outside; mkdir d; ln -s .. out; mkdir ../x"], timeout=5)
    for operation in (lambda: box.read(path), lambda: box.write(path, b"y"), lambda: box.search("secret", path=path)):
        with pytest.raises(SandboxFileError):
            operation()
    with contextlib.suppress(SandboxFileError):  # an absolute path is refused, another one is said to be no file
        assert box.collect([path])[0].data is None
    assert box.run(["cat", "../outside"], timeout=5).stdout == b"secret\n"


def test_the_environment_is_an_allow_list(open_host_box: OpenHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is inherited; home and temporary files are private; /workspace is not made on the machine."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    there = Path("/workspace").exists()
    box = open_host_box(env={"EXTRA": "1"})
    lines = box.run(["env"], timeout=5, env={"MORE": "2"}).stdout.decode().splitlines()
    shown = dict(line.split("=", 1) for line in lines)
    place = Path(box.run(["pwd"], timeout=5).stdout.decode().strip()).parent
    assert KEY not in shown.values()
    assert (shown["EXTRA"], shown["MORE"], shown["TZ"]) == ("1", "2", "UTC")
    assert (shown["HOME"], shown["TMPDIR"]) == (f"{place}/home", f"{place}/tmp")
    assert "PYTHONPATH" not in shown
    assert place.stat().st_mode & 0o077 == 0
    assert Path("/workspace").exists() == there
    box.close()
    assert not place.exists()


def test_limits_of_a_command(open_host_box: OpenHost) -> None:
    """Time, output and the size of one file are bounded, and input arrives and ends."""
    box = open_host_box(limits=Limits(output_bytes=1000, disk_mb=8))
    slow = box.run(["sh", "-c", "echo early; sleep 30"], timeout=0.5)
    assert (slow.stdout, slow.timed_out, slow.killed) == (b"early\n", True, "time")
    loud = box.run(["sh", "-c", "yes | head -c 100000"], timeout=10)
    assert (loud.truncated, len(loud.stdout) < 1100) == (99_000, True)
    assert box.run(["cat"], timeout=5, stdin=b"given").stdout == b"given"
    assert box.run(["sh", "-c", "head -c 20000000 /dev/zero > big"], timeout=10).exit_code != 0
    assert box.run(["no-such-program"], timeout=5).exit_code == 127


def test_sockets_arrive_as_descriptors(open_host_box: OpenHost) -> None:
    """A command gets them as 3, 4, ... and nothing else of the harness."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        box = open_host_box(sockets=(theirs.fileno(),))
        code = (
            "import os, socket; socket.socket(fileno=3).sendall(b'hello'); print(sorted(os.listdir('/proc/self/fd')))"
        )
        result = box.run(["python", "-c", code], timeout=10)
        assert ours.recv(5) == b"hello"
        assert result.stdout in (b"['0', '1', '2', '3', '4']\n", b"['0', '1', '2', '3']\n")


def test_the_runtime_is_the_python_that_runs(open_host_box: OpenHost, runtime: Runtime) -> None:
    """``python`` and ``python3`` are the runtime's, be it a venv or a Python as it is installed."""
    ask = "import sys; print(sys.prefix)"
    for name in ("python", "python3"):
        found = open_host_box().run([name, "-c", ask], timeout=10)
        assert found.stdout.decode().strip() == str(runtime.python.parent.parent)
    installed = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    with open_host(SandboxSpec(Runtime("plain", installed, (), ""))) as box:
        for name in ("python", "python3"):
            assert box.run([name, "-c", ask], timeout=10).stdout.decode().strip() == sys.base_prefix


def test_what_is_not_enforced_is_said(open_host_box: OpenHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, network and disk never are; the rest only by cgroup; without one, memory by limits of each process."""
    said = open_host_box().enforcement
    assert set(said) == {"user", "network", "memory", "pids", "cpu", "disk", "syscalls"}
    assert all(said[name].startswith("not enforced") for name in ("user", "network", "disk"))
    assert f"uid {os.getuid()}" in said["user"]
    monkeypatch.setattr(cgroups, "own_folders", lambda: ({}, 1))
    box = open_host_box(limits=Limits(memory_mb=256))
    assert (box.enforcement["pids"], box.enforcement["cpu"]) == ("not enforced", "not enforced")
    assert box.enforcement["memory"].startswith("rlimits per process: 256 MiB")
    hungry = box.run(["python", "-c", "bytearray(900 << 20)"], timeout=20)
    assert b"MemoryError" in hungry.stderr


def test_memory_is_bounded_where_it_says_so(open_host_box: OpenHost) -> None:
    """A command that takes too much is ended and the sandbox goes on."""
    box = open_host_box(limits=Limits(memory_mb=128))
    if not box.enforcement["memory"].startswith("cgroup"):
        pytest.skip("no memory cgroup on this machine: recorded as rlimits")
    result = box.run(["python", "-c", "x = bytearray(900 << 20)"], timeout=20)
    assert (result.exit_code, result.killed) == (137, "memory")
    assert box.read("model.py") == b"x = 1\n"


def test_binds_cannot_be_shown(runtime: Runtime, tmp_path: Path) -> None:
    """A path of the machine at another place is refused in words, not ignored."""
    with pytest.raises(EnvironmentFault, match="cannot show folders at other places"):
        open_host(SandboxSpec(runtime, binds=(Bind(tmp_path, "/data"),)))


def test_host_is_never_a_fallback(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bubblewrap nothing else is opened; host has to be named, and is known by any name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="bwrap is not installed"):
        open_sandbox("bubblewrap", SandboxSpec(runtime))
    assert is_isolated("bubblewrap")
    assert not is_isolated("host")
    assert not is_isolated("rcb_agent.environments.host:open_host")


def test_a_temporary_folder_that_cannot_be_made(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line, no process left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(EnvironmentFault, match="no folder for a workspace"):
        open_host(SandboxSpec(runtime))
