"""Guards: keys for pulled papers that are wrong, speak of nobody, or are taken from somewhere else."""

from pathlib import Path

import pytest

from rcb_agent.errors import TaskError
from rcb_agent.tasks.origins import PULLED, load_origin
from rcb_agent.tasks.overlay import Overlay, read_overlay, runtime_of_paper, shipped_overlay
from rcb_agent.tasks.suites import read_suite
from tests.tasks.conftest import WriteSuite


def overlay(tmp_path: Path, text: str) -> Overlay:
    path = tmp_path / "tiny" / "overlay.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return read_overlay(path)


def test_the_overlay_speaks_and_the_folder_does_not(write_suite: WriteSuite, tmp_path: Path) -> None:
    """Keys come from the overlay alone."""
    root = write_suite({"good/rcb-agent.yaml": "runtime: theirs\n"})
    keys = "good:\n  runtime: ours\n  grading:\n    seconds: 7\n    flows: no, plain values only\n    skip_form: [double]\n"
    task = read_suite("tiny", root, overlay(tmp_path, keys)).tasks[0]
    assert (task.problem.runtime, task.answer.rules.seconds, task.answer.rules.skip_form) == ("ours", 7.0, ("double",))
    assert read_suite("tiny", root, overlay(tmp_path, "{}")).tasks[0].problem.runtime == "good"
    assert read_suite("tiny", root).tasks[0].problem.runtime == "theirs"


@pytest.mark.parametrize(
    ("text", "fault", "tasks"),
    [
        (
            "good: {runtime: mini}\nbetter:\n  runtime: mini\n",
            "tiny/overlay.yaml:2: better: is no paper of the suite",
            2,
        ),
        ("good:\n  runtime: mini\n  area: [1]\n", "tiny/overlay.yaml:3: good.area: [1] is not of type 'string'", 0),
        ("good:\n  clok: 1\n", "tiny/overlay.yaml:2: good.clok: 'clok' is no key here; known: area, ", 0),
        ("good:\n", "tiny/overlay.yaml:1: good: None is not of type 'object'", 0),
    ],
)
def test_a_mistake_is_named_by_file_line_and_key(
    write_suite: WriteSuite, tmp_path: Path, text: str, fault: str, tasks: int
) -> None:
    """The same schema as for rcb-agent.yaml; a stray id stops no paper."""
    suite = read_suite("tiny", write_suite({}), overlay(tmp_path, text))
    assert [str(found)[: len(fault)] for found in suite.faults] == [fault]
    assert len(suite.tasks) == tasks


@pytest.mark.parametrize("text", ["- good\n", "good: [\n"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing of it can be used."""
    with pytest.raises(TaskError, match=r"tiny/overlay.yaml:\d: (must map|is not YAML)"):
        overlay(tmp_path, text)


def test_the_shipped_overlay_names_a_runtime_for_every_published_paper() -> None:
    """No paper without, none that does not exist, and a paper's id leads to its runtime."""
    for name in PULLED:
        papers = {task.partition("/")[0] for task, _ in load_origin(name).sizes}
        shipped = shipped_overlay(name)
        assert not shipped.strays(papers)
        assert all(shipped.keys_of(paper)[1] == [] and shipped.runtime_of(paper) for paper in papers)
    assert [runtime_of_paper(name) for name in ("LEN", "minp", "nobody")] == ["scipy", "torch", None]


def test_the_shipped_facts_are_the_published_counts() -> None:
    """20 papers, 212 tasks, 1,449 lines."""
    sizes = load_origin("researchcodebench").sizes
    assert len({task.partition("/")[0] for task, _ in sizes}) == 20
    assert (len(dict(sizes)), sum(lines for _, lines in sizes)) == (212, 1449)
