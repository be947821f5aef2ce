"""How everything in a sandbox is ended: all of it, and never anything else.

As PID 1 of a namespace a supervisor may signal everybody there is. As a plain process of a machine it signals only
what it has proved to be below itself. Two facts make that proof: a child that this process has not waited for keeps
its number, and a handle (pidfd) reaches the process it was opened for or nobody. So the walk goes down from the own
children, and each step is checked while the parent is held. Runs inside sandboxes: standard library only.
"""

# Loading pathlib would double the start of a sandbox:
# ruff: noqa: PTH110, PTH117, PTH119, PTH123, PTH208

import os
import signal

from rcb_agent.environments.jail import set_dumpable

ROUNDS = 100
DEEPEST = 100  # levels of one walk, each of which holds a descriptor; what lies deeper moves up when its parents die
PRIVATE_PREFIX = "rcb-agent-"  # of folders that may be removed
REMOVE_SECONDS = "20"


def kill_all(uid: int | None) -> None:
    """SIGKILL every process of the sandbox except the supervisor; no fork, so a full process table is no shield."""
    if os.getpid() != 1:
        kill_descendants()
        return
    if uid is None or os.getuid() != 0:
        kill_everybody()
        return
    os.setresuid(-1, uid, -1)  # without CAP_KILL only the commands' own user may signal them
    try:
        kill_everybody()
    finally:
        os.setresuid(-1, 0, -1)
        set_dumpable(0)  # a change of user may set it, depending on the machine


def kill_everybody() -> None:
    """SIGKILL all processes of the namespace whose PID 1 this is."""
    if os.getpid() != 1:
        raise RuntimeError("only the first process of a namespace may signal everybody")
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_descendants() -> None:
    """SIGKILL what is alive below this process, again while anything new is found; reaping is the caller's."""
    for _ in range(ROUNDS):
        if not kill_below(os.getpid(), None, DEEPEST):
            return


def kill_below(parent: int, held: int | None, depth: int) -> int:
    """SIGKILL the children of a process and what is below them; return how many were alive.

    ``held`` is a handle of ``parent``, None for this process itself. Everything is stopped before its children are
    listed, so that nothing forks away meanwhile.
    """
    alive = 0
    for pid in children_of(parent):
        handle = open_handle(pid)
        if handle is None:
            alive += held is None and kill_own_child(pid)
            continue
        try:
            if is_running(pid) and parent_of(pid) == parent and (held is None or send(handle=held, number=0)):
                alive += send(handle=handle, number=signal.SIGSTOP)
                alive += kill_below(pid, handle, depth - 1) if depth else 0
                send(handle=handle, number=signal.SIGKILL)
        finally:
            os.close(handle)
    return alive


def open_handle(pid: int) -> int | None:
    """A descriptor of one process; None where it is gone, or the kernel has no such thing."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def send(*, handle: int, number: int) -> bool:
    """Signal the process of a handle; False if it has ended and was waited for."""
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    return True


def kill_own_child(pid: int) -> bool:
    """SIGKILL a child without a handle: nobody else has its number before this process waits for it."""
    if parent_of(pid) != os.getpid() or not is_running(pid):
        return False
    os.kill(pid, signal.SIGKILL)
    return True


def children_of(pid: int) -> list[int]:
    """Direct children, of every thread of ``pid``."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):  # a kernel built without these lists
        return [other for other in all_processes() if parent_of(other) == pid]
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as lists:
                found += [int(word) for word in lists.read().split()]
    except OSError:
        return found
    return found


def count_alive() -> int:
    """Processes of this sandbox besides the supervisor that are not just waiting to be reaped."""
    me = os.getpid()
    found = all_processes() if me == 1 else descendants(me)
    return sum(1 for pid in found if pid != me and is_running(pid))


def descendants(pid: int) -> list[int]:
    """Every process below ``pid`` at about this moment: good for counting, no proof."""
    found = dict.fromkeys(children_of(pid))
    waiting = list(found)
    while waiting:
        below = [child for child in children_of(waiting.pop()) if child not in found]
        found.update(dict.fromkeys(below))
        waiting += below
    return list(found)


def all_processes() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def is_running(pid: int) -> bool:
    """Whether a process is more than a zombie; one whose first thread has ended may have others."""
    words = state_of(pid)
    return bool(words) and (words[0] not in (b"Z", b"X") or int(words[17]) > 1)


def parent_of(pid: int) -> int:
    """The parent of a process, 0 for one that is gone."""
    words = state_of(pid)
    return int(words[1]) if words else 0


def state_of(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on (proc_pid_stat(5)); empty for one that is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as state:
            return state.read().rsplit(b")", 1)[1].split()
    except OSError:
        return []


def remove_folder(path: str) -> None:
    """Remove a private folder and all in it, however deep, and whatever its owner has closed to itself."""
    if not os.path.isabs(path) or not os.path.basename(path).startswith(PRIVATE_PREFIX):
        raise ValueError(f"{path} is no private folder")
    remove = ("rm", "-rf", "--", path)
    # Only folders are opened up again: a file may be a second name of somebody's own.
    unlock = ("find", path, "-type", "d", "!", "-perm", "-700", "-exec", "chmod", "700", "{}", ";")
    for words in (remove, unlock, remove):
        if os.path.lexists(path):
            run_quietly(words)


def run_quietly(words: tuple[str, ...]) -> None:
    """Run a program of the system, wherever the own PATH leads, and take no notice of what it says."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    bounded = ("sh", "-c", 'exec timeout -s KILL "$@"', "sh", REMOVE_SECONDS, *words)
    try:
        os.waitpid(os.posix_spawn("/bin/sh", bounded, {"PATH": "/usr/bin:/bin"}, file_actions=quiet), 0)
    except OSError:
        return
