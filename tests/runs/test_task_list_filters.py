"""Guards: a filter that lets the wrong tasks through, or silently none."""

from pathlib import Path
from typing import Any

import pytest

from tests.runs.command import Done, rcb_agent_within

CODE = """\
# <paper2code name="outer">
a = 1
# <paper2code name="inner">
b = 2
# </paper2code name="inner">
c = 3
# </paper2code name="outer">
"""
PAPERS = """\
- id: DyT
  venue: CVPR2025
  first_commit_date: 2025-03-09
  arxiv_v1_date: 2024-03-13
  annotated_file_paths: m.py
- id: old
  venue: NeurIPS2024
  first_commit_date: 2023-03-31
  annotated_file_paths: m.py
- id: undated
  annotated_file_paths: m.py
"""
DYT = '# <paper2code name="tanh">\na = 1\n# </paper2code name="tanh">\n'


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return three papers: a dated one with a task of the benchmark's, an old one, one without dates."""
    (tmp_path / "papers.yaml").write_text(PAPERS)
    for paper in ("DyT", "old", "undated"):
        (tmp_path / paper).mkdir()
        (tmp_path / paper / "m.py").write_text(DYT if paper == "DyT" else CODE)
        (tmp_path / paper / "paper2code_test.py").write_text("import m\n")
        (tmp_path / paper / "paper2code_paper.md").write_text("x\n")
    return tmp_path


def listed(suite: Path, *words: str) -> Done:
    return rcb_agent_within("tasks", "list", "--suite", suite, *words)


def ids(suite: Path, *words: str) -> list[str]:
    done = listed(suite, "--ids", *words)
    assert done.code == 0, done.err
    return done.out.splitlines()


ALL = ["DyT/tanh", "old/outer", "old/inner", "undated/outer", "undated/inner"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], ALL),
        (["--venue", "cvpr 2025"], ["DyT/tanh"]),
        (["--venue", "CVPR", "--venue", "neurips"], ALL[:3]),
        (["--max-loc", "1"], ["DyT/tanh", "old/inner", "undated/inner"]),
        (["--outermost"], ["DyT/tanh", "old/outer", "undated/outer"]),
        (["--safe-for", "2023-02"], ALL[:3]),
        (["--safe-for", "gpt-4.1"], ["DyT/tanh"]),
        (["--safe-for", "2025-03"], []),
        (["--safe-for", "2024-06", "--rule", "arxiv"], []),
        (["--since", "2023-03-31"], ALL[:3]),
        (["--since", "2023-04-01"], ["DyT/tanh"]),
        (["--hard"], []),
        (["--outermost", "--since", "2020-01-01", "--tasks", "old/*"], ["old/outer"]),
    ],
)
def test_filters_choose_by_what_they_say(suite: Path, words: list[str], wanted: list[str]) -> None:
    """Together they narrow; what has no date is neither safe nor since anything."""
    assert ids(suite, *words) == wanted


def test_json_says_dates_and_classes(suite: Path) -> None:
    """Both rules for the cutoff that was asked for; what is not known is null or unknown."""
    done = listed(suite, "--json", "--safe-for", "2025-01")
    document: dict[str, Any] = done.document
    (task,) = document["tasks"]
    assert (document["cutoff"], task["id"], task["loc"], task["venue"]) == ("2025-01", "DyT/tanh", 1, "CVPR2025")
    assert task["contamination"] == {"first-commit": "safe", "arxiv": "unsafe"}
    assert (task["first_commit"], task["hard"], task["solved_by"] > 10) == ("2025-03-09", False, True)
    other = listed(suite, "--json").document["tasks"][-1]
    assert (other["first_commit"], other["hard"]) == (None, None)
    assert set(other["contamination"].values()) == {"unknown"}


def test_the_table_shows_dates_where_there_are_any(suite: Path) -> None:
    """And says for which cutoff, and how many tasks are left."""
    out = listed(suite, "--venue", "CVPR").out
    assert "2025-03-09" in out
    assert "cutoff 2025-01" in out
    assert "1 tasks, 1 papers, 1 lines, of 5 tasks" in out
    assert "first commit" not in listed(suite, "--tasks", "undated/*").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--venue", "ICLM"], 3),
        (["--safe-for", "gpt-99"], 2),
        (["--since", "yesterday"], 2),
        (["--ids", "--json"], 2),
    ],
)
def test_words_that_mean_nothing_are_refused(suite: Path, words: list[str], code: int) -> None:
    """A typing mistake must not look like an empty result."""
    done = listed(suite, *words)
    assert (done.code, done.out, len(done.err.splitlines())) == (code, "", 1)


def test_hard_needs_a_suite_with_published_results() -> None:
    """No task of mini was ever tried by the published models."""
    assert rcb_agent_within("tasks", "list", "--hard").code == 3
