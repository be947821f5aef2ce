"""Guards: forked sandboxes that share anything, keep a trace of the one before, or outlive what forked them."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments import cgroups
from rcb_agent.environments.base import Bind, CommandResult, Container, Limits, Runtime, SandboxSpec
from rcb_agent.environments.shells import BubblewrapShell, ShellOpener
from rcb_agent.environments.warm import Program, WarmSandboxes
from rcb_agent.errors import EnvironmentFault
from tests.environments.test_killed_harness import alive, below, wait_until

pytestmark = pytest.mark.sandbox

RUNS_SETTINGS = Program(
    "runs", (("work.loaded", "COUNT = []\n"), ("work.main", "def main(settings):\n    exec(settings, {})\n"))
)


@pytest.fixture(scope="module", params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def warm(request: pytest.FixtureRequest, runtime: Runtime) -> Iterator[WarmSandboxes]:
    container = None
    if request.param == "docker":
        container = Container({runtime.name: request.getfixturevalue("bare_image")})
    with WarmSandboxes(ShellOpener(request.param, container)) as kept:
        yield kept


@pytest.fixture
def in_bubblewrap() -> Iterator[WarmSandboxes]:
    with WarmSandboxes() as kept:
        yield kept


def zygote_of(warm: WarmSandboxes) -> set[int]:
    """The processes that hold the one zygote there is, and what is forked from it."""
    (zygote,) = warm._zygotes.values()
    assert isinstance(zygote._shell, BubblewrapShell)
    return below(zygote._shell._process.pid)


def run(warm: WarmSandboxes, runtime: Runtime, code: str, **more: Any) -> CommandResult:
    """Run Python code as the program of a fresh warm sandbox."""
    box = warm.open(SandboxSpec(runtime, **more), RUNS_SETTINGS)
    try:
        return box.call(code, timeout=20)  # type: ignore[arg-type]
    finally:
        box.close()


LEAVE = """
import os, socket, subprocess, sys, ctypes
for place in ("/tmp", "/dev/shm", "/workspace", "/home/agent"):
    open(place + "/left", "w").write("MARK")
s = socket.socket(socket.AF_UNIX); s.bind("\\0left"); s.listen()
from work import loaded
loaded.COUNT.append(1); os.environ["LEFT"] = "1"; sys.modules["left"] = loaded
print(len(loaded.COUNT), subprocess.run(["sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo up"], capture_output=True, text=True).stdout)
libc = ctypes.CDLL(None); print(libc.shmget(77, 4096, 0o1666) >= 0)
"""
LOOK = """
import os, socket, sys, ctypes
for place in ("/tmp", "/dev/shm", "/workspace", "/home/agent"):
    print(place, os.listdir(place))
try:
    socket.socket(socket.AF_UNIX).connect("\\0left"); print("connected")
except OSError as error:
    print("no socket")
