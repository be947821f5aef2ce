"""Guards: an agent of somebody else's that ends the run, spoils its output, or is believed whatever it says."""

from pathlib import Path

import pytest

from tests.runs.command import Done, rcb_agent, records

pytestmark = pytest.mark.sandbox

AGENTS = """
from rcb_agent.agents.base import Solution

class Base:
    name, uses_workspace, default_paper = "odd", False, "none"
    def files(self, problem):
        return {file.path: file.encode() for file in problem.files}

class Leaves(Base):
    def solve(self, problem, session):
        raise SystemExit(0)

class Prints(Base):
    def solve(self, problem, session):
        print("hello from the agent")
        return Solution("answered", 1, files=self.files(problem))

class Invents(Base):
    def solve(self, problem, session):
        return Solution("done", 1, files=self.files(problem))

class Prepares(Base):
    prepared = 0
    def prepare(self):
        Prepares.prepared += 1
        raise SystemExit(0)
    def solve(self, problem, session):
        assert Prepares.prepared == 1
        return Solution("answered", 1, files=self.files(problem))

class Asks(Base):
    def solve(self, problem, session):
        raise AssertionError("no agent may be asked for a task whose gold code fails")

class Needs(Base):
    def __init__(self, something):
        pass
    def solve(self, problem, session):
        return None
"""


def run(folder: Path, agent: str, *words: str | Path) -> Done:
    (folder / "odd_agents.py").write_text(AGENTS)
    options = ["--agent", f"odd_agents:{agent}", "--tasks", "*block", "--json", "--out", str(folder / "run")]
    return rcb_agent("run", *options, *words, cwd=folder, env={"PYTHONPATH": str(folder)})


@pytest.mark.parametrize("agent", ["Leaves", "Invents"])
def test_agent_that_breaks_ends_its_own_trials_only(agent: str, tmp_path: Path) -> None:
    """SystemExit or an unknown stop is a harness fault of that trial; the other arm is measured."""
    done = run(tmp_path, agent, "--agent", "oracle")
    assert done.code == 1
    assert done.arm("oracle")["pass_rate"] == 100.0
    assert done.arm(f"odd_agents-{agent}@scripted-demo")["not_measured"] == 2
    assert {record["error"]["reason"] for record in records(tmp_path / "run", "trials.jsonl") if record["error"]} == {
        "harness"
    }


def test_agent_is_prepared_once_and_cannot_end_the_run_by_it(tmp_path: Path) -> None:
    """``prepare`` comes once, before all trials; that it breaks is no reason not to measure them."""
    done = run(tmp_path, "Prepares")
    assert done.code == 0, done.err
    assert done.document["arms"][0]["trials"] == 2


def test_words_of_an_agent_are_not_part_of_the_document(tmp_path: Path) -> None:
    """Standard output is one JSON document, whoever prints."""
    done = run(tmp_path, "Prints")
    assert done.code == 0
    assert done.document["arms"][0]["trials"] == 2
    assert "hello from the agent" in done.err


def test_agent_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    """One line before anything is written; the same for a module that is not found."""
    done = run(tmp_path, "Needs")
    assert (done.code, "cannot be made without arguments" in done.err) == (2, True)
    missing = rcb_agent("run", "--agent", "no_such_module:X", cwd=tmp_path)
    assert (missing.code, "PYTHONPATH" in missing.err) == (2, True)
    assert not (tmp_path / "run").exists()


def test_gold_is_checked_before_any_model_is_asked(attack_suite: Path, tmp_path: Path) -> None:
    """A task that cannot be graded costs no model call: its trials are not begun, and the reason is said."""
    import shutil

    suite = tmp_path / "suite"
    shutil.copytree(attack_suite, suite)
    reference = suite / "np" / "model_ref.py"
    reference.write_text(reference.read_text().replace("1.0 +", "2.0 +"))
    (tmp_path / "odd_agents.py").write_text(AGENTS)
    words = ["--suite", str(suite), "--tasks", "np/*", "--agent", "odd_agents:Asks", "--out", str(tmp_path / "run")]
    done = rcb_agent("run", *words, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert done.code == 1
    assert "its gold code does not pass here: tests_failed" in done.err
    assert "not measured: 1 x gold_fails" in done.out
    assert [record["error"]["reason"] for record in records(tmp_path / "run", "trials.jsonl")] == ["gold_fails"]
