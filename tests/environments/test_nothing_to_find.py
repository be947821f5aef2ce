"""Guards: an answer, the harness, a key or a neighbour that can be found from inside (groups A, D and H)."""

import json
import os
import socket
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments.base import Container, Limits, Runtime
from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.environments.workspace import WorkspaceSpec, exported_files, open_workspace
from rcb_agent.tasks.suites import load_suite
from tests.environments.conftest import OpenBox

pytestmark = [pytest.mark.sandbox, pytest.mark.isolated]

# Walks everything the command's user can see: names everywhere, and the contents of every readable file outside
# /usr and the runtime's packages (the system's and other people's).
WALK = """\
import json, os, stat, subprocess, sys
words = [word.encode('utf-8', 'surrogateescape') for word in json.load(sys.stdin)]
hits, read, writable = [], [], []
for place, folders, names in os.walk(b'/'):
    if place == b'/':
        folders[:] = [name for name in folders if name not in (b'proc', b'sys')]
    quiet = (place + b'/').startswith((b'/usr/', b'/opt/runtime/lib/'))
    try:
        os.close(os.open(os.path.join(place, b'probe'), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(os.path.join(place, b'probe'))
        writable.append(place.decode())
    except OSError:
        pass
    shown = []
    for name in folders + names:
        path = os.path.join(place, name)
        mode = os.lstat(path).st_mode
        shown += [name, os.readlink(path)] if stat.S_ISLNK(mode) else [name]
        if stat.S_ISREG(mode) and not quiet and os.access(path, os.R_OK):
            read.append(path)
    shown = b'\\0'.join(shown)
    hits += [[place.decode('utf-8', 'replace'), word.decode('utf-8', 'replace')] for word in words if word in shown]
for start in range(0, len(read), 500):
    search = ['grep', '-aoFHZ', '-f', '-', '--', *read[start:start + 500]]
    done = subprocess.run(search, input=b'\\n'.join(words), capture_output=True, env={**os.environ, 'LC_ALL': 'C'})
    assert done.returncode in (0, 1), done.stderr
    found = (line.split(b'\\0', 1) for line in done.stdout.splitlines())
    hits += [[path.decode('utf-8', 'replace'), word.decode('utf-8', 'replace')] for path, word in found]
for name in os.listdir('/proc'):
    for part in ('cmdline', 'environ', 'mountinfo', 'comm') if name.isdigit() else ():
        try:
            data = open(f'/proc/{name}/{part}', 'rb').read()
        except OSError:
            continue
        if int(name) != os.getpid() and part != 'mountinfo':
            hits += [[f'/proc/{name}/{part}', word.decode('utf-8', 'replace')] for word in words if word in data]
places = sorted({path.split(b'/')[1].decode() for path in read})
print(json.dumps({'hits': hits, 'read': len(read), 'places': places, 'writable': writable}))
"""


