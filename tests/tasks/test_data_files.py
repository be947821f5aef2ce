"""Guards: data of a paper that is lost on the way, shown to agents unasked, or used as a way for code or an answer."""

import json
from pathlib import Path

import pytest

from rcb_agent.environments.workspace import exported_files
from rcb_agent.runs.inspection import print_task
from rcb_agent.tasks.suites import LoadedSuite, load_suite
from tests.tasks.conftest import WriteSuite

TABLE = b"TAB1\0\xff\xfe\x00\x80" + bytes(range(256))
OWN = "data: {table.bin: both, wanted.bin: tests}\n"
FILES: dict[str, str | bytes] = {"good/rcb-agent.yaml": OWN, "good/table.bin": TABLE, "good/wanted.bin": TABLE[::-1]}
CONTEXT = "- id: good\n  annotated_file_paths: model.py\n  context_file_paths: [table.bin]\n"


def faults_of(suite: LoadedSuite) -> list[str]:
    return [str(fault) for fault in suite.faults]


def test_data_reaches_the_grading_sides_and_no_agent(write_suite: WriteSuite) -> None:
    """Byte for byte; what the tests alone read is for the trusted side alone; both are withheld by name."""
    task = load_suite(str(write_suite(FILES))).tasks[0]
    assert [(file.path, file.encode()) for file in task.answer.data] == [("table.bin", TABLE)]
    assert [(file.path, file.encode()) for file in task.answer.hidden_data] == [("wanted.bin", TABLE[::-1])]
    assert not {"table.bin", "wanted.bin"} & exported_files(task.problem, "file").keys()
    reasons = {item.path: item.reason for item in task.withheld}
    assert reasons["table.bin"] == reasons["wanted.bin"] == "data of the hidden tests"


def test_data_that_is_declared_as_context_is_in_the_workspace_and_in_no_prompt(write_suite: WriteSuite) -> None:
    """The allow list decides, as for text; only text is ever quoted."""
    task = load_suite(str(write_suite({"papers.yaml": CONTEXT, "good/table.bin": TABLE}))).tasks[0]
    assert exported_files(task.problem, "none")["table.bin"] == TABLE
    assert [file.path for file in task.answer.data] == ["table.bin"]
    assert not task.problem.files_support
    assert "table.bin" not in {item.path for item in task.withheld}


def test_weights_are_data(write_suite: WriteSuite) -> None:
    """Their usual ending is that of a file that names paths, which does nothing outside a folder of packages."""
    own: dict[str, str | bytes] = {
        "good/rcb-agent.yaml": "data: {net/weights.pth: both}\n",
        "good/net/weights.pth": TABLE,
    }
    task = load_suite(str(write_suite(own))).tasks[0]
    assert [(file.path, file.encode()) for file in task.answer.data] == [("net/weights.pth", TABLE)]


def test_another_table_is_another_task(write_suite: WriteSuite) -> None:
    """Bytes and reader are part of the digest."""
    changes: tuple[dict[str, str | bytes], ...] = (
        {},
        {"good/table.bin": TABLE + b"\0"},
        {"good/wanted.bin": TABLE},
        {"good/rcb-agent.yaml": OWN.replace("both", "tests")},
        {"good/rcb-agent.yaml": ""},
    )
    digests = {load_suite(str(write_suite(FILES | change))).digest for change in changes}
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"good/rcb-agent.yaml": "data: {model_ref.py: both}\n"}, "good/model_ref.py: is code or the paper's text"),
        (
            {"good/rcb-agent.yaml": "data: {paper2code_paper.md: both}\n"},
            "good/paper2code_paper.md: is code or the pap",
        ),
        (
            {"good/rcb-agent.yaml": "data: {../papers.yaml: both}\n"},
            "good/../papers.yaml: leads out of the paper's folder",
        ),
        ({"good/rcb-agent.yaml": "data: {gone.bin: tests}\n"}, "good/gone.bin: is not there as a regular file"),
        ({"good/rcb-agent.yaml": "data: {table.bin: agents}\n"}, "good/rcb-agent.yaml:1: data.table.bin: "),
        ({"good/table.bin": b"\0\ny = x + x\n"}, "good/table.bin: holds 1 of the 2 lines of a blank"),
        ({"good/table.bin": bytes((16 << 20) + 1)}, "good/table.bin: has 16,777,217 bytes; a data file may have"),
        (
            {"papers.yaml": CONTEXT, "good/rcb-agent.yaml": "data: {table.bin: tests}\n"},
            "good/table.bin: is a context file, which agents see, and cannot be data of the tests alone",
        ),
    ],
)
def test_data_that_would_be_a_door_is_refused(
    write_suite: WriteSuite, changes: dict[str, str | bytes], fault: str
) -> None:
    """References, text, what lies elsewhere, and data that holds the answer: one line, and no task."""
    suite = load_suite(str(write_suite(FILES | changes)))
    assert [found[: len(fault)] for found in faults_of(suite)] == [fault]
    assert not suite.tasks


def test_a_link_is_no_data(write_suite: WriteSuite, tmp_path: Path) -> None:
    """It could name any file of the machine."""
    root = write_suite(FILES)
    (root / "good/table.bin").unlink()
    (root / "good/table.bin").symlink_to(tmp_path)
    assert faults_of(load_suite(str(root))) == ["good/table.bin: is not there as a regular file"]


def test_a_task_with_data_can_be_shown(write_suite: WriteSuite, capsys: pytest.CaptureFixture[str]) -> None:
    """By size and hash, as text and as JSON."""
    root = str(write_suite(FILES))
    options = {"suite": root, "task_id": load_suite(root).tasks[0].id, "answer": True}
    print_task({**options, "as_json": True})
    (file,) = json.loads(capsys.readouterr().out)["answer"]["data"]
    assert (file["path"], file["bytes"]) == ("table.bin", len(TABLE))
    print_task({**options, "as_json": False})
    assert "withheld: table.bin: data of the hidden tests" in capsys.readouterr().out
