"""Guards: a new paper that overwrites somebody's work, or is left half written."""

from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from tests.runs.command import Done, rcb_agent_within

CODE = "def double(x):\n    return x + x\n"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    path = tmp_path / "code" / "double.py"
    path.parent.mkdir()
    path.write_text(CODE)
    return path


def new(paper: str, *words: str | Path, suite: Path) -> Done:
    return rcb_agent_within("tasks", "new", paper, "--suite", suite, *words)


def test_a_second_paper_leaves_the_first_and_every_comment_alone(code: Path, tmp_path: Path) -> None:
    """The list grows at its end; version and other papers are as they were; the suite is readable at once."""
    suite = tmp_path / "suite"
    words: list[str | Path] = ["--from", code, "--blank", f"{code}:2-2:the sum"]
    assert new("one", *words, suite=suite).code == 0
    (suite / "suite.yaml").write_text('version: "7"\n')
    with (suite / "papers.yaml").open("a") as file:
        file.write("# mine\n")
    before = (suite / "papers.yaml").read_text()
    assert new("two", *words, "--title", 'The "second": a # title', suite=suite).code == 0
    assert (suite / "papers.yaml").read_text().startswith(before)
    loaded = load_suite(str(suite))
    assert (loaded.version, loaded.faults) == ("7", ())
    assert [task.id for task in loaded.tasks] == ["one/the sum", "two/the sum"]
    assert loaded.tasks[1].info.title == 'The "second": a # title'


def test_nothing_is_overwritten(code: Path, tmp_path: Path) -> None:
    """Neither an entry, nor a folder without one; what is refused leaves no trace."""
    suite = tmp_path / "suite"
    assert new("one", "--from", code, suite=suite).code == 0
    (suite / "one" / "double.py").write_text("mine\n")
    again = new("one", "--from", code, suite=suite)
    assert (again.code, (suite / "one" / "double.py").read_text()) == (2, "mine\n")
    assert "has a paper one already" in again.err
    (suite / "two").mkdir()
    before = sorted(suite.rglob("*"))
    refused = new("two", "--from", code, suite=suite)
    assert (refused.code, sorted(suite.rglob("*"))) == (2, before)
    assert "two is there already: nothing is overwritten" in refused.err


@pytest.mark.parametrize(
    ("paper", "words", "message"),
    [
        ("../out", [], "is not"),
        ("a", ["--blank", "double.py:1:x"], "say FILE:START-END:NAME"),
        ("a", ["--blank", "other.py:1-1:x"], "none of the files given by --from"),
        ("a", ["--blank", "double.py:1-9:x"], 'double.py:1: "x" is lines 1-9 of a file of 2'),
        ("a", ["--from", "/nowhere/x.py"], "No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    code: Path, tmp_path: Path, paper: str, words: list[str], message: str
) -> None:
    """One line, exit code 2, no folder."""
    done = new(paper, "--from", code, *words, suite=tmp_path / "suite")
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "suite").exists()


def test_files_keep_their_places_within_a_package(tmp_path: Path) -> None:
    """Imports between the files of a paper go on working; tests and references cannot hold blanks."""
    for path in ("src/a.py", "src/deep/b.py", "src/a_ref.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(CODE)
    words: list[str | Path] = ["--from", tmp_path / "src/a.py", "--from", tmp_path / "src/deep/b.py"]
    blanks = ["--blank", "a.py:2-2:one", "--blank", "deep/b.py:2-2:two"]
    assert new("p", *words, *blanks, suite=tmp_path / "suite").code == 0
    assert [task.problem.path for task in load_suite(str(tmp_path / "suite")).tasks] == ["a.py", "deep/b.py"]
    assert "from deep.b import double" in (tmp_path / "suite/p/paper2code_test.py").read_text()
    assert new("q", "--from", tmp_path / "src/a_ref.py", suite=tmp_path / "suite").code == 2
