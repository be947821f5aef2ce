"""Images: a runtime's packages on top of a base image, for sandboxes that are containers.

The packages are those of the runtime's venv on this machine, copied, so nothing is downloaded; the base image brings
the system, git and a Python of the same minor version. An image is named after everything it is made of, so that a
change of any of it is another image.
"""

import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rcb_agent.environments.base import WORKDIR, Runtime
from rcb_agent.environments.engine import ImageMissing, connect, engine_errors
from rcb_agent.environments.layout import ETC, HOME
from rcb_agent.environments.owners import own_mark
from rcb_agent.environments.runtimes import IMPORT_ALL
from rcb_agent.environments.shims import without_shims
from rcb_agent.environments.venvs import SHOWN_AT as RUNTIME_ROOT
from rcb_agent.errors import EnvironmentFault
from rcb_agent.tasks.cache import cache_folder

BASE_VARIABLE = "RCB_DOCKER_BASE"
REPOSITORY = "rcb-agent"
PYTHON = f"{RUNTIME_ROOT}/bin/python"
OWNER_LABEL, RUN_LABEL, RUNTIME_LABEL = "rcb-agent.owner", "rcb-agent.run", "rcb-agent.runtime"
BASE_LABEL = "rcb-agent.base"
BUILD_SECONDS = 900
TAG_LENGTH = 12

PROBE = """\
import json, platform, shutil, subprocess, sys
git = shutil.which("git")
said = subprocess.run([git, "--version"], capture_output=True, text=True).stdout.strip() if git else ""
print(json.dumps({"tag": sys.implementation.cache_tag, "machine": platform.machine(),
    "version": platform.python_version(), "git": said}))
"""
# Makes the venv around the packages that are there, says nothing of where they came from, tries them all.
FURNISH = f"""\
import os, pathlib, subprocess, sys, venv
venv.EnvBuilder(symlinks=True, with_pip=False).create({RUNTIME_ROOT!r})
config = pathlib.Path({RUNTIME_ROOT!r}, "pyvenv.cfg")
kept = [line for line in config.read_text().splitlines() if not line.startswith(("command", "prompt"))]
config.write_text("\\n".join(kept) + "\\n")
for script in pathlib.Path({RUNTIME_ROOT!r}, "bin").glob("[Aa]ctivate*"):
    script.unlink()
for place in ({WORKDIR!r}, {HOME!r}):
    os.makedirs(place, exist_ok=True)
sys.exit(subprocess.run([{PYTHON!r}, "-I", "-B", "-c", *sys.argv[1:]]).returncode)
"""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a runtime: its name (a hash of what it is made of) and id, and the id of what it was built on."""

    name: str
    id: str
    base: str


def default_base() -> str:
    """Return the base image that the environment names, else the official Python of the harness's own version."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return os.environ.get(BASE_VARIABLE) or f"python:{version}-bookworm"


def find_base(base: str) -> str:
    """Return the id of a base image, or raise EnvironmentFault saying how to get one."""
    try:
        return str(inspect_image(base)["Id"])
    except ImageMissing:
        raise EnvironmentFault(
            f"the base image {base} is not there: docker pull {base}, or make one without a registry by "
            f"scripts/base_image.sh NAME, and name it by --docker-base or {BASE_VARIABLE}"
        ) from None


def inspect_image(name: str) -> Any:
    """Ask the engine about an image; raises ImageMissing."""
    engine = connect()
    with engine_errors(f"look at the image {name}"):
        return engine.inspect_image(name)


def image_name(runtime: Runtime, base_id: str) -> str:
    """Return the name of a runtime's image: a hash of packages, Python, machine, base image and recipe."""
    parts = (runtime.digest, sys.implementation.cache_tag, platform.machine(), base_id, FURNISH, IMPORT_ALL, str(ETC))
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()
    return f"{REPOSITORY}/{runtime.name}:{digest[:TAG_LENGTH]}"


def find_image(runtime: Runtime, base: str) -> Image:
    """Return the image of a runtime, or raise EnvironmentFault with the command that builds it."""
    base_id = find_base(base)
    name = image_name(runtime, base_id)
    try:
        return Image(name, str(inspect_image(name)["Id"]), base_id)
    except ImageMissing:
        chosen = "" if base == default_base() else f" --docker-base {base}"
        raise EnvironmentFault(
            f"the image of the runtime {runtime.name} on {base} is not built: run "
            f"`rcb-agent env build --sandbox docker{chosen} {runtime.name}`"
        ) from None


def build_image(runtime: Runtime, base: str, report: Callable[[str], None]) -> Image:
    """Build the image of a runtime unless it is there; several builders wait for the first. Raises EnvironmentFault."""
    from filelock import FileLock

    name = image_name(runtime, find_base(base))
    folder = cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{name.replace('/', '-').replace(':', '-')}.lock", timeout=BUILD_SECONDS):
        try:
            image = find_image(runtime, base)
        except EnvironmentFault:
            return build_new_image(runtime, base, report)
        report(f"{runtime.name}: already built as {image.name}")
        return image


