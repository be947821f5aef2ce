"""A process that has loaded a runtime's packages once, and forks a fresh sandbox for each request.

It is sent over its own standard input like a supervisor, enters namespaces of its own, imports, and then listens on a
socket. Invariants: it never reads what a sandbox is given (the pipes of a request pass through as descriptors, and
only the forked child reads from them), so no sandbox holds a trace of another; each child is the first process of a
process namespace of its own and shares no place that can be written to; when the socket closes, it ends, and the
kernel ends all children. Runs inside sandboxes: standard library only.
"""

from __future__ import annotations

# Loading pathlib would double the start of a sandbox:
# ruff: noqa: PTH123, PTH208
import gc
import json
import os
import signal
import socket
import sys
import types

from rcb_agent.environments import filework, frames, jail, namespaces, pages, seccomp, supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from typing import Any, NoReturn

REQUEST_BYTES = 1 << 16
DESCRIPTORS = 16
ENTRY = "main"
PREPARE = "prepare"  # a program may have one: what needs the packages, and is the same for all that is forked


def main(config: dict[str, Any]) -> NoReturn:
    """Take over this process; called by the bootstrap with what the harness sent."""
    control = open_control(config["control"])
    os.umask(0o022)
    jail.raise_descriptor_limit()
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    namespaces.enter_own(config["rows"], config["user"], config["folders"])
    owner = config["user"] if config["rows"] else 0
    entry = load(config)
    filters = supervisor.can_filter(seccomp.build_filter(os.uname().machine))  # once for all children
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a child ended; the kernel buries it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    answer(control, {"ready": True})
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, DESCRIPTORS)
        if not message:
            os._exit(0)
        serve(control, {**json.loads(message), "filters": filters, "owner": owner}, descriptors, home, entry)


def open_control(where: int | str) -> socket.socket:
    """Return the connection to the harness: an inherited descriptor, or the path of a socket."""
    if isinstance(where, str):
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.connect(where)
        return control
    inherited = socket.socket(fileno=os.dup(where))
    os.close(where)
    return inherited


def load(config: dict[str, Any]) -> Entry:
    """Make the modules that were sent, then import packages that are there; return what runs the last of the modules."""
    module = sys.modules["__main__"]
    for name, text in config["modules"]:
        package, _, short = name.rpartition(".")
        parent = sys.modules.setdefault(package, types.ModuleType(package))
        module = sys.modules[name] = types.ModuleType(name)
        setattr(parent, short, module)
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 -- our own program
    own = set(sys.modules)  # a cold start has these too before it sees a workspace
    for name in config["imports"]:
        try:
            __import__(name)
        except ImportError:
            continue  # the program that needs it will say so
    if (prepare := module.__dict__.get(PREPARE)) is not None:
        prepare()
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("a package has started a thread, so this process cannot be forked")
    if shares_memory():
        raise RuntimeError("a package has made shared memory, which forked processes would all write to")
    gc.collect()
    gc.freeze()
    pages.gather()
    return Entry(module, frozenset(name.partition(".")[0] for name in sys.modules if name not in own))


def shares_memory() -> bool:
    """Say whether this process has a map that its children could write to together."""
    with open("/proc/self/maps") as maps:
        return any(rights[1] == "w" and rights[3] == "s" for _, rights, *_ in map(str.split, maps))


