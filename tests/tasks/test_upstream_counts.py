"""Guards: a parser that loses or invents tasks of the real benchmark (needs RCB_UPSTREAM; nothing of it is shipped)."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from rcb_agent.tasks.leaks import compare, telling_lines
from rcb_agent.tasks.masking import blank_lines, fill_blank, null_code
from rcb_agent.tasks.suites import LoadedSuite, load_suite
from rcb_agent.tasks.syntax import parse_quietly

pytestmark = pytest.mark.upstream


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> LoadedSuite:
    """Load the benchmark from a checkout or a bare mirror named by RCB_UPSTREAM."""
    place = os.environ.get("RCB_UPSTREAM")
    if not place:
        pytest.skip("RCB_UPSTREAM is not set: it names a checkout or a bare mirror of ResearchCodeBench")
    if (Path(place) / "pset" / "papers.yaml").is_file():
        return load_suite(str(Path(place) / "pset"))
    target = tmp_path_factory.mktemp("upstream")
    data = subprocess.run(["git", "-C", place, "archive", "HEAD", "pset"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")
    return load_suite(str(target / "pset"))


def test_papers_tasks_lines_and_depths_are_the_published_ones(upstream: LoadedSuite) -> None:
    """20 papers, 212 tasks, 1,449 counted lines; 77 outermost, then 101, 26, 7, 1."""
    assert not upstream.faults
    assert len({task.info.id for task in upstream.tasks}) == 20
    assert len(upstream.tasks) == 212
    assert sum(task.problem.loc for task in upstream.tasks) == 1449
    assert Counter(task.depth for task in upstream.tasks) == {0: 77, 1: 101, 2: 26, 3: 7, 4: 1}


def test_every_blank_can_be_filled_and_emptied(upstream: LoadedSuite) -> None:
    """Gold gives the original file back and parses; null parses."""
    for task in upstream.tasks:
        text = fill_blank(task.problem, task.answer.gold)
        assert blank_lines(task.problem, text) == task.answer.gold
        assert text in [file.text for file in task.answer.files]
        parse_quietly(text)
        parse_quietly(fill_blank(task.problem, null_code(task.problem)))


def test_no_shown_support_file_is_a_copy(upstream: LoadedSuite) -> None:
    """References are withheld for all of the 15 papers that have one."""
    for task in upstream.tasks:
        wanted = telling_lines(task.answer.gold)
        assert wanted
        for file in task.problem.files_support:
            assert not compare(wanted, file.text).is_copy
        assert not [file for file in task.problem.files_support if file.path.endswith("_ref.py")]
    named = {(t.info.id, w.path) for t in upstream.tasks for w in t.withheld if w.path.endswith("_ref.py")}
    assert len(named) == 15


def test_a_pull_is_the_published_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own check passes, the suite is found by its name, and every paper has its keys."""
    place = os.environ.get("RCB_UPSTREAM")
    if not place:
        pytest.skip("RCB_UPSTREAM is not set: it names a checkout or a bare mirror of ResearchCodeBench")
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    command = [sys.executable, "-m", "rcb_agent", "tasks", "pull", "researchcodebench", "--from", place, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert [record[key] for key in ("papers", "tasks", "lines", "differences")] == [20, 212, 1449, []]
    suite = load_suite("researchcodebench")
    assert not suite.faults
    assert {task.problem.runtime for task in suite.tasks if task.info.id in ("LEN", "minp")} == {"scipy", "torch"}
