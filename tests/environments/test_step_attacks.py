"""Guards: one command that floods, hangs, forks, fills or looks around (programs s01 to s15)."""

import resource
import time
from collections.abc import Callable

import pytest

from rcb_agent.environments import cgroups
from rcb_agent.environments.base import CommandResult, Limits
from rcb_agent.environments.supervised import SupervisedSandbox
from tests.environments.conftest import OpenBox

pytestmark = [pytest.mark.sandbox, pytest.mark.isolated]
Reader = Callable[[str], bytes]


def attack(box: SupervisedSandbox, poc: Reader, identifier: str, *, timeout: float = 20.0) -> CommandResult:
    box.write("attack.py", poc(identifier))
    return box.run(["python", "attack.py"], timeout=timeout)


def test_bytes_that_are_not_utf8(box: SupervisedSandbox, poc: Reader) -> None:
    """Output is kept as bytes and shown with replacement characters."""
    result = attack(box, poc, "s01")
    assert result.stdout == b"ok \xff\xfe\x80 end\n"
    assert result.text() == "ok \ufffd\ufffd\ufffd end\n"


def test_huge_output_is_cut_while_it_is_read(box: SupervisedSandbox, poc: Reader) -> None:
    """96 MiB of output cost the harness no memory; head, tail and the number of dropped bytes are kept."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = attack(box, poc, "s02")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.exit_code == 0
    assert result.truncated == (96 << 20) - 16_000
    assert len(result.stdout) < 17_000
    assert b"[... %d bytes dropped ...]" % result.truncated in result.stdout
    assert grown < 8_000


def test_a_daemon_that_holds_the_pipe(box: SupervisedSandbox, poc: Reader) -> None:
    """The step ends with its main process; what it left behind is killed and counted."""
    result = attack(box, poc, "s03")
    assert (result.stdout, result.exit_code, result.survivors) == (b"done\n", 0, 1)
    assert result.seconds < 3
    assert processes(box) == 2


def processes(box: SupervisedSandbox) -> int:
    """Count processes: the supervisor and the one that counts."""
    return int(box.run(["sh", "-c", "cd /proc; set -- [0-9]*; echo $#"], timeout=5).stdout)


def test_ignored_signals_do_not_help(box: SupervisedSandbox, poc: Reader) -> None:
    """The time limit kills for certain and keeps the partial output."""
    result = attack(box, poc, "s05", timeout=0.7)
    assert result.timed_out
    assert (result.killed, result.exit_code) == ("time", 137)
    assert result.seconds < 3
    assert processes(box) == 2


def test_partial_output_of_a_step_that_is_too_slow(box: SupervisedSandbox) -> None:
    """What was printed before the limit is shown."""
    result = box.run(["sh", "-c", "echo early; sleep 30"], timeout=0.5)
    assert (result.stdout, result.timed_out) == (b"early\n", True)


def test_reading_input_meets_its_end(box: SupervisedSandbox, poc: Reader) -> None:
    """A prompt gets an end of file at once."""
    result = attack(box, poc, "s06")
    assert b"EOFError" in result.stderr
    assert result.seconds < 3


def test_given_input_arrives_and_ends(box: SupervisedSandbox) -> None:
    """Input larger than a pipe is delivered whole; a command that does not read it does no harm."""
    data = bytes(range(256)) * 4096
    assert box.run(["wc", "-c"], timeout=10, stdin=data).stdout.strip() == b"1048576"
    assert box.run(["true"], timeout=10, stdin=data).exit_code == 0


def test_many_children_meet_the_limit(open_box: OpenBox, poc: Reader) -> None:
    """A bounded fork bomb is refused, and nothing of it survives, though the process table was full."""
    box = open_box(limits=Limits(pids=24))
    result = attack(box, poc, "s07")
    assert b"fork refused after" in result.stdout
    assert result.survivors > 10
    assert processes(box) == 2


def test_a_memory_bomb_is_bounded(open_box: OpenBox, poc: Reader) -> None:
    """768 MiB do not fit in 256; the sandbox goes on, and says memory where the kernel can tell."""
    box = open_box(limits=Limits(memory_mb=256))
    result = attack(box, poc, "s08")
    if box.enforcement["memory"].startswith("cgroup"):
        assert (result.killed, result.exit_code) == ("memory", 137)
    else:
        assert int(result.stdout.split()[1]) < 256
    assert box.run(["true"], timeout=5).exit_code == 0


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm", "/home/agent"])
def test_no_writable_place_is_without_bounds(open_box: OpenBox, poc: Reader, place: str) -> None:
    """Filling any writable place stops at its size."""
    box = open_box({"attack.py": poc("s09")}, Limits(disk_mb=16))
    result = box.run(["sh", "-c", f"cd {place} && python /workspace/attack.py"], timeout=20)
    assert b"refused" in result.stdout
    assert int(result.stdout.split(b"MiB ")[1].split()[0]) <= 16


@pytest.mark.parametrize("sandbox_kind", ["bubblewrap"])
def test_limits_without_cgroups(open_box: OpenBox, poc: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no group can be made, rlimits bound processes, memory and files, and the record says so."""
    monkeypatch.setattr(cgroups, "own_folders", lambda: ({}, 1))
    box = open_box(limits=Limits(memory_mb=256, pids=24, disk_mb=16))
    assert box.enforcement["memory"] == "rlimits per process: 256 MiB of data, 768 MiB mapped"
    assert box.enforcement["pids"].startswith("rlimit per ")
    assert box.enforcement["cpu"] == "not enforced"
    assert b"fork refused after" in attack(box, poc, "s07").stdout
    assert int(attack(box, poc, "s08").stdout.split()[1]) < 256
    assert box.run(["truncate", "-s", "20G", "big"], timeout=5).exit_code != 0
    assert processes(box) == 2


