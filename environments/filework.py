"""File operations below a workspace that was left by somebody hostile.

Each runs in a forked child that has become the commands' own user, while nothing else is alive in the
sandbox, so there is no race between a check and its use. How files are found and opened: ``beneath.py``. Runs
inside sandboxes: standard library only.
"""
# Everything here is descriptors and bytes, which pathlib does not know:
# ruff: noqa: PTH120, PTH123

from __future__ import annotations

import errno
import os
import stat

from rcb_agent.environments import frames
from rcb_agent.environments.beneath import (
    FOLDER_FLAGS,
    HANDLE_FLAGS,
    PATH_BYTES,
    Refused,
    encode_path,
    explain,
    lent_access,
    open_beneath,
    open_kept,
    open_regular,
    read_all,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Iterator
    from typing import Any

LISTING_BYTES = frames.META_LIMIT // 2
ENTRY_BYTES = 128
ENTRY_LIMIT = 20_000
HASH_BYTES = 64 << 20  # read by one scan; holes of sparse files count
REASON_LENGTH = 500


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
    """List the workspace; hash regular files up to a size, and HASH_BYTES of them together."""
    hasher = Hasher(root, request["hash_limit"])
    limit = min(int(request.get("limit", ENTRY_LIMIT)), ENTRY_LIMIT)
    entries: list[list[Any]] = []
    room = LISTING_BYTES
    for path, status in walk(root, b"", limit):
        room -= 6 * len(path) + ENTRY_BYTES  # a byte that is not UTF-8 takes six as JSON
        if len(entries) == limit or room < 0:
            return {"entries": entries, "more": True}, b""
        entries.append([os.fsdecode(path), kind_of(status.st_mode), status.st_size, hasher.digest(path, status)])
    return {"entries": entries, "more": False}, b""


class Hasher:
    """SHA-256 of files while there is room: one file by many names is read once."""

    def __init__(self, root: int, limit: int) -> None:
        self.root = root
        self.limit = limit
        self.room = HASH_BYTES
        self.known: dict[tuple[int, int], str | None] = {}

    def digest(self, path: bytes, status: os.stat_result) -> str | None:
        """None for what is no regular file, too large, or cannot be read."""
        if not stat.S_ISREG(status.st_mode) or status.st_size > self.limit:
            return None
        identity = (status.st_dev, status.st_ino)
        if identity not in self.known:
            if status.st_size > self.room:
                return None
            self.room -= status.st_size
            self.known[identity] = hash_file(self.root, path, self.limit)
        return self.known[identity]


def hash_file(root: int, path: bytes, limit: int) -> str | None:
    """SHA-256 of a regular file, None where it cannot be read."""
    try:
        fd, _ = open_regular(root, path, links=False)
    except (OSError, Refused):
        return None
    try:
        digest: str = load_sha256()(read_all(fd, limit)).hexdigest()
        return digest
    finally:
        os.close(fd)


def load_sha256() -> Any:
    """Return SHA-256, the interpreter's own where it has one: each scan is a new process, to which OpenSSL is slow."""
    for module in ("_sha2", "_sha256", "hashlib"):  # of 3.12 and later, of 3.11, of all
        try:
            return __import__(module).sha256
        except ImportError:
            continue
    raise ImportError("no SHA-256")


def search(root: int, request: dict[str, Any], _blob: bytes) -> tuple[dict[str, Any], bytes]:
    """Lines that match a regular expression; whoever started this limits its time."""
    import re

    try:
        pattern = re.compile(request["pattern"])
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise Refused(f"bad regular expression: {error}"[:REASON_LENGTH]) from None
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
    """Carry out one operation; a refusal is an answer, and so is whatever an argument or a tree made it trip over."""
    operation = OPERATIONS[request["op"]]  # one that does not exist is the harness's own mistake
    try:
        root = os.open(workdir, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return operation(root, request, blob)
    except Refused as refusal:
        return {"refused": str(refusal)}, b""
    except MemoryError:
        return {"refused": "not enough memory in the sandbox for this"}, b""
    except OSError as error:
        return {"refused": os.strerror(error.errno or 0)}, b""
    except Exception as error:  # noqa: BLE001 -- the boundary: arguments come from models, trees from their programs
        return {"refused": f"cannot be done: {type(error).__name__}: {error}"[:REASON_LENGTH]}, b""
