"""No sandbox at all: commands run on the machine itself, as the user of the harness, in a private temporary folder.

It has to be asked for by name. What holds as elsewhere: file tools stay below the workspace, commands have time
limits, output caps and an environment by allow list, what they leave running is killed, the folder is removed, and all
ends with the harness. Memory, processes and CPU are bounded by cgroup where the machine lets us; system calls that no
honest command needs are refused. What does not hold: a command reads and writes whatever the user may, keys, hidden
tests and results included, and reaches the network.

Processes are found as descendants of the supervisor, which adopts orphans; nothing else is ever signalled. A command
that stops or kills its own supervisor is ended by the harness, which looks for the group and for a mark in the
environment of what that supervisor started. What escapes: a process that kills the supervisor and hides the mark, where
there is no cgroup (or, as root, leaves it); anything started through a service that was running before (cron, docker);
after a SIGKILL of the harness, what a command has kept from a supervisor that it killed or stopped. Files written outside
the folder stay; the folder itself is removed by whoever is left of harness and supervisor, else at the next start of a run.
"""

import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import Limits, SandboxSpec
from rcb_agent.environments.bubblewrap import address_megabytes
from rcb_agent.environments.cgroups import ControlGroup, open_group
from rcb_agent.environments.ending import PRIVATE_PREFIX, all_processes, open_handle, remove_folder, send
from rcb_agent.environments.interpreters import Interpreter, describe_interpreter
from rcb_agent.environments.layout import ENVIRONMENT
from rcb_agent.environments.supervised import (
    INTERPRETER_OPTIONS,
    Carrier,
    SupervisedSandbox,
    close_pipes,
    open_pipes,
    supervisor_config,
)
from rcb_agent.errors import EnvironmentFault, SandboxLost

END_SECONDS = 10.0
STRAY_SECONDS = 2.0
MARK = "SANDBOX_ID"


class HostSandbox(SupervisedSandbox):
    """A SupervisedSandbox whose supervisor is a plain process of the machine."""


class PlainProcess:
    """A supervisor that no namespace holds, and what it may leave."""

    def __init__(self, process: subprocess.Popen[bytes], place: Path, mark: str, group: ControlGroup | None) -> None:
        self.process = process
        self.place = place
        self.mark = mark
        self.group = group
        self._lock = threading.Lock()

    def kill(self) -> None:
        """Have the supervisor end its own and itself; do it for one that cannot."""
        with self._lock:
            self.process.send_signal(signal.SIGTERM)
            self.process.send_signal(signal.SIGCONT)  # a command may have stopped it
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(END_SECONDS)
            if self.process.returncode != 0:
                end_strays(self.mark, self.group)

    def release(self) -> None:
        """Close the pipes, remove the folder and the cgroup."""
        with self._lock:
            close_pipes(self.process)
            remove_folder(str(self.place))
            if self.group is not None:
                self.group.remove()

    def memory_kills(self) -> int:
        """Count what the kernel has ended for lack of memory."""
        return self.group.memory_kills() if self.group else 0


def end_strays(mark: str, group: ControlGroup | None) -> None:
    """SIGKILL what a dead supervisor has left, while there is any: members of its group, carriers of its mark."""
    deadline = time.monotonic() + STRAY_SECONDS
    while kill_strays(mark, group) and time.monotonic() < deadline:
        time.sleep(0.005)


def kill_strays(mark: str, group: ControlGroup | None) -> int:
    """Signal each stray that is found; return how many. A handle is opened before a process is looked at."""
    found = 0
    members = frozenset(group.processes()) if group else frozenset()
    for pid in all_processes():
        handle = open_handle(pid)
        if handle is None:
            continue
        try:
            if carries(pid, mark) or (pid in members and group is not None and pid in group.processes()):
                found += send(handle=handle, number=signal.SIGKILL)
        finally:
            os.close(handle)
    return found


