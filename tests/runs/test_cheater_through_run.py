"""Guards: a cheat that passes, a cheater that is taken for a contender, a cheat that nobody sees.

Cheats that are tried as programs too (``tests/attacks``, ``tests/scoring``) are left to those tests; all of them, also the
slow ones, are tried by ``scripts/attack_table.py``.
"""

from pathlib import Path

import pytest

from rcb_agent.agents.cheater import load_cheats
from rcb_agent.errors import UsageError
from tests.runs.command import rcb_agent, rcb_agent_within, records

pytestmark = pytest.mark.sandbox

ELSEWHERE = (
    *("empty-array", "not-a-number", "zeros", "echo", "empty-tuple", "empty-dict", "exit-when-called"),
    *("own-server", "huge-frame", "close-descriptors", "exit-at-import", "system-exit", "exec-true", "mute"),
    *("forge-report", "garbage-frames", "patched-asserts", "patched-results", "patched-runner", "empty-suite"),
    *("skip-when-called", "replace-reference", "serve-reference", "mutate-arguments", "degenerate-random"),
    *("frozen-clock", "equal-float", "import-reference", "walk-frames", "shadow-unittest", "shadow-reference"),
    *("sitecustomize", "usercustomize", "stale-bytecode", "daemon", "rewrite-tests", "git-settings", "link"),
    *("fifo", "bad-names", "move-baseline"),
)
SLOW = ("hang", "memory", "search-disk", "many-children", "network", "busy-threads", "fill-disk", "flood")
TRIED = [cheat.name for cheat in load_cheats() if cheat.name not in (*ELSEWHERE, *SLOW)]
TASK = "parley/shortlist"


@pytest.mark.parametrize("half", [0, 1])
def test_no_cheat_passes_and_each_is_seen(half: int, tmp_path: Path) -> None:
    """Through the real command: 0 passed, all measured, every expected flag there, and the folder is whole."""
    names = TRIED[half::2]
    done = rcb_agent(
        *("run", "--agent", "cheater", "--cheats", ",".join(names), "--tasks", TASK, "--json"),
        *("--out", tmp_path / "run"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.err
    arm = done.arm("cheater")
    assert (arm["trials"], arm["passed"], arm["not_measured"]) == (len(names), 0, 0)
    assert arm["scopes"]["blank"]["passed"] == 0
    assert [line["cheat"] for line in arm["cheats"]] == names
    assert {(line["trials"], line["passed"]) for line in arm["cheats"]} == {(1, 0)}
    assert not [line for line in arm["cheats"] if line["missing"]]
    assert rcb_agent_within("verify", tmp_path / "run").out.endswith(" 0 findings\n")


def test_one_cheat_a_task_in_turn_and_called_a_cheater(tmp_path: Path) -> None:
    """Task i and attempt a take cheat i + a; the record, the table and the leaderboard say what it is."""
    done = rcb_agent(
        *(
            "run",
            "--arm",
            "cheater,cheats=link+fifo+zeros",
            "--attempts",
            "2",
            "--tasks",
            "silt/*scale*",
            "--tasks",
            TASK,
        ),
        *("--out", tmp_path / "run"),
        cwd=tmp_path,
    )
    assert done.code == 0, done.err
    taken = {(r["task"].split("/")[0], r["attempt"]): r["variant"] for r in records(tmp_path / "run", "trials.jsonl")}
    assert taken == {("silt", 1): "link", ("silt", 2): "fifo", ("parley", 1): "fifo", ("parley", 2): "zeros"}
    for shown in (done.out, rcb_agent_within("show", tmp_path / "run").out):
        assert "tries to cheat and must score 0" in " ".join(shown.split())
        assert "none needed: a wrong value of an ordinary kind" in " ".join(shown.split())
    story = rcb_agent_within("show", tmp_path / "run", "cheater.parley.shortlist-", "--json")
    assert story.code == 2  # two attempts fit
    trial = next(r["trial"] for r in records(tmp_path / "run", "trials.jsonl") if r["variant"] == "fifo")
    assert "cheat fifo (D58)" in rcb_agent_within("show", tmp_path / "run", trial).out


def test_a_cheater_is_never_ranked(tmp_path: Path) -> None:
    """The leaderboard leaves it out and says so; the arms beside it are there."""
    from rcb_agent.runs.base import Arm
    from tests.runs.published_runs import make_run

    arms = (Arm("cheater", "cheater", "none", options={"cheats": ["zeros"]}), Arm("a", "react", "x/y"))
    path = make_run(tmp_path / "run", {"advantage-alignment/aa_terms1": "passed"}, arms=arms)
    document = rcb_agent_within("leaderboard", "--run", path, "--json").document
    assert [entry["arm"] for entry in document["arms"]] == ["a"]
    assert [entry for entry in document["left_out"] if "cheater is never ranked" in entry["reason"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "cheater", "--cheats", "nonsense"), "no cheat 'nonsense'; known: "),
        (("--agent", "react", "--cheats", "link"), "--cheats are for the agent cheater only"),
        (("--agent", "cheater", "--cheats", "all", "--attempts", "2"), "leave --attempts out"),
    ],
)
def test_what_does_not_fit_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Before anything runs or is written."""
    done = rcb_agent("run", *words, "--out", tmp_path / "run", cwd=tmp_path)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "run").exists()


# The three guards against a bare machine are tried by what harms nothing where one of them is missing: a plan that is not
# carried out, and a cheat that only writes a wrong answer into its own folder.


def test_no_plan_for_the_bare_machine_is_made() -> None:
    """By the sandbox's name or by its path; other arms may be in it."""
    from rcb_agent.runs.config import ArmOptions
    from rcb_agent.runs.plan import RunRequest, make_plan

    for sandbox in ("host", "rcb_agent.environments.host:open_host"):
        request = RunRequest(patterns=(TASK,), arms=ArmOptions(agents=("null", "cheater")), sandbox=sandbox)
        with pytest.raises(UsageError, match="its programs are hostile"):
            make_plan(request)


