"""Guards: containers that outlive their harness, or a reaper that takes what is not ours."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments.base import Container, Limits, Runtime, SandboxSpec
from rcb_agent.environments.docker import open_docker
from rcb_agent.environments.engine import connect
from rcb_agent.environments.images import OWNER_LABEL, build_image
from rcb_agent.environments.leftovers import Leftover, dead_containers, own_images, remove
from rcb_agent.environments.owners import home_mark, is_dead, own_mark
from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.errors import EnvironmentFault, SandboxLost
from tests.environments.conftest import OpenBox
from tests.environments.test_killed_harness import wait_until

pytestmark = pytest.mark.docker

HARNESS = """\
import sys, threading
from pathlib import Path
from rcb_agent.environments.base import Container, Runtime, SandboxSpec
from rcb_agent.environments.docker import open_docker
runtime = Runtime('bare', Path(sys.argv[1]), (), '')
spec = SandboxSpec(runtime, container=Container({'bare': sys.argv[2]}), env={'SECRET_KEY': 'sk-planted'})
boxes = [open_docker(spec) for _ in range(2)]
threading.Thread(target=lambda: boxes[0].run(['sh', '-c', 'setsid sleep 99 & sleep 99'], timeout=600)).start()
print('open', flush=True)
"""


@pytest.fixture
def sandbox_kind() -> str:
    return "docker"


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def containers_of(owner: str) -> list[str]:
    found = connect().containers(all=True, filters={"label": f"{OWNER_LABEL}={owner}"})
    return [container["Id"] for container in found]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_harness_leaves_no_container(runtime: Runtime, bare_image: str, number: signal.Signals) -> None:
    """Idle or busy, they are gone within seconds, with nobody left to remove them."""
    command = [sys.executable, "-c", HARNESS, str(runtime.python), bare_image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "open\n"
        owner = own_mark().split(".")
        mark = f"{owner[0]}.{harness.pid}"
        mine = [c for c in connect().containers() if c["Labels"].get(OWNER_LABEL, "").startswith(f"{mark}.")]
        assert len(mine) == 2
        full = mine[0]["Labels"][OWNER_LABEL]
        assert not is_dead(full)
        harness.send_signal(number)
        harness.wait(10)
    assert wait_until(lambda: not containers_of(full), 10)


def test_many_in_a_row_leave_nothing(open_box: OpenBox) -> None:
    """Forty are opened, used and closed: no container, network, volume or descriptor is left."""
    engine = connect()

    def things() -> tuple[int, int, int]:
        volumes = engine.volumes()["Volumes"] or ()
        return len(containers_of(own_mark())), len(engine.networks()), len(volumes)

    for _ in range(8):  # the SDK keeps a connection for each of the last 25 addresses
        open_box().close()
    before, open_before = things(), descriptors()
    for _ in range(40):
        box = open_box(limits=Limits(memory_mb=128))
        assert box.run(["true"], timeout=20).exit_code == 0
        box.close()
    assert things() == before == (0, *before[1:])
    assert descriptors() <= open_before + 2  # connections to the engine that are kept


def test_a_frozen_container_is_lost_and_removed(open_box: OpenBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is paused, and so cannot end by itself, is ended by the engine."""
    from rcb_agent.environments import supervised

    monkeypatch.setattr(supervised, "GRACE_SECONDS", 0.5)
    box = open_box()
    (name,) = containers_of(own_mark())
    connect().pause(name)
    with pytest.raises(SandboxLost):
        box.run(["true"], timeout=0.2)
    assert wait_until(lambda: not containers_of(own_mark()), 10)


def test_a_container_killed_from_outside_is_lost(box: SupervisedSandbox) -> None:
    """``docker kill`` in the middle of a command is a lost sandbox at once, not a hang."""
    (name,) = containers_of(own_mark())
    started = time.monotonic()
    killing = ["sh", "-c", "sleep 0.5; kill -9 $0", str(box._carrier.pid)]
    with subprocess.Popen(killing), pytest.raises(SandboxLost):
        box.run(["sleep", "30"], timeout=60)
    assert time.monotonic() - started < 10
    assert name


