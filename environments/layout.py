"""What a bubblewrap sandbox shows of the machine, as arguments of ``bwrap``.

Shown: ``/usr`` without its Python packages and without ``/usr/local``, one Python's executable and standard
library, the runtime's packages at RUNTIME_ROOT, declared binds. Nothing of the harness: where its package,
caches or results lie below something shown, they are covered.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rcb_agent.environments.base import SANDBOX_UID, WORKDIR, Bind, Limits, SandboxSpec
from rcb_agent.environments.interpreters import Interpreter, describe_interpreter, links_to_executable
from rcb_agent.environments.venvs import SHOWN_AT as RUNTIME_ROOT
from rcb_agent.tasks.cache import cache_folder

HOME = "/home/agent"
SYSTEM = Path("/usr")
HARNESS_SCRIPT = "rcb-agent"
HOME_MEGABYTES = 64

ETC = {
    "/etc/passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{SANDBOX_UID}:{SANDBOX_UID}:agent:{HOME}:/bin/sh\n",
    "/etc/group": f"root:x:0:\nagent:x:{SANDBOX_UID}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

ENVIRONMENT = {
    "PATH": f"{RUNTIME_ROOT}/bin:/usr/bin:/bin",
    "HOME": HOME,
    "USER": "agent",
    "SHELL": "/bin/sh",
    "TMPDIR": "/tmp",  # noqa: S108 -- the sandbox's own
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # pyarrow's allocator would start a thread when it is imported, and what has one cannot be forked.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "EDITOR": "true",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
}


def mount_arguments(spec: SandboxSpec, *, writable: bool = True) -> list[str]:
    """Everything below ``/``, in the order in which it is mounted.

    With ``writable`` False the places to write to are empty folders for somebody else to mount on, who as root also
    needs to see the machine's own ``/proc`` to be allowed one of his own.
    """
    plain_proc = writable or os.geteuid() != 0
    interpreter = describe_interpreter(spec.runtime.python)
    return [
        *system_arguments(interpreter),
        *python_arguments(spec.runtime.python, interpreter),
        *cover_arguments(interpreter, hidden_paths()),
        *bind_arguments(spec.binds),
        *(writable_arguments(spec.limits) if writable else empty_arguments(spec.limits)),
        *(("--proc", "/proc") if plain_proc else ("--bind", "/proc", "/proc")),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
    ]


def system_arguments(interpreter: Interpreter) -> Iterator[str]:
    """The read-only system: programs and libraries, no host configuration."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for needed in ("/etc/ld.so.cache", "/etc/alternatives"):
        yield from ("--ro-bind-try", needed, needed)
    yield from ("--dev", "/dev")
    for path in sorted(system_covers(interpreter)):
        yield from cover(path)


def system_covers(interpreter: Interpreter) -> Iterator[Path]:
    """Folders of ``/usr`` that hold other people's things: local additions and packages of other Pythons."""
    for name in ("local", "src"):
        if (SYSTEM / name).is_dir() and SYSTEM / name != interpreter.base_prefix:
            yield SYSTEM / name
    yield from package_folders(SYSTEM, interpreter)


def package_folders(prefix: Path, interpreter: Interpreter) -> Iterator[Path]:
    """Folders of installed packages below a prefix, other than the runtime's own."""
    wanted = () if interpreter.is_venv else interpreter.packages
    for pattern in ("lib*/python*/dist-packages", "lib*/python*/site-packages"):
        for path in prefix.glob(pattern):
            linked = any(part.is_symlink() for part in (path, *path.parents))
            if path.is_dir() and path not in wanted and not linked:
                yield path


def cover(path: Path) -> tuple[str, ...]:
    """Put an empty read-only folder over a shown one."""
    return ("--tmpfs", str(path), "--remount-ro", str(path))


def python_arguments(python: Path, interpreter: Interpreter) -> Iterator[str]:
    """The interpreter, its standard library and the runtime's packages."""
    base = interpreter.base_prefix
    if base != SYSTEM:
        yield from base_arguments(interpreter)
    if interpreter.is_venv:
        yield from (*folder_arguments(Path(RUNTIME_ROOT)), "--ro-bind", str(interpreter.prefix), RUNTIME_ROOT)
    else:
        yield from folder_arguments(Path(RUNTIME_ROOT, "bin"))
        for name in ("python", "python3"):
            yield from ("--symlink", str(interpreter.executable), f"{RUNTIME_ROOT}/bin/{name}")
    for link, target in links_to_executable(python):
        if not link.is_relative_to(interpreter.prefix) and not link.is_relative_to(SYSTEM):
            yield from (*folder_arguments(link.parent), "--symlink", str(target), str(link))