def test_the_agent_itself_refuses_the_bare_machine() -> None:
    """Whoever started it, and however: nothing is written, nothing is run."""
    from rcb_agent.agents.base import Budget, Session
    from rcb_agent.agents.cheater import CheaterAgent
    from rcb_agent.agents.registry import open_model
    from rcb_agent.environments.base import Limits
    from rcb_agent.environments.runtimes import load_runtime
    from rcb_agent.environments.workspace import WorkspaceSpec, open_workspace
    from rcb_agent.tasks.suites import find_task, load_suite

    def journal(kind: str, /, **fields: object) -> None:
        """Nobody reads it."""

    problem = find_task(load_suite("mini"), TASK).problem
    spec = WorkspaceSpec("host", load_runtime("mini"), Limits(), "none", lambda _sha, _data: None)
    with open_workspace(problem, spec) as workspace:
        options = {"cheats": ["empty-tuple"]}
        session = Session(workspace, open_model("none"), Budget(), journal, options=options)
        with pytest.raises(UsageError, match="only in an isolated sandbox"):
            CheaterAgent().solve(problem, session)
        assert workspace.submission().diff == ""


def test_submissions_of_a_cheater_are_not_regraded_on_the_bare_machine(tmp_path: Path) -> None:
    """What was safe to run in a sandbox is not safe outside one."""
    words = ("--agent", "cheater", "--cheats", "empty-tuple", "--tasks", TASK)
    assert rcb_agent("run", *words, "--out", tmp_path / "run", cwd=tmp_path).code == 0
    done = rcb_agent("regrade", tmp_path / "run", "--sandbox", "host", "--dry-run", cwd=tmp_path)
    assert done.code == 2
    assert "submissions of a cheater, and nothing would isolate them" in done.err


def test_no_model_is_asked(tmp_path: Path) -> None:
    """Crossing a cheater with models would only repeat it; nothing is called, nothing costs."""
    words = ("--agent", "cheater", "--model", "openai/x", "--model", "openai/y", "--tasks", TASK)
    done = rcb_agent("run", *words, "--json", "--out", tmp_path / "run", cwd=tmp_path)
    assert done.code == 0, done.err
    assert [(arm["arm"], arm["model"], arm["cost"]) for arm in done.document["arms"]] == [("cheater", "none", 0.0)]
    assert not list((tmp_path / "run" / "calls").iterdir())