def walk(box: SupervisedSandbox, words: list[str]) -> dict[str, Any]:
    result = box.run(["python", "-c", WALK], timeout=120, stdin=json.dumps(words).encode())
    assert result.exit_code == 0, result.text()
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("sandbox_kind", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
@pytest.mark.parametrize("paper", ["tidal", "ripple"])
def test_no_answer_and_no_harness_anywhere(
    mini: Runtime, monkeypatch: pytest.MonkeyPatch, paper: str, sandbox_kind: str, request: pytest.FixtureRequest
) -> None:
    """A walk over ``/`` in an agent's sandbox meets no gold line, hidden file, harness file or key.

    All of the suite is looked for, but for what is given: from two papers, so that each line is missing in one. The
    controls are in it: a planted line and a planted name are met, once. And no place can be written to without a size.
    """
    monkeypatch.setenv("FAKE_API_KEY", "sk-planted-4711")
    tasks = load_suite("mini").tasks
    problem = next(task.problem for task in tasks if task.info.id == paper)
    given = "".join(exported.decode() for exported in exported_files(problem, "file").values())
    hidden = {Path(file.path).name for task in tasks for file in task.answer.hidden}
    lines = {line.strip() for task in tasks for line in task.answer.gold.splitlines()}
    gold = sorted(line for line in lines if len(line) >= 20 and line not in given)
    assert len(gold) > 40
    words = [
        *sorted(hidden),
        *gold,
        "sk-planted-4711",
        "rcb_agent",
        "rcb-agent",
        "paper2code_test",
        "a planted line",
        "planted-name",
    ]
    container = Container({"mini": request.getfixturevalue("mini_image")}) if sandbox_kind == "docker" else None
    spec = WorkspaceSpec(sandbox_kind, mini, Limits(), "file", lambda _sha, _data: None, container)
    with open_workspace(problem, spec) as workspace:
        workspace.sandbox.write("deep/notes.txt", b"x" * 10_000 + b"a planted line\n")
        workspace.sandbox.write("deep/planted-name", b"")
        box = workspace.sandbox
        assert isinstance(box, SupervisedSandbox)
        found = walk(box, words)
    assert found["hits"] == [["/workspace/deep", "planted-name"], ["/workspace/deep/notes.txt", "a planted line"]]
    assert {"etc", "opt", "workspace"} <= set(found["places"])
    outside = {place for place in found["writable"] if not place.startswith("/workspace/")}
    assert outside == {"/workspace", "/tmp", "/dev/shm", "/home/agent"}


def test_the_supervisor_cannot_be_opened(box: SupervisedSandbox) -> None:
    """No descriptor, memory or environment of PID 1 opens; it shrugs off signals and limits."""
    code = (
        "import os, resource, signal\n"
        "for name in ('fd', 'fd/0', 'fd/1', 'fd/64', 'fd/65', 'mem', 'environ', 'maps', 'cwd', 'root', 'exe', 'stack',\n"
        "             'task/1/mem', 'map_files', 'auxv', 'syscall', 'oom_score_adj', 'comm', 'ns/pid'):\n"
        "    for way in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):\n"
        "        try:\n"
        "            os.close(os.open(f'/proc/1/{name}', way))\n"
        "            print('OPENED', name, way)\n"
        "        except OSError: pass\n"
        "    try: print('LISTED', name, os.listdir(f'/proc/1/{name}'))\n"
        "    except OSError: pass\n"
        "    try: print('LINK', name, os.readlink(f'/proc/1/{name}'))\n"
        "    except OSError: pass\n"
        "for number in range(1, 65):\n"
        "    try: os.kill(1, number)\n"
        "    except OSError: pass\n"
        "try: os.kill(-1, 0); print('SOMEBODY')\n"
        "except OSError: pass\n"
        "try: resource.prlimit(1, resource.RLIMIT_CPU, (1, 1)); print('LIMITED')\n"
        "except OSError: pass\n"
    )
    shown = box.run(["python", "-c", code], timeout=10).text()
    allowed = {"OPENED comm 0", "OPENED oom_score_adj 0"}  # readable by everybody, and empty of secrets
    assert [line for line in shown.splitlines() if line not in allowed] == []
    assert box.run(["true"], timeout=5).exit_code == 0


def test_a_forged_frame_has_nowhere_to_go(box: SupervisedSandbox) -> None:
    """Commands get three descriptors; writing frames to any of them or beyond is plain output or an error."""
    code = (
        "import os, struct\n"
        "frame = struct.pack('>II', 2, 0) + b'{}'\n"
        "for fd in range(3, 256):\n"
        "    try: os.write(fd, frame); print('WROTE', fd)\n"
        "    except OSError: pass\n"
        "print(sorted(os.listdir('/proc/self/fd')))\n"
    )
    assert box.run(["python", "-c", code], timeout=5).text() == "['0', '1', '2', '3']\n"  # 3: the listing itself


def test_declared_sockets_are_three_and_up(open_box: OpenBox) -> None:
    """Every command gets them under the same numbers, and nothing else."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        box = open_box(sockets=(theirs.fileno(),))
        code = "import os, socket; socket.socket(fileno=3).sendall(b'hi'); print(os.path.exists('/proc/self/fd/4'))"
        for _ in range(2):
            assert box.run(["python", "-c", code], timeout=5).text() == "False\n"
            assert ours.recv(16) == b"hi"


def test_host_configuration_is_not_shown(box: SupervisedSandbox, sandbox_kind: str) -> None:
    """No password file, no home, no other process, another host name."""
    shown = box.run(["sh", "-c", "cat /etc/shadow; ls /var /srv /mnt /sys; hostname; ls /home; id"], timeout=5).text()
    assert "root:" not in shown.replace("root:x", "")
    assert socket.gethostname() not in shown.split("\n") or socket.gethostname() == "sandbox"
    assert "uid=64100(agent) gid=64100(agent)" in shown
    for name in (
        ("/var", "/srv", "/mnt", "/sys") if sandbox_kind == "bubblewrap" else ()
    ):  # an image has folders of its own
        assert f"'{name}': No such file" in shown


def test_abstract_sockets_of_the_host_are_out_of_reach(box: SupervisedSandbox) -> None:
    """A listener in the host's abstract namespace cannot be reached from inside."""
    name = f"\0listener-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert "ConnectionRefusedError" in box.run(["python", "-c", code], timeout=5).text()


def test_the_harness_itself_is_covered_where_it_lies_below_something_shown(runtime: Runtime) -> None:
    """A harness installed into the runtime's Python would be shown with it: it is covered."""
    from rcb_agent.environments.interpreters import describe_interpreter
    from rcb_agent.environments.layout import cover_arguments

    interpreter = describe_interpreter(runtime.python)
    library = interpreter.base_prefix / "lib"
    arguments = list(cover_arguments(interpreter, [library, Path("/usr/share"), Path("/elsewhere")]))
    covered = [after for before, after in pairwise(arguments) if before == "--tmpfs"]
    assert "/usr/share" in covered
    assert "/elsewhere" not in covered


def test_the_runtime_is_not_the_harness(box: SupervisedSandbox) -> None:
    """``python`` is the runtime's and cannot import what the harness can."""
    result = box.run(["python", "-c", "import sys; print(sys.prefix); import git"], timeout=10)
    assert result.stdout == b"/opt/runtime\n"
    assert b"ModuleNotFoundError" in result.stderr
    assert sys.prefix not in result.text()
