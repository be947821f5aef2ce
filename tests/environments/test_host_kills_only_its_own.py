"""Guards: the sandbox ``host`` ending a process that is not its own, or leaving one that is."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_agent.environments import cgroups, ending
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.host import MARK, HostSandbox, open_host
from rcb_agent.errors import SandboxLost
from tests.environments.test_killed_harness import alive, wait_until

OpenHost = Callable[[], HostSandbox]


@pytest.fixture
def open_host_box(runtime: Runtime) -> Iterator[OpenHost]:
    opened: list[HostSandbox] = []

    def opener() -> HostSandbox:
        opened.append(open_host(SandboxSpec(runtime, files={"a.txt": b"hello\n"})))
        return opened[-1]

    yield opener
    for box in opened:
        box.close()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user that belongs to no sandbox."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        assert process.poll() is None, "somebody else's process was ended"
        process.kill()


@contextlib.contextmanager
def busy(box: HostSandbox, *argv: str) -> Iterator[None]:
    """Have a command run in a box meanwhile."""

    def work() -> None:
        with contextlib.suppress(SandboxLost):
            box.run(argv, timeout=30)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    box.close()
    thread.join(15)
    assert not thread.is_alive()


def place_of(box: HostSandbox) -> Path:
    return Path(box.run(["pwd"], timeout=5).stdout.decode().strip()).parent


def mark_of(name: str) -> str:
    """A number of seconds that no other test sleeps for."""
    return f"{40 + len(name)}.{os.getpid()}{abs(hash(name)) % 1000}"


@pytest.mark.parametrize(
    "script",
    [
        "(setsid sh -c 'setsid sleep {0} & sleep {0}' &); sleep 0.3",
        "env -i setsid sleep {0} </dev/null >/dev/null 2>&1 & sleep 0.2",
        "nohup sh -c 'trap \"\" TERM HUP INT; sleep {0}; sleep {0}' >/dev/null 2>&1 & sleep 0.2",
    ],
    ids=["daemons", "without their environment", "deaf to signals"],
)
def test_what_a_command_leaves_is_ended_and_nothing_else(
    open_host_box: OpenHost, stranger: subprocess.Popen[bytes], script: str
) -> None:
    """Orphans in sessions of their own end with the command; a stranger and a neighbour's command go on."""
    box, neighbour = open_host_box(), open_host_box()
    mark, other = mark_of("mine"), mark_of("a neighbour's")
    with busy(neighbour, "sleep", other):
        assert wait_until(lambda: alive(other))
        result = box.run(["sh", "-c", script.format(mark)], timeout=10)
        assert (result.exit_code, result.survivors > 0) == (0, True)
        assert alive(f"sleep\0{mark}") == []
        box.close()
        assert len(alive(f"sleep\0{other}")) == 1
    assert wait_until(lambda: not alive(other))
    assert stranger.poll() is None


