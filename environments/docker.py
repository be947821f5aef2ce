"""A sandbox that is a container of a docker engine.

The supervisor is the container's own first process, attached to before it starts, without an init program. From its
start it is SANDBOX_UID and has no capability; its root file system is read-only, there is no network, and the engine
bounds memory, processes and CPU. Commands have the supervisor's user: what protects it is that the first process of a
namespace feels no signal from inside, and that it cannot be traced. The container ends when its input ends, and with
that when the harness does; the engine removes it then.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from rcb_agent.environments.attached import Records
from rcb_agent.environments.base import SANDBOX_UID, Container, Limits, SandboxSpec
from rcb_agent.environments.engine import connect, engine_errors
from rcb_agent.environments.images import OWNER_LABEL, PYTHON, RUN_LABEL, default_base, find_image
from rcb_agent.environments.layout import ENVIRONMENT, writable_places
from rcb_agent.environments.leftovers import sweep_once
from rcb_agent.environments.owners import named_run, own_mark
from rcb_agent.environments.supervised import INTERPRETER_OPTIONS, Carrier, SupervisedSandbox, supervisor_config
from rcb_agent.errors import EnvironmentFault, SandboxLost

GONE_SECONDS = 10.0
VERIFIED_RUNTIMES = ("runc", "io.containerd.runc.v2", "crun")
# The engine's own list (it is replaced by ours), then what says much of the machine and nothing to a command.
MASKED = (
    *(f"/proc/{name}" for name in ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi")),
    *(f"/proc/{name}" for name in ("timer_list", "timer_stats", "interrupts")),
    *(f"/sys/{name}" for name in ("block", "bus", "class", "dev", "devices", "firmware", "hypervisor", "kernel")),
    *("/sys/module", "/sys/power", "/sys/fs/bpf", "/sys/fs/ext4", "/sys/fs/fuse", "/sys/fs/pstore"),
    *("/dev/mqueue", "/etc/resolv.conf"),
)
MEMORY_REPORTS = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")


class DockerSandbox(SupervisedSandbox):
    """A SupervisedSandbox whose supervisor is the first process of a container."""


class Box:
    """A container and the connection to its first process."""

    def __init__(self, engine: Any, name: str, connection: socket.socket) -> None:
        self.engine = engine
        self.name = name
        self.connection = connection
        self.records = Records()
        self._lock = threading.Lock()
        self._removed = False

    def kill(self) -> None:
        """End whoever waits, then the container, and wait until the engine has forgotten it."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        with self._lock:
            if not self._removed:
                remove_container(self.engine, self.name)
                self._removed = True

    def release(self) -> None:
        """Close the connection."""
        self.connection.close()

    def memory_kills(self) -> int:
        """Nothing is known from outside: the supervisor counts."""
        return 0


