"""What a warm process gathers into huge pages is its own memory and nothing else, and nothing of it changes."""

import subprocess
import sys

import pytest

from rcb_agent.environments.pages import HUGE, whole_pages

MAPS = f"""\
{HUGE - 4096:x}-{3 * HUGE + 4096:x} rw-p 00000000 00:00 0
{4 * HUGE:x}-{5 * HUGE:x} rw-p 00000000 00:00 0                          [heap]
{6 * HUGE:x}-{7 * HUGE:x} rw-p 00000000 08:01 77                         /usr/lib/a library.so
{8 * HUGE:x}-{9 * HUGE:x} r--p 00000000 00:00 0
{10 * HUGE:x}-{11 * HUGE:x} rw-s 00000000 00:00 0
{12 * HUGE:x}-{13 * HUGE:x} rw-p 00000000 00:00 0                          [stack]
{14 * HUGE + 4096:x}-{15 * HUGE:x} rw-p 00000000 00:00 0
"""
GATHER = """\
import sys
from rcb_agent.environments.pages import gather
held = bytearray(b"abc" * (4 << 20))
made = gather()
assert held == b"abc" * (4 << 20)
lines = [line.split() for line in open("/proc/self/smaps_rollup")]
print(made, next(int(line[1]) for line in lines if line[0] == "AnonHugePages:"))
"""


def test_no_file_no_stack_and_no_part_of_a_page_is_gathered() -> None:
    """Only whole huge pages of private memory that can be written to and is no file's."""
    assert list(whole_pages(MAPS.splitlines())) == [HUGE, 2 * HUGE, 4 * HUGE]


def test_memory_keeps_its_content_when_it_is_gathered() -> None:
    """A process's bytes are the same afterwards, and the kernel has made the pages that it says it made."""
    done = subprocess.run([sys.executable, "-c", GATHER], capture_output=True, text=True, check=True)
    made, kilobytes = map(int, done.stdout.split())
    if not made:
        pytest.skip("this kernel makes no huge pages on request (MADV_COLLAPSE, Linux 6.1)")
    assert kilobytes >= made * HUGE >> 10