@pytest.fixture
def planted(bare_image: str) -> Iterator[Callable[..., str]]:
    """Makes containers that have not started, and removes what is left of them."""
    engine, made = connect(), []

    def plant(name: str, labels: dict[str, str]) -> str:
        made.append(engine.create_container(bare_image, ["true"], name=name, labels=labels)["Id"])
        return str(made[-1])

    yield plant
    for name in made:
        with suppress(Exception):
            engine.remove_container(name, force=True)


def test_only_the_dead_owners_containers_are_reaped(planted: Callable[..., str]) -> None:
    """Similar names, other labels, other machines and living owners are no reason."""
    unique = f"{os.getpid()}-{time.monotonic_ns()}"
    dead = planted(f"rcb-agent-{unique}", {OWNER_LABEL: f"{home_mark()}.1.1"})
    kept = [
        planted(f"rcb-agent-{unique}-a", {}),
        planted(f"rcb-agent-{unique}-b", {"rcb-agent.runtime": "mini"}),
        planted(f"rcb-agent-{unique}-c", {OWNER_LABEL: "another-machine.1.1"}),
        planted(f"rcb-agent-{unique}-d", {OWNER_LABEL: own_mark()}),
        planted(f"rcb-agent-{unique}-e", {OWNER_LABEL: ""}),
        planted(f"rcb-agent-{unique}-f", {OWNER_LABEL: "x.y.z"}),
    ]
    found = {leftover.id for leftover in dead_containers()}
    assert not found & set(kept)
    for _ in range(2):  # a run that starts elsewhere at this moment may have been quicker: gone is fine
        remove(Leftover("container", "dead", dead))
    there = {container["Id"] for container in connect().containers(all=True)}
    assert dead not in there
    assert set(kept) <= there


def test_only_our_own_images_are_found(bare_image: str) -> None:
    """An image that somebody made of one of ours has its labels, and another name."""
    engine, own = connect(), f"somebodys-own-{os.getpid()}"
    engine.tag(bare_image, own, "1")
    try:
        names = [image.name for image in own_images()]
    finally:
        engine.remove_image(f"{own}:1", noprune=True)
    assert names
    assert all(name.startswith("rcb-agent/") for name in names)


def test_nothing_secret_can_be_inspected(open_box: OpenBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys of the harness nor what the spec adds to the environment stands in ``docker inspect``."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-harness")
    box = open_box(env={"EXTRA": "sk-of-the-spec"})
    (name,) = containers_of(own_mark())
    said = str(connect().inspect_container(name))
    assert "sk-of" not in said
    assert "rcb_agent" not in said
    assert box.run(["printenv", "EXTRA"], timeout=10).stdout == b"sk-of-the-spec\n"


def test_what_is_asked_of_the_engine(open_box: OpenBox) -> None:
    """No capability, no privilege, no network, no writable root, no socket of the engine, limits that hold."""
    open_box(limits=Limits(memory_mb=200, pids=20, cpus=0.5))
    (name,) = containers_of(own_mark())
    found: dict[str, Any] = connect().inspect_container(name)
    host, config = found["HostConfig"], found["Config"]
    assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], None, False)
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["IpcMode"]) == ("none", True, "private")
    assert host["Memory"] == host["MemorySwap"] == 200 << 20
    assert (host["PidsLimit"], host["NanoCpus"]) == (20, 500_000_000)
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert config["User"] == "64100:64100"
    assert not found["Mounts"] or all("docker.sock" not in str(mount) for mount in found["Mounts"])


LIAR = """\
#!/bin/sh
echo '{"tag": "cpython-39", "machine": "x86_64", "git": "git"}'
"""
STATUS = "import re; print(*re.findall(r'(?:Cap\\w+|NoNewPrivs|Seccomp):\\s*(\\w+)', open('/proc/self/status').read()))"


