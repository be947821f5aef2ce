"""The system calls a command may not make: one table, one classic BPF program per machine.

Every denied call has its own compare-and-return pair, so there are no long jumps to miscount. A machine that
is not in the table gets no filter, and the record says so. Runs inside sandboxes: standard library only.
"""

import struct

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE_NAMESPACES = 0x7E020000  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
SOCKET_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink; vsock ignores network namespaces
TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

# name: (x86_64, aarch64); None where the machine has no such call
DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "vhangup": (153, 58),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
# Memory that belongs to no process: refused where no memory cgroup counts it, as by a kernel without these calls.
UNCOUNTED: dict[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
}
FILE_EVENTS = (
    1024,
    1026,
)  # F_SETLEASE, F_NOTIFY: a lease on a file that others are shown too makes them wait to open it
CLONE, CLONE3, SOCKET, IOCTL, PRLIMIT = (56, 220), (435, 435), (41, 198), (16, 29), (302, 261)
FCNTL = (72, 25)

# offsets in struct seccomp_data (little endian, as both machines are)
NUMBER, ARCH, ARGUMENT_0, ARGUMENT_0_HIGH, ARGUMENT_1 = 0, 4, 16, 20, 24
ALLOW = 0x7FFF0000
LOAD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction of classic BPF."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


def refuse(error: int) -> bytes:
    """End with an error number."""
    return step(RETURN, 0x50000 | error)


def only_for(number: int, body: bytes) -> bytes:
    """Run ``body`` (which must end in returns) for one call, skip it for every other."""
    return step(JUMP_EQUAL, number, 0, len(body) // 8) + body


def argument_rules(column: int) -> bytes:
    """Calls that are refused by what they ask for."""
    clone = step(LOAD, ARGUMENT_0) + step(JUMP_ANY_BIT, CLONE_NAMESPACES, 0, 1) + refuse(EPERM) + step(RETURN, ALLOW)
    socket = step(LOAD, ARGUMENT_0)
    for family in SOCKET_FAMILIES:
        socket += step(JUMP_EQUAL, family, 0, 1) + step(RETURN, ALLOW)
    socket += refuse(EAFNOSUPPORT)
    ioctl = step(LOAD, ARGUMENT_1)
    for request in TERMINAL_INJECTION:
        ioctl += step(JUMP_EQUAL, request, 0, 1) + refuse(EPERM)
    ioctl += step(RETURN, ALLOW)
    fcntl = step(LOAD, ARGUMENT_1)
    for command in FILE_EVENTS:
        fcntl += step(JUMP_EQUAL, command, 0, 1) + refuse(EPERM)
    fcntl += step(RETURN, ALLOW)
    prlimit = b""  # of oneself only: else a command of the same user starves the supervisor
    for half in (ARGUMENT_0, ARGUMENT_0_HIGH):
        prlimit += step(LOAD, half) + step(JUMP_EQUAL, 0, 1, 0) + refuse(EPERM)
    prlimit += step(RETURN, ALLOW)
    return (
        only_for(CLONE3[column], refuse(ENOSYS))  # its flags lie in memory; glibc falls back to clone
        + only_for(CLONE[column], clone)
        + only_for(SOCKET[column], socket)
        + only_for(IOCTL[column], ioctl)
        + only_for(FCNTL[column], fcntl)
        + only_for(PRLIMIT[column], prlimit)
    )


def build_filter(machine: str, *, uncounted: bool = True) -> bytes | None:
    """Return the program for ``os.uname().machine``, or None where the table knows no such machine.

    ``uncounted`` allows the calls of UNCOUNTED.
    """
    if machine not in AUDIT_ARCH:
        return None
    column = list(AUDIT_ARCH).index(machine)
    program = step(LOAD, ARCH) + step(JUMP_EQUAL, AUDIT_ARCH[machine], 1, 0) + refuse(EPERM) + step(LOAD, NUMBER)
    if machine == "x86_64":  # the x32 calls have the same arch and other numbers
        program += step(JUMP_AT_LEAST, 1 << 30, 0, 1) + refuse(ENOSYS)
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            program += only_for(number, refuse(EPERM))
    for pair in () if uncounted else UNCOUNTED.values():
        program += only_for(pair[column], refuse(ENOSYS))
    return program + argument_rules(column) + step(RETURN, ALLOW)
