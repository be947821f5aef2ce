"""Opening files below a workspace that was left by somebody hostile, never leaving it.

openat2 with RESOLVE_BENEATH, or, where the kernel refuses that, component by component without following any
link. Nothing blocks on a FIFO or a device. Runs inside sandboxes: standard library only.
"""
# Everything here is descriptors and bytes, which pathlib does not know:
# ruff: noqa: PTH101

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

OPENAT2 = 437  # the same number on every machine
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
PATH_BYTES = 4000
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
HANDLE_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

LIBC = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """The operation cannot be done; the text is for whoever asked."""


class OpenHow(ctypes.Structure):
    """``struct open_how`` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def encode_path(path: str) -> bytes:
    """Return a path as bytes, refusing what cannot name anything below the workspace."""
    if not path:
        raise Refused("the path is empty")
    if "\0" in path:
        raise Refused("the path holds a NUL character")
    if path.startswith("/"):
        raise Refused(f"{path}: absolute paths are outside the workspace; give a path relative to it")
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:
        raise Refused("the path holds a character that no file name can hold") from None
    if len(name) > PATH_BYTES:
        raise Refused(f"the path is {len(name)} bytes long; {PATH_BYTES} is the most")
    return name


def explain(error: OSError, path: bytes) -> Refused:
    """Say what an error number means for a path below the workspace."""
    shown = os.fsdecode(path)
    if error.errno in (errno.EXDEV, errno.ELOOP):
        return Refused(f"{shown}: leads out of the workspace or through a link that is not followed")
    return Refused(f"{shown}: {os.strerror(error.errno or 0)}")


def open_beneath(root: int, path: bytes, flags: int, *, links: bool) -> int:
    """Open below ``root``; with ``links``, links that stay inside are followed."""
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (0 if links else RESOLVE_NO_SYMLINKS)
    how = OpenHow(flags, 0, resolve)
    fd = int(LIBC.syscall(OPENAT2, root, path, ctypes.byref(how), ctypes.sizeof(how)))
    if fd >= 0:
        return fd
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):
        return open_by_steps(root, path, flags)
    raise OSError(number, os.strerror(number))


def open_by_steps(root: int, path: bytes, flags: int) -> int:
    """Open below ``root`` one component at a time, following no link at all."""
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    current = os.open(".", HANDLE_FLAGS | os.O_DIRECTORY, dir_fd=root)
    try:
        for part in parts[:-1]:
            following = os.open(part, HANDLE_FLAGS | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = following
        return os.open(parts[-1] if parts else b".", flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)


@contextmanager
def lent_access(root: int, path: bytes) -> Iterator[None]:
    """Give the owner back its own access to everything on the way, as a mode of 000 may have taken it."""
    changed: list[tuple[int, int]] = []
    handles: list[int] = []
    current = root
    parts = path.split(b"/")
    if b".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    try:
        changed += lend(root)
        for part in parts:
            if part in (b"", b"."):
                continue
            current = os.open(part, HANDLE_FLAGS, dir_fd=current)
            handles.append(current)
            changed += lend(current)
        yield
    finally:
        for handle, mode in reversed(changed):
            os.chmod(f"/proc/self/fd/{handle}", mode)
        for handle in handles:
            os.close(handle)


def lend(handle: int) -> list[tuple[int, int]]:
    """Add the owner's bits to one file or folder; return what has to be put back."""
    status = os.fstat(handle)
    wanted = 0o700 if stat.S_ISDIR(status.st_mode) else 0o600 if stat.S_ISREG(status.st_mode) else 0
    mode = stat.S_IMODE(status.st_mode)
    if mode & wanted == wanted or status.st_uid != os.geteuid():
        return []
    os.chmod(f"/proc/self/fd/{handle}", mode | wanted)
    return [(handle, mode)]


def open_kept(root: int, path: bytes, flags: int, *, links: bool) -> int:
    """As ``open_beneath``, lending access where the owner has locked itself out."""
    try:
        return open_beneath(root, path, flags, links=links)
    except PermissionError:
        with lent_access(root, path):
            return open_beneath(root, path, flags, links=links)


def open_regular(root: int, path: bytes, *, links: bool) -> tuple[int, int]:
    """Return descriptor and size of a regular file."""
    fd = open_kept(root, path, FILE_FLAGS, links=links)
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode):
        return fd, status.st_size
    os.close(fd)
    kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
    raise Refused(f"{os.fsdecode(path)}: is {kind}")


def read_all(fd: int, limit: int) -> bytes:
    """Read up to ``limit`` bytes."""
    parts = []
    while limit > 0:
        part = os.read(fd, min(limit, 1 << 20))
        if not part:
            break
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)
