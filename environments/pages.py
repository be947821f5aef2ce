"""Gathers a process's memory into huge pages, so that forking it copies few page tables.

With PyTorch loaded a process has some 60,000 private pages of 4 KiB, and each fork and each exit walks them all; as
pages of 2 MiB they are a hundred entries. A forked child that writes gets copies of 4 KiB as before. Runs inside
sandboxes: standard library only. A kernel before 6.1, or one that refuses, leaves everything as it is.
"""

from __future__ import annotations

# Loading pathlib would double the start of a sandbox:
# ruff: noqa: PTH123
import ctypes

from rcb_agent.environments.jail import LIBC

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Iterable, Iterator

HUGE = 2 << 20
MADV_COLLAPSE = 25  # madvise(2), Linux 6.1; asks for no setting of the machine's
PRIVATE_WRITABLE = "rw-p"


def gather() -> int:
    """Make huge pages of this process's own memory, as far as the kernel does; return how many it made."""
    with open("/proc/self/maps") as maps:
        lines = maps.readlines()
    return sum(collapse(start) for start in whole_pages(lines))


def whole_pages(maps: Iterable[str]) -> Iterator[int]:
    """Yield the addresses of huge pages that lie wholly in private memory that is no file's and no stack."""
    for line in maps:
        place, rights, _, _, _, *name = line.split()
        if rights != PRIVATE_WRITABLE or (name and name[0] != "[heap]"):
            continue
        start, end = (int(word, 16) for word in place.split("-"))
        yield from range(-(-start // HUGE) * HUGE, end - HUGE + 1, HUGE)


def collapse(start: int) -> bool:
    """Ask for one huge page at an address."""
    refused: int = LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(HUGE), MADV_COLLAPSE)
    return not refused
