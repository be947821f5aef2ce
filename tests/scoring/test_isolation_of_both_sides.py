"""Guards: a hidden test, a reference, the answer, a key or the harness within reach of the candidate; endless grades."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rcb_agent.environments.base import Limits, Sandbox, SandboxSpec
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import programs
from rcb_agent.scoring.split import SplitGrader, SplitLimits
from rcb_agent.tasks.base import GradingRules, SourceFile
from tests.scoring.support import (
    OPEN,
    SANDBOXED,
    Counting,
    fixture_task,
    grade_text,
    honest,
    make_grader,
    make_task,
    runtime,
)

pytestmark = SANDBOXED

# Walks every readable file but the interpreter's and the system's own, and reports what it finds by printing.
WALK = """
import os, socket, sys
MARK = "the_mark_of" + "_the_hidden_side"
def look():
    found = [f"env {name}" for name, value in os.environ.items() if MARK in value or "KEY" in name]
    seen = [f"arg {argument[:60]}" for argument in sys.argv + sys.orig_argv if MARK in argument]
    for folder, folders, names in os.walk("/"):
        folders[:] = [n for n in folders if os.path.join(folder, n) not in ("/proc", "/sys", "/usr", "/opt/runtime/lib")]
        for name in folders + names:
            if any(word in name for word in ("rcb", "paper2code", "model_ref")):
                found.append(os.path.join(folder, name))
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 22:
                    data = open(path, "rb").read()
                    if MARK.encode() in data and path != "/workspace/model.py":
                        found.append(f"mark in {path}")
                    if b"rcb_agent" in data and path != "/workspace/model.py":
                        found.append(f"harness in {path}")
            except OSError:
                pass
    found += seen
    for name in list(sys.modules):
        if "rcb" in name or name.endswith("_ref") or "paper2code" in name:
            found.append(f"module {name}")
    for name in ("rcb_agent", "model_ref", "paper2code_test"):
        try:
            __import__(name)
            found.append(f"import {name}")
        except ImportError:
            pass
    for pid in os.listdir("/proc"):
        if pid.isdigit() and pid not in (str(os.getpid()), "1"):
            found.append(f"process {pid}")
    for target in (("192.0.2.1", 80), ("127.0.0.1", 22)):
        try:
            socket.create_connection(target, timeout=0.5)
            found.append(f"network {target}")
        except OSError:
            pass
    for fd in range(4, 256):
        try:
            os.fstat(fd)
            if not os.readlink(f"/proc/self/fd/{fd}").startswith("/proc"):
                found.append(f"descriptor {fd}")
        except OSError:
            pass
    print("FOUND", found)
    return []
"""
MARK = "the_mark_of_the_hidden_side"
GOLD = f"""
def look():
    return []
def f(x):
    # <paper2code name="f">
    return x + 0.0  # {MARK}
    # </paper2code name="f">
"""
TEST = f"""
import unittest
import model
from model_ref import expected  # {MARK}
class T(unittest.TestCase):
    def test_f(self):
        self.assertEqual(model.f(1), expected)
    def test_look(self):
        model.look()
"""
HIDDEN = {"model_ref.py": f"expected = 1.0  # {MARK}\n"}
RULES = GradingRules(skip_form=("look()",))


def test_the_candidate_sees_nothing_of_the_other_side(grader: SplitGrader, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test, reference, gold line, harness, key, process, descriptor or network, however it looks."""
    monkeypatch.setenv("FAKE_API_KEY", MARK)
    task = make_task(GOLD, TEST, hidden=HIDDEN, rules=RULES)
    candidate = GOLD.replace(f"  # {MARK}", "") + WALK
    grade = grade_text(grader, task, candidate)
    assert (grade.verdict, grade.message) == ("passed", "")
    assert "FOUND []" in grade.details["candidate"]["output"]
    planted = replace(task, answer=replace(task.answer, support=(SourceFile("notes.txt", MARK),)))
    control = grade_text(grader, planted, candidate)
    assert "FOUND ['mark in /workspace/notes.txt']" in control.details["candidate"]["output"]


def test_the_trusted_side_holds_no_file_of_the_candidate(grader: SplitGrader) -> None:
    """T has tests, reference and support; what the candidate wrote is not there to be imported by mistake."""
    test = """
import os, sys, unittest
import model
class T(unittest.TestCase):
    def test_files(self):
        self.assertEqual(sorted(os.listdir(".")), ["data.txt", "model_ref.py", "paper2code_test.py"])
        self.assertEqual(model.files(), ["data.txt", "model.py"])
        self.assertFalse([name for name in sys.modules if "rcb" in name])
        self.assertFalse([name for name in os.environ if "KEY" in name])
        self.assertEqual(open("data.txt").read(), "support")
"""
    gold = """
import os
def files():
    # <paper2code name="files">
    return sorted(os.listdir("."))
    # </paper2code name="files">
"""
    task = make_task(gold, test, hidden=HIDDEN, support={"data.txt": "support"})
    grade = grade_text(grader, task, gold)
    assert (grade.verdict, grade.message) == ("passed", "")


def test_neither_program_says_whose_it_is() -> None:
    """What the interpreter in a sandbox reads names no harness."""
    for name in ("candidate", "trusted"):
        assert not [module for module in programs.program(name).modules if "rcb" in "".join(module)]
    assert not {"trusted_side", "trusted_gates", "form"} & set(programs.CANDIDATE)