def test_what_a_command_has(open_box: OpenBox) -> None:
    """Uid for real, empty capability sets, two filters, half a core, and no engine to talk to."""
    box = open_box(limits=Limits(cpus=0.5))
    shown = box.run(["python", "-c", STATUS], timeout=20).text().split()
    assert shown == ["0" * 16] * 5 + ["1", "2"]
    for place in ("/sys/devices", "/sys/class", "/proc/acpi", "/dev/mqueue"):
        assert box.run(["ls", place], timeout=20).stdout == b"", place
    assert box.run(["cat", "/etc/resolv.conf"], timeout=20).stdout == b""
    assert box.run(["sh", "-c", "id -u; ls /var/run/docker.sock /run/docker.sock"], timeout=20).stdout == b"64100\n"
    code = (
        "import os, time\nfor _ in range(2):\n    if os.fork() == 0: break\n"
        "end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\n"
        "if os.getppid() != 1: os._exit(0)\nfor _ in range(2): os.wait()\n"
        "t = os.times(); print(t.user + t.system + t.children_user + t.children_system)\n"
    )
    assert float(box.run(["python", "-c", code], timeout=30).stdout) < 1.2


def test_an_image_that_is_gone_is_said(runtime: Runtime) -> None:
    """One line, naming what could not be done."""
    with pytest.raises(EnvironmentFault, match=r"^docker could not make a sandbox: No such image"):
        open_docker(SandboxSpec(runtime, container=Container({"bare": "sha256:" + "0" * 64})))


def test_an_engine_runtime_that_is_not_there_is_said(runtime: Runtime, bare_image: str) -> None:
    """The known ones are named, and no container is left."""
    with pytest.raises(EnvironmentFault, match=r"knows no runtime runnothing; it has: .*runc"):
        open_docker(SandboxSpec(runtime, container=Container({"bare": bare_image}, "runnothing")))
    assert containers_of(own_mark()) == []


def test_a_base_image_that_does_not_do_is_said(runtime: Runtime, base_image: str) -> None:
    """Not there, with volumes, without a Python or git, with another Python: one line each."""
    engine, place = connect(), f"rcb-agent-test-base-{os.getpid()}"

    def derived(name: str, *changes: str, words: list[str] | None = None) -> str:
        alone = engine.create_host_config(network_mode="none")
        made = engine.create_container(base_image, words or ["true"], user="0:0", host_config=alone)["Id"]
        engine.start(made)
        engine.wait(made)
        engine.commit(made, place, name, changes=list(changes))
        engine.remove_container(made)
        return f"{place}:{name}"

    broken = {
        derived("volumes", "VOLUME /data"): "declares volumes",
        derived("no-git", words=["rm", "-f", "/usr/bin/git"]): "has no git",
        derived("no-python", words=["sh", "-c", "rm -f /usr/bin/python3* /usr/local/bin/python3*"]): "no python3",
        derived(
            "other",
            words=["sh", "-c", 'p=$(command -v python3); rm "$p"; printf "%s\\n" "$0" >"$p"; chmod +x "$p"', LIAR],
        ): "has cpython-39",
        "rcb-agent-no-such-base:1": r"is not there: docker pull .*base_image.sh",
    }
    try:
        for name, message in broken.items():
            with pytest.raises(EnvironmentFault, match=message) as caught:
                build_image(runtime, name, lambda _line: None)
            assert "\n" not in str(caught.value), name
    finally:
        for name in broken:
            with suppress(Exception):
                engine.remove_image(name, force=True)


MAKES_ONLY = """\
import os, signal, sys
from rcb_agent.environments.engine import connect
from rcb_agent.environments.images import OWNER_LABEL
from rcb_agent.environments.leftovers import sweep_once
from rcb_agent.environments.owners import own_mark
engine = connect()
sweep_once(engine)
engine.create_container(image=sys.argv[1], command="true", labels={OWNER_LABEL: own_mark()})
print(own_mark(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_container_that_was_made_and_never_started_goes_too(base_image: str) -> None:
    """Killed between the two, a harness leaves what cannot end by itself."""
    done = subprocess.run([sys.executable, "-c", MAKES_ONLY, base_image], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    owner = done.stdout.strip()
    assert owner
    assert wait_until(lambda: not containers_of(owner), 10)
