"""Guards: an upstream task whose answer lies in its own workspace (needs RCB_UPSTREAM; nothing of it is shipped)."""

import os
from collections import Counter
from pathlib import Path

import pytest

from rcb_agent.environments.workspace import exported_files
from rcb_agent.runs.audit import TaskAudit, audit_paper, by_paper
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.leaks import compare, telling_lines
from rcb_agent.tasks.suites import LoadedSuite, load_suite

pytestmark = pytest.mark.upstream


@pytest.fixture(scope="module")
def upstream() -> LoadedSuite:
    place = os.environ.get("RCB_UPSTREAM")
    if not place or not (Path(place) / "pset" / "papers.yaml").is_file():
        pytest.skip("RCB_UPSTREAM does not name a checkout of ResearchCodeBench")
    return load_suite(str(Path(place) / "pset"))


@pytest.fixture(scope="module")
def audits(upstream: LoadedSuite) -> dict[str, list[TaskAudit]]:
    return {
        paper: audit_paper(tasks, upstream.root / paper, "not asked", git=False)
        for paper, tasks in by_paper(upstream.tasks).items()
    }


def test_the_audit_names_what_was_found_by_hand(audits: dict[str, list[TaskAudit]]) -> None:
    """Fifteen references, schedule_free's siblings, fractalgen's ar.py, minp's own text; no more files than these."""
    withheld = {
        paper: Counter(place.path for one in found for place in one.withheld) for paper, found in audits.items()
    }
    references = {paper: path for paper, paths in withheld.items() for path in paths if path.endswith("_ref.py")}
    assert len(references) == 15
    siblings = {f"schedulefree/adamw_schedulefree{end}.py": 9 for end in ("", "_closure")}
    assert withheld["schedule_free"] == siblings
    assert withheld["fractalgen"]["models/ar.py"] == 4
    assert withheld["DyT"] == withheld["GMFlow"] == withheld["REPA-E"] == Counter()
    visible = [(paper, place) for paper, found in audits.items() for one in found for place in one.visible]
    papers = Counter(paper for paper, place in visible if place.kind == "visible_paper")
    assert papers == {"minp": 7}
    same = {paper for paper, place in visible if place.kind == "visible_same_file"}
    assert same >= {"fractalgen", "grid-cell-conformal-isometry", "hyla", "eomt", "advantage-alignment", "LEN"}
    assert not [place for _, place in visible if place.is_avoidable]


def test_no_workspace_holds_a_withheld_line(upstream: LoadedSuite, audits: dict[str, list[TaskAudit]]) -> None:
    """Neither a withheld file, under any name, nor a file that holds half of the answer, but for the blank's own and the paper."""
    for task in upstream.tasks:
        shown = exported_files(task.problem, "file")
        hidden = {file.path: file.encode() for file in (*task.answer.hidden, *task.answer.support)}
        for item in task.withheld:
            assert item.path not in shown, f"{task.id}: {item.path}"
            assert hidden.get(item.path, b"-") not in shown.values(), f"{task.id}: {item.path} under another name"
        for path, data in shown.items():
            if path not in free_to_see(task):
                assert not compare(telling_lines(task.answer.gold), data.decode()).is_copy, f"{task.id}: {path}"


def free_to_see(task: Task) -> set[str]:
    paper = {task.problem.paper.path} if task.problem.paper else set()
    return {task.problem.path, *paper}
