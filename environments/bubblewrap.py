"""A sandbox made by bubblewrap, as root and as an ordinary user.

Own mount, process, network, IPC, host-name and cgroup namespaces; commands run as SANDBOX_UID: as root by
really becoming it (the supervisor keeps only the right to do that), otherwise in a user namespace. Ends when
the harness ends, because the supervisor reads from it; nothing relies on ``--die-with-parent``, which follows
the thread that started it.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from rcb_agent.environments.base import SANDBOX_UID, WORKDIR, Limits, SandboxSpec
from rcb_agent.environments.cgroups import ControlGroup, open_group
from rcb_agent.environments.interpreters import describe_interpreter
from rcb_agent.environments.layout import ENVIRONMENT, ETC, HOME, mount_arguments
from rcb_agent.environments.supervised import (
    INTERPRETER_OPTIONS,
    Carrier,
    SupervisedSandbox,
    close_pipes,
    open_pipes,
    supervisor_config,
)
from rcb_agent.errors import EnvironmentFault, SandboxLost

INFO_SECONDS = 20.0
END_SECONDS = 10.0
NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try")
# CHOWN is for the writable folders and is gone before the first command.
ROOT_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_CHOWN")
# What a process may map beyond its data, at least: libraries (PyTorch without CUDA: 420 MiB), arenas of threads.
MAPPED_MEGABYTES = 512


class BubblewrapSandbox(SupervisedSandbox):
    """A SupervisedSandbox whose supervisor is PID 1 under ``bwrap``."""


class Shell:
    """The running ``bwrap`` and the first process inside it."""

    def __init__(self, process: subprocess.Popen[bytes], inner: int, group: ControlGroup | None) -> None:
        self.process = process
        self.group = group
        self._lock = threading.Lock()
        self._handle = os.pidfd_open(inner)

    def kill(self) -> None:
        """End PID 1 of the namespace, with which the kernel ends all else, and wait for it."""
        with self._lock:
            if self._handle >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        end_process(self.process)

    def release(self) -> None:
        """Give back the descriptors and the cgroup."""
        with self._lock:
            close_pipes(self.process)
            if self._handle >= 0:
                os.close(self._handle)
                self._handle = -1
        if self.group is not None:
            self.group.remove()

    def memory_kills(self) -> int:
        """Count what the kernel has ended for lack of memory."""
        return self.group.memory_kills() if self.group else 0


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Wait for ``bwrap`` to end with its child; make it, if it does not."""
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait(END_SECONDS)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill ``bwrap`` and the child that waits for its go-ahead: without it that would wait for ever."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def open_bubblewrap(spec: SandboxSpec) -> BubblewrapSandbox:
    """Open a sandbox, or raise EnvironmentFault saying in one line what is missing."""
    program = find_bubblewrap()
    as_root = os.geteuid() == 0
    arguments = [*identity_arguments(as_root=as_root), *mount_arguments(spec)]
    python = str(describe_interpreter(spec.runtime.python).executable)
    process, inner = start_bubblewrap(program, arguments, (python, *INTERPRETER_OPTIONS), spec.sockets)
    group = None
    try:
        group = open_group(spec.limits)
        if group is not None:
            group.add(inner)
        shell = Shell(process, inner, group)
    except OSError:  # it has ended already: something to be shown is not there
        message = explain_refusal(end_early(process))
        if group is not None:
            group.remove()
        raise EnvironmentFault(message) from None
    carrier = Carrier(
        "bubblewrap",
        *open_pipes(process),
        describe_enforcement(group, spec.limits, as_root=as_root),
        shell.kill,
        shell.release,
        shell.memory_kills,
        inner,
    )
    sandbox = BubblewrapSandbox(carrier)
    try:
        sandbox.start(make_config(spec, group, as_root=as_root), spec.files)
    except SandboxLost:
        message = read_message(process)
        sandbox.close()
        raise EnvironmentFault(f"bwrap started but its first process did not: {message}") from None
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def find_bubblewrap() -> str:
    """Return the program's path."""
    program = shutil.which("bwrap")
    if program is None:
        raise EnvironmentFault("bwrap is not installed: apt-get install bubblewrap (or choose another --sandbox)")
    return program


def identity_arguments(*, as_root: bool, capabilities: Sequence[str] = ROOT_CAPABILITIES) -> list[str]:
    """Namespaces and user."""
    arguments = [*NAMESPACES, "--as-pid-1", "--new-session", "--hostname", "sandbox"]
    if not as_root:
        return [*arguments, "--unshare-user", "--uid", str(SANDBOX_UID), "--gid", str(SANDBOX_UID)]
    arguments += ["--cap-drop", "ALL"]
    for name in capabilities:
        arguments += ["--cap-add", name]
    return arguments


