"""One cgroup per sandbox, below the harness's own, in version 1 or 2, where the machine lets us.

A group is named after its owner (process id and start time), so that groups of a killed harness are known
and removed at the next start. Below the own group means: limits that somebody set for the harness still hold.
"""

import errno
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from rcb_agent.environments.base import Limits

PREFIX = "boxed-run"  # can be read inside, so it names nobody
PERIOD_MICROSECONDS = 100_000
CONTROLLERS = ("memory", "pids", "cpu")
SWAP_FILES = ("memory.swap.max", "memory.memsw.limit_in_bytes")

_numbers = count(1)
_swept: set[Path] = set()
_sweeping = threading.Lock()


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The folders of one sandbox, by controller; version 2 has the same folder for all."""

    folders: Mapping[str, Path]
    version: int

    def add(self, pid: int) -> None:
        """Move a process in; what it starts later follows. Raises OSError, as for one that has ended."""
        if pid <= 0:  # the kernel takes 0 for whoever writes it
            raise ProcessLookupError(errno.ESRCH, "the process to be moved has ended")
        for folder in dict.fromkeys(self.folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def processes(self) -> list[int]:
        """Return what is in it; a process that has left it as root is not found."""
        try:
            folder = next(iter(self.folders.values()))
            return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
        except (OSError, StopIteration):
            return []

    def memory_kills(self) -> int:
        """Count processes that the kernel has killed because the group ran out of memory."""
        folder = self.folders.get("memory")
        if folder is None:
            return 0
        report = folder / ("memory.events" if self.version == 2 else "memory.oom_control")
        try:
            lines = report.read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def remove(self) -> None:
        """Remove the folders; the kernel may need a moment after the last process has ended."""
        for folder in dict.fromkeys(self.folders.values()):
            remove_folder(folder, seconds=2.0)


def open_group(limits: Limits) -> ControlGroup | None:
    """Make a group with these limits, with as many controllers as possible, or None."""
    name = f"{PREFIX}.{os.getpid()}.{start_time(os.getpid())}.{next(_numbers)}"
    homes, version = own_folders()
    sweep_once(tuple(homes.values()))
    folders: dict[str, Path] = {}
    for controller, home in homes.items():
        folder = home / name
        try:
            folder.mkdir(exist_ok=True)
            limit_folder(folder, settings(controller, version, limits))
        except OSError:
            if folder not in folders.values():
                remove_folder(folder, seconds=0.0)
            continue
        folders[controller] = folder
    return ControlGroup(folders, version) if folders else None


def settings(controller: str, version: int, limits: Limits) -> list[tuple[str, str]]:
    """Files and values of one controller; swap counts as memory."""
    memory = str(limits.memory_mb << 20)
    quota = int(limits.cpus * PERIOD_MICROSECONDS)
    if controller == "pids":
        return [("pids.max", str(limits.pids))]
    if version == 2:
        if controller == "cpu":
            return [("cpu.max", f"{quota} {PERIOD_MICROSECONDS}")]
        return [("memory.max", memory), ("memory.swap.max", "0")]
    if controller == "cpu":
        return [("cpu.cfs_period_us", str(PERIOD_MICROSECONDS)), ("cpu.cfs_quota_us", str(quota))]
    return [("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory)]


def limit_folder(folder: Path, values: list[tuple[str, str]]) -> None:
    """Write the settings; those about swap exist only where the kernel counts swap."""
    for file, value in values:
        if file in SWAP_FILES and not (folder / file).exists():
            continue
        (folder / file).write_text(value)


def own_folders(
    listing: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> tuple[dict[str, Path], int]:
    """Return the folder below which groups are made, by controller, and the version of the hierarchy."""
    try:
        rows = [line.split(":", 2) for line in listing.read_text().splitlines()]
    except OSError:
        return {}, 1
    old = {
        controller: root / names / path.lstrip("/")
        for _, names, path in rows
        for controller in names.split(",")
        if controller in CONTROLLERS
    }
    if old:
        return {name: folder for name, folder in old.items() if folder.is_dir()}, 1
    for _, names, path in rows:
        if not names:
            return delegated_folders(root / path.lstrip("/"), root), 2
    return {}, 1


def delegated_folders(own: Path, root: Path) -> dict[str, Path]:
    """Find the nearest folder, from the own one up, whose children may have controllers.

    A group of version 2 that holds processes cannot hand controllers to children, so it is usually the parent.
    """
    for home in (own, own.parent):
        if home != root and root not in home.parents:
            break
        try:
            offered = (home / "cgroup.controllers").read_text().split()
            active = (home / "cgroup.subtree_control").read_text().split()
            for name in CONTROLLERS:
                if name in offered and name not in active:
                    (home / "cgroup.subtree_control").write_text(f"+{name}")
                    active.append(name)
        except OSError:
            continue
        if any(name in active for name in CONTROLLERS) and os.access(home, os.W_OK):
            return {name: home for name in CONTROLLERS if name in active}
    return {}


def sweep_once(homes: tuple[Path, ...]) -> None:
    """Remove groups of dead owners, at the first open in this process."""
    with _sweeping:
        for home in homes:
            if home not in _swept:
                _swept.add(home)
                sweep(home)


def sweep(home: Path) -> None:
    """Remove the groups below one folder whose owner is dead."""
    for folder in home.glob(f"{PREFIX}.*.*.*"):
        _, pid, started, _ = folder.name.split(".")
        if not pid.isdigit() or start_time(int(pid)) == started:
            continue
        remove_folder(folder, seconds=0.0)


def start_time(pid: int) -> str:
    """When a process started, in ticks since boot; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return ""


def remove_folder(folder: Path, *, seconds: float) -> None:
    """Remove a group, waiting a little for the kernel to let go of its last process."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)
        else:
            return
