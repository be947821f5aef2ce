"""File operations below a workspace that was left by somebody hostile.

Each runs in a forked child that has become the commands' own user, while nothing else is alive in the
sandbox, so there is no race between a check and its use. Resolution never leaves the workspace: openat2 with
RESOLVE_BENEATH, or, where the kernel refuses that, component by component without following any link. Nothing
blocks on a FIFO or a device. Runs inside sandboxes: standard library only.
"""
# Everything here is descriptors and bytes, which pathlib does not know:
# ruff: noqa: PTH101, PTH120, PTH123

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

OPENAT2 = 437  # the same number on every machine
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
PATH_BYTES = 4000
ENTRY_LIMIT = 20_000
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


def read(root: int, request: dict[str, Any], _blob: bytes) -> tuple[dict[str, Any], bytes]:
    """One whole file, refused if it is larger than the limit."""
    path = encode_path(request["path"])
    try:
        fd, size = open_regular(root, path, links=True)
    except OSError as error:
        raise explain(error, path) from None
    if size > request["limit"]:
        raise Refused(f"{request['path']}: {size} bytes, more than the {request['limit']} that can be read at once")
    return {}, read_all(fd, size)


def write(root: int, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Replace the contents of files, one after the other, making the folders they lie in."""
    offset = 0
    for path, size in request["files"]:
        name = encode_path(path)
        try:
            write_one(root, name, blob[offset : offset + size])
        except PermissionError:
            write_lent(root, name, blob[offset : offset + size])
        except OSError as error:
            raise explain(error, name) from None
        offset += size
    return {}, b""


def write_lent(root: int, path: bytes, data: bytes) -> None:
    """Write where the owner has taken its own access away."""
    try:
        with lent_access(root, os.path.dirname(path)):
            write_one(root, path, data)
    except OSError as error:
        raise explain(error, path) from None


def write_one(root: int, path: bytes, data: bytes) -> None:
    """Replace one file in one step, so that a full disk leaves the old contents."""
    folder, name = os.path.split(path)
    if name in (b"", b".", b".."):
        raise Refused(f"{os.fsdecode(path)}: is a folder")
    parent = open_folder(root, folder)
    try:
        mode = mode_to_keep(parent, name, path)
        draft = b".%s.part" % os.urandom(6).hex().encode()
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
            with open(fd, "wb") as file:
                file.write(data)
                os.fchmod(fd, mode)
            os.rename(draft, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError:
            remove_quietly(parent, draft)
            raise
    finally:
        os.close(parent)


def mode_to_keep(parent: int, name: bytes, path: bytes) -> int:
    """Return the mode of the file that is about to be replaced."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return 0o644
    if stat.S_ISLNK(status.st_mode):
        raise Refused(f"{os.fsdecode(path)}: is a link; links are not written through")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{os.fsdecode(path)}: is no regular file")
    return stat.S_IMODE(status.st_mode)


def remove_quietly(parent: int, name: bytes) -> None:
    """Remove a draft that may not be there."""
    try:
        os.unlink(name, dir_fd=parent)
    except OSError:
        return


def open_folder(root: int, folder: bytes) -> int:
    """Open a folder below ``root``, making what is missing of it."""
    try:
        return open_beneath(root, folder or b".", FOLDER_FLAGS & ~os.O_NOFOLLOW, links=True)
    except FileNotFoundError:
        above, name = os.path.split(folder)
        parent = open_folder(root, above)
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except FileExistsError:  # a dangling link
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    finally:
        os.close(parent)
    return open_beneath(root, folder, FOLDER_FLAGS, links=True)


def kind_of(mode: int) -> str:
    """Name a kind of file as the contract does."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "symlink" if stat.S_ISLNK(mode) else "other"


def list_folder(root: int, folder: bytes, room: int) -> list[tuple[bytes, os.stat_result]]:
    """Names and states in one folder, at most ``room`` and one more."""
    fd = open_beneath(root, folder or b".", FOLDER_FLAGS, links=False)
    found: list[tuple[bytes, os.stat_result]] = []
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if len(found) > room:
                    break
                name = os.fsencode(entry.name)
                found.append((name, os.stat(name, dir_fd=fd, follow_symlinks=False)))
    finally:
        os.close(fd)
    return sorted(found, key=lambda pair: pair[0])


def list_folder_kept(root: int, folder: bytes, room: int) -> list[tuple[bytes, os.stat_result]]:
    """As ``list_folder``, lending access; a folder that cannot be listed is empty."""
    try:
        return list_folder(root, folder, room)
    except PermissionError:
        pass
    except OSError:
        return []
    try:
        with lent_access(root, folder):
            return list_folder(root, folder, room)
    except OSError:
        return []


def walk(root: int, start: bytes, limit: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """Everything below ``start`` in the order of names, except the workspace's own ``.git``."""
    waiting = [start]
    count = 0
    while waiting:
        folder = waiting.pop()
        below = []
        for name, status in list_folder_kept(root, folder, limit - count):
            path = folder + b"/" + name if folder else name
            if path == b".git":
                continue
            if stat.S_ISDIR(status.st_mode) and len(path) < PATH_BYTES - 256:
                below.append(path)
            yield path, status
            count += 1
            if count > limit:
                return
        waiting += reversed(below)


def scan(root: int, request: dict[str, Any], _blob: bytes) -> tuple[dict[str, Any], bytes]:
    """List the workspace; hash regular files up to a size."""
    limit = min(int(request.get("limit", ENTRY_LIMIT)), ENTRY_LIMIT)
    entries: list[list[Any]] = []
    for path, status in walk(root, b"", limit):
        if len(entries) == limit:
            return {"entries": entries, "more": True}, b""
        kind = kind_of(status.st_mode)
        digest = None
        if kind == "file" and status.st_size <= request["hash_limit"]:
            digest = hash_file(root, path, request["hash_limit"])
        entries.append([os.fsdecode(path), kind, status.st_size, digest])
    return {"entries": entries, "more": False}, b""


def hash_file(root: int, path: bytes, limit: int) -> str | None:
    """SHA-256 of a regular file, None where it cannot be read."""
    import hashlib

    try:
        fd, _ = open_regular(root, path, links=False)
    except (OSError, Refused):
        return None
    try:
        return hashlib.sha256(read_all(fd, limit)).hexdigest()
    finally:
        os.close(fd)


def search(root: int, request: dict[str, Any], _blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Lines that match a regular expression; whoever started this limits its time."""
    import re

    try:
        pattern = re.compile(request["pattern"])
    except (re.error, RecursionError, OverflowError) as error:
        raise Refused(f"bad regular expression: {error}") from None
    matches: list[list[Any]] = []
    for path in text_files(root, encode_path(request["path"])):
        for number, line in enumerate(read_lines(root, path), 1):
            if pattern.search(line):
                matches.append([os.fsdecode(path), number, line[: request["width"]]])
                if len(matches) >= request["limit"]:
                    return {"matches": matches}, b""
    return {"matches": matches}, b""


def text_files(root: int, start: bytes) -> Iterator[bytes]:
    """Regular files at or below a path."""
    start = os.path.normpath(start)
    if start != b".":
        try:
            fd = open_kept(root, start, HANDLE_FLAGS, links=False)
        except OSError as error:
            raise explain(error, start) from None
        status = os.fstat(fd)
        os.close(fd)
        if stat.S_ISREG(status.st_mode):
            yield start
            return
        if not stat.S_ISDIR(status.st_mode):
            raise Refused(f"{os.fsdecode(start)}: is neither a folder nor a regular file")
    for path, status in walk(root, b"" if start == b"." else start, ENTRY_LIMIT):
        if stat.S_ISREG(status.st_mode):
            yield path


def read_lines(root: int, path: bytes) -> list[str]:
    """Lines of a text file of moderate size without their endings; none of any other file."""
    try:
        fd, size = open_regular(root, path, links=False)
    except (OSError, Refused):
        return []
    try:
        data = read_all(fd, size) if size <= 4 << 20 else b""
    finally:
        os.close(fd)
    if b"\0" in data[:8192]:
        return []
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def collect(root: int, request: dict[str, Any], _blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Take named files as they are: no link is followed, nothing large is read."""
    found: list[list[Any]] = []
    parts = []
    for path in request["paths"]:
        kind, data = collect_one(root, encode_path(path), request["limit"])
        found.append([path, kind, len(data)])
        parts.append(data)
    return {"files": found}, b"".join(parts)


def collect_one(root: int, path: bytes, limit: int) -> tuple[str, bytes]:
    """Kind and contents of one file."""
    try:
        handle = open_kept(root, path, HANDLE_FLAGS, links=False)
    except OSError as error:
        kinds = {errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.ELOOP: "symlink"}
        return kinds.get(error.errno or 0, "unreadable"), b""
    status = os.fstat(handle)
    os.close(handle)
    kind = kind_of(status.st_mode)
    if kind != "file":
        return kind, b""
    if status.st_size > limit:
        return "too_large", b""
    try:
        fd, size = open_regular(root, path, links=False)
    except (OSError, Refused):
        return "unreadable", b""
    try:
        return "file", read_all(fd, size)
    finally:
        os.close(fd)


OPERATIONS = {"read": read, "write": write, "scan": scan, "search": search, "collect": collect}


def perform(workdir: str, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Carry out one operation; a refusal is an answer."""
    try:
        root = os.open(workdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return OPERATIONS[request["op"]](root, request, blob)
    except Refused as refusal:
        return {"refused": str(refusal)}, b""
    except MemoryError:
        return {"refused": "not enough memory in the sandbox for this"}, b""
    except OSError as error:
        return {"refused": os.strerror(error.errno or 0)}, b""
