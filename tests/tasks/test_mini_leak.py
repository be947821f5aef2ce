"""Guards: a mini task whose answer stands in its own workspace, and a paper too thin to be worked from."""

import re
from collections import Counter

import pytest

from rcb_agent.tasks.base import SourceFile, Task
from rcb_agent.tasks.leaks import telling_lines
from rcb_agent.tasks.suites import load_suite

SUITE = load_suite("mini")


def visible_files(task: Task) -> tuple[SourceFile, ...]:
    """Return every file that an agent may see of a task."""
    problem = task.problem
    paper = (problem.paper,) if problem.paper else ()
    return (*problem.files, *problem.files_support, *problem.public_tests, *paper)


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_no_gold_line_stands_in_the_workspace(task: Task) -> None:
    """A line of the answer, even inside another line, would turn reproducing into copying."""
    for file in (*visible_files(task), SourceFile("prompt", task.problem.prompt_target)):
        squeezed = "".join(file.text.split())
        for line in telling_lines(task.answer.gold):
            assert line not in squeezed, f"{file.path} shows {line!r}"


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.id)
def test_hidden_files_are_not_visible(task: Task) -> None:
    """Tests and references belong to the trusted side, and share no line with the answer."""
    hidden = {file.path for file in task.answer.hidden}
    assert not hidden & {file.path for file in visible_files(task)}
    for file in task.answer.hidden:
        shared = telling_lines(task.answer.gold) & telling_lines(file.text)
        assert not shared, f"{file.path} repeats {sorted(shared)}"


def test_suite_is_whole() -> None:
    """A dropped paper or blank would shrink every denominator without a word."""
    assert SUITE.faults == ()
    counts = Counter(task.info.id for task in SUITE.tasks)
    assert counts == {
        "tidal": 7,
        "ripple": 6,
        "silt": 6,
        "lantern": 7,
        "terrace": 7,
        "chord": 8,
        "parley": 6,
        "weir": 8,
    }
    sizes = [task.problem.loc for task in SUITE.tasks]
    assert (min(sizes), max(sizes), sum(sizes)) == (1, 22, 340)
    assert Counter(task.depth for task in SUITE.tasks) == {0: 38, 1: 16, 2: 1}


def test_papers_say_what_the_suite_promises() -> None:
    """Ours, free, and long enough: 700 to 1,500 words with every heading a reader looks for."""
    for info, paper in {task.info.id: (task.info, task.problem.paper) for task in SUITE.tasks}.values():
        assert paper is not None
        words = len(re.findall(r"\S+", paper.text))
        assert 700 <= words <= 1500, f"{info.id}: {words} words"
        assert "edge cases" in paper.text.lower()
        assert info.licence == "MIT"
        assert all(task.problem.runtime == "mini" for task in SUITE.tasks)


def test_context_file_is_shown_to_both_annotated_files() -> None:
    """The graph paper spans three files; an agent that sees only one of them cannot run anything."""
    for task in SUITE.tasks:
        if task.info.id == "ripple":
            assert {file.path for file in visible_files(task)} >= {"graph.py", "propagation.py", "readout.py"}
