"""Guards: the authors' prompt put together otherwise than they do it, code of theirs run, a changed template unnoticed."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rcb_agent.errors import TaskError
from rcb_agent.tasks.origins import RECORD, Pulled, pulled_root, read_record, tree_digest
from rcb_agent.tasks.pull import PullRequest, pull_suite
from rcb_agent.tasks.suites import LoadedSuite, load_suite
from rcb_agent.tasks.upstream_prompt import ASKS, MASKS, read_published_prompt
from tests.tasks.conftest import WriteSuite
from tests.tasks.own_wording import ASKING, MASKING, SUITE
from tests.tasks.tiny_repository import Heard, commit_all, git, tiny_origin

CONTEXT = (
    "## helper.py\n\nA = 1B = 2C = 3\n\n"
    '## more.py\n\n# <paper2code name="elsewhere">D = 4# </paper2code name="elsewhere">\n\n'
)
# A tab counts as one space, a nested marker's indentation counts, each line of the TODO is followed by an empty one.
OUTER = "def double(x):\n\tif x:\n # MISSING: double it\n\n # 2 LINES\n\n\treturn 0"
INNER = "def double(x):\n\tif x:\n\t\t# twice\n\t\ty = x + x\n  # MISSING: give it back\n\n  # 1 LINES\n\n\treturn 0"
PAPER = "# Doubling\n\nTwice {x}.\n"


def write(suite: LoadedSuite, task_id: str, *, with_paper: bool) -> str:
    task = next(task for task in suite.tasks if task.id == task_id)
    return read_published_prompt(suite.name, suite.root).write(suite.root, task, with_paper=with_paper)


@pytest.fixture
def suite(write_suite: WriteSuite) -> LoadedSuite:
    """A suite whose authors have words of their own."""
    loaded = load_suite(str(write_suite(dict(SUITE))))
    assert not loaded.faults
    return loaded


def test_the_text_is_put_together_as_the_authors_do_it(suite: LoadedSuite) -> None:
    """Quirks included: lines of context run together, widths of tabs, empty lines, what is put in is not looked at again."""
    outer = write(suite, "good/double it", with_paper=True)
    assert outer == f"READ {PAPER}\nTHEN FILL <<{CONTEXT}{OUTER}>>\nEND\n"
    assert write(suite, "good/give it back", with_paper=False) == f"ONLY FILL <<{CONTEXT}{INNER}>>\nEND\n"


NOT_UNDERSTOOD = {
    "no such function": (ASKS, ASKING.replace("run_inference", "run"), "has no function run_inference"),
    "no Python": (ASKS, "def (", "no Python"),
    "a call in the text": (ASKS, ASKING.replace("bare_head + rest", "make(rest)"), "how prompt is put together"),
    "a format": (ASKS, ASKING.replace("{masked_code_str}", "{masked_code_str!r}"), "how prompt is put together"),
    "an unknown value": (ASKS, ASKING.replace("{masked_code_str}", "{other}"), "'other'"),
    "no lines for a blank": (MASKS, MASKING.replace("placeholder_lines = [", "lines = ["), "what stands for a blank"),
}


@pytest.mark.parametrize("name", NOT_UNDERSTOOD)
def test_other_code_is_refused(write_suite: WriteSuite, name: str) -> None:
    """A prompt that is nearly theirs would be worse than none."""
    path, text, words = NOT_UNDERSTOOD[name]
    suite = load_suite(str(write_suite({**SUITE, f"../{path}": text})))
    with pytest.raises(TaskError, match=words):
        write(suite, "good/double it", with_paper=False)


def test_a_suite_without_authors_words_is_refused() -> None:
    """One line that says what is missing where."""
    mini = load_suite("mini")
    with pytest.raises(TaskError, match="suite mini has none: core/annotation"):
        read_published_prompt(mini.name, mini.root)


def test_a_pull_keeps_the_words_and_notices_a_change(
    tmp_path: Path, write_suite: WriteSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie beside the suite under their own paths, are hashed, and a commit without them is not the published one."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path / "cache"))
    up = tmp_path / "up"
    up.mkdir()
    write_suite(dict(SUITE)).rename(up / "pset")
    shutil.move(tmp_path / "core", up / "core")
    git(up, "init", "--quiet", "--initial-branch=main")
    origin = replace(tiny_origin(tmp_path, commit_all(up)), kept=(ASKS, MASKS))
    record = pull_suite(origin, PullRequest(), Heard())
    assert sorted(dict(record.kept)) == sorted((ASKS, MASKS))
    assert read_record(origin) == record
    beside = origin.home / Path(record.folder).parts[0]
    assert {path.name for path in beside.iterdir()} == {"core", "pset"}
    (beside / ASKS).write_text(ASKING.replace("FILL", "fill"))
    again = pull_suite(origin, PullRequest(), Heard())
    assert again.folder != record.folder
    (up / ASKS).unlink()
    with pytest.raises(TaskError, match=f"{ASKS} is missing: nothing was kept"):
        pull_suite(replace(origin, commit=commit_all(up)), PullRequest(), Heard())


def test_an_older_pull_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull of before kept the suite only; it goes on working for everything else."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    home = tmp_path / "suites" / "researchcodebench"
    (home / "abc" / "pset").mkdir(parents=True)
    old = Pulled("s", "c", "d", 1, 1, 1, tree_digest(home / "abc" / "pset"), "abc/pset").as_json()
    (home / RECORD).write_text(json.dumps({key: value for key, value in old.items() if key != "kept"}))
    root = pulled_root("researchcodebench")
    with pytest.raises(TaskError, match="pull again with `rcb-agent tasks pull researchcodebench --force`"):
        read_published_prompt("researchcodebench", root)