def test_escape_sequences_stay_bytes(box: SupervisedSandbox, poc: Reader) -> None:
    """The record is lossless; escaping is the business of whoever shows it."""
    result = attack(box, poc, "s10")
    assert b"\x1b]52;c;cm0gLXJm\x07" in result.stdout
    assert b"\x00" in result.stdout


def test_no_secret_by_environment(open_box: OpenBox, poc: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in the harness's environment is visible neither to commands nor through their parents."""
    monkeypatch.setenv("FAKE_API_KEY", "sk-planted")
    box = open_box()
    assert attack(box, poc, "s11").stdout == b""
    assert b"sk-planted" not in box.run(["sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline"], timeout=5).stdout


def test_no_network(box: SupervisedSandbox, poc: Reader) -> None:
    """Every attempt fails at once."""
    result = attack(box, poc, "s12")
    assert b"CONNECTED" not in result.stdout
    assert result.stdout.count(b"ENETUNREACH") == 2
    assert result.stdout.count(b"ECONNREFUSED") == 2
    assert result.seconds < 2


def test_looking_around_finds_nothing(box: SupervisedSandbox, poc: Reader) -> None:
    """No answer, no harness file, no foreign process."""
    result = attack(box, poc, "s13")
    assert b"files []" in result.stdout
    assert b"processes visible 2 uid 64100" in result.stdout


def test_the_clock_cannot_be_set(box: SupervisedSandbox, poc: Reader) -> None:
    """The host's clock is out of reach."""
    assert attack(box, poc, "s14").stdout == b"clock refused\n"


def test_orphans_are_reaped(box: SupervisedSandbox, poc: Reader) -> None:
    """No zombie stays, also while the command still runs."""
    assert attack(box, poc, "s15").stdout == b"zombies 0\n"


def test_nothing_outlives_the_sandbox(open_box: OpenBox) -> None:
    """Closing is fast and final, twice and during a command too."""
    import threading

    box = open_box()
    errors: list[Exception] = []

    def long_step() -> None:
        try:
            box.run(["sleep", "30"], timeout=60)
        except Exception as error:  # noqa: BLE001 -- looked at below
            errors.append(error)

    thread = threading.Thread(target=long_step)
    thread.start()
    time.sleep(0.3)
    started = time.monotonic()
    box.close()
    box.close()
    thread.join(5)
    assert time.monotonic() - started < 2
    assert [type(error).__name__ for error in errors] == ["SandboxLost"]