def carries(pid: int, mark: str) -> bool:
    """Whether a process was started with this sandbox's own mark in its environment."""
    with suppress(OSError):
        return f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def open_host(spec: SandboxSpec) -> HostSandbox:
    """Open a folder and a supervisor for it, or raise EnvironmentFault in one line."""
    if spec.binds:
        targets = ", ".join(bind.target for bind in spec.binds)
        raise EnvironmentFault(f"the sandbox host cannot show folders at other places ({targets}): use bubblewrap")
    interpreter = describe_interpreter(spec.runtime.python)
    place = make_place()
    try:
        path = make_path(spec.runtime.python, interpreter, place)
        process = start_supervisor(interpreter, spec)
    except OSError as error:
        remove_folder(str(place))
        raise EnvironmentFault(f"a process on the host could not be started: {error}") from None
    plain = PlainProcess(process, place, secrets.token_hex(16), join_group(process, spec.limits))
    enforcement = describe_enforcement(plain.group, spec.limits)
    carrier = Carrier(
        "host", *open_pipes(process), enforcement, plain.kill, plain.release, plain.memory_kills, process.pid
    )
    sandbox = HostSandbox(carrier)
    try:
        sandbox.start(make_config(spec, plain, path), spec.files)
    except SandboxLost:
        sandbox.close()
        raise EnvironmentFault("a process on the host ended before it was ready") from None
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def join_group(process: subprocess.Popen[bytes], limits: Limits) -> ControlGroup | None:
    """Put the supervisor, which has started nothing yet, into a cgroup where that can be done."""
    group = open_group(limits)
    if group is None:
        return None
    try:
        group.add(process.pid)
    except OSError:
        group.remove()
        return None
    return group


def make_place() -> Path:
    """Make the private folder: workspace, home, temporary files."""
    place = None
    try:
        place = Path(tempfile.mkdtemp(prefix=f"{PRIVATE_PREFIX}{os.getpid()}-")).resolve()
        for name in ("workspace", "home", "tmp", "bin"):
            (place / name).mkdir()
    except OSError as error:
        if place is not None:
            remove_folder(str(place))
        raise EnvironmentFault(f"no folder for a workspace can be made: {error}") from None
    return place


def make_path(python: Path, interpreter: Interpreter, place: Path) -> str:
    """Return where commands are looked for: ``python`` is the runtime's."""
    first = python.parent  # of a venv, which is found by the name that it is called by
    if not interpreter.is_venv:
        first = place / "bin"
        for name in ("python", "python3"):
            (first / name).symlink_to(interpreter.executable)
    return f"{first}:/usr/local/bin:/usr/bin:/bin"


def start_supervisor(interpreter: Interpreter, spec: SandboxSpec) -> subprocess.Popen[bytes]:
    """Start it in a session of its own, so that a terminal's signals reach the harness alone."""
    return subprocess.Popen(
        [str(interpreter.executable), *INTERPRETER_OPTIONS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=spec.sockets,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )


def make_config(spec: SandboxSpec, plain: PlainProcess, path: str) -> dict[str, Any]:
    """What the supervisor needs to know."""
    controlled = plain.group.folders if plain.group else {}
    rlimits = {"FSIZE": spec.limits.disk_mb << 20}
    if "memory" not in controlled:
        rlimits["DATA"] = spec.limits.memory_mb << 20
        rlimits["AS"] = address_megabytes(spec.limits) << 20
    place = plain.place
    own = {"PATH": path, "HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), MARK: plain.mark}
    config = supervisor_config(
        spec,
        environment={**ENVIRONMENT, **own},
        rlimits=rlimits,
        as_root=False,
        owned=[],
        uncounted="memory" in controlled,
    )
    return {**config, "workdir": str(place / "workspace"), "scratch": str(place)}


def describe_enforcement(group: ControlGroup | None, limits: Limits) -> dict[str, str]:
    """Name how each limit holds, which most do not."""
    controlled = group.folders if group else {}
    cgroup = f"cgroup v{group.version}" if group else ""
    per_process = f"rlimits per process: {limits.memory_mb} MiB of data, {address_megabytes(limits)} MiB mapped"
    return {
        "user": f"not enforced: uid {os.getuid()}, the harness's own",
        "network": "not enforced",
        "memory": cgroup if "memory" in controlled else per_process,
        "pids": cgroup if "pids" in controlled else "not enforced",
        "cpu": cgroup if "cpu" in controlled else "not enforced",
        "disk": f"not enforced; {limits.disk_mb} MiB per file",
        "syscalls": "seccomp" if "memory" in controlled else "seccomp, also against shared memory outside file systems",
    }
