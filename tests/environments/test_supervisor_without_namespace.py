"""Guards: the supervisor as a plain process, as other carriers start it: it must end its own and nobody else's."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rcb_agent.environments.supervised import INTERPRETER_OPTIONS, Carrier, SupervisedSandbox, close_pipes, open_pipes
from rcb_agent.errors import SandboxFileError, SandboxLost


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
def process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *INTERPRETER_OPTIONS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.fixture
def plain(process: subprocess.Popen[bytes], place: Path) -> Iterator[SupervisedSandbox]:
    def release() -> None:
        process.wait()
        close_pipes(process)

    sandbox = SupervisedSandbox(Carrier("plain", *open_pipes(process), {}, process.kill, release, lambda: 0))
    config = {
        "workdir": str(place),
        "environment": {"PATH": os.environ["PATH"]},
        "sockets": [],
        "uid": None,
        "gid": None,
        "owned": [],
        "rlimits": [["CORE", 0]],
        "uncounted": True,
        "output_bytes": 1000,
    }
    sandbox.start(config, {"a.txt": b"hello\n"})
    yield sandbox
    sandbox.close()


def test_daemons_are_ended_and_strangers_are_not(plain: SupervisedSandbox) -> None:
    """Double forks in sessions of their own are found as descendants; a process beside the sandbox lives on."""
    stranger = subprocess.Popen(["sleep", "30"])
    mark = f"31.{os.getpid()}"
    try:
        script = f"(setsid sh -c 'setsid sleep {mark} & sleep {mark}' &) ; sleep 0.3; cat a.txt"
        result = plain.run(["sh", "-c", script], timeout=10)
        assert result.stdout == b"hello\n"
        assert result.survivors >= 2
        assert subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False).stdout == b""
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_time_limit_and_files(plain: SupervisedSandbox, place: Path) -> None:
    """The same program, the same answers."""
    assert plain.run(["sleep", "30"], timeout=0.3).timed_out
    plain.write("d/b.txt", b"x")
    assert (place / "d" / "b.txt").read_bytes() == b"x"
    with pytest.raises(SandboxFileError):
        plain.read("../outside")


def test_it_ends_when_its_input_ends(plain: SupervisedSandbox, process: subprocess.Popen[bytes]) -> None:
    """Also in the middle of a command, with what the command has started."""
    import threading

    mark = f"32.{os.getpid()}"

    def busy() -> None:
        with contextlib.suppress(SandboxLost):
            plain.run(["sleep", mark], timeout=30)

    thread = threading.Thread(target=busy)
    thread.start()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not pids(mark):
        time.sleep(0.02)
    assert pids(mark)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(5) == 0
    while time.monotonic() < deadline and pids(mark):
        time.sleep(0.02)
    assert not pids(mark)
    thread.join(5)


def pids(mark: str) -> bytes:
    return subprocess.run(["pgrep", "-f", f"^sleep {mark}"], capture_output=True, check=False).stdout
