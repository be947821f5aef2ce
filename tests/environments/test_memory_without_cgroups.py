"""Guards: memory beyond the limit where no cgroup counts it, and honest programs that its substitutes would break."""

import os

import pytest

from rcb_agent.environments import cgroups, seccomp
from rcb_agent.environments.base import Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import open_bubblewrap
from rcb_agent.environments.supervised import SupervisedSandbox
from tests.environments.conftest import OpenBox

pytestmark = pytest.mark.sandbox

SMALL, MAPPED = 96, 608

# Each prints how many MiB it got, touched page by page.
TOUCH = """\
import ctypes, mmap, os
got = 0
def touch(area, megabytes):
    global got
    for at in range(0, megabytes << 20, 4096): area[at] = 1
    got += megabytes
"""
GROWERS = {
    "shared": "kept = []\nfor _ in range(40): kept.append(mmap.mmap(-1, 32 << 20)); touch(kept[-1], 32)\n",
    "zero device": (
        "kept, fd = [], os.open('/dev/zero', os.O_RDWR)\n"
        "for _ in range(40): kept.append(mmap.mmap(fd, 32 << 20)); touch(kept[-1], 32)\n"
    ),
    "growing down": (
        "kept = []\n"
        "for _ in range(40): kept.append(mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | 0x100)); touch(kept[-1], 32)\n"
    ),
    "private": "kept = []\nfor _ in range(40): kept.append(bytearray(32 << 20)); got += 32\n",
}
COLUMN = list(seccomp.AUDIT_ARCH).index(os.uname().machine) if os.uname().machine in seccomp.AUDIT_ARCH else -1


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lets nobody make a cgroup."""
    monkeypatch.setattr(cgroups, "own_folders", lambda: ({}, 1))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("way", sorted(GROWERS))
def test_what_one_process_maps_is_bounded(open_box: OpenBox, way: str) -> None:
    """Shared and growing-down maps count too; the record names the bound that really holds."""
    box = open_box(limits=Limits(memory_mb=SMALL))
    attempt = "\n".join(f"    {line}" for line in GROWERS[way].splitlines())
    code = f"{TOUCH}try:\n{attempt}\nexcept (OSError, MemoryError): pass\nprint(got)\n"
    assert int(box.run(["python", "-c", code], timeout=20).stdout) < (SMALL if way == "private" else MAPPED)
    assert box.enforcement["memory"] == f"rlimits per process: {SMALL} MiB of data, {MAPPED} MiB mapped"


@pytest.mark.usefixtures("alone")
@pytest.mark.skipif(COLUMN < 0, reason=f"no filter for {os.uname().machine}")
def test_memory_that_belongs_to_no_process_is_refused(open_box: OpenBox) -> None:
    """System V memory, queues and semaphores, and files without a file system, as if the kernel had none."""
    box = open_box(limits=Limits(memory_mb=SMALL))
    assert asked(box) == dict.fromkeys(seccomp.UNCOUNTED, seccomp.ENOSYS)
    assert box.enforcement["syscalls"] == "seccomp, also against shared memory outside file systems"


@pytest.mark.skipif(COLUMN < 0, reason=f"no filter for {os.uname().machine}")
def test_a_memory_cgroup_needs_no_refusals(box: SupervisedSandbox) -> None:
    """What the kernel counts is allowed."""
    if not box.enforcement["memory"].startswith("cgroup"):
        pytest.skip("no memory cgroup can be made here")
    assert seccomp.ENOSYS not in {asked(box)[name] for name in ("shmget", "msgget", "semget", "memfd_create")}
    assert box.enforcement["syscalls"] == "seccomp"


def asked(box: SupervisedSandbox) -> dict[str, int]:
    """Error number of each call of the table, with arguments of an honest caller."""
    arguments = {"shmget": (0, 4096, 0o1600), "msgget": (0, 0o1600), "semget": (0, 1, 0o1600)}
    code = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "name = ctypes.create_string_buffer(b'x')\n"
        f"calls = {[(name, pair[COLUMN], arguments.get(name)) for name, pair in seccomp.UNCOUNTED.items()]}\n"
        "for call, number, given in calls:\n"
        "    given = [name, *([0o102, 0o600, 0] if call == 'mq_open' else [0])] if given is None else given\n"
        "    given = [0] if call == 'memfd_secret' else given\n"
        "    print(call, ctypes.get_errno() if libc.syscall(number, *given) < 0 else 0)\n"
    )
    lines = box.run(["python", "-c", code], timeout=10).stdout.decode().splitlines()
    return {name: int(error) for name, error in (line.split() for line in lines)}


HONEST = """\
import ctypes, mmap, multiprocessing, threading
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=1 << 20)
block.buf[0] = 7; block.close(); block.unlink()
value = multiprocessing.get_context('fork').Value('i', 3); assert value.value == 3
with multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(abs, [-1]) == [1]
threads = [threading.Thread(target=sum, args=([1],)) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
called = []
ctypes.CFUNCTYPE(None)(lambda: called.append(1))(); assert called == [1]
mmap.mmap(-1, 1 << 20)[0] = 1
print('fine')
"""


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("memory", [SMALL, 2048])
def test_honest_programs_still_run(open_box: OpenBox, memory: int) -> None:
    """Shared memory in /dev/shm, forks, threads, callbacks, git."""
    box = open_box({"a.txt": b"a\n"}, Limits(memory_mb=memory))
    assert box.run(["python", "-c", HONEST], timeout=30).text() == "fine\n"
    git = (
        "git init -q . && git add -A && git -c user.name=x -c user.email=x@y commit -qm x && git log --oneline | wc -l"
    )
    assert box.run(["sh", "-c", git], timeout=20).text() == "1\n"


NUMBERS = """\
import numpy
a = numpy.random.default_rng(0).random((300, 300))
assert numpy.allclose(a @ numpy.linalg.inv(a), numpy.eye(300))
print('fine')
"""


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("memory", [SMALL, 2048])
def test_numpy_still_runs(mini: Runtime, memory: int) -> None:
    """With one thread, as every command has it, at the default and at a small limit."""
    with open_bubblewrap(SandboxSpec(mini, limits=Limits(memory_mb=memory))) as box:
        assert box.run(["python", "-c", NUMBERS], timeout=30).text() == "fine\n"