def remove_container(engine: Any, name: str) -> None:
    """Kill and remove a container that the engine may be removing by itself, and wait until it is gone."""
    import docker

    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            engine.remove_container(name, force=True, v=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError:  # its removal is under way
            time.sleep(0.02)
        except Exception:  # noqa: BLE001 -- an engine that is gone; the next start reaps
            return


def open_docker(spec: SandboxSpec) -> DockerSandbox:
    """Open a sandbox, or raise EnvironmentFault saying in one line what is missing."""
    engine = connect()
    sweep_once(engine)
    chosen = spec.container or Container()
    image = chosen.images.get(spec.runtime.name) or find_image(spec.runtime, default_base()).id
    runtime, enforcement = look_at_engine(engine, chosen.engine_runtime)
    box = start_container(engine, container_request(engine, image, spec, runtime))
    carrier = Carrier(
        "docker",
        box.connection.fileno(),
        box.connection.fileno(),
        enforcement,
        box.kill,
        box.release,
        box.memory_kills,
        first_process(engine, box.name),
        box.records.decode,
        spec.sockets,
    )
    sandbox = DockerSandbox(carrier)
    try:
        sandbox.start(make_config(spec, enforcement), spec.files)
    except SandboxLost:
        sandbox.close()
        words = box.records.last_words()
        raise EnvironmentFault(f"a container started but its first process did not: {words}") from None
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def look_at_engine(engine: Any, wanted: str) -> tuple[str, dict[str, str]]:
    """Return the program that will run containers and how each limit holds. Raises EnvironmentFault."""
    with engine_errors("describe itself"):
        info = engine.info()
    known = info.get("Runtimes") or {}
    if wanted and wanted not in known:
        raise EnvironmentFault(f"the docker engine knows no runtime {wanted}; it has: {', '.join(sorted(known))}")
    return wanted, describe_enforcement(info, wanted or str(info.get("DefaultRuntime", "")))


def describe_enforcement(info: Mapping[str, Any], runtime: str) -> dict[str, str]:
    """Name how each limit holds with this engine."""
    cgroup = f"cgroup v{info.get('CgroupVersion') or '1'}, by docker"
    if runtime not in VERIFIED_RUNTIMES:
        cgroup = f"asked of {runtime}, not verified"
    held = {
        "memory": info.get("MemoryLimit"),
        "pids": info.get("PidsLimit"),
        "cpu": info.get("CpuCfsQuota") or info.get("CPUCfsQuota"),
    }
    return {
        "user": f"uid {SANDBOX_UID}, no capabilities",
        "network": "no network",
        **{name: cgroup if holds else "not enforced" for name, holds in held.items()},
        "disk": "tmpfs size",
        "syscalls": "seccomp",
    }


def container_request(engine: Any, image: str, spec: SandboxSpec, runtime: str) -> dict[str, Any]:
    """Return what is asked of the engine; nothing that came with ``spec.env`` or the harness's environment is in it."""
    return {
        "image": image,
        "command": list(INTERPRETER_OPTIONS),
        "entrypoint": [PYTHON],
        "name": f"rcb-agent-{secrets.token_hex(6)}",
        "user": f"{SANDBOX_UID}:{SANDBOX_UID}",
        "hostname": "sandbox",
        "working_dir": "/",
        "stdin_open": True,
        "network_disabled": True,
        "healthcheck": {"test": ["NONE"]},
        "labels": {OWNER_LABEL: own_mark(), RUN_LABEL: named_run()},
        "host_config": host_config(engine, spec, runtime),
    }


def host_config(engine: Any, spec: SandboxSpec, runtime: str) -> dict[str, Any]:
    """Isolation and limits."""
    memory = spec.limits.memory_mb << 20
    config: dict[str, Any] = engine.create_host_config(
        auto_remove=True,
        network_mode="none",
        ipc_mode="private",
        init=False,
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges:true"],
        mem_limit=memory,
        memswap_limit=memory,
        pids_limit=spec.limits.pids,
        nano_cpus=int(spec.limits.cpus * 1_000_000_000),
        log_config={"Type": "none", "Config": {}},
        tmpfs=temporary_places(spec.limits),
        binds=[f"{bind.source}:{bind.target}:ro" for bind in spec.binds],
        runtime=runtime or None,
    )
    return {**config, "MaskedPaths": list(MASKED)}


def temporary_places(limits: Limits) -> dict[str, str]:
    """Return mount options by path."""
    places = {}
    for place in writable_places(limits):
        owner = f",uid={SANDBOX_UID},gid={SANDBOX_UID}" if place.private else ""
        places[place.path] = f"rw,exec,nosuid,nodev,size={place.size},mode={place.mode}{owner}"
    return places


def start_container(engine: Any, request: Mapping[str, Any]) -> Box:
    """Create, attach, start; nothing is left if one of these fails."""
    name = request["name"]
    try:
        with engine_errors("make a sandbox"):
            engine.create_container(**request)
            box = Box(engine, name, attach(engine, name))
            engine.start(name)
    except BaseException:
        remove_container(engine, name)
        raise
    return box


def attach(engine: Any, name: str) -> socket.socket:
    """Return the connection to a container's first process that has not started yet."""
    wanted = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    stream = engine.attach_socket(name, params=wanted)
    connection = socket.socket(fileno=os.dup(stream.fileno()))
    for own in (stream._response, stream._sock):  # noqa: SLF001 -- else the SDK's own descriptor stays open
        own.close()
    connection.setblocking(False)
    return connection


def first_process(engine: Any, name: str) -> int:
    """Return the process id of a container's first process; 0 if it has none any more."""
    with suppress(EnvironmentFault), engine_errors("look at a sandbox"):
        return int(engine.inspect_container(name)["State"]["Pid"])
    return 0


def make_config(spec: SandboxSpec, enforcement: Mapping[str, str]) -> dict[str, Any]:
    """What the supervisor needs to know."""
    counted = enforcement["memory"].startswith("cgroup")
    rlimits: dict[str, int] = {}
    if not counted:
        rlimits["DATA"] = spec.limits.memory_mb << 20
    if not enforcement["pids"].startswith("cgroup"):
        rlimits["NPROC"] = spec.limits.pids
    config = supervisor_config(
        replace(spec, sockets=()),
        environment=ENVIRONMENT,
        rlimits=rlimits,
        as_root=False,
        owned=[],
        uncounted=counted,
    )
    return {**config, "memory_reports": list(MEMORY_REPORTS)}
