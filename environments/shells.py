"""What a warm start's first process runs in: a bubblewrap of its own, or a container of its own.

Only trusted code runs there: ``zygote.py``, the runtime's packages and our own programs. It may make namespaces, which
no sandbox forked from it can; those carry our own system-call filter, which is tighter than the engine's.
"""

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rcb_agent.environments.base import SANDBOX_UID, Container, Limits, Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import (
    Shell,
    describe_enforcement,
    end_early,
    find_bubblewrap,
    identity_arguments,
    read_message,
    start_bubblewrap,
)
from rcb_agent.environments.cgroups import ControlGroup
from rcb_agent.environments.jail import raise_descriptor_limit
from rcb_agent.environments.layout import ENVIRONMENT, mount_arguments
from rcb_agent.environments.supervised import BOOTSTRAP
from rcb_agent.environments.venvs import SHOWN_AT as RUNTIME_ROOT
from rcb_agent.errors import EnvironmentFault

# Not isolated mode: it would ignore the fixed hash seed. The environment is ours and the folder is empty all the same.
INTERPRETER = (f"{RUNTIME_ROOT}/bin/python", "-s", "-P", "-B", "-c", BOOTSTRAP)
ZYGOTE_UID = SANDBOX_UID + 1
CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SYS_ADMIN")  # for the way into a user namespace, then gone
CONTROL_PATH = "/control"  # in a container, which cannot inherit a descriptor
CONNECT_SECONDS = 30.0
WITH_WARM_START = ("bubblewrap", "docker")
SHARED_BY = 16  # sandboxes forked from one container at the same time, for its own bounds: each has its own besides


class ZygoteShell(Protocol):
    """A started interpreter that waits for its program on its standard input."""

    @property
    def kind(self) -> str:
        """Short name of the sandbox whose isolation this is."""

    @property
    def config(self) -> Mapping[str, Any]:
        """What the program has to know of it: ``control`` and ``rows`` of zygote.py."""

    def send(self, data: bytes) -> None:
        """Write its program to it. Raises OSError."""

    def control(self) -> socket.socket:
        """Return the connection over which sandboxes are asked for; once. Raises OSError."""

    def last_words(self) -> str:
        """Return one line of what it said last on its error output."""

    def enforcement(self, group: ControlGroup | None, limits: Limits) -> dict[str, str]:
        """Say how limits hold for what is forked in it."""

    def close(self) -> None:
        """End it with everything in it; again is fine."""


class BubblewrapShell:
    """A ``bwrap`` that keeps the right to make namespaces, as root in a user namespace without rights outside."""

    kind = "bubblewrap"

    def __init__(self, runtime: Runtime) -> None:
        """Start it. Raises EnvironmentFault."""
        as_root = os.geteuid() == 0
        raise_descriptor_limit()  # descriptors are sent to it
        arguments = identity_arguments(as_root=as_root, capabilities=CAPABILITIES)
        arguments += mount_arguments(SandboxSpec(runtime), writable=False)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            number = theirs.fileno()
            process, inner = start_bubblewrap(find_bubblewrap(), arguments, INTERPRETER, (number,), ENVIRONMENT)
            try:
                self._shell = Shell(process, inner, None)
            except OSError:
                raise EnvironmentFault(f"bwrap has ended: {end_early(process)}") from None
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()
        self._process: subprocess.Popen[bytes] = process
        rows = [[0, ZYGOTE_UID, 1], [SANDBOX_UID, SANDBOX_UID, 1]] if as_root else None
        self.config: Mapping[str, Any] = {"control": number, "rows": rows}

    def send(self, data: bytes) -> None:
        """Write to its input."""
        if self._process.stdin is not None:
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def control(self) -> socket.socket:
        """Return the connection that it has inherited the other end of."""
        return self._control

    def last_words(self) -> str:
        """Return the last line of its error output."""
        return read_message(self._process)

    def enforcement(self, group: ControlGroup | None, limits: Limits) -> dict[str, str]:
        """As in a sandbox of an ordinary user."""
        return describe_enforcement(group, limits, as_root=False)

    def close(self) -> None:
        """End ``bwrap``."""
        self._control.close()
        self._shell.kill()
        self._shell.release()


