"""Guards: an arm that gets more than the arm it is matched to, a choice of drafts that code from a model can break."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.loopback import calls, serve, text
from tests.runs.command import Done, rcb_agent, rcb_agent_within, records

pytestmark = pytest.mark.sandbox

TASK = "plain/smooth"
GOOD = (Path(__file__).parent.parent / "attacks" / "task" / "plain" / "solution.py").read_text()
TESTS = "import unittest\nfrom model import smooth\nclass T(unittest.TestCase):\n    def test_it(self):\n        smooth([1.0], 0.5)\n"


def gold() -> str:
    lines = GOOD.splitlines()
    start, end = (index for index, line in enumerate(lines) if 'paper2code name="smooth"' in line)
    return "\n".join(lines[start + 1 : end])


def fence(code: str) -> str:
    return f"```python\n{code}\n```"


def run(suite: Path, folder: Path, replies: Sequence[str], arm: str, *words: str) -> Done:
    (folder / "replies.json").write_text(json.dumps([{"text": one} for one in replies]))
    spec = f"{arm},name=arm".replace(",", f"@scripted/file:{folder}/replies.json,", 1)
    given = ["--suite", str(suite), "--tasks", TASK, "--arm", spec, "--out", "run", "--json", "--allow-unmeasured", "9"]
    return rcb_agent("run", *given, *words, cwd=folder)


def only_trial(folder: Path) -> dict[str, Any]:
    (trial,) = records(folder / "run", "trials.jsonl")
    return trial


@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        ("parses not", "    def ("),
        ("kills", "    pass\nimport os\nos.kill(-1, 9)"),
        ("leaves", "    pass\nimport sys\nsys.exit('really')"),
        ("floods", "    pass\nprint('x' * 10**7)\nraise KeyError('\\udcff')"),
        ("takes the file away", "    pass\nimport os\nos.remove('model.py'); os.mkdir('model.py')"),
    ],
)
def test_what_a_draft_does_when_it_is_imported_costs_the_draft(
    kind: str, bad: str, attack_suite: Path, tmp_path: Path
) -> None:
    """In a real sandbox: the good draft is handed in, whatever the others did there."""
    done = run(attack_suite, tmp_path, [fence(gold()), fence(bad), fence(bad)], "best-of-n,n=3,feedback=import")
    assert done.code == 0, done.err
    trial = only_trial(tmp_path)
    assert trial["error"] is None
    assert trial["stop"] == ("sandbox_lost" if "away" in kind else "answered"), trial["note"]
    assert done.arm("arm")["passed"] == 1
    assert {grade["verdict"] for grade in records(tmp_path / "run", "grades.jsonl")} == {"passed"}


def test_a_draft_that_hangs_on_import_is_cut_off_with_the_trial(attack_suite: Path, tmp_path: Path) -> None:
    """The look is bounded by the trial's seconds; what came before is graded."""
    hang = fence("    pass\nwhile True: pass")
    done = run(attack_suite, tmp_path, [fence(gold()), *[hang] * 9], "best-of-n,n=9,feedback=import,max-seconds=5")
    assert done.code == 0, done.err
    trial = only_trial(tmp_path)
    assert (trial["stop"], trial["steps"]) == ("max_seconds", 2)
    assert trial["seconds"] < 20
    assert done.arm("arm")["passed"] == 1


def test_own_tests_turn_a_repair_and_a_choice(attack_suite: Path, tmp_path: Path) -> None:
    """A draft that imports and fails the arm's own test is repaired; with feedback import it is handed in as it is."""
    wrong = fence("    raise ValueError('no')")
    for name, arm, replies, passed in (
        ("own", "self-repair,feedback=own", [wrong, fence(TESTS), fence(gold())], 1),
        ("import", "self-repair,feedback=import", [wrong], 0),
        ("choice", "best-of-n,feedback=own,n=2", [wrong, fence(TESTS), fence(gold())], 1),
    ):
        folder = tmp_path / name
        folder.mkdir()
        done = run(attack_suite, folder, replies, arm)
        assert done.arm("arm")["passed"] == passed, (name, done.err)
        assert only_trial(folder)["steps"] == len(replies)
        assert len(records(folder / "run", f"calls/{only_trial(folder)['trial']}.jsonl")) == len(replies)


def loopback(folder: Path, url: str, *words: str) -> Done:
    return rcb_agent(*words, cwd=folder, env={"OPENAI_API_BASE": url, "OPENAI_API_KEY": "x"})


