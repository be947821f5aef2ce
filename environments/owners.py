"""Whose a container is: a mark that says whether the process that made it is still alive.

The mark holds machine and process namespace, process id and start time, so that nobody judges what was made
elsewhere: an engine may serve several machines, and containers number their processes from 1.
"""

import hashlib
import os
from functools import lru_cache
from pathlib import Path

from rcb_agent.environments.cgroups import start_time


@lru_cache(maxsize=1)
def home_mark() -> str:
    """Name this boot of this machine and the namespace in which processes are numbered."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        boot = space = "unknown"
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:12]


_run = [""]


def name_run(run: str) -> None:
    """Say which run this process carries out; what is made from now on is labelled with it, for people."""
    _run[0] = run


def named_run() -> str:
    """Return the run that was named last, or nothing."""
    return _run[0]


def own_mark() -> str:
    """Return the mark of this process."""
    return f"{home_mark()}.{os.getpid()}.{start_time(os.getpid())}"


def is_dead(mark: str) -> bool:
    """Whether the process of a mark is known to be gone; of other machines, and of what is no mark, nothing is."""
    home, _, process = mark.partition(".")
    pid, _, started = process.partition(".")
    return home == home_mark() and pid.isdigit() and started.isdigit() and start_time(int(pid)) != started