class DockerShell:
    """A container whose engine does not stand in the way of namespaces; it holds no capability and no network.

    Found to be needed: no filter of the engine's and an unmasked ``/proc``, without which the kernel allows no other.
    """

    kind = "docker"

    def __init__(self, runtime: Runtime, container: Container | None) -> None:
        """Start it. Raises EnvironmentFault."""
        from rcb_agent.environments import docker
        from rcb_agent.environments.engine import connect
        from rcb_agent.environments.images import default_base, find_image
        from rcb_agent.environments.leftovers import sweep_once

        engine = connect()
        sweep_once(engine)
        chosen = container or Container()
        image = chosen.images.get(runtime.name) or find_image(runtime, default_base()).id
        engine_runtime, self._enforcement = docker.look_at_engine(engine, chosen.engine_runtime)
        self.config: Mapping[str, Any] = {"control": CONTROL_PATH, "rows": None}
        self._lock = threading.Lock()
        try:
            self._place = tempfile.TemporaryDirectory(prefix="control-")
            self._listener = listen(Path(self._place.name, "control"))
        except OSError as error:
            raise EnvironmentFault(f"a container cannot be given a socket: {error}") from None
        try:
            request = zygote_request(engine, image, runtime, engine_runtime, f"{self._place.name}/control")
            self._box = docker.start_container(engine, request)
        except BaseException:
            self._forget_listener()
            raise
        self._box.connection.setblocking(True)

    def send(self, data: bytes) -> None:
        """Write to its input."""
        self._box.connection.settimeout(CONNECT_SECONDS)
        self._box.connection.sendall(data)

    def control(self) -> socket.socket:
        """Wait until it has connected, as the user that it must be."""
        self._listener.settimeout(CONNECT_SECONDS)
        try:
            connection, _ = self._listener.accept()
        finally:
            self._forget_listener()
        return connection

    def last_words(self) -> str:
        """Return the last line of its error output."""
        self._box.connection.setblocking(False)
        with suppress(OSError):
            self._box.records.decode(self._box.connection.recv(1 << 16))
        return self._box.records.last_words()

    def enforcement(self, group: ControlGroup | None, limits: Limits) -> dict[str, str]:
        """What our own group does not hold is held for each process, and by the engine for all of them together."""
        return {**describe_enforcement(group, limits, as_root=False), "user": self._enforcement["user"]}

    def close(self) -> None:
        """Remove the container."""
        with self._lock:
            self._forget_listener()
            self._box.kill()
            self._box.release()

    def _forget_listener(self) -> None:
        self._listener.close()
        self._place.cleanup()


def listen(path: Path) -> socket.socket:
    """Return a socket that one container is shown; its folder is closed to others of this machine."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")  # the folder's own path may be too long for an address
        path.chmod(0o777)
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


def zygote_request(engine: Any, image: str, runtime: Runtime, engine_runtime: str, control: str) -> dict[str, Any]:
    """Return what is asked of the engine: as for a sandbox, but for what forbids namespaces."""
    from rcb_agent.environments import docker

    limits = Limits()
    limits = replace(limits, memory_mb=limits.memory_mb * SHARED_BY, pids=limits.pids * SHARED_BY)
    limits = replace(limits, cpus=float(os.cpu_count() or 1))
    request = docker.container_request(engine, image, SandboxSpec(runtime, limits=limits), engine_runtime)
    config = request["host_config"]
    options = ["no-new-privileges:true", "seccomp=unconfined"]
    if any("apparmor" in str(option) for option in engine.info().get("SecurityOptions") or ()):
        options.append("apparmor=unconfined")
    masked = [path for path in docker.MASKED if not path.startswith("/proc/")]
    changed = {
        "SecurityOpt": options,
        "MaskedPaths": masked,
        "ReadonlyPaths": [],
        "Binds": [f"{control}:{CONTROL_PATH}"],
    }
    environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    return {
        **request,
        "entrypoint": [INTERPRETER[0]],
        "command": list(INTERPRETER[1:]),
        "environment": environment,
        "host_config": {**config, **changed},
    }


@dataclass(frozen=True, slots=True)
class ShellOpener:
    """Opens the shell that goes with a kind of sandbox; ``container`` as in SandboxSpec."""

    kind: str
    container: Container | None = None

    def __call__(self, runtime: Runtime) -> ZygoteShell:
        """Open one. Raises EnvironmentFault."""
        if self.kind == "bubblewrap":
            return BubblewrapShell(runtime)
        if self.kind == "docker":
            return DockerShell(runtime, self.container)
        raise EnvironmentFault(f"the sandbox {self.kind} has no warm start")
