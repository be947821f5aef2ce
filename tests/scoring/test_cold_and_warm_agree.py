"""Guards: a verdict that depends on whether a side was forked or started anew."""

import re
from pathlib import Path

import pytest

from rcb_agent.environments.warm import WarmSandboxes
from rcb_agent.scoring.base import Grade
from rcb_agent.scoring.split import SplitGrader
from rcb_agent.tasks.masking import null_code
from rcb_agent.tasks.suites import load_suite
from tests.scoring.support import ATTACKS, OPEN, SANDBOXED, fixture_task, grade_text, honest, make_grader, runtime

pytestmark = SANDBOXED

PROGRAMS = ["g02", "g05", "g07", "g15", "g20", "g21", "g29", "g30", "g31", "g34"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[SplitGrader, SplitGrader]:
    folder = tmp_path_factory.mktemp("preflights")
    return make_grader(folder, start="cold"), make_grader(folder, start="warm")


def told(grade: Grade) -> tuple[object, ...]:
    """What a table, a resume or a person could see of a grade, but for what was measured in seconds."""
    tests = [(test.id, test.outcome, test.message) for test in grade.tests]
    return grade.verdict, grade.reason, grade.message, grade.flags, grade.form_only, tests, grade.details["calls"]


def start_of(grade: Grade) -> str:
    enforcement: dict[str, str] = grade.details["enforcement"]
    return enforcement["start"]


@pytest.mark.parametrize("name", ["plain", "np", "timed", "golden"])
def test_honest_code_and_nothing(both: tuple[SplitGrader, SplitGrader], name: str) -> None:
    """The right answer and an unfilled blank; and the warm grader really is one."""
    for text in (honest(name), fixture_task(name).problem.target.text):
        cold, warm = (grade_text(grader, fixture_task(name), text) for grader in both)
        assert told(cold) == told(warm)
        assert (start_of(cold), start_of(warm)) == ("cold", "warm")


@pytest.mark.parametrize("program", PROGRAMS)
def test_attacks(both: tuple[SplitGrader, SplitGrader], program: str) -> None:
    """Each kind of forger fails for the same reason."""
    (path,) = Path(ATTACKS / "poc").glob(f"{program}_*.py")
    text = path.read_text()
    name = re.search(r"task: (\w+)", text)
    assert name is not None
    cold, warm = (grade_text(grader, fixture_task(name[1]), text) for grader in both)
    assert cold.verdict == "failed"
    assert (cold.verdict, cold.reason) == (warm.verdict, warm.reason)


def test_hash_seed_locale_and_clock_are_the_same(both: tuple[SplitGrader, SplitGrader]) -> None:
    """What a program can ask its interpreter about has one answer."""
    task = fixture_task("plain")
    probe = (
        "import os, sys, time, threading, locale, random, socket\n"
        "raise RuntimeError(repr((hash('a'), sys.flags.hash_randomization, sys.flags[:], os.getuid(), os.getcwd(), sorted(os.environ.items()),"
        " time.tzname, locale.getlocale(), sys.path[:1], threading.active_count(), random.random(), sys.stdin.closed,"
        " socket.gethostname(), sorted(os.listdir('.')), os.umask(0), sys.argv, sys.dont_write_bytecode, __name__)))\n"
    )
    cold, warm = (grade_text(grader, task, probe) for grader in both)
    assert "RuntimeError" in cold.message
    assert cold.message == warm.message


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ('os.environ["PROBE"] = "1"', "cold: a file sets"),
        ('os.environ.setdefault("PROBE", "1")', "cold: a file sets"),
        ("del os.environ['HOME']", "cold: a file sets"),
        ('os.putenv("PROBE", "1")', "cold: a file sets"),
        ('x = os.environ.get("PROBE") == "1"', "warm"),
    ],
)
def test_a_variable_that_a_package_reads_at_its_import(tmp_path: Path, line: str, start: str) -> None:
    """A module that sets one first is graded where that package is not there yet."""
    text = f"import os\n{line}\n{honest('plain')}"
    grade = grade_text(make_grader(tmp_path), fixture_task("plain"), text)
    assert grade.verdict == "passed"
    assert start_of(grade).startswith(start)


def test_where_nothing_can_be_forked_grades_start_cold(tmp_path: Path) -> None:
    """The record says why, and the verdict is the same."""
    warm = WarmSandboxes()
    warm.close()
    grader = SplitGrader(OPEN, lambda _: runtime(), cache=tmp_path, warm=warm)
    grade = grade_text(grader, fixture_task("plain"), honest("plain"))
    assert grade.verdict == "passed"
    assert start_of(grade) == "cold: warm sandboxes are closed"


def test_a_paper_of_the_suite(tmp_path: Path) -> None:
    """Gold passes and an empty blank fails either way."""
    task = next(task for task in load_suite("mini").tasks if task.info.id == "silt")
    seen = []
    for start in ("cold", "warm"):
        grader = make_grader(tmp_path, start=start)
        gold = grader.grade(
            task, {task.problem.path: task.answer.files[0].encode()} | {f.path: f.encode() for f in task.answer.files}
        )
        null = grade_text(grader, task, null_code(task.problem))
        seen.append((told(gold), null.verdict, null.reason))
    assert seen[0] == seen[1]
    assert seen[0][0][0] == "passed"