ENDLESS = {
    "sleeps when called": ("import time\ndef gated_mean(*a): time.sleep(60)\nsmooth = gated_mean\n", "time_limit"),
    "spins at import": ("while True: pass\n", "time_limit"),
    "sleeps and keeps the signals away": (
        "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\ntime.sleep(60)\n",
        "time_limit",
    ),
    "fills its memory": ("x = []\nwhile True: x.append(bytearray(1 << 24))\n", "memory_limit"),
    "forks for ever": (
        """
import os, time
for _ in range(500):
    try:
        if os.fork() == 0: time.sleep(60)
    except OSError:
        break
def gated_mean(*a): return 0.0
smooth = gated_mean
""",
        "tests_failed",
    ),
    "prints for ever": ("while True: print('x' * 1000)\n", "time_limit"),
    "recurses for ever": ("def gated_mean(*a): return gated_mean()\nsmooth = gated_mean\n", "tests_failed"),
    "crashes": ("import ctypes\ndef gated_mean(*a): ctypes.string_at(0)\nsmooth = gated_mean\n", "candidate_exited"),
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> dict[str, SplitGrader]:
    """Graders by the reason they are to find: filling memory takes a loaded machine a while."""
    folder, sandbox = tmp_path_factory.mktemp("strict"), Limits(memory_mb=256, pids=32)
    patient = make_grader(folder, SplitLimits(call_seconds=6.0, sandbox=sandbox))
    return {
        "time_limit": make_grader(folder, SplitLimits(call_seconds=1.5, sandbox=sandbox)),
        **dict.fromkeys(("memory_limit", "tests_failed", "candidate_exited"), patient),
    }


@pytest.mark.parametrize("name", ENDLESS)
def test_no_candidate_is_endless(strict: dict[str, SplitGrader], name: str) -> None:
    """Each ends in time, as the candidate's own failure, and the grader goes on."""
    text, reason = ENDLESS[name]
    started = time.monotonic()
    grade = grade_text(strict[reason], fixture_task("plain"), text)
    assert (grade.verdict, grade.reason) == ("failed", reason)
    assert time.monotonic() - started < 60


def test_the_whole_grade_has_a_limit(tmp_path: Path) -> None:
    """Many calls, each short enough, still end."""
    test = (
        "import unittest\nimport model\nclass T(unittest.TestCase):\n    def test_f(self):\n"
        "        for _ in range(40): model.f(1)\n"
    )
    gold = 'import time\ndef f(x):\n    # <paper2code name="f">\n    return x\n    # </paper2code name="f">\n'
    task = make_task(gold, test, rules=GradingRules(seconds=1.0))
    slow = gold.replace("    return x\n", "    time.sleep(0.3)\n    return x\n")
    grade = grade_text(make_grader(tmp_path), task, slow)
    assert (grade.verdict, grade.reason) == ("failed", "time_limit")
    assert grade.seconds < 15


def test_t_ends_with_the_grade(grader: SplitGrader) -> None:
    """A candidate that would sleep on is stopped at once when T is done."""
    text = fixture_task("plain").answer.files[0].text
    lingering = (
        text
        + "\nimport atexit, threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\natexit.register(time.sleep, 60)\n"
    )
    grade = grade_text(grader, fixture_task("plain"), lingering)
    assert grade.verdict == "passed"
    assert grade.seconds < 10


def test_a_test_that_ends_its_process_is_no_verdict(tmp_path: Path) -> None:
    """T without a verdict is tried once more and then held against the candidate, whose value led there."""
    test = "import os, unittest\nimport model\nclass T(unittest.TestCase):\n    def test_f(self):\n        if model.f(1) != 1.0: os._exit(0)\n"
    gold = 'def f(x):\n    # <paper2code name="f">\n    return float(x)\n    # </paper2code name="f">\n'
    task = make_task(gold, test)
    opener = Counting()
    counting = SplitGrader(opener, lambda _: runtime(), cache=tmp_path)
    assert grade_text(counting, task, gold).verdict == "passed"
    before = opener.opened
    grade = grade_text(counting, task, gold.replace("float(x)", "2.0"))
    assert (grade.verdict, grade.reason) == ("failed", "no_verdict")
    assert opener.opened == before + 2 * 3  # two runs, then the gold code as a control


def test_a_time_limit_beside_others_is_tried_again_alone(tmp_path: Path) -> None:
    """Load may have caused it; alone, nothing else can have."""
    opener, task = Counting(), fixture_task("golden")
    grader = SplitGrader(opener, lambda _: runtime(), cache=tmp_path, limits=SplitLimits(call_seconds=0.8))
    assert grade_text(grader, task, task.answer.files[0].text).verdict == "passed"
    before, grades = opener.opened, []
    hanging = "import time\ndef gated_mean(*a): time.sleep(60)\nsmooth = gated_mean\n"
    texts = [hanging, task.answer.files[0].text]
    threads = [
        threading.Thread(target=lambda text=text: grades.append(grade_text(grader, task, text))) for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(grade.reason for grade in grades) == ["", "time_limit"]
    assert opener.opened == before + 2 * 4  # both, the slow one again alone, the gold code as a control


class Breaking:
    """Opens real sandboxes, and once ``broken`` ones in which no interpreter comes up."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, spec: SandboxSpec) -> Sandbox:
        return OPEN(replace(spec, env={**spec.env, "PATH": "/nonexistent"}) if self.broken else spec)


def test_a_machine_that_breaks_after_the_preflight_is_no_failed_grade(tmp_path: Path) -> None:
    """The gold code is run as a control: where it fails too, nothing was measured."""
    opener, task = Breaking(), fixture_task("plain")
    grader = SplitGrader(opener, lambda _: runtime(), cache=tmp_path)
    assert grade_text(grader, task, honest("plain")).verdict == "passed"
    opener.broken = True
    with pytest.raises(EnvironmentFault, match="the gold code, which passed before, fails now"):
        grade_text(grader, task, honest("plain"))
