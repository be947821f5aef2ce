"""Guards: a supervisor or a harness that believes, waits for, or chokes on what is no frame."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments import frames, supervised
from rcb_agent.environments.supervised import Carrier, SupervisedSandbox, open_pipes
from rcb_agent.errors import SandboxFileError, SandboxLost

pytestmark = pytest.mark.isolated


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 64,
        b"GET / HTTP/1.1\r\n\r\n",
        frames.HEADER.pack(2, 0) + b"[]",
        frames.HEADER.pack(4, 0) + b"{{{{",
        frames.HEADER.pack(1 << 31, 0),
        frames.HEADER.pack(2, 1 << 31) + b"{}",
    ],
)
def test_garbage_ends_the_supervisor(box: SupervisedSandbox, garbage: bytes) -> None:
    """What is no frame ends the sandbox at once; later calls say that it is lost."""
    os.write(box._carrier.inlet, garbage)
    assert ends(box, 5)
    with pytest.raises(SandboxLost):
        box.run(["true"], timeout=5)


@pytest.mark.sandbox
def test_speaking_out_of_turn_ends_the_sandbox(box: SupervisedSandbox) -> None:
    """While a command runs, nothing is expected; anything that comes ends everything."""
    for _ in range(2):
        os.write(
            box._carrier.inlet,
            frames.pack_frame({"op": "run", "argv": ["sleep", "9"], "timeout": 9, "environment": {}}),
        )
    assert ends(box, 5)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "request_", [{}, {"op": "nothing"}, {"op": "run"}, {"op": "run", "argv": 3, "environment": {}}]
)
def test_a_wrong_request_is_an_answer(box: SupervisedSandbox, request_: dict[str, Any]) -> None:
    """A request that makes no sense is refused, and the next one works."""
    meta, _ = box._exchange({"timeout": 5, **request_}, b"", 5)
    assert "broken" in meta or meta["exit_code"] > 124
    assert box.run(["true"], timeout=5).exit_code == 0


@pytest.mark.sandbox
def test_a_frozen_supervisor_is_lost_not_waited_for(box: SupervisedSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait has an outer limit; afterwards nothing is left."""
    monkeypatch.setattr(supervised, "GRACE_SECONDS", 0.5)
    os.kill(box._carrier.pid, signal.SIGSTOP)
    started = time.monotonic()
    with pytest.raises(SandboxLost, match="no longer answers"):
        box.run(["true"], timeout=0.2)
    assert time.monotonic() - started < 5
    assert ends(box, 0)
    with pytest.raises(SandboxLost):
        box.read("model.py")


def ends(box: SupervisedSandbox, seconds: float) -> bool:
    """Whether the first process is gone by then."""
    deadline = time.monotonic() + seconds
    while (there := Path(f"/proc/{box._carrier.pid}").exists()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not there


@pytest.mark.sandbox
def test_a_killed_supervisor_is_lost(box: SupervisedSandbox) -> None:
    """A sandbox that died says so, at once."""
    os.kill(box._carrier.pid, signal.SIGKILL)
    with pytest.raises(SandboxLost):
        box.run(["true"], timeout=5)


@pytest.mark.sandbox
def test_commands_that_cannot_start(box: SupervisedSandbox) -> None:
    """As a shell would say it."""
    assert box.run(["no-such-program"], timeout=5).exit_code == 127
    assert box.run(["./model.py"], timeout=5).exit_code == 126
    assert box.run(["sh", "-c", "kill -9 $$"], timeout=5).exit_code == 137
    for words in (["echo", "a\0b"], ["echo", "\ud800"], [], [""]):
        result = box.run(words, timeout=5)
        assert result.exit_code in (126, 127)
        assert b"Traceback" not in result.stderr


@pytest.mark.sandbox
def test_a_file_too_large_for_one_write(box: SupervisedSandbox) -> None:
    """Refused on the harness's side, in words."""
    with pytest.raises(SandboxFileError, match="at once"):
        box.write("big", b"\0" * (33 << 20))


LIARS = {
    "silence": "import time; time.sleep(60)",
    "end": "",
    "garbage": "import sys; sys.stdout.buffer.write(b'x' * 100); sys.stdout.flush(); sys.stdin.read()",
    "giant": "import sys; sys.stdout.buffer.write(b'\\xff' * 8); sys.stdout.flush(); sys.stdin.read()",
    "drip": "import sys, time\nwhile True: sys.stdout.buffer.write(b'\\0'); sys.stdout.flush(); time.sleep(5)",
}


@pytest.mark.parametrize("liar", sorted(LIARS))
def test_a_lying_supervisor_is_lost(liar: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stands at the other end, the harness neither hangs nor believes it."""
    monkeypatch.setattr(supervised, "START_SECONDS", 1.0)
    with subprocess.Popen(
        [sys.executable, "-c", LIARS[liar]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        carrier = Carrier("liar", *open_pipes(process), {}, process.kill, lambda: None, lambda: 0)
        sandbox = SupervisedSandbox(carrier)
        started = time.monotonic()
        with pytest.raises(SandboxLost):
            sandbox.start({}, {})
        assert time.monotonic() - started < 3
        sandbox.close()


def test_frames_round_trip() -> None:
    """Lone surrogates and bytes survive."""
    packed = frames.pack_frame({"path": "\udcff\n"}, b"\0\xff")
    meta, blob = frames.frame_lengths(packed[:8])
    assert frames.parse_meta(packed[8 : 8 + meta]) == {"path": "\udcff\n"}
    assert packed[8 + meta :] == b"\0\xff"
    assert blob == 2


def test_the_command_line_names_nobody() -> None:
    """What stands in /proc/1/cmdline says nothing of the harness."""
    assert "rcb" not in "".join(supervised.INTERPRETER_OPTIONS)
