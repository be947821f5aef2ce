"""What a process gives up before it may run a command.

Runs inside sandboxes: standard library only. Nothing here can be taken back by the process it is done to.
"""

# Loading pathlib, typing or dataclasses would each be a good part of the start of a sandbox:

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Sequence

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER = 1, 4, 24, 36
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_SET_SECCOMP = 38, 47, 22
PR_CAP_AMBIENT_CLEAR_ALL, SECCOMP_MODE_FILTER = 4, 2
CAP_SETGID, CAP_SETUID = 6, 7
CAPABILITY_HEADER = struct.pack("II", 0x20080522, 0)

LIBC = ctypes.CDLL(None, use_errno=True)


class Jail:
    """What every process that is not the supervisor becomes; ``uid`` None leaves the user as it is."""

    def __init__(
        self, *, uid: int | None, gid: int | None, rlimits: tuple[tuple[str, int], ...], program: bytes | None
    ) -> None:
        self.uid = uid
        self.gid = gid
        self.rlimits = rlimits
        self.program = program


def prctl(option: int, first: int, second: int = 0) -> None:
    """Set one attribute of this process, or raise OSError."""
    if LIBC.prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), 0, 0) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def set_dumpable(value: int) -> None:
    """0: nobody of the same user can trace this process or open anything of it under ``/proc``."""
    prctl(PR_SET_DUMPABLE, value)


def keep_capabilities(numbers: Sequence[int]) -> None:
    """Reduce effective and permitted capabilities to ``numbers``, inheritable to none."""
    low = sum(1 << number for number in numbers)
    sets = struct.pack("IIIIII", low, low, 0, 0, 0, 0)
    if LIBC.capset(CAPABILITY_HEADER, sets) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def empty_bounding_set() -> None:
    """Take every capability out of reach of whatever is executed later; needs CAP_SETPCAP."""
    number = 0
    while LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def restrain_supervisor(uid: int | None) -> None:
    """Give up what the supervisor does not need; with a ``uid`` to become it keeps the right to become it."""
    if uid is not None and os.getuid() == 0:
        empty_bounding_set()
        keep_capabilities((CAP_SETGID, CAP_SETUID))
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    if os.getpid() != 1:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a handler, PID 1 does not feel it


def become_first_victim() -> None:
    """Let the kernel, out of memory, end commands before the supervisor."""
    set_dumpable(1)  # own /proc files belong to root otherwise; nobody else is alive at this point
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, b"1000")
        os.close(fd)
    finally:
        set_dumpable(0)


def drop_user(jail: Jail) -> None:
    """Become the unprivileged user, for good; its capabilities vanish with uid 0."""
    if jail.uid is None or jail.gid is None:
        return
    os.setgroups([])
    os.setresgid(jail.gid, jail.gid, jail.gid)
    os.setresuid(jail.uid, jail.uid, jail.uid)


def apply_rlimits(jail: Jail) -> None:
    """Lower each limit, soft and hard; one that is lower already stays."""
    for name, value in jail.rlimits:
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def raise_descriptor_limit() -> None:
    """Use all of the hard limit. The kernel refuses to send descriptors for whoever has a lower limit than a process of
    the same user, anywhere, has descriptors under way; commands have a limit of their own below this one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def filter_calls(program: bytes) -> None:
    """Install the seccomp program; from here on it holds for this process and all it starts."""
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer)))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header))


def enter(jail: Jail) -> None:
    """Turn a forked child into what may execute a command."""
    os.setsid()
    become_first_victim()
    drop_user(jail)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # where no namespace ends with the supervisor; a change of user undoes it
    apply_rlimits(jail)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    if jail.program is not None:
        filter_calls(jail.program)
