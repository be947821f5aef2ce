"""The first process of a sandbox: starts commands and file work one at a time, and ends them for certain.

It is sent as source over its own standard input (see ``supervised.py``), so no file in the sandbox holds it. Invariants: nobody can trace it or open its descriptors; when its input ends, it ends, and
the kernel ends all else; it answers a request only when nothing but itself is alive; a request that is no
frame ends it. Runs inside sandboxes: standard library only.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time

from rcb_agent.environments import capture, ending, filework, frames, jail, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:  # as in frames.py
    from collections.abc import Callable
    from typing import Any, NoReturn, Protocol

    class Entry(Protocol):
        """Something loaded that takes the place of a program."""

        def run(self, environment: dict[str, str], workdir: str) -> NoReturn:
            """Take the place of a program in this process."""

    from rcb_agent.environments.relay import Relay

FIRST_FREE = 64
EXIT_CLOSED, EXIT_GARBAGE, EXIT_SURVIVED = 0, 3, 4
LEAVING_SECONDS = 2.0
DRAIN_SECONDS = 2.0
LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Supervisor:
    """State of one sandbox: the two pipes, what children become, where they work."""

    def __init__(self, config: dict[str, Any], entry: Entry | None = None) -> None:
        self.entry = entry
        self.workdir: str = config["workdir"]
        self.environment: dict[str, str] = config["environment"]
        self.sockets = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE) for fd in config["sockets"]]
        self.inbox = frames.FrameReader()
        self.relay: Relay | None = None
        if config.get("relayed"):
            self.relay = self.make_pairs(config["relayed"])
        self.requests = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        self.answers = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in (0, 1):
            os.dup2(self.null, fd, inheritable=False)
        for fd in config["sockets"]:
            os.close(fd)
        self.jail = jail.Jail(
            uid=config["uid"],
            gid=config["gid"],
            rlimits=tuple((name, int(value)) for name, value in config["rlimits"]),
            program=seccomp.build_filter(os.uname().machine, uncounted=config["uncounted"]),
        )
        if not (config["filters"] if "filters" in config else can_filter(self.jail.program)):
            self.jail.program = None
        self.output_bytes: int = config["output_bytes"]
        self.scratch: str | None = config.get("scratch")
        self.memory_report = open_first(config.get("memory_reports", ()))
        self.wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def make_pairs(self, count: int) -> Relay:
        """Make a socket pair for each socket that comes through the pipe: one end for commands, one to carry."""
        import socket

        from rcb_agent.environments.relay import Relay

        carried = []
        for _ in range(count):
            own, theirs = socket.socketpair()
            carried.append(own)
            self.sockets.append(fcntl.fcntl(theirs.detach(), fcntl.F_DUPFD_CLOEXEC, FIRST_FREE))
        return Relay(carried)

    def serve(self) -> NoReturn:
        """Answer requests until the input ends."""
        self.answer({"ready": True, "filtered": self.jail.program is not None}, b"")
        while True:
            try:
                request, blob = self.receive()
            except (frames.FrameError, OSError):
                self.leave(EXIT_GARBAGE)
            try:
                meta, answer = self.handle(request, blob)
            except (OSError, KeyError, TypeError, ValueError, MemoryError) as error:
                meta, answer = {"broken": f"{type(error).__name__}: {error}"}, b""
                self.end_all()
            self.answer(meta, answer)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Read one request; the end of the input is the end of everything."""
        while (request := self.read_once()) is None or self.is_relayed(request):
            pass
        return request

    def read_once(self) -> tuple[dict[str, Any], bytes] | None:
        """Read a part of a frame; return the frame once it is whole."""
        part = os.read(self.requests, min(self.inbox.missing(), 1 << 20))
        if not part:
            self.leave(EXIT_CLOSED)
        return self.inbox.add(part)

    def is_relayed(self, frame: tuple[dict[str, Any], bytes]) -> bool:
        """Take what belongs to a carried socket; False for anything else. Garbage is the end of everything."""
        if self.relay is None or "relay" not in frame[0]:
            return False
        from rcb_agent.environments.relay import RelayError

        try:
            self.relay.take(*frame)
        except RelayError:
            self.leave(EXIT_GARBAGE)
        return True

    def answer(self, meta: dict[str, Any], blob: bytes) -> None:
        """Send one answer."""
        self.write(frames.pack_frame(meta, blob))

    def send_relayed(self) -> None:
        """Send what carried sockets have for the harness, which always reads while a command runs."""
        if self.relay is not None and self.relay.out:
            data = bytes(self.relay.out)
            self.relay.out.clear()
            self.write(data)

    def write(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.answers, rest) :]
        except OSError:
            self.leave(EXIT_CLOSED)

    def handle(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Carry out one request."""
        if request["op"] == "run":
            return self.run(request, blob)
        if request["op"] == "collect":
            self.end_all()
        return self.work(request, blob)

    def interrupted(self) -> None:
        """The harness is gone, or speaks while it should wait: end now, the kernel ends the rest."""
        if self.relay is None:
            self.leave(EXIT_CLOSED)
        try:
            frame = self.read_once()
        except (frames.FrameError, OSError):
            self.leave(EXIT_GARBAGE)
        if frame is not None and not self.is_relayed(frame):
            self.leave(EXIT_CLOSED)

    def leave(self, code: int) -> NoReturn:
        """End with all that is alive; where no namespace and no file system of its own goes with it, see to that."""
        ending.kill_all(self.jail.uid)
        if os.getpid() == 1:
            os._exit(code)
        deadline = time.monotonic() + LEAVING_SECONDS
        while Child(0).reap():
            if time.monotonic() > deadline:
                os._exit(EXIT_SURVIVED)
            ending.kill_all(self.jail.uid)
            time.sleep(0.005)
        if self.scratch:
            ending.remove_folder(self.scratch)
        os._exit(code)

    def end_on_request(self) -> None:
        """Leave when told to by a signal: a plain process must end its own before it dies. Not in forked children."""
        me = os.getpid()

        def told(*_: object) -> None:
            if os.getpid() != me:
                os._exit(EXIT_CLOSED)
            for number in LEAVING_SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            self.leave(EXIT_CLOSED)

        for number in LEAVING_SIGNALS:
            signal.signal(number, told)

    def run(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Run one command to its end or its time limit; nothing of it is alive afterwards."""
        started = time.monotonic()
        outs = (capture.Capture(self.output_bytes), capture.Capture(self.output_bytes))
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3 if blob else 2)]
        stdin = pipes[2][0] if blob else self.null
        child = Child(self.fork(lambda: self.execute(request, (stdin, pipes[0][1], pipes[1][1]))))
        for fd in (pipes[0][1], pipes[1][1], *([stdin] if blob else [])):
            os.close(fd)
        pump = capture.Pump({pipes[0][0]: outs[0].add, pipes[1][0]: outs[1].add}, (pipes[2][1], blob) if blob else None)
        pump.mover = self.relay
        pump.after_round = self.send_relayed
        in_time = self.watch(pump, child, started + float(request["timeout"]))
        survivors = self.end_all(child)
        pump.finish()
        if self.relay is not None:
            self.drain_sockets(self.relay)
        (stdout, dropped_out), (stderr, dropped_err) = outs[0].result(), outs[1].result()
        meta = {
            "exit_code": child.exit_code(),
            "stdout": len(stdout),
            "truncated": dropped_out + dropped_err,
            "timed_out": not in_time,
            "seconds": time.monotonic() - started,
            "survivors": survivors if in_time else 0,
        }
        if self.memory_report is not None:
            meta["memory_kills"] = count_memory_kills(self.memory_report)
        return meta, stdout + stderr

    def work(self, request: dict[str, Any], blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Do file work in a child that has the commands' own rights and a time limit."""
        inlet, outlet = os.pipe2(os.O_CLOEXEC)
        parts: list[bytes] = []
        child = Child(self.fork(lambda: self.do_file_work(outlet, request, blob)))
        os.close(outlet)
        pump = capture.Pump({inlet: parts.append}, None)
        in_time = self.watch(pump, child, time.monotonic() + float(request["timeout"]))
        self.end_all(child)
        pump.finish()
        if not in_time:
            return {"refused": f"took longer than {request['timeout']:g} s and was stopped"}, b""
        answer = b"".join(parts)
        header = frames.HEADER.size
        lengths = frames.frame_lengths(answer[:header]) if len(answer) >= header else (0, 0)
        if not lengths[0] or len(answer) != header + sum(lengths):
            if child.exit_code() == 128 + signal.SIGKILL:
                return {"refused": "not enough memory is left in the sandbox for this"}, b""
            if child.exit_code() > 128:
                return {"refused": f"this ended the file work with signal {child.exit_code() - 128}"}, b""
            return {"broken": f"file work ended with status {child.exit_code()}"}, b""
        return frames.parse_meta(answer[header : header + lengths[0]]), answer[header + lengths[0] :]

    def drain_sockets(self, relay: Relay) -> None:
        """Send what a command has left in its sockets, as far as the other side takes it."""
        deadline = time.monotonic() + DRAIN_SECONDS
        more = True
        while more:
            more = relay.drain()
            self.send_relayed()
            more = more and self.wait_for_credit(relay, deadline)

    def wait_for_credit(self, relay: Relay, deadline: float) -> bool:
        """Wait until more may be sent than now; False at the deadline."""
        before = relay.credit()
        pump = capture.Pump({}, None)
        return pump.run(lambda: relay.credit() == before, deadline, {self.requests: self.interrupted})

    def watch(self, pump: capture.Pump, child: Child, deadline: float) -> bool:
        """Move bytes until the child ends (True) or the deadline comes (False)."""
        return pump.run(child.alive, deadline, {self.requests: self.interrupted, self.wake: self.drain_wake})

    def drain_wake(self) -> None:
        """Empty the pipe that announces dead children."""
        os.read(self.wake, 4096)

    def end_all(self, child: Child | None = None) -> int:
        """Kill and reap until this process is alone; return how many were alive."""
        child = child or Child(0)
        if not child.reap():
            return 0
        count = ending.count_alive()
        pump = capture.Pump({}, None)
        while child.reap():
            ending.kill_all(self.jail.uid)
            pump.run(child.reap, time.monotonic() + 0.05, {self.requests: self.interrupted, self.wake: self.drain_wake})
        return count

    def fork(self, body: Callable[[], None]) -> int:
        """Fork a child that does ``body`` and never returns here."""
        pid = os.fork()
        if pid:
            return pid
        try:
            body()
        except BaseException:  # noqa: BLE001 -- whatever happens, a child must not go on as a second supervisor
            import traceback

            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(125)

    def execute(self, request: dict[str, Any], standard: tuple[int, int, int]) -> None:
        """In the child: give everything up and become the command."""
        for number, fd in enumerate((*standard, *self.sockets)):
            os.dup2(fd, number)
        os.closerange(3 + len(self.sockets), 1 << 16)
        jail.enter(self.jail)
        if request.get("inside") and self.entry is not None:
            self.entry.run({**self.environment, **request["environment"]}, self.workdir)
        arguments = [b"command"]
        try:
            arguments = [os.fsencode(word) for word in request["argv"]]
            os.chdir(self.workdir)
            os.execvpe(arguments[0], arguments, {**self.environment, **request["environment"]})  # noqa: S606 -- meant
        except OSError as error:
            os.write(2, b"%s: %s\n" % (arguments[0], os.strerror(error.errno or 0).encode()))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
        except (ValueError, IndexError) as error:  # a NUL, a lone surrogate, or nothing at all
            os.write(2, b"command: %s\n" % str(error).encode("utf-8", "replace"))
            os._exit(126)

    def do_file_work(self, outlet: int, request: dict[str, Any], blob: bytes) -> None:
        """In the child: become the user that owns the workspace, work, answer."""
        os.close(self.requests)
        os.close(self.answers)
        os.dup2(self.null, 2)  # nobody reads what warnings say there, and a full pipe would stop every later request
        os.set_blocking(outlet, True)
        jail.become_first_victim()
        jail.drop_user(self.jail)
        try:
            frame = frames.pack_frame(*filework.perform(self.workdir, request, blob))
        except frames.FrameError as error:
            frame = frames.pack_frame({"refused": str(error)})
        with open(outlet, "wb") as pipe:
            pipe.write(frame)
        os._exit(0)


def open_first(paths: list[str]) -> int | None:
    """Open the first of these files that is there."""
    for path in paths:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def count_memory_kills(report: int) -> int:
    """Read from a cgroup's report how many processes the kernel has ended for lack of memory."""
    lines = os.pread(report, 4096, 0).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(b"oom_kill "))


