"""Guards: sockets of a command that lose bytes, never end, or let one side hang the other, inherited or carried."""

import hashlib
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from rcb_agent.environments import frames, relay, supervised
from rcb_agent.environments.supervised import Carrier, SupervisedSandbox, close_pipes, open_pipes
from rcb_agent.errors import SandboxLost
from tests.environments.conftest import OpenBox

ECHO = """\
import socket
end = socket.socket(fileno=3)
while data := end.recv(1 << 16):
    end.sendall(data)
end.shutdown(socket.SHUT_WR)
"""


@pytest.fixture
def joined(open_box: OpenBox) -> Iterator[tuple[SupervisedSandbox, socket.socket]]:
    """A sandbox and the other end of its socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        yield open_box(sockets=(theirs.fileno(),)), ours


def read_all(end: socket.socket) -> bytes:
    return b"".join(iter(lambda: end.recv(1 << 16), b""))


@pytest.mark.sandbox
@pytest.mark.isolated
def test_bytes_go_both_ways_at_once(joined: tuple[SupervisedSandbox, socket.socket]) -> None:
    """More than every buffer together, in both directions, to the end of each."""
    box, ours = joined
    sent = os.urandom(5 << 20)

    def write() -> None:
        ours.sendall(sent)
        ours.shutdown(socket.SHUT_WR)

    got: list[bytes] = []
    threads = [threading.Thread(target=write), threading.Thread(target=lambda: got.append(read_all(ours)))]
    for thread in threads:
        thread.start()
    result = box.run(["python", "-c", ECHO], timeout=30)
    for thread in threads:
        thread.join(20)
    assert result.exit_code == 0, result.text()
    assert hashlib.sha256(got[0]).digest() == hashlib.sha256(sent).digest()


@pytest.mark.sandbox
@pytest.mark.isolated
def test_what_a_command_leaves_arrives_and_the_next_one_goes_on(
    joined: tuple[SupervisedSandbox, socket.socket],
) -> None:
    """A command that writes and ends at once has written; the socket is still open for the next."""
    box, ours = joined
    got: list[int] = []

    def read(left: int) -> None:
        time.sleep(0.5)  # slower than the command, which has ended by then where its bytes are carried
        while left:
            left -= len(ours.recv(left))
        got.append(left)

    code = "import os, socket; socket.socket(fileno=3).sendall(b'x' * 900_000); os._exit(0)"
    for _ in range(2):
        reader = threading.Thread(target=read, args=(900_000,))
        reader.start()
        assert box.run(["python", "-c", code], timeout=10).exit_code == 0
        reader.join(8)  # it has all of it without another command
        assert not reader.is_alive()
    assert got == [0, 0]
    ours.sendall(b"for the next")
    shown = box.run(["python", "-c", "import socket; print(socket.socket(fileno=3).recv(99))"], timeout=10)
    assert shown.stdout == b"b'for the next'\n"


@pytest.mark.sandbox
@pytest.mark.isolated
def test_a_side_that_takes_no_more_is_an_error_of_the_other(joined: tuple[SupervisedSandbox, socket.socket]) -> None:
    """A writer meets a broken pipe, not silence."""
    box, ours = joined
    ours.shutdown(socket.SHUT_RD)
    code = "import socket\nend = socket.socket(fileno=3)\nwhile True: end.sendall(b'x' * 1000)"
    result = box.run(["python", "-c", code], timeout=20)
    assert b"BrokenPipeError" in result.stderr
    assert not result.timed_out


@pytest.mark.sandbox
@pytest.mark.isolated
def test_a_side_that_does_not_read_costs_time_only(joined: tuple[SupervisedSandbox, socket.socket]) -> None:
    """A flood nobody reads stops at the buffers; the command meets its limit, the harness does not grow."""
    box, _ = joined
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = "import socket\nend = socket.socket(fileno=3)\nwhile True: end.sendall(b'x' * 100_000)"
    started = time.monotonic()
    assert box.run(["python", "-c", code], timeout=0.5).killed == "time"
    assert time.monotonic() - started < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    assert box.run(["true"], timeout=5).exit_code == 0


def packed(kind: str, blob: bytes = b"", **more: object) -> bytes:
    return frames.pack_frame({"relay": kind, "socket": 0, "count": 0, **more}, blob)


LIES = {
    "garbage": b"\xff" * 64,
    "another socket": packed(relay.DATA, b"x", socket=1),
    "too much": packed(relay.DATA, b"x" * relay.CHUNK) * (relay.WINDOW // relay.CHUNK + 1),
    "a giant": frames.HEADER.pack(10, 90 << 20),
    "a long word": frames.HEADER.pack(10 << 20, 0),
    "two ends": packed(relay.END) * 2,
    "room for nothing": packed(relay.ROOM, count=5),
    "an answer that is none": frames.pack_frame({"relay": "answer", "socket": 0}),
    "silence": b"",
}
LIAR = """\
import sys, time
def read(size):
    data = sys.stdin.buffer.read(size)
    if len(data) < size: sys.exit()
    return data
def frame():
    head = read(8); return read(int.from_bytes(head[:4], 'big') + int.from_bytes(head[4:], 'big'))
def write(data): sys.stdout.buffer.write(data); sys.stdout.flush()
ready = b'{"ready": true, "filtered": true}'
frame(); write(len(ready).to_bytes(4, 'big') + bytes(4) + ready)
frame(); write(LIE); time.sleep(60)
"""


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_lying_carrier_is_lost(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it sends while a command runs, the harness neither hangs nor grows nor believes it."""
    monkeypatch.setattr(supervised, "GRACE_SECONDS", 1.0)
    ours, theirs = socket.socketpair()
    ends = repr(LIES[lie])
    if lie == "too much":
        ends = f"{packed(relay.DATA, b'x' * relay.CHUNK)[:100]!r}.ljust({len(packed(relay.DATA, b'x' * relay.CHUNK))}, b'x') * 40"
    command = [sys.executable, "-c", LIAR.replace("LIE", ends)]
    with ours, theirs, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        release = lambda: close_pipes(process)  # noqa: E731
        carrier = Carrier(
            "liar", *open_pipes(process), {}, process.kill, release, lambda: 0, sockets=(theirs.fileno(),)
        )
        sandbox = SupervisedSandbox(carrier)
        sandbox.start({"output_bytes": 1000}, {})
        started = time.monotonic()
        with pytest.raises(SandboxLost, match="no longer answers" if lie == "silence" else "sent garbage"):
            sandbox.run(["true"], timeout=0.5)
        assert time.monotonic() - started < 4
        sandbox.close()


@pytest.mark.sandbox
@pytest.mark.docker
@pytest.mark.parametrize("sandbox_kind", ["docker"])
@pytest.mark.parametrize("lie", ["another socket", "two ends", "room for nothing", "garbage"])
def test_a_lying_harness_ends_the_supervisor(joined: tuple[SupervisedSandbox, socket.socket], lie: str) -> None:
    """The other way round it is the same: the container ends."""
    box, _ = joined
    os.write(box._carrier.inlet, LIES[lie])
    with pytest.raises(SandboxLost):
        box.run(["true"], timeout=5)
