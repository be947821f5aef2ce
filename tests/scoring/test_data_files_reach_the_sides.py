"""Guards: a binary file that the tests and the candidate read is missing, altered, or where it must not be."""

from dataclasses import replace
from pathlib import Path

import pytest

from rcb_agent.tasks.base import DataFile, Task
from tests.scoring.support import SANDBOXED, grade_text, make_grader, make_task

SANDBOX, NEEDED = SANDBOXED
TABLE = b"TAB1\0\xff\xfe\x80" + bytes(range(256))
WANTED = bytes(reversed(TABLE))

MODEL = """\
from pathlib import Path


def total(name):
    # <paper2code name="total">
    return sum(Path(name).read_bytes())
    # </paper2code name="total">
"""
TEST = """\
import unittest
from pathlib import Path

from model import total


class T(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total("table.bin"), sum(Path("wanted.bin").read_bytes()))
"""


def task_with_data() -> Task:
    task = make_task(MODEL, TEST)
    answer = replace(task.answer, data=(DataFile("table.bin", TABLE),), hidden_data=(DataFile("wanted.bin", WANTED),))
    return replace(task, answer=answer)


@SANDBOX
@NEEDED
@pytest.mark.parametrize("start", ["warm", "cold"])
def test_each_side_reads_what_is_declared_for_it(tmp_path: Path, start: str) -> None:
    """Byte for byte, whichever way the sides are started; what the tests alone read is not there for the candidate."""
    grader, task = make_grader(tmp_path, start=start), task_with_data()
    assert grade_text(grader, task, MODEL).verdict == "passed"
    thief = MODEL.replace("Path(name)", 'Path("wanted.bin")')
    grade = grade_text(grader, task, thief)
    assert (grade.verdict, grade.reason) == ("failed", "tests_failed")
    assert "FileNotFoundError" in grade.message or "RemoteError" in grade.message


@SANDBOX
@NEEDED
def test_other_data_is_another_gold_run(tmp_path: Path) -> None:
    """What was measured with one table says nothing of another."""
    grader, task = make_grader(tmp_path), task_with_data()
    assert not grader.preflight(task)
    other = replace(task, answer=replace(task.answer, data=(DataFile("table.bin", TABLE + b"\1"),)))
    assert "gold" in grader.preflight(other) or "tests_failed" in grader.preflight(other)
