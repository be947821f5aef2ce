"""Guards: a full disk that ends in a traceback, a lost record, or a trial that counts although it was not kept."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs.command import rcb_agent, records

pytestmark = pytest.mark.sandbox


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a tmpfs of 300 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_is_one_line_and_the_run_goes_on_after_room_is_made(small_disk: Path, tmp_path: Path) -> None:
    """Exit 4; what was recorded stays and is not repeated."""
    words = ["run", "--agent", "react", "--json", "--out", str(small_disk / "run")]
    full = rcb_agent(*words, cwd=tmp_path)
    assert full.code == 4
    assert "No space left on device" in full.err.splitlines()[-1]
    assert "Traceback" not in full.err
    whole = (small_disk / "run" / "trials.jsonl").read_bytes().rpartition(b"\n")[0]
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    done = rcb_agent(*words, cwd=tmp_path)
    assert done.code == 0, done.err
    assert (small_disk / "run" / "trials.jsonl").read_bytes().startswith(whole)
    names = [record["trial"] for record in records(small_disk / "run", "trials.jsonl")]
    assert len(names) == len(set(names)) == done.document["arms"][0]["trials"]
