"""Guards: a paper whose mistakes its author is not told of, or not where they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runs.command import Done, rcb_agent
from tests.tasks.conftest import FILES, write_files

OWN = "runtime: mini\nlicence: MIT\nverified_by: us\n"
GOOD = {**FILES, "good/rcb-agent.yaml": OWN, "suite.yaml": 'version: "1"\n'}


def check(root: Path, *words: str) -> Done:
    return rcb_agent("tasks", "check", root, "--json", *words, cwd=root)


def found(done: Done) -> set[tuple[str, int, str, str]]:
    return {(one["file"], one["line"], one["severity"], one["rule"]) for one in done.document["findings"]}


STATIC: list[tuple[dict[str, str | bytes], int, tuple[str, int, str, str]]] = [
    ({"good/rcb-agent.yaml": f"{OWN}runtme: x\n"}, 3, ("good/rcb-agent.yaml", 4, "error", "schema")),
    ({"suite.yaml": "version: 1.0\n"}, 3, ("suite.yaml", 1, "error", "schema")),
    ({"good/model.py": '# <paper2code name="a">\nx = 1\n'}, 3, ("good/model.py", 1, "error", "schema")),
    ({"good/model.py": "x = 1\n"}, 3, ("good/model.py", 0, "error", "schema")),
    ({"good/paper2code_paper.md": "# T\n\nTO WRITE\n"}, 3, ("good/paper2code_paper.md", 3, "error", "to write")),
    (
        {
            "good/model.py": 'def double(x):\n    # <paper2code name="a">\n    return (x +\n    # </paper2code name="a">\n        x)\n'
        },
        3,
        ("good/model.py", 2, "error", "blank"),
    ),
    ({"good/paper2code_paper.md": "# T\n\n    y = x + x\n"}, 0, ("good/paper2code_paper.md", 3, "warning", "leak")),
    (
        {"good/model_ref.py": "def twice(x):\n    y = x + x\n    return y\n"},
        0,
        ("good/model_ref.py", 2, "warning", "leak"),
    ),
    (
        {"good/model.py": f"{FILES['good/model.py']!s}\ndef g(x):\n    y = x+x\n    return y\n"},
        0,
        ("good/model.py", 14, "warning", "leak"),
    ),
    ({"good/rcb-agent.yaml": "runtime: mini\n"}, 0, ("good/rcb-agent.yaml", 0, "warning", "facts")),
]


@pytest.mark.parametrize(
    ("changes", "code", "finding"), STATIC, ids=[f"{one[2][3]}-{place}" for place, one in enumerate(STATIC)]
)
def test_each_mistake_is_named_where_it_is(
    tmp_path: Path, changes: dict[str, str | bytes], code: int, finding: tuple[str, int, str, str]
) -> None:
    """File and line of the author's own file, what to do, and the exit code."""
    root = write_files(tmp_path / "suite", {**GOOD, **changes})
    done = check(root, "--static")
    assert finding in found(done)
    assert done.code == code, done.out


def test_a_good_paper_has_no_finding_but_what_is_left_to_choose(tmp_path: Path) -> None:
    """A clean suite is quiet, whether the suite or the paper is named; a folder that is neither is refused."""
    root = write_files(tmp_path / "suite", GOOD)
    assert found(check(root, "--static")) == set()
    done = rcb_agent("tasks", "check", root / "good", "--static", cwd=tmp_path)
    assert (done.code, done.out) == (0, "suite/good: 2 tasks, nothing was run; 0 errors, 0 warnings\n")
    neither = rcb_agent("tasks", "check", tmp_path, cwd=tmp_path)
    assert neither.code == 3
    assert "is no suite" in neither.err


def test_another_papers_mistake_is_not_this_ones(tmp_path: Path) -> None:
    """Who checks one paper is told of that one."""
    papers = f"{FILES['papers.yaml']!s}- id: bad\n  annotated_file_paths: gone.py\n"
    root = write_files(tmp_path / "suite", {**GOOD, "papers.yaml": papers, "bad/paper2code_paper.md": "x\n"})
    assert check(root, "--static").code == 3
    assert rcb_agent("tasks", "check", root / "good", "--static", cwd=root).code == 0


def test_an_unknown_sandbox_is_refused_whatever_is_in_the_cache(tmp_path: Path) -> None:
    """A usage error, also where nothing would be run."""
    done = rcb_agent("tasks", "check", tmp_path, "--static", "--sandbox", "nope", cwd=tmp_path)
    assert done.code == 2
    assert "'nope' is not one of" in done.err


@pytest.mark.sandbox
def test_tests_that_find_nothing_out_are_named_at_the_blank(tmp_path: Path) -> None:
    """An answer that nobody needs and one that may be anything are errors; so is gold code that fails."""
    model = (
        'def one(x):\n    # <paper2code name="never looked at">\n    y = 2 * x\n    # </paper2code name="never looked at">\n    return x\n\n\n'
        'def two(x):\n    # <paper2code name="any number">\n    return 0.5 * x + 1\n    # </paper2code name="any number">\n'
    )
    test = "import unittest\nfrom model import one, two\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        {}\n"
    files: dict[str, str | bytes] = {
        **GOOD,
        "good/model.py": model,
        "good/paper2code_test.py": test.format("self.assertEqual(one(2), 2); self.assertIsInstance(two(3), float)"),
    }
    done = check(write_files(tmp_path / "suite", files))
    errors: list[dict[str, Any]] = [one for one in done.document["findings"] if one["severity"] == "error"]
    assert done.code == 3, done.err
    assert {(one["file"], one["line"], one["rule"]) for one in errors} == {
        ("good/model.py", 2, "tests"),
        ("good/model.py", 9, "tests"),
    }
    assert any("no answer at all" in one["message"] and "add a test" in one["fix"] for one in errors)
    assert {one["id"]: one["verdict"] for one in done.document["tasks"]} == {
        "good/never looked at": "vacuous",
        "good/any number": "weak",
    }
    files["good/paper2code_test.py"] = test.format("self.assertEqual(two(3), 11.0)")
    broken = check(write_files(tmp_path / "broken", files))
    assert ("good/paper2code_test.py", 0, "error", "gold") in found(broken)
    assert "mend code, reference or test" in json.dumps(broken.document["findings"])
