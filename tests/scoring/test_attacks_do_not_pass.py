"""Guards: a candidate that gets a pass without being right. Every program of ``tests/attacks/poc`` is tried."""

import re
from pathlib import Path

import pytest

from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import ATTACKS, SANDBOXED, fixture_task, grade_text, honest

pytestmark = SANDBOXED

PROGRAMS = sorted((ATTACKS / "poc").glob("g*.py"))
RUNNABLE = [path for path in PROGRAMS if "task: torch" not in path.read_text().splitlines()[0]]
REASONS = {
    "g01": "candidate_exited",
    "g02": "import_error",
    "g07": "candidate_exited",
    "g33": "candidate_exited",
    "g34": "protocol",
}


@pytest.mark.parametrize("program", RUNNABLE, ids=lambda path: str(path.stem))
def test_no_attack_passes(grader: SplitGrader, program: Path) -> None:
    """Each fails for its own reason, and none is taken for a fault of the machine."""
    text = program.read_text()
    name = re.search(r"task: (\w+)", text)
    assert name is not None
    grade = grade_text(grader, fixture_task(name[1]), text)
    assert grade.verdict == "failed"
    assert grade.reason == REASONS.get(program.stem[:3], "tests_failed")
    assert grade.message


@pytest.mark.parametrize("name", ["plain", "np", "timed", "golden"])
def test_honest_solutions_pass(grader: SplitGrader, name: str) -> None:
    """The same grader lets the right answer through, with nothing to remark."""
    grade = grade_text(grader, fixture_task(name), honest(name))
    assert (grade.verdict, grade.reason, grade.flags, grade.form_only) == ("passed", "", (), False)
    assert grade.tests
    assert {test.outcome for test in grade.tests} == {"passed"}


FORGERS = {
    "answers the protocol on its own": """
import json, os, struct
def gated_mean(xs, gate=1.0):
    body = json.dumps({"tests": [], "ended": None, "b": []}).encode()
    os.write(3, struct.pack("<II", len(body), 0) + body)
    return 0.0
smooth = gated_mean
""",
    "writes to every descriptor from 4 on": """
import os
for fd in range(4, 64):
    try: os.write(fd, b'{"tests": []}')
    except OSError: pass
def gated_mean(xs, gate=1.0): return 0.0
smooth = gated_mean
""",
    "closes the channel": """
import os
def gated_mean(xs, gate=1.0):
    os.close(3)
    return 0.0
smooth = gated_mean
""",
    "exits when called": """
import os
def gated_mean(xs, gate=1.0): os._exit(0)
smooth = gated_mean
""",
    "leaves a child that answers": """
import os
def gated_mean(xs, gate=1.0):
    if os.fork(): os._exit(0)
    return 0.0
smooth = gated_mean
""",
    "rewrites its server": """
import sys
server = sys.modules["split.candidate_side"]
server.Server._answer = lambda self, request, blobs: self._channel.send(
    {"q": request["q"], "r": {"t": "outside", "i": 0}, "w": []})
def gated_mean(xs, gate=1.0): return 0.0
smooth = gated_mean
""",
    "claims a huge result": """
import sys, os, struct
def gated_mean(xs, gate=1.0): os.write(3, struct.pack("<II", 2, 2**32 - 1)); return 0.0
smooth = gated_mean
""",
    "is a module that is not there": "import a_package_that_is_not_there\n",
    "is no Python": "def gated_mean(:\n",
    "is no text": "\x00",
}


@pytest.mark.parametrize("text", FORGERS.values(), ids=FORGERS)
def test_no_forger_passes(grader: SplitGrader, text: str) -> None:
    """Speaking to T by other ways, or not at all, ends in a failure of the candidate's."""
    grade = grade_text(grader, fixture_task("plain"), text)
    assert grade.verdict == "failed"
    assert grade.reason in ("protocol", "candidate_exited", "tests_failed", "import_error")


SWALLOWED = """
import unittest
from model import f, PaperError

class TestErrors(unittest.TestCase):
    def test_any_error(self):
        with self.assertRaises(Exception):
            f(-1.0)
    def test_own_error(self):
        with self.assertRaises(PaperError):
            f(-2.0)
    def test_value(self):
        self.assertEqual(f(1.0), 1.0)
"""
RAISES = """
import os
class PaperError(ValueError):
    pass
def f(x):
    # <paper2code name="f">
    if x < 0:
        raise PaperError("negative")
    return x
    # </paper2code name="f">
"""


def test_dying_does_not_satisfy_an_expected_error(grader: SplitGrader) -> None:
    """``assertRaises(Exception)`` around a dead candidate is no pass."""
    from tests.scoring.support import make_task

    task = make_task(RAISES, SWALLOWED)
    assert grade_text(grader, task, RAISES).verdict == "passed"
    dying = RAISES.replace('raise PaperError("negative")', "os._exit(0)")
    grade = grade_text(grader, task, dying)
    assert (grade.verdict, grade.reason) == ("failed", "candidate_exited")
    assert "exit status 0" in grade.message
    other = RAISES.replace('raise PaperError("negative")', 'raise ValueError("negative")')
    grade = grade_text(grader, task, other)
    assert (grade.verdict, grade.reason) == ("failed", "tests_failed")