def can_filter(program: bytes | None) -> bool:
    """Try a filter in a child: a kernel that refuses it is recorded, not met by every command."""
    if program is None:
        return False
    child = os.fork()
    if child == 0:
        try:
            jail.filter_calls(program)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


class Child:
    """The main process of a request, and the reaping of everything else."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def reap(self) -> bool:
        """Collect the dead; True while anything is alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status

    def alive(self) -> bool:
        """Whether the main process has not ended."""
        self.reap()
        return self.status is None

    def exit_code(self) -> int:
        """The status, 128 + n for signal n."""
        code = os.waitstatus_to_exitcode(self.status or 0)
        return code if code >= 0 else 128 - code


def main(config: dict[str, Any], entry: Entry | None = None) -> NoReturn:
    """Take over this process; called by the bootstrap with what the harness sent.

    ``entry`` is what a command does that asks to run inside a forked copy of this process instead of a program.
    """
    jail.set_dumpable(0)
    os.umask(0o022)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whatever the harness has blocked, dead children must be heard of
    for folder in config["owned"]:
        os.chown(folder, config["uid"], config["gid"])
    jail.restrain_supervisor(config["uid"])
    supervisor = Supervisor(config, entry)
    if os.getpid() != 1:
        supervisor.end_on_request()
    supervisor.serve()
