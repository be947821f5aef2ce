"""Namespaces and mounts of a process that forks sandboxes: first its own, then fresh ones for each.

Own system calls instead of a library: this runs inside sandboxes, on the standard library only. Every call that
fails raises OSError; nothing here falls back.
"""

from __future__ import annotations

# Loading pathlib would double the start of a sandbox:
# ruff: noqa: PTH115
import ctypes
import fcntl
import os
import signal
import socket
import struct

from rcb_agent.environments.jail import (
    CAPABILITY_HEADER,
    LIBC,
    PR_SET_PDEATHSIG,
    empty_bounding_set,
    prctl,
    set_dumpable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Sequence

NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
OWN = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWNET
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 1 << 5, 1 << 12, 1 << 14, 1 << 18


def call(name: str, *arguments: int | bytes | None) -> None:
    """Make one system call through the C library."""
    words = [ctypes.c_ulong(word) if isinstance(word, int) else word for word in arguments]
    if getattr(LIBC, name)(*words) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system."""
    call("mount", source.encode(), target.encode(), kind.encode(), flags, options.encode() or None)


def write_text(path: str, text: str) -> None:
    """Write a file of ``/proc``, which takes all of a text at once."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def enter_own(rows: Sequence[Sequence[int]] | None, user: int, folders: Sequence[Sequence[str | int]]) -> None:
    """Become the first process of fresh namespaces, with all rights in them and none outside.

    ``rows`` (inside, outside, count) is what root may map, written by a helper that stays outside; with None the
    process becomes 0 there, which is ``user`` outside. ``folders`` as for ``enter_fresh``: packages want to write at their
    import, and what is forked later has its own in their place. The process that was called waits until the end of it.
    """
    if rows is None:
        call("unshare", NEWUSER)
        map_only(0, user)  # without a 0 the kernel mounts no terminals
    else:
        enter_mapped("".join(f"{inside} {outside} {count}\n" for inside, outside, count in rows))
    call("unshare", OWN | NEWPID)
    child = os.fork()
    if child:
        os.closerange(0, 1 << 16)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    call("mount", None, b"/", None, REC | PRIVATE, None)
    mount_proc()
    mount_folders(folders, os.getuid())


def enter_mapped(table: str) -> None:
    """Enter a user namespace whose map a forked helper writes, and become 0 in it."""
    (told, tell), (done, finish) = os.pipe(), os.pipe()
    me = os.readlink("/proc/self")  # the number that is valid there, whichever namespace's processes are shown
    helper = os.fork()
    if helper == 0:
        try:
            os.read(told, 1)
            for name in ("uid_map", "gid_map"):
                write_text(f"/proc/{me}/{name}", table)
            os.write(finish, b"x")
        finally:
            os._exit(0)
    os.close(finish)
    call("unshare", NEWUSER)
    os.write(tell, b"x")
    written = os.read(done, 1)
    os.waitpid(helper, 0)
    for fd in (told, tell, done):
        os.close(fd)
    if not written:
        raise OSError(1, "the map of the user namespace could not be written")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def map_only(inside: int, outside: int) -> None:
    """Map one number, for users and groups, in a user namespace just entered."""
    write_text("/proc/self/setgroups", "deny")
    for name in ("uid_map", "gid_map"):
        write_text(f"/proc/self/{name}", f"{inside} {outside} 1")


def mount_proc() -> None:
    """Show the processes of this namespace; the kernel allows it only where an unmasked one is visible already."""
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)


def mount_folders(folders: Sequence[Sequence[str | int]], user: int) -> None:
    """Mount an empty file system of bounded size on each of ``folders`` (path, bytes, mode in octal)."""
    for path, size, mode in folders:
        mount("tmpfs", str(path), "tmpfs", NOSUID | NODEV, f"size={size},mode={mode},uid={user},gid={user}")


def raise_loopback() -> None:
    """Let processes of the network namespace reach each other, and nobody else, as bubblewrap does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def close_settings() -> None:
    """Keep kernel settings from being written to, also those of the own namespaces, whose owner a command may be."""
    mount("/proc/sys", "/proc/sys", "", BIND)
    mount("", "/proc/sys", "", BIND | REMOUNT | RDONLY | NOSUID | NODEV | NOEXEC)


def mount_terminals() -> None:
    """Show pseudo-terminals of one's own only: their number and their content are nobody else's."""
    mount("devpts", "/dev/pts", "devpts", NOSUID | NOEXEC, "newinstance,ptmxmode=0666,mode=620")


def enter_fresh(user: int, owner: int, folders: Sequence[Sequence[str | int]]) -> None:
    """In a forked child, the first of its process namespace: own everything, then give up every right.

    ``owner`` is the number that ``user`` has in the namespace that is left. ``folders`` become the only places that can be written to. The last user namespace locks the mounts and counts processes for this sandbox alone.
    """
    os.setsid()
    call("unshare", OWN)
    mount_proc()
    close_settings()
    mount_folders(folders, owner)
    mount_terminals()
    raise_loopback()
    if os.getuid() != owner:
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)
    set_dumpable(1)  # a change of user takes away the own files below /proc
    call("unshare", NEWUSER)
    map_only(user, owner)
    empty_bounding_set()
    call("capset", CAPABILITY_HEADER, struct.pack("IIIIII", 0, 0, 0, 0, 0, 0))
    set_dumpable(0)
