"""Guards: shipped facts that are not the published ones."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.tasks.contamination import ARXIV, safe_papers
from rcb_agent.tasks.published import load_published
from rcb_agent.tasks.suites import load_suite

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def golden() -> dict[str, Any]:
    """Return published results kept beside the checkout, where they are."""
    folder = Path(os.environ.get("RCB_GOLDEN") or ROOT.parent / "shared" / "golden")
    if not (folder / "leaderboard.json").is_file():
        pytest.skip(f"{folder}/leaderboard.json is not there (RCB_GOLDEN names its folder)")
    found: dict[str, Any] = json.loads((folder / "leaderboard.json").read_text())
    return found


def test_counts_are_the_published_ones() -> None:
    """20 papers, 212 tasks, 1,449 lines, 77 outermost, 109 hard, 32 models."""
    facts = load_published()
    tasks = facts.tasks.values()
    assert (len(facts.papers), len(tasks), sum(task.loc for task in tasks), len(facts.models)) == (20, 212, 1449, 32)
    assert Counter(task.depth for task in tasks) == {0: 77, 1: 101, 2: 26, 3: 7, 4: 1}
    assert sum(task.hard for task in tasks) == 109
    assert {task.paper for task in tasks} == facts.papers.keys()


def test_safe_papers_are_the_published_thirteen() -> None:
    """By the benchmark's rule: 143 tasks, 1,054 lines; by arXiv's dates five of them fall away."""
    facts = load_published()
    safe = safe_papers(facts.papers.values(), facts.latest_cutoff)
    assert facts.papers.keys() - safe == {
        "Diff-Transformer",
        "DiffusionDPO",
        "hyla",
        "LEN",
        "llm-sci-use",
        "minp",
        "schedule_free",
    }
    tasks = [task for task in facts.tasks.values() if task.paper in safe]
    assert (len(tasks), sum(task.loc for task in tasks)) == (143, 1054)
    by_text = safe_papers(facts.papers.values(), facts.latest_cutoff, ARXIV)
    assert safe - by_text == {"advantage-alignment", "GPS", "grid-cell-conformal-isometry", "TabDiff", "Tanh-Init"}


def test_every_published_model_has_a_cutoff() -> None:
    """The table has a line for each."""
    assert all(model.cutoff is not None for model in load_published().models)


def test_facts_equal_the_golden_file(golden: dict[str, Any]) -> None:
    """Models, names, cutoffs, tasks and every single pass."""
    facts = load_published()
    tasks = list(facts.tasks.values())
    assert [(t.paper, t.name, t.loc) for t in tasks] == [
        (item["paper"], item["name"], item["loc"]) for item in golden["snippets"]
    ]
    assert [model.id for model in facts.models] == list(golden["models"])
    for model in facts.models:
        wanted = golden["models"][model.id]
        assert (model.pretty_name, model.developer) == (wanted["pretty_name"], wanted["developer"])
        assert str(model.cutoff).replace("-0", "-") == wanted["cutoff"].replace("-0", "-")
        assert model.passed == {tasks[position].id for position in wanted["passed"]}


@pytest.mark.upstream
def test_facts_equal_the_suite_itself() -> None:
    """Depths, venues and dates as the benchmark's own files say."""
    place = Path(os.environ.get("RCB_UPSTREAM") or "nowhere") / "pset"
    if not (place / "papers.yaml").is_file():
        pytest.skip("RCB_UPSTREAM is not set to a checkout of ResearchCodeBench")
    facts, suite = load_published(), load_suite(str(place))
    assert [(t.id, t.problem.loc, t.depth) for t in suite.tasks] == [
        (t.id, t.loc, t.depth) for t in facts.tasks.values()
    ]
    infos = {task.info.id: task.info for task in suite.tasks}
    assert infos.keys() == facts.papers.keys()
    for paper in facts.papers.values():
        info = infos[paper.id]
        assert (paper.venue, paper.first_commit, paper.arxiv_v1) == (
            info.venue,
            info.first_commit_date,
            info.arxiv_v1_date,
        )