def test_each_task_gets_what_the_agent_spent_there(attack_suite: Path, tmp_path: Path) -> None:
    """18 tokens a call: react's two calls allow two drafts; resume needs the other run no more; the record says whose."""
    common = ["--suite", str(attack_suite), "--tasks", "plain/*", "--model", "openai/x", "--json"]
    with serve([calls(("list_files", "{}")), calls(("submit", "{}"))] * 2) as server:
        first = loopback(
            tmp_path, server.url, "run", *common, "--agent", "react", "--workers", "1", "--out", "results/a"
        )
    assert first.code == 0, first.err
    words = ["run", *common, "--agent", "best-of-n", "--agent", "direct", "--match-budget", "a:react@openai-x"]
    words += ["--feedback", "import", "--temperature", "0.7", "--out", "results/b"]
    with serve([text(fence("    return 1"))]) as server:
        done = loopback(tmp_path, server.url, *words)
        assert done.code == 0, done.err
        assert len(server.requests) == 2 * 2 + 2
        (tmp_path / "results" / "a").rename(tmp_path / "elsewhere")
        (tmp_path / "results" / "b" / "trials.jsonl").unlink()
        (tmp_path / "results" / "b" / "grades.jsonl").unlink()
        again = loopback(tmp_path, server.url, "resume", "b", "--json")
    assert again.code == 0, again.err
    config = json.loads((tmp_path / "results" / "b" / "run.json").read_text())["config"]
    match = config["arms"][0]["match"]
    assert (match["run"], match["arm"], match["by"]) == ("a", "react@openai-x", "tokens")
    assert set(match["tasks"].values()) == {36}
    assert "match" not in config["arms"][1]
    trials = [one for one in records(tmp_path / "results" / "b", "trials.jsonl") if one["arm"].startswith("best")]
    assert {(one["stop"], one["steps"]) for one in trials} == {("max_tokens", 2)}
    assert again.arm("best-of-n@openai-x")["setup"]["match"] == {"run": "a", "arm": "react@openai-x", "by": "tokens"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "best-of-n", "--match-budget", "done:a"), "its tokens are unknown, .* --match-by steps"),
        (("--agent", "best-of-n", "--match-budget", "done:b"), "has no arm 'b'; it has a"),
        (("--agent", "best-of-n", "--match-budget", "nothing:a"), "no run 'nothing'"),
        (("--agent", "best-of-n", "--match-by", "steps"), "give --match-budget RUN:ARM too"),
        (("--agent", "best-of-n", "--tasks", "tidal/*", "--match-budget", "done:a"), "6 of this run's 7 tasks have no"),
        (("--agent", "react", "--match-budget", "done:a"), "for best-of-n and self-repair"),
        (("--agent", "react", "--n", "3"), "for best-of-n and self-repair"),
        (("--arm", "direct,feedback=own"), "direct takes none"),
        (("--arm", "best-of-n,feedback=hidden"), "choose none, import, own"),
        (("--arm", "best-of-n,paper=file"), "--paper prompt"),
        (("--arm", "best-of-n,n=0"), "at least 1"),
        (("--arm", "direct,prompt=upstream,context=target"), "--context target"),
    ],
)
def test_what_cannot_be_matched_or_given_is_refused_at_once(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """One line, exit code 2; ``estimate`` reads arms as ``run`` does."""
    import re

    from rcb_agent.runs.base import Arm
    from rcb_agent.runs.store import open_store
    from tests.runs.conftest import FACTS, config, trial_record

    task = "tidal/height of the wall"
    arms = (Arm("a", "react", "scripted/demo"),)
    with open_store(tmp_path / "done", config(tasks=(task,), arms=arms), FACTS, tmp_path) as store:
        store.add_trial(trial_record(task))
    tasks = () if "--tasks" in words else ("--tasks", task)
    done = rcb_agent_within("estimate", *words, *tasks, "--results", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert re.search(said, done.err), done.err


def test_a_matched_budget_of_no_dollars_is_refused(tmp_path: Path) -> None:
    """A free model costs nothing: as a cap that would end every trial before its first call."""
    from rcb_agent.runs.base import Arm
    from rcb_agent.runs.store import open_store
    from tests.runs.conftest import FACTS, config, trial_record

    task = "tidal/height of the wall"
    usual = config(tasks=(task,), arms=(Arm("a", "react", "scripted/demo"),))
    with open_store(tmp_path / "free", usual, FACTS, tmp_path) as store:
        store.add_trial(trial_record(task, cost=0.0))
    words = ("--agent", "best-of-n", "--match-budget", "free:a", "--match-by", "dollars", "--tasks", task)
    done = rcb_agent_within("estimate", *words, "--results", tmp_path)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert "use --match-by tokens or steps" in done.err


def test_context_target_keeps_only_what_the_code_needs(tmp_path: Path) -> None:
    """The prompt loses its context files; a file that the annotated ones import stays in the workspace."""
    from rcb_agent.runs.base import Arm
    from rcb_agent.runs.showing import shown_problem
    from tests.agents.samples import PROBLEM

    shown = shown_problem(PROBLEM, Arm("a", "react", "scripted/demo", context="target"))
    assert (shown.context_paths, shown.files_support) == ((), ())
    full = rcb_agent_within("prompt", "ripple/waves with a growing restart", "--agent", "best-of-n", "--json").document
    less = rcb_agent_within(
        "prompt", "ripple/waves with a growing restart", "--agent", "best-of-n", "--context", "target", "--json"
    ).document
    assert '<file path="graph.py">' in full["messages"][0]["content"]
    assert '<file path="graph.py">' not in less["messages"][0]["content"]
    assert (full["arm"]["context"], less["arm"]["context"]) == ("full", "target")