from work import loaded
print(loaded.COUNT, "LEFT" in os.environ, "left" in sys.modules)
print([name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())])
print(sorted(os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
print(ctypes.CDLL(None).shmget(77, 4096, 0) >= 0)
"""


def test_nothing_is_left_for_the_next_one(warm: WarmSandboxes, runtime: Runtime) -> None:
    """Files, shared memory, sockets, processes, modules, environment and descriptors of one are not in the other."""
    left = run(warm, runtime, LEAVE)
    assert left.stdout.split() == [b"1", b"up", b"True"], left.text()
    assert left.survivors == 1
    seen = run(warm, runtime, LOOK).stdout.decode().splitlines()
    assert seen == [
        "/tmp []",
        "/dev/shm []",
        "/workspace []",
        "/home/agent []",
        "no socket",
        "[] False False",
        "[]",
        "['0', '1', '2'] 4",  # the fourth is that of the listing itself
        "False",
    ]


def test_two_at_once_do_not_see_each_other(warm: WarmSandboxes, runtime: Runtime) -> None:
    """While one sandbox is full of things, another finds none of them."""
    box = warm.open(SandboxSpec(runtime, files={"mine": b"1"}), RUNS_SETTINGS)
    slow = "import time, socket\nopen('/tmp/left', 'w')\ns = socket.socket(socket.AF_UNIX); s.bind('\\0left'); s.listen()\ntime.sleep(3)"
    thread = threading.Thread(target=lambda: box.call(slow, timeout=20))  # type: ignore[arg-type]
    thread.start()
    try:
        seen = run(warm, runtime, LOOK).stdout.decode().splitlines()
        assert seen[:7] == [
            "/tmp []",
            "/dev/shm []",
            "/workspace []",
            "/home/agent []",
            "no socket",
            "[] False False",
            "[]",
        ]
    finally:
        thread.join()
        box.close()


SCAN = """
head, tail = MARKS
found = 0
for line in open("/proc/self/maps"):
    span, rights = line.split()[:2]
    if not rights.startswith("r") or "[v" in line:
        continue
    low, high = (int(part, 16) for part in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as memory:
        try:
            memory.seek(low); data = memory.read(high - low)
        except (OSError, ValueError, OverflowError):
            continue
    found += data.count((head + tail).encode())
print(found)
"""


def test_the_memory_of_one_holds_nothing_of_the_one_before(warm: WarmSandboxes, runtime: Runtime) -> None:
    """What a sandbox was given is nowhere in the readable memory of the next; what it was given itself is."""
    run(warm, runtime, "x = 'first-secret-7f3a'", files={"secret": b"first-secret-7f3a" * 100})
    code = "MARKS = ('first-sec', 'ret-7f3a')\n" + SCAN
    assert run(warm, runtime, code, files={"other": b"y"}).stdout == b"0\n"
    own = "kept = 'first-sec' + 'ret-7f3a'\n" + code
    assert int(run(warm, runtime, own).stdout) >= 1


TERMINAL = """
import os, time
master, slave = os.openpty()
os.set_blocking(master, False)
time.sleep(2)
try: print(os.read(master, 100))
except BlockingIOError: print("silent", os.ttyname(slave))
"""
TALK = """
import os
print(os.listdir("/dev/pts"))
for name in os.listdir("/dev/pts"):
    if name != "ptmx": os.write(os.open(f"/dev/pts/{name}", os.O_RDWR | os.O_NOCTTY), b"hello")
"""


def test_pseudo_terminals_are_not_shared(warm: WarmSandboxes, runtime: Runtime) -> None:
    """One that is open in a sandbox can be neither seen nor written to in another."""
    box = warm.open(SandboxSpec(runtime), RUNS_SETTINGS)
    seen: list[CommandResult] = []
    thread = threading.Thread(target=lambda: seen.append(box.call(TERMINAL, timeout=20)))  # type: ignore[arg-type]
    thread.start()
    try:
        for _ in range(3):
            assert run(warm, runtime, TALK).stdout == b"['ptmx']\n"
    finally:
        thread.join()
        box.close()
    assert seen[0].stdout == b"silent /dev/pts/0\n"


def test_descriptors_and_groups_do_not_grow(in_bubblewrap: WarmSandboxes, runtime: Runtime) -> None:
    """Neither of the harness nor of the process that forks."""
    warm = in_bubblewrap
    run(warm, runtime, "pass")
    inner = max(zygote_of(warm))

    def count() -> tuple[int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(list(Path(f"/proc/{inner}/fd").iterdir()))

    before = count()
    for _ in range(20):
        run(warm, runtime, "import os; os.kill(os.getpid(), 9)")
    assert count() == before
    homes, _ = cgroups.own_folders()
    assert [name for home in homes.values() for name in home.glob(f"{cgroups.PREFIX}.{os.getpid()}.*")] == []


PIPES = """
import resource, subprocess
child = subprocess.Popen(["true"], stdin=subprocess.PIPE)
child.wait()
try:
    child.stdin.write(b"x" * 100_000)
    child.stdin.flush()
except BrokenPipeError:
    print("broken pipe")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    open("/tmp/file", "wb", 0).write(b"x" * 100)
    open("/tmp/file", "ab", 0).write(b"x" * 100)
except OSError as error:
    print(error.strerror)
"""


def test_a_closed_pipe_is_an_error_and_no_end(warm: WarmSandboxes, runtime: Runtime) -> None:
    """As in an interpreter that was started: code that talks to another process survives its end."""
    result = run(warm, runtime, PIPES)
    assert (result.exit_code, result.stdout) == (0, b"broken pipe\nFile too large\n"), result.text()


def test_files_of_a_workspace_win_over_what_was_loaded_ahead(warm: WarmSandboxes, runtime: Runtime) -> None:
    """A package that a paper brings along is the one imported; a folder without Python files hides none."""
    files = {"unittest/__init__.py": b"own = 1\n", "unittest/mock.py": b"own = 2\n", "inspect/notes": b""}
    code = "import sys\nprint('unittest.case' in sys.modules)\nsys.path.insert(0, '/workspace')\n"
    code += "import unittest.mock, inspect, random\nprint(unittest.own, unittest.mock.own, inspect.__file__ is None, random.random.__name__)"
    assert run(warm, runtime, code, files=files).stdout == b"False\n1 2 False random\n"


def test_a_traceback_takes_no_file_of_a_workspace_for_our_source(warm: WarmSandboxes, runtime: Runtime) -> None:
    """The supervisors' frames name no file that could be looked for on the path, which costs calls and shows nonsense."""
    files = dict.fromkeys(("part", "<part>", "<work.main>"), b"SHOWN\n" * 999)
    code = "import sys, traceback\nsys.path.insert(0, '/workspace')\nprint(len(shown := traceback.format_stack()) > 3, 'SHOWN' in str(shown))\n"
    assert run(warm, runtime, code, files=files).stdout == b"True False\n"


def test_many_bytes_at_the_start(warm: WarmSandboxes, runtime: Runtime) -> None:
    """More files than one message takes arrive all the same."""
    files = {f"{number}.bin": bytes([number]) * (24 << 20) for number in range(5)}
    code = "import os\nprint([(n, os.path.getsize(n), open(n, 'rb').read(1)) for n in sorted(os.listdir('.'))] == [(f'{n}.bin', 24 << 20, bytes([n])) for n in range(5)])"
    assert run(warm, runtime, code, files=files).stdout == b"True\n"


def test_no_setting_of_the_kernel_can_be_written(warm: WarmSandboxes, runtime: Runtime) -> None:
    """Not even those of namespaces that belong to the sandbox's own user."""
    code = """
import os
for folder, _, names in os.walk("/proc/sys"):
    for name in names:
        try:
            text = open(os.path.join(folder, name)).read()
            open(os.path.join(folder, name), "w").write(text)
            print(folder, name)
        except OSError:
            pass
"""
    assert run(warm, runtime, code).stdout == b""


def test_limits_hold(warm: WarmSandboxes, runtime: Runtime) -> None:
    """Memory, processes, disk, time and output are bounded as in any sandbox."""
    limits = Limits(memory_mb=256, pids=32, disk_mb=8)
    greedy = run(warm, runtime, "x = bytearray(600 << 20)", limits=limits)
    assert greedy.exit_code != 0
    forks = "import os\ncount = 0\ntry:\n while True:\n  if os.fork() == 0:\n   import time; time.sleep(30)\n  count += 1\nexcept OSError: print(count)"
    assert int(run(warm, runtime, forks, limits=limits).stdout) < 32
    full = "try:\n open('/tmp/x', 'wb').write(b'x' * (64 << 20))\nexcept OSError as error: print(error.errno)"
    assert run(warm, runtime, full, limits=limits).stdout == b"28\n"
    box = warm.open(SandboxSpec(runtime), RUNS_SETTINGS)
    try:
        endless = box.call("import signal\nsignal.signal(15, 1)\nwhile True: pass", timeout=0.5)  # type: ignore[arg-type]
        assert endless.timed_out
        assert endless.seconds < 5
        loud = box.call("print('x' * (4 << 20))", timeout=20)  # type: ignore[arg-type]
        assert loud.truncated > 4_000_000
    finally:
        box.close()


def test_a_command_in_it_is_an_ordinary_one(warm: WarmSandboxes, runtime: Runtime) -> None:
    """Programs can be executed too, and what ran inside has no rights that they lack."""
    box = warm.open(SandboxSpec(runtime, files={"a": b"b"}), RUNS_SETTINGS)
    try:
        assert box.run(["cat", "a"], timeout=5).stdout == b"b"
        status = "grep -E '^(Cap|NoNewPrivs|Seccomp:|Uid)' /proc/self/status"
        inside = (
            f"import subprocess; print(subprocess.run({status!r}, shell=True, capture_output=True, text=True).stdout)"
        )
        shown = box.run(["sh", "-c", status], timeout=5).stdout.strip()
        assert box.call(inside, timeout=10).stdout.strip() == shown  # type: ignore[arg-type]
        assert b"CapBnd:\t0000000000000000" in shown
        assert b"NoNewPrivs:\t1" in shown
    finally:
        box.close()


def test_a_zygote_that_was_killed_is_replaced(in_bubblewrap: WarmSandboxes, runtime: Runtime) -> None:
    """A grade after it finds a new one; what was forked from the old one is dead."""
    warm = in_bubblewrap
    box = warm.open(SandboxSpec(runtime), RUNS_SETTINGS)
    family = zygote_of(warm)
    os.kill(max(family - {box._carrier.pid}), signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{box._carrier.pid}").exists())
    box.close()
    assert run(warm, runtime, "print('again')").stdout == b"again\n"


def test_a_fault_of_one_leaves_the_others_alone(in_bubblewrap: WarmSandboxes, runtime: Runtime, tmp_path: Path) -> None:
    """What cannot be opened is no reason to end what runs already."""
    warm = in_bubblewrap
    box = warm.open(SandboxSpec(runtime), RUNS_SETTINGS)
    try:
        for spec in (
            SandboxSpec(runtime, binds=(Bind(tmp_path, "/data"),)),
            SandboxSpec(runtime, files={"a": b"", "a/b": b""}),
            SandboxSpec(runtime, limits=Limits(disk_mb=-8)),  # its child ends before it begins
        ):
            with pytest.raises(EnvironmentFault):
                warm.open(spec, RUNS_SETTINGS)
            assert box.call("print('here')", timeout=20).stdout == b"here\n"  # type: ignore[arg-type]
    finally:
        box.close()


def test_only_the_zygote_that_was_lost_is_given_up(in_bubblewrap: WarmSandboxes, runtime: Runtime) -> None:
    """Threads that met its end together do not end the new one that the first of them has started."""
    warm = in_bubblewrap
    run(warm, runtime, "pass")
    ((key, lost),) = warm._zygotes.items()
    os.kill(max(zygote_of(warm)), signal.SIGKILL)
    assert wait_until(lambda: lost.is_lost)
    box = warm.open(SandboxSpec(runtime), RUNS_SETTINGS)
    try:
        warm._forget(key, warm._locks[key], lost)
        assert box.call("print('here')", timeout=20).stdout == b"here\n"  # type: ignore[arg-type]
    finally:
        box.close()


def test_no_command_can_keep_descriptors_from_being_sent(in_bubblewrap: WarmSandboxes, runtime: Runtime) -> None:
    """The kernel refuses to send for whoever may have fewer open than others of the same user have under way."""
    run(in_bubblewrap, runtime, "pass")
    rows = Path(f"/proc/{max(zygote_of(in_bubblewrap))}/limits").read_text().splitlines()
    (soft, hard) = next(row.split()[3:5] for row in rows if row.startswith("Max open files"))
    assert soft == hard
    own, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    code = "import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
    assert int(run(in_bubblewrap, runtime, code).stdout) <= own


def test_a_process_that_has_ended_moves_nobody(runtime: Runtime) -> None:
    """Else the kernel would take its number, 0, for the harness, and hold that to the limits of a sandbox."""
    before = Path("/proc/self/cgroup").read_text()
    group = cgroups.open_group(Limits())
    if group is None:
        pytest.skip("no cgroup can be made here")
    try:
        with pytest.raises(ProcessLookupError):
            group.add(0)
        assert Path("/proc/self/cgroup").read_text() == before
    finally:
        group.remove()


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        ("import mmap\nplace = mmap.mmap(-1, 4096)\n", "shared memory"),
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n", "thread"),
        ("raise RuntimeError('nothing works')\n", "nothing works"),
        ("import os\nos._exit(3)\n", "it has ended"),
    ],
)
def test_what_cannot_be_forked_says_so(runtime: Runtime, module: str, reason: str) -> None:
    """One line, the same every time, and no process left."""
    with WarmSandboxes() as warm:
        program = Program("odd", (("odd", module + "def main(settings): pass\n"),))
        for _ in range(2):
            with pytest.raises(EnvironmentFault, match=reason) as caught:
                warm.open(SandboxSpec(runtime), program)
            assert "\n" not in str(caught.value)
        assert warm._zygotes == {}


HARNESS = """\
import sys
from pathlib import Path
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.warm import Program, WarmSandboxes
warm = WarmSandboxes()
program = Program('p', (('p', 'def main(settings):\\n    exec(settings, {})\\n'),))
box = warm.open(SandboxSpec(Runtime('bare', Path(sys.argv[1]), (), '')), program)
idle = warm.open(SandboxSpec(Runtime('bare', Path(sys.argv[1]), (), '')), program)
code = f"import subprocess; subprocess.Popen(['setsid', 'sleep', '{sys.argv[2]}']); subprocess.run(['sleep', '{sys.argv[2]}'])"
print('open', flush=True)
box.call(code, timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_harness_leaves_no_warm_process(runtime: Runtime, number: signal.Signals) -> None:
    """Zygote, idle and busy sandboxes and what they started are gone within seconds."""
    mark = f"{40 + os.getpid() % 1000}.{number}3"
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(runtime.python), mark], stdout=subprocess.PIPE, text=True
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "open\n"
        assert wait_until(lambda: len(alive(mark)) >= 3, 20)
        family = below(harness.pid) - {harness.pid}
        assert len(family) >= 7
        harness.send_signal(number)
        harness.wait(5)
        assert wait_until(lambda: not [pid for pid in family if Path(f"/proc/{pid}").exists()], 10)
        assert alive(mark) == []