FLEEING = """\
import os, sys, time
end = time.monotonic() + 20
if os.fork() == 0:
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
"""
HEADLESS = """\
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(30,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_that_keeps_forking_away_is_caught(open_host_box: OpenHost) -> None:
    """Each generation is an orphan of another number; they end all the same, and the next command runs alone."""
    box = open_host_box()
    started = time.monotonic()
    box.run(["python", "-c", FLEEING + f"# {mark_of('fleeing')}"], timeout=10)
    assert time.monotonic() - started < 8
    assert alive(mark_of("fleeing")) == []
    assert box.run(["cat", "a.txt"], timeout=5).survivors == 0


def test_threads_without_their_first_one_are_ended(open_host_box: OpenHost) -> None:
    """A process whose first thread is gone looks like a zombie and is none."""
    result = open_host_box().run(["python", "-c", HEADLESS], timeout=1)
    assert result.timed_out
    assert result.seconds < 4


RECYCLED = """\
import os, subprocess, sys
from rcb_agent.environments import ending
own = subprocess.Popen(["sleep", "60"])
grandchild_of = {os.getpid(): [own.pid, int(sys.argv[1])], own.pid: [int(sys.argv[1])]}
ending.children_of = lambda pid: grandchild_of.get(pid, [])
ending.kill_descendants()
print(own.wait())
"""


def test_a_number_that_was_taken_over_is_not_signalled(stranger: subprocess.Popen[bytes]) -> None:
    """Where a listed number belongs to somebody else by now, as child or grandchild, the proof fails."""
    done = subprocess.run(
        [sys.executable, "-c", RECYCLED, str(stranger.pid)], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout == f"{-signal.SIGKILL}\n"


def test_no_plain_process_may_signal_everybody() -> None:
    """The one call that spares nobody is refused outside a namespace."""
    with pytest.raises(RuntimeError, match="first process of a namespace"):
        ending.kill_everybody()


@pytest.mark.parametrize("number", ["KILL", "STOP"])
@pytest.mark.parametrize("grouped", [True, False], ids=["as it is", "without cgroups"])
def test_a_command_against_its_supervisor(
    open_host_box: OpenHost,
    stranger: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    number: str,
    grouped: bool,  # noqa: FBT001
) -> None:
    """A supervisor that is killed or stopped from inside: the harness ends what it held, and only that."""
    if not grouped:
        monkeypatch.setattr(cgroups, "own_folders", lambda: ({}, 1))
    box, mark = open_host_box(), mark_of(number)
    place = place_of(box)
    script = f"setsid sleep {mark} & sleep 0.5; kill -{number} $PPID; sleep {mark}"
    with busy(box, "sh", "-c", script):
        assert wait_until(lambda: alive(f"sleep\0{mark}"))
        time.sleep(0.8)
    assert wait_until(lambda: not alive(mark))
    assert not place.exists()
    assert stranger.poll() is None


# A shell's background job, CI's perhaps, has SIGINT ignored: the harness of the test has it as a terminal gives it.
HARNESS = """\
import signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.host import open_host
boxes = [open_host(SandboxSpec(Runtime('bare', Path(sys.argv[1]), (), ''))) for _ in range(2)]
for box in boxes:
    print(box.run(['pwd'], timeout=5).stdout.decode(), end='', flush=True)
boxes[0].run(['sh', '-c', 'setsid sleep ' + sys.argv[2] + ' & mkdir -p a/b; chmod 0 a; sleep ' + sys.argv[2]], timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_harness_leaves_no_process_and_no_folder(
    runtime: Runtime, stranger: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    """Killed alone, or by a terminal's signal to its whole group, idle sandboxes and busy ones."""
    mark = mark_of(number.name)
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(runtime.python), mark],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as harness:
        assert harness.stdout is not None
        places = [Path(harness.stdout.readline().strip()).parent for _ in range(2)]
        assert wait_until(lambda: len(alive(f"sleep\0{mark}")) == 2)
        assert all(place.is_dir() for place in places)
        os.killpg(harness.pid, number)
        harness.wait(5)
    assert wait_until(lambda: not alive(mark))
    assert wait_until(lambda: not any(place.exists() for place in places))
    assert stranger.poll() is None


def test_the_mark_is_one_sandbox_s_own(open_host_box: OpenHost) -> None:
    """Strays are told apart by it, so no two sandboxes share one."""
    marks = {open_host_box().run(["printenv", MARK], timeout=5).stdout for _ in range(3)}
    assert len(marks) == 3
    assert all(len(mark) == 33 for mark in marks)


def test_only_private_folders_are_removed(tmp_path: Path) -> None:
    """Anything by another name is refused; a deep tree and closed folders go, a second name of a file keeps its mode."""
    for path in ("/", str(tmp_path), "relative", "rcb-agent-x"):
        with pytest.raises(ValueError, match="no private folder"):
            ending.remove_folder(path)
    kept = tmp_path / "kept"
    kept.write_text("mine")
    kept.chmod(0o400)
    private = tmp_path / "rcb-agent-1-x"
    private.mkdir()
    (private / "second").hardlink_to(kept)
    (private / "link").symlink_to(tmp_path)
    deep = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)\n"
    subprocess.run([sys.executable, "-c", deep], cwd=private, check=True)
    ending.remove_folder(str(private))
    assert not private.exists()
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("mine", 0o400)
