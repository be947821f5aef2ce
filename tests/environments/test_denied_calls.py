"""Guards: a system call that the filter means to refuse and does not (an off-by-one in a jump is enough)."""

import json
import os
import struct

import pytest

from rcb_agent.environments import seccomp
from rcb_agent.environments.supervised import SupervisedSandbox

pytestmark = pytest.mark.isolated

PROBE = """\
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number, arguments in json.load(sys.stdin):
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(word) for word in arguments))
    found[name] = ctypes.get_errno() if result < 0 else 0
print(json.dumps(found))
"""


def column() -> int:
    machine = os.uname().machine
    if machine not in seccomp.AUDIT_ARCH:
        pytest.skip(f"no filter for {machine}")
    return list(seccomp.AUDIT_ARCH).index(machine)


def probe(box: SupervisedSandbox, calls: list[tuple[str, int, list[int]]]) -> dict[str, int]:
    result = box.run(["python", "-c", PROBE], timeout=10, stdin=json.dumps(calls).encode())
    assert result.exit_code == 0, result.text()
    found: dict[str, int] = json.loads(result.stdout)
    return found


@pytest.mark.sandbox
def test_every_denied_call_is_refused(box: SupervisedSandbox) -> None:
    """Each number of the table answers EPERM, with arguments that mean nothing."""
    at = column()
    numbers = {name: pair[at] for name, pair in seccomp.DENIED.items()}
    calls = [(name, number, [2**64 - 1] * 4) for name, number in numbers.items() if number is not None]
    found = probe(box, calls)
    assert {name: error for name, error in found.items() if error != seccomp.EPERM} == {}
    assert len(found) > 50


@pytest.mark.sandbox
def test_calls_refused_by_what_they_ask(box: SupervisedSandbox) -> None:
    """New namespaces by clone, clone3, sockets that ignore namespaces, terminal input, other people's limits, leases."""
    at = column()
    flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
    calls = [(f"clone {flag:x}", seccomp.CLONE[at], [flag | 17, 0, 0, 0]) for flag in flags]
    calls += [("clone3", seccomp.CLONE3[at], [0, 0])]
    calls += [(f"socket {family}", seccomp.SOCKET[at], [family, 2, 0]) for family in (17, 38, 40, 44)]
    calls += [("ioctl", seccomp.IOCTL[at], [0, 0x5412, 0]), ("prlimit", seccomp.PRLIMIT[at], [1, 7, 0, 0])]
    calls += [(f"fcntl {command}", seccomp.FCNTL[at], [0, command, 0]) for command in (1024, 1026)]
    expected = dict.fromkeys((name for name, _, _ in calls), seccomp.EPERM)
    expected |= {"clone3": seccomp.ENOSYS} | {f"socket {n}": seccomp.EAFNOSUPPORT for n in (17, 38, 40, 44)}
    assert probe(box, calls) == expected


@pytest.mark.sandbox
def test_honest_programs_do_not_notice(box: SupervisedSandbox) -> None:
    """Threads, forks, pipes, sockets in the namespace, limits of oneself."""
    code = (
        "import concurrent.futures as f, multiprocessing as m, resource, socket, subprocess\n"
        "assert list(f.ThreadPoolExecutor(2).map(abs, [-1, -2])) == [1, 2]\n"
        "with m.get_context('fork').Pool(2) as pool: assert pool.map(abs, [-1]) == [1]\n"
        "assert subprocess.check_output(['echo', 'hi']) == b'hi\\n'\n"
        "server = socket.create_server(('127.0.0.1', 0)); socket.create_connection(server.getsockname())\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60)); socket.socketpair(); print('fine')\n"
    )
    assert box.run(["python", "-c", code], timeout=20).text() == "fine\n"


@pytest.mark.sandbox
def test_commands_have_no_rights(box: SupervisedSandbox) -> None:
    """No capability, no way to get one, no group of the host, filter on; setuid programs stay harmless."""
    status = dict(
        line.split(":", 1) for line in box.run(["cat", "/proc/self/status"], timeout=5).stdout.decode().splitlines()
    )
    held = {name: status[name].strip().strip("0") for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    assert set(held.values()) == {""}
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {"64100"}


def test_both_machines_have_a_number_for_each_call() -> None:
    """A hole in the table would be silent; only three calls do not exist on aarch64."""
    holes = [name for name, pair in seccomp.DENIED.items() if None in pair]
    assert holes == ["iopl", "ioperm", "modify_ldt"]
    for at in range(2):
        numbers = [pair[at] for pair in seccomp.DENIED.values() if pair[at] is not None]
        assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_no_jump_leaves_the_program(machine: str) -> None:
    """Every jump lands on an instruction and the last one returns."""
    program = seccomp.build_filter(machine)
    assert program is not None
    steps = list(struct.iter_unpack("<HBBI", program))
    assert len(steps) < 4096
    for index, (code, if_true, if_false, _) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert index + 1 + max(if_true, if_false) < len(steps)
    assert steps[-1] == (seccomp.RETURN, 0, 0, seccomp.ALLOW)


def test_an_unknown_machine_gets_no_filter() -> None:
    """Wrong numbers would be worse than none; the caller records it."""
    assert seccomp.build_filter("riscv64") is None