def build_new_image(runtime: Runtime, base: str, report: Callable[[str], None]) -> Image:
    """Copy the packages into a container of the base image, try them there, keep it."""
    check_base(base)
    base_id = find_base(base)
    name = image_name(runtime, base_id)
    report(f"{runtime.name}: copying its packages onto {base}")
    labels = {OWNER_LABEL: own_mark(), RUNTIME_LABEL: runtime.name, BASE_LABEL: base_id}
    words = ["python3", "-I", "-B", "-c", FURNISH, IMPORT_ALL, *without_shims(runtime.packages)]
    with build_container(base_id, words, labels) as container:
        upload(container, runtime)
        report(f"{runtime.name}: trying every package")
        status, said = run_out(container)
        if status:
            raise EnvironmentFault(f"the packages of {runtime.name} do not work on {base}: {said}")
        commit(container, name)
    report(f"{runtime.name}: built as {name}")
    return find_image(runtime, base)


def check_base(base: str) -> None:
    """See that a base image has what is needed. Raises EnvironmentFault in one line."""
    config = inspect_image(base)["Config"] or {}
    if config.get("Volumes"):
        raise EnvironmentFault(f"the base image {base} declares volumes, which have no bound on their size")
    with build_container(base, ["python3", "-I", "-c", PROBE], {OWNER_LABEL: own_mark()}) as container:
        try:
            status, said = run_out(container)
        except EnvironmentFault as fault:
            raise EnvironmentFault(f"the base image {base} has no python3 that starts: {fault}") from None
    try:
        told = json.loads(said) if not status else None
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise EnvironmentFault(f"python3 does not run in the base image {base}: {said}")
    if (told["tag"], told["machine"]) != (sys.implementation.cache_tag, platform.machine()):
        raise EnvironmentFault(
            f"the base image {base} has {told['tag']} on {told['machine']}, but the runtimes here are "
            f"{sys.implementation.cache_tag} on {platform.machine()}: choose a base image with that Python"
        )
    if not told["git"]:
        raise EnvironmentFault(f"the base image {base} has no git")


@contextmanager
def build_container(image: str, words: Sequence[str], labels: Mapping[str, str]) -> Iterator[str]:
    """Make a container that runs a program as root without a network; it is removed in the end."""
    engine = connect()
    with engine_errors(f"make a container of {image}"):
        made = engine.create_container(
            image,
            list(words[1:]),
            entrypoint=[words[0]],
            user="0:0",
            labels=dict(labels),
            working_dir="/",
            environment={"HOME": "/root"},
            host_config=engine.create_host_config(network_mode="none", security_opt=["no-new-privileges:true"]),
        )
    try:
        yield made["Id"]
    finally:
        with suppress(EnvironmentFault), engine_errors("remove a container"):
            engine.remove_container(made["Id"], force=True, v=True)


def run_out(container: str) -> tuple[int, str]:
    """Run a container to its end; return its status and its last line."""
    engine = connect()
    with engine_errors("run a container"):
        engine.start(container)
        status = int(engine.wait(container, timeout=BUILD_SECONDS)["StatusCode"])
        lines = engine.logs(container, tail=20).decode("utf-8", "replace").strip().splitlines()
    return status, lines[-1] if lines else f"exit status {status}"


def upload(container: str, runtime: Runtime) -> None:
    """Copy packages, programs and a few files of ``/etc`` into a container that has not started."""
    engine = connect()
    reader, writer = os.pipe()
    faults: list[OSError] = []

    def pack() -> None:
        try:
            with os.fdopen(writer, "wb") as pipe:
                pack_files(pipe, runtime.python.parent.parent)
        except OSError as fault:  # nobody reads any more, or a file went away
            faults.append(fault)

    packing = threading.Thread(target=pack)
    packing.start()
    try:
        with os.fdopen(reader, "rb") as pipe, engine_errors("copy packages into a container"):
            engine.put_archive(container, "/", iter(lambda: pipe.read(1 << 20), b""))
    finally:
        packing.join()
    if faults:
        raise EnvironmentFault(f"the packages of {runtime.name} cannot be copied: {faults[0]}")


def pack_files(pipe: IO[bytes], home: Path) -> None:
    """Write a tar of a venv's packages and programs, as root's, and of the files of ``/etc``."""
    root = RUNTIME_ROOT.lstrip("/")
    with tarfile.open(fileobj=pipe, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path, text in ETC.items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(text.encode()), 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        tar.add(home / "lib", f"{root}/lib", filter=as_roots)
        for program in sorted((home / "bin").iterdir()):
            if program.is_file() and not program.is_symlink():
                tar.add(program, f"{root}/bin/{program.name}", filter=as_roots)


def as_roots(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Everything is root's, and everybody may read it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def commit(container: str, name: str) -> None:
    """Make an image of a container; what it does by itself is nothing, and it is no container of ours."""
    repository, _, tag = name.partition(":")
    changes = ["ENTRYPOINT []", "CMD []", f"LABEL {OWNER_LABEL}=", "HEALTHCHECK NONE"]
    engine = connect()
    with engine_errors(f"keep the image {name}"):
        engine.commit(container, repository, tag, changes=changes)
