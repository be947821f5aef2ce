"""Guards: limits that are written to the wrong place or not at all, in either version of cgroups."""

import os
from pathlib import Path

import pytest

from rcb_agent.environments import cgroups
from rcb_agent.environments.base import Limits

LIMITS = Limits(memory_mb=100, pids=7, cpus=0.5)


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_version_1_goes_below_the_own_group(tmp_path: Path) -> None:
    """Limits of the harness's own group hold for its sandboxes too."""
    for folder in ("memory/jobs/42", "pids", "cpu,cpuacct"):
        (tmp_path / folder).mkdir(parents=True)
    listing = tmp_path / "listing"
    write(listing, "5:memory:/jobs/42\n4:pids:/\n3:cpu,cpuacct:/\n2:name=systemd:/\n0::/\n")
    folders, version = cgroups.own_folders(listing, tmp_path)
    assert version == 1
    assert folders["memory"] == tmp_path / "memory/jobs/42"
    assert set(folders) == {"memory", "pids", "cpu"}


def test_version_2_hands_controllers_down(tmp_path: Path) -> None:
    """The first folder, from the own one up, that can give controllers to children."""
    write(tmp_path / "user/job/cgroup.controllers", "")
    write(tmp_path / "user/job/cgroup.subtree_control", "")
    write(tmp_path / "user/cgroup.controllers", "cpu memory pids io")
    write(tmp_path / "user/cgroup.subtree_control", "memory pids cpu")
    write(tmp_path / "listing", "0::/user/job\n")
    folders, version = cgroups.own_folders(tmp_path / "listing", tmp_path)
    assert version == 2
    assert folders == dict.fromkeys(("memory", "pids", "cpu"), tmp_path / "user")


def test_without_delegation_there_is_nothing(tmp_path: Path) -> None:
    """No controller, no folder: the caller falls back to rlimits and records it."""
    write(tmp_path / "listing", "0::/user/job\n")
    assert cgroups.own_folders(tmp_path / "listing", tmp_path) == ({}, 2)
    assert cgroups.own_folders(tmp_path / "nothing", tmp_path) == ({}, 1)


@pytest.mark.parametrize(
    ("controller", "version", "expected"),
    [
        ("memory", 1, {"memory.limit_in_bytes": "104857600", "memory.memsw.limit_in_bytes": "104857600"}),
        ("memory", 2, {"memory.max": "104857600", "memory.swap.max": "0"}),
        ("pids", 1, {"pids.max": "7"}),
        ("pids", 2, {"pids.max": "7"}),
        ("cpu", 1, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"}),
        ("cpu", 2, {"cpu.max": "50000 100000"}),
    ],
)
def test_what_is_written(controller: str, version: int, expected: dict[str, str]) -> None:
    """Swap counts as memory; the quota is in microseconds of each tenth of a second."""
    assert dict(cgroups.settings(controller, version, LIMITS)) == expected


def test_a_swap_file_the_kernel_lacks_is_no_failure(tmp_path: Path) -> None:
    """Without swap accounting the memory limit still holds."""
    cgroups.limit_folder(tmp_path, cgroups.settings("memory", 2, LIMITS))
    assert [path.name for path in tmp_path.iterdir()] == ["memory.max"]


@pytest.mark.parametrize(
    ("version", "file", "text"),
    [
        (1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        (2, "memory.events", "oom 9\noom_kill 3\n"),
    ],
)
def test_memory_kills_are_counted(tmp_path: Path, version: int, file: str, text: str) -> None:
    """Both versions say how many processes were ended."""
    write(tmp_path / file, text)
    assert cgroups.ControlGroup({"memory": tmp_path}, version).memory_kills() == 3
    assert cgroups.ControlGroup({}, version).memory_kills() == 0


def test_only_groups_of_dead_owners_are_swept(tmp_path: Path) -> None:
    """A live harness keeps its groups; a reused process id is not its owner."""
    mine = f"{cgroups.PREFIX}.{os.getpid()}.{cgroups.start_time(os.getpid())}.1"
    for name in (mine, f"{cgroups.PREFIX}.{os.getpid()}.1.1", f"{cgroups.PREFIX}.999999999.5.1", "other.1.2.3"):
        (tmp_path / name).mkdir()
    cgroups.sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {mine, "other.1.2.3"}