def forget(packages: set[str]) -> None:
    """Let the next import of these packages and of what lies in them find them anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


def shadowed_by(folder: str, loaded: frozenset[str]) -> set[str]:
    """Return which of the loaded packages an import would find in ``folder`` instead, were it made there first."""
    from importlib.machinery import PathFinder

    here = {name.partition(".")[0] for name in os.listdir(folder)} & loaded
    specs = {name: PathFinder.find_spec(name, [folder]) for name in here}
    sys.path_importer_cache.pop(folder, None)
    return {name for name, spec in specs.items() if spec is not None and spec.loader is not None}


def serve(control: socket.socket, request: dict[str, Any], descriptors: list[int], home: int, entry: Entry) -> None:
    """Fork one sandbox: the next child is the first process of a fresh namespace, the process itself comes back."""
    namespaces.call("unshare", namespaces.NEWPID)
    pid = os.fork()
    if pid == 0:
        become_sandbox(control, request, descriptors, home, entry)
    namespaces.call("setns", home, namespaces.NEWPID)
    for fd in descriptors:
        os.close(fd)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        answer(control, {"gone": True})
        return
    answer(control, {"started": True}, [handle])
    os.close(handle)


def answer(control: socket.socket, meta: dict[str, Any], descriptors: list[int] | None = None) -> None:
    """Tell the harness; one that is gone ends this process."""
    try:
        socket.send_fds(control, [json.dumps(meta).encode()], descriptors or [])
    except OSError:
        os._exit(0)


def become_sandbox(
    control: socket.socket, request: dict[str, Any], descriptors: list[int], home: int, entry: Entry
) -> NoReturn:
    """In the child: enter fresh namespaces, take the descriptors in order, and be a supervisor."""
    outlet = descriptors[1]
    try:
        control.detach()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.close(home)
        namespaces.enter_fresh(request["user"], request["owner"], request["folders"])
        null = os.open(os.devnull, os.O_RDWR)
        top = max(*descriptors, null, 2) + 1
        wanted = [descriptors[0], outlet, null, *descriptors[2:]]
        for number, fd in enumerate(wanted):
            os.dup2(fd, top + number)
        for number in range(len(wanted)):
            os.dup2(top + number, number, inheritable=number < 3)
        os.closerange(len(wanted), 1 << 16)
        outlet = 1
        config, files, blob = receive_start()
        written, _ = filework.perform(config["workdir"], {"op": "write", "files": files}, blob) if files else ({}, b"")
        os.closerange(len(wanted), 1 << 16)
        if "refused" in written:
            os.write(outlet, frames.pack_frame(written))
        else:
            supervisor.main({**config, "filters": request["filters"]}, entry)
    except BaseException as error:  # noqa: BLE001 -- a child must not go on as a second zygote
        os.write(outlet, frames.pack_frame({"broken": f"{type(error).__name__}: {error}"}))
    finally:
        os._exit(1)


def receive_start() -> tuple[dict[str, Any], list[Any], bytes]:
    """Read the one frame with which a supervisor is configured: its configuration and the first files."""
    with open(0, "rb", buffering=0, closefd=False) as pipe:
        lengths = frames.frame_lengths(read_exactly(pipe, frames.HEADER.size))
        meta = frames.parse_meta(read_exactly(pipe, lengths[0]))
        return meta["config"], meta["files"], read_exactly(pipe, lengths[1])


def read_exactly(pipe: Any, size: int) -> bytes:
    """Read ``size`` bytes; the end of the pipe is the end of this sandbox."""
    data = bytearray()
    while len(data) < size:
        part = pipe.read(min(size - len(data), 1 << 20))
        if not part:
            os._exit(0)
        data += part
    return bytes(data)


class Entry:
    """What a command that runs inside does instead of executing a program."""

    def __init__(self, module: types.ModuleType, preloaded: frozenset[str]) -> None:
        self.module = module
        self.preloaded = preloaded

    def run(self, environment: dict[str, str], workdir: str) -> NoReturn:
        """Be a Python that was started in ``workdir`` and has read its settings from its standard input."""
        code = 1
        try:
            os.chdir(workdir)
            os.environ.clear()
            os.environ.update(environment)
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # else writing to a closed pipe ends the program
                signal.signal(number, signal.SIG_IGN)
            jail.set_dumpable(1)  # as after an exec; what is private to the supervisor is closed by now
            forget({"rcb_agent"})
            forget(shadowed_by(workdir, self.preloaded))
            sys.modules["__main__"] = types.ModuleType("__main__")
            with open(0, "rb", closefd=False) as pipe:
                settings = json.loads(pipe.read())
            getattr(self.module, ENTRY)(settings)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001 -- as an interpreter does
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code & 0xFF)
