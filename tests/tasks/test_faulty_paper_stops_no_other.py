"""Guards: one bad paper that hides the good ones, or a fault that does not say where it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rcb_agent.errors import TaskError
from rcb_agent.tasks.suites import find_task, load_suite, select_tasks

Write = Callable[[dict[str, str | bytes]], Path]

GOOD = (
    "- id: good\n  title: A good paper\n  annotated_file_paths: model.py\n"
    "- id: bad\n  title: A bad one\n  annotated_file_paths: m.py\n"
)
BLANK = '# <paper2code name="b">\nx = 1\n# </paper2code name="b">\n'
REST = {"bad/paper2code_test.py": "import m\n", "bad/paper2code_paper.md": "text"}

KINDS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no folder": ({"papers.yaml": GOOD}, "papers.yaml:4: 1.id: there is no folder bad/"),
    "unclosed marker": ({"bad/m.py": BLANK[:-26], **REST}, "bad/m.py:1: "),
    "no blank": ({"bad/m.py": "x = 1\n", **REST}, "bad/m.py: is annotated but holds no blank"),
    "no test": ({"bad/m.py": BLANK, "bad/paper2code_paper.md": "t"}, "bad/paper2code_test.py: is not there"),
    "no paper": ({"bad/m.py": BLANK, "bad/paper2code_test.py": ""}, "bad/paper2code_paper.md: is missing"),
    "no annotated file": ({**REST}, "bad/m.py: is not there as a regular file"),
    "not utf-8": ({"bad/m.py": b"a = 1\nb = '\xff'\n", **REST}, "bad/m.py:2: is not UTF-8"),
    "wrong key": (
        {"bad/m.py": BLANK, **REST, "bad/rcb-agent.yaml": "runtime: mini\ngrading:\n  secnods: 3\n"},
        "bad/rcb-agent.yaml:3: grading.secnods: 'secnods' is no key here (did you mean seconds?)",
    ),
    "wrong value": (
        {"bad/m.py": BLANK, **REST, "bad/rcb-agent.yaml": "runtime: mini\ngrading:\n  seconds: soon\n"},
        "bad/rcb-agent.yaml:3: grading.seconds: 'soon' is not of type 'number'",
    ),
    "no yaml": ({"bad/m.py": BLANK, **REST, "bad/rcb-agent.yaml": "a: [1\nb: 2\n"}, "bad/rcb-agent.yaml:2: "),
    "missing key": ({"papers.yaml": GOOD.replace("  annotated_file_paths: m.py\n", "")}, "papers.yaml:4: 1: "),
    "same id": ({"papers.yaml": GOOD.replace("id: bad", "id: good")}, "papers.yaml:4: 1.id: a paper with id"),
    "out of the folder": (
        {"papers.yaml": GOOD.replace("m.py", "../good/model.py"), **REST},
        "bad/../good/model.py: leads out of",
    ),
    "name in two files": (
        {"papers.yaml": GOOD.replace(": m.py", ": [m.py, n.py]"), "bad/m.py": BLANK, "bad/n.py": BLANK, **REST},
        'bad/n.py:1: two blanks of the paper are named "b"',
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_fault_names_its_place_and_the_good_paper_stays(kind: str, write_suite: Write) -> None:
    """File, line and key stand in one line; the other paper's tasks are all there."""
    changes, expected = KINDS[kind]
    suite = load_suite(str(write_suite({"papers.yaml": GOOD, **changes})))
    assert [task.id for task in suite.tasks] == ["good/double it", "good/give it back"]
    assert any(str(fault).startswith(expected) for fault in suite.faults), [str(fault) for fault in suite.faults]
    assert all("\n" not in str(fault) for fault in suite.faults)


def test_symlink_in_a_paper_folder_is_refused(write_suite: Write) -> None:
    """A pulled folder must not make us read files of the host."""
    root = write_suite({})
    (root / "good" / "model.py").unlink()
    (root / "good" / "model.py").symlink_to("/etc/hostname")
    suite = load_suite(str(root))
    assert not suite.tasks
    assert "not there as a regular file" in str(suite.faults[0])


def test_unreadable_suite_is_one_clear_error(tmp_path: Path) -> None:
    """No suite, an empty list, no YAML: TaskError, never a traceback from below."""
    with pytest.raises(TaskError, match="no suite 'nowhere'"):
        load_suite("nowhere")
    for text in ("[]", "x: 1", "a: [", ""):
        (tmp_path / "papers.yaml").write_text(text)
        with pytest.raises(TaskError, match=r"papers\.yaml"):
            load_suite(str(tmp_path))


def test_pattern_that_matches_nothing_is_an_error_not_an_empty_run(write_suite: Write) -> None:
    """A typing mistake must not shrink a run silently; ``*`` crosses the slash."""
    suite = load_suite(str(write_suite({})))
    assert len(select_tasks(suite, ["good*it"])) == 1
    assert len(select_tasks(suite, ["*"])) == 2
    with pytest.raises(TaskError, match="'god/\\*'"):
        select_tasks(suite, ["good/*", "god/*"])
    with pytest.raises(TaskError, match="did you mean"):
        find_task(suite, "good/duoble it")
