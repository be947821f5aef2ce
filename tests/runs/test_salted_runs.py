"""Guards: a salt that is known before the grade, lost on resume, or missing from the record after it."""

from pathlib import Path

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.runs.plan import RunRequest, make_plan
from rcb_agent.runs.salting import VARIABLE, find_secret, keep_secret
from tests.runs.command import rcb_agent, records
from tests.scoring.support import SANDBOXED


@pytest.mark.sandbox
@SANDBOXED[1]
def test_a_salted_run_says_so_and_can_be_resumed(tmp_path: Path) -> None:
    """The record of the run has the secret's hash only, each grade the salt that its paper got."""
    words = ("run", "--agent", "oracle", "--tasks", "tidal/*", "--salt", "ocean water", "--out", "salty", "--json")
    done = rcb_agent(*words, cwd=tmp_path)
    assert done.arm("oracle")["passed"] == done.arm("oracle")["trials"] > 0
    run = tmp_path / "salty"
    assert all("ocean water" not in file.read_text() for file in run.glob("*.json*"))
    salts = {grade["details"]["salt"] for grade in records(run, "grades.jsonl")}
    assert len(salts) == 1
    assert "" not in salts
    again = rcb_agent("resume", str(run), "--json", cwd=tmp_path)
    assert (again.code, again.arm("oracle")["passed"]) == (0, done.arm("oracle")["passed"])


def test_the_secret_is_found_again_or_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies beside the caches, for its owner only; elsewhere the environment names it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    secret, name = keep_secret("auto")
    assert find_secret(name) == secret != keep_secret("auto")[0]
    kept = next(path for path in tmp_path.rglob(name))
    assert kept.stat().st_mode & 0o077 == 0
    kept.unlink()
    with pytest.raises(UsageError, match=VARIABLE):
        find_secret(name)
    monkeypatch.setenv(VARIABLE, secret)
    assert find_secret(name) == secret
    assert (keep_secret(""), find_secret("")) == (("", ""), "")


def test_the_published_rule_has_no_salt() -> None:
    """Their way of grading runs the tests as they are."""
    with pytest.raises(UsageError, match="--salt"):
        make_plan(RunRequest(grading="upstream", salt="auto"))
