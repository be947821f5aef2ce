"""Guards: processes, mounts or cgroups that outlive a harness, killed or not, and many sandboxes at once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rcb_agent.environments import cgroups
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import end_early, find_bubblewrap, identity_arguments, start_bubblewrap
from rcb_agent.environments.layout import mount_arguments
from tests.environments.conftest import OpenBox

pytestmark = pytest.mark.sandbox

HARNESS = """\
import sys, threading
from functools import partial
from pathlib import Path
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import open_bubblewrap
boxes = [open_bubblewrap(SandboxSpec(Runtime('bare', Path(sys.argv[1]), (), ''))) for _ in range(2)]
def work(box):
    box.run(['sh', '-c', 'setsid sleep ' + sys.argv[2] + ' & sleep ' + sys.argv[2]], timeout=600)
threads = [threading.Thread(target=work, args=(boxes[0],))]
threads[0].start()
print('open', flush=True)
threads[0].join()
"""


def alive(mark: str) -> list[int]:
    """Processes whose command line holds a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def below(pid: int) -> set[int]:
    """A process and all its descendants."""
    done = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in done.splitlines()]
    found = {pid}
    for _ in range(8):
        found |= {child for child, parent in pairs if parent in found}
    return found


def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_harness_leaves_nothing(runtime: Runtime, number: signal.Signals) -> None:
    """Within seconds nothing of its sandboxes is alive, idle or busy; its cgroups go at the next start."""
    mark = f"{30 + os.getpid() % 1000}.{number}1"
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(runtime.python), mark], stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "open\n"
        assert wait_until(lambda: len(alive(mark)) >= 3)
        family = below(harness.pid) - {harness.pid}
        assert len(family) >= 6
        harness.send_signal(number)
        harness.wait(5)
        assert wait_until(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()])
        assert alive(mark) == []
        homes, _ = cgroups.own_folders()
        for home in homes.values():
            assert wait_until(partial(sweep_all, home, harness.pid))


def sweep_all(home: Path, owner: int) -> bool:
    cgroups.sweep(home)
    return not list(home.glob(f"{cgroups.PREFIX}.{owner}.*"))


def test_closing_leaves_no_cgroup_and_no_descriptor(open_box: OpenBox) -> None:
    """Ten sandboxes later the process has as many descriptors as before."""
    open_box().close()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        box = open_box()
        box.run(["true"], timeout=5)
        box.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    homes, _ = cgroups.own_folders()
    assert [name for home in homes.values() for name in home.glob(f"{cgroups.PREFIX}.{os.getpid()}.*")] == []


def test_many_at_once(open_box: OpenBox) -> None:
    """Eight sandboxes opened and used by eight threads do not see each other."""
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            box = open_box({"me": str(index).encode()})
            shown = box.run(["sh", "-c", f"echo {index} > /tmp/{index}; cat me /tmp/*; ls /tmp | wc -l"], timeout=20)
            assert shown.stdout == f"{index}{index}\n1\n".encode()
        except BaseException as error:  # noqa: BLE001 -- raised below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []


def test_the_opening_thread_may_end(open_box: OpenBox) -> None:
    """A sandbox does not die with the thread that opened it."""
    boxes = []
    thread = threading.Thread(target=lambda: boxes.append(open_box()))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert boxes[0].run(["true"], timeout=5).exit_code == 0


def test_cpu_hogs_meet_a_quota(open_box: OpenBox) -> None:
    """Where there is a quota, busy processes together get one core and no more."""
    box = open_box()
    if not box.enforcement["cpu"].startswith("cgroup"):
        pytest.skip("no cpu cgroup on this machine: recorded as not enforced")
    code = (
        "import os, time\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0: break\n"
        "end = time.monotonic() + 1.0\n"
        "while time.monotonic() < end: pass\n"
        "if os.getppid() != 1:\n    os._exit(0)\n"
        "for _ in range(3): os.wait()\n"
        "t = os.times(); print(t.user + t.system + t.children_user + t.children_system)\n"
    )
    assert float(box.run(["python", "-c", code], timeout=20).stdout) < 1.5


def test_a_sandbox_given_up_before_it_began_leaves_no_half(runtime: Runtime) -> None:
    """The child of a bwrap that is ended early is still waiting for its go-ahead, and would wait for ever."""
    waiting, go = os.pipe()
    try:
        spec = SandboxSpec(runtime)
        arguments = [*identity_arguments(as_root=os.geteuid() == 0), *mount_arguments(spec), "--block-fd", str(waiting)]
        process, inner = start_bubblewrap(find_bubblewrap(), arguments, ("true",), (waiting,))
        assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
        end_early(process)
        assert wait_until(lambda: not Path(f"/proc/{inner}").exists())
    finally:
        os.close(waiting)
        os.close(go)