def base_arguments(interpreter: Interpreter) -> Iterator[str]:
    """A Python outside ``/usr``: its executable and libraries, nothing else of its prefix."""
    base = interpreter.base_prefix
    if base.is_relative_to(SYSTEM):
        yield from ("--tmpfs", str(base))
    yield from folder_arguments(base)
    yield from folder_arguments(interpreter.executable.parent)
    yield from ("--ro-bind", str(interpreter.executable), str(interpreter.executable))
    for lib in sorted(base.glob("lib*")):
        if lib.is_symlink():
            yield from ("--symlink", str(lib.readlink()), str(lib))
        elif lib.is_dir() and lib.name in ("lib", "lib64"):
            yield from ("--ro-bind", str(lib), str(lib))
    for path in package_folders(base, interpreter):
        yield from cover(path)
    if base.is_relative_to(SYSTEM):
        yield from ("--remount-ro", str(base))


def folder_arguments(folder: Path) -> Iterator[str]:
    """Folders on the way to a bound file, open to everybody: bwrap's own are closed to other users."""
    for path in (*reversed(folder.parents), folder):
        if path != Path("/") and not path.is_relative_to(SYSTEM):
            yield from ("--perms", "0755", "--dir", str(path))


def hidden_paths() -> list[Path]:
    """Places of the harness that no sandbox may show, wherever they lie."""
    package = Path(__file__).parent
    places = {package, package.resolve(), package.parent, package.resolve().parent, cache_folder()}
    with suppress(FileNotFoundError):  # a working folder that somebody has removed
        places.add(Path.cwd() / "results")
    return sorted(path for path in places if path != Path("/"))


def cover_arguments(interpreter: Interpreter, hidden: list[Path]) -> Iterator[str]:
    """Cover hidden places that lie below something shown; what the runtime itself needs stays."""
    shown = [SYSTEM, interpreter.base_prefix / "lib", interpreter.base_prefix / "lib64"]
    needed = (interpreter.executable, interpreter.prefix, *interpreter.packages)
    for path in hidden:
        inside = any(path.is_relative_to(place) for place in shown)
        if inside and path.is_dir() and not any(place.is_relative_to(path) for place in needed):
            yield from cover(path)
        if interpreter.is_venv and path.is_relative_to(interpreter.prefix):
            yield from cover(RUNTIME_ROOT / path.relative_to(interpreter.prefix))
    script = SYSTEM / "bin" / HARNESS_SCRIPT
    if script.exists():
        yield from ("--ro-bind", os.devnull, str(script))


def bind_arguments(binds: tuple[Bind, ...]) -> Iterator[str]:
    """Declared host paths, read-only."""
    for bind in binds:
        yield from folder_arguments(Path(bind.target).parent)
        yield from ("--ro-bind", str(bind.source), bind.target)


@dataclass(frozen=True, slots=True)
class Writable:
    """A file system in memory; ``mode`` in octal digits, ``size`` in bytes, ``private`` if the commands' user owns it."""

    path: str
    mode: str
    size: int
    private: bool


def writable_places(limits: Limits) -> tuple[Writable, ...]:
    """Return the only places that can be written to, each of bounded size."""
    # They count as memory: all of them full must leave half of it, or nothing could be started any more.
    megabytes = min(limits.disk_mb, max(limits.memory_mb // 8, 8))
    size = megabytes << 20
    return (
        Writable(WORKDIR, "0755", size, private=True),
        Writable(HOME, "0755", min(megabytes, HOME_MEGABYTES) << 20, private=True),
        Writable("/tmp", "1777", size, private=False),  # noqa: S108 -- the sandbox's own
        Writable("/dev/shm", "1777", size, private=False),  # noqa: S108 -- as above
    )


def writable_arguments(limits: Limits) -> Iterator[str]:
    """Mount what can be written to."""
    yield from ("--perms", "0755", "--dir", str(Path(HOME).parent))
    for place in writable_places(limits):
        yield from ("--perms", place.mode, "--size", str(place.size), "--tmpfs", place.path)


def empty_arguments(limits: Limits) -> Iterator[str]:
    """The same places as folders for somebody else to mount on."""
    yield from ("--perms", "0755", "--dir", str(Path(HOME).parent))
    for place in writable_places(limits):
        yield from ("--perms", "0755", "--dir", place.path)