def start_bubblewrap(
    program: str,
    arguments: list[str],
    inside: Sequence[str],
    descriptors: Sequence[int],
    environment: Mapping[str, str] | None = None,
) -> tuple[subprocess.Popen[bytes], int]:
    """Start ``bwrap`` with a command and return it with the process id of the first process inside."""
    with ExitStack() as stack:
        files: list[int] = []
        options: list[str] = []
        for target, text in ETC.items():
            files.append(pipe_with(text.encode(), stack))
            options += ["--perms", "0444", "--file", str(files[-1]), target]
        info, info_writer = os.pipe()
        stack.callback(os.close, info)
        with os.fdopen(info_writer, "wb"):
            command = [program, *options, *arguments, "--info-fd", str(info_writer), "--chdir", "/", "--"]
            process = subprocess.Popen(
                [*command, *inside],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(*files, info_writer, *descriptors),
                process_group=0,  # a terminal's Ctrl-C is for the harness, not for half a sandbox
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **(environment or {})},
            )
        return process, read_inner_pid(info, process)


def pipe_with(data: bytes, stack: ExitStack) -> int:
    """Return the reading end of a pipe that holds a few bytes."""
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(data)
    return reader


def read_inner_pid(info: int, process: subprocess.Popen[bytes]) -> int:
    """Read what ``bwrap`` says about the process it has made."""
    deadline = time.monotonic() + INFO_SECONDS
    told = b""
    while b"}" not in told:
        ready = select.select([info], [], [], max(0.0, deadline - time.monotonic()))[0]
        part = os.read(info, 4096) if ready else b""
        if not part:
            raise EnvironmentFault(explain_refusal(end_early(process)))
        told += part
    return int(json.loads(told)["child-pid"])


def end_early(process: subprocess.Popen[bytes]) -> str:
    """End a ``bwrap`` that did not get as far as a sandbox, and return its last words."""
    message = read_message(process)
    kill_group(process)
    close_pipes(process)
    process.wait(END_SECONDS)
    return message


def read_message(process: subprocess.Popen[bytes]) -> str:
    """Return the last line that ``bwrap`` or the first process wrote to its error output."""
    if process.stderr is None:
        return "no message"
    os.set_blocking(process.stderr.fileno(), False)
    time.sleep(0.05)
    lines = (process.stderr.read() or b"").decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def explain_refusal(message: str) -> str:
    """One line on why ``bwrap`` could not start."""
    hint = ""
    if any(word in message for word in ("namespace", "uid map", "Operation not permitted")):
        hint = (
            "; user namespaces may be disabled here (sysctl kernel.unprivileged_userns_clone, "
            "user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or this is a container without them"
        )
    return f"bwrap cannot make a sandbox: {message}{hint}"


def make_config(spec: SandboxSpec, group: ControlGroup | None, *, as_root: bool) -> dict[str, Any]:
    """What the supervisor needs to know."""
    controlled = group.folders if group else {}
    rlimits: dict[str, int] = {}
    if "pids" not in controlled:
        rlimits["NPROC"] = spec.limits.pids
    if "memory" not in controlled:
        rlimits["DATA"] = spec.limits.memory_mb << 20
        rlimits["AS"] = address_megabytes(spec.limits) << 20
        rlimits["FSIZE"] = spec.limits.disk_mb << 20
    return supervisor_config(
        spec,
        environment=ENVIRONMENT,
        rlimits=rlimits,
        as_root=as_root,
        owned=[WORKDIR, HOME] if as_root else [],
        uncounted="memory" in controlled,
    )


def address_megabytes(limits: Limits) -> int:
    """Bound of all that one process maps, where only its data can be held to the memory limit.

    Data leaves out shared and growing-down maps, which take memory too, and libraries, which take little.
    """
    return limits.memory_mb + max(limits.memory_mb, MAPPED_MEGABYTES)


def describe_enforcement(group: ControlGroup | None, limits: Limits, *, as_root: bool) -> dict[str, str]:
    """Name how each limit holds on this machine."""
    controlled = group.folders if group else {}
    cgroup = f"cgroup v{group.version}" if group else ""
    per_process = f"rlimits per process: {limits.memory_mb} MiB of data, {address_megabytes(limits)} MiB mapped"
    return {
        "user": f"uid {SANDBOX_UID}" if as_root else f"uid {SANDBOX_UID} in a user namespace",
        "network": "network namespace without a route",
        "memory": cgroup if "memory" in controlled else per_process,
        "pids": cgroup if "pids" in controlled else "rlimit per user" if as_root else "rlimit per sandbox",
        "cpu": cgroup if "cpu" in controlled else "not enforced",
        "disk": "tmpfs size",
        "syscalls": "seccomp" if "memory" in controlled else "seccomp, also against shared memory outside file systems",
    }
