"""Guards: a choice among drafts that hidden tests had a part in, a draft that is lost with its sandbox, a budget overrun."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.agents.base import Budget, Findings, Reply, Solution, Usage
from rcb_agent.agents.best_of_n import BestOfNAgent
from rcb_agent.agents.drafts import OWN_TESTS, Draft, choose_best
from rcb_agent.agents.metering import MeteredModel, Watch
from rcb_agent.agents.self_repair import SelfRepairAgent
from rcb_agent.errors import SandboxLost
from tests.agents.samples import PROBLEM, Log, Talker, make_session, open_sample

TESTS = "```python\nimport unittest\n```"


def fence(code: str) -> str:
    return f"Here:\n```python\n{code}\n```\n"


@dataclass
class Judge:
    """Feedback that looks at the file as it lies there."""

    kind: str
    path: Path
    see: Callable[[str], Findings]

    def __call__(self) -> Findings:
        return self.see(self.path.read_text())


def ranks(text: str) -> Findings:
    """``return 3`` passes its tests, ``return 2`` imports, everything else parses."""
    return Findings(True, "return 3" in text or "return 2" in text, "return 3" in text, "seen")


def play(
    agent: BestOfNAgent | SelfRepairAgent,
    root: Path,
    replies: Sequence[str | Reply],
    *,
    kind: str = "import",
    budget: Budget | None = None,
    see: Callable[[str], Findings] = ranks,
    **options: object,
) -> tuple[Solution, Log, Talker]:
    budget = budget or Budget()
    talker = Talker([one if isinstance(one, Reply) else Reply(one, usage=Usage(10, 5), cost=0.25) for one in replies])
    model = MeteredModel(talker, budget, Watch(lambda: None, lambda _: None))
    session, log = make_session(model, open_sample(root), budget=budget, paper="none", options=options)
    solution = agent.solve(PROBLEM, replace(session, feedback=Judge(kind, root / "model.py", see)))
    return solution, log, talker


def body(solution: Solution) -> str:
    assert solution.files is not None
    return solution.files["model.py"].decode()


def test_the_draft_that_gets_furthest_is_handed_in(tmp_path: Path) -> None:
    """Every draft is a step with a snapshot; the snapshot shows what would be handed in if it ended there."""
    solution, log, talker = play(BestOfNAgent(), tmp_path, [fence(f"    return {n}") for n in (1, 3, 2)], n=3)
    assert "return 3" in body(solution)
    assert (solution.stop, solution.steps, solution.usage.total, solution.cost) == ("answered", 3, 45, 0.75)
    assert [event["step"] for event in log.of("snapshot")] == [1, 2, 3]
    first, second, third = (event["snapshot"]["files"]["model.py"] for event in log.of("snapshot"))
    assert first != second == third
    assert len({str(asked) for asked in talker.asked}) == 1


@pytest.mark.parametrize(
    ("codes", "chosen"),
    [
        (["x = 1", "y = 1", "# other\ny = 1  ", "x = 1\n\n", "y = 1"], "y = 1"),
        (["x = 1", "y = 1"], "x = 1"),
        ([None, "y = 1"], "y = 1"),
        ([None, None], None),
        ([], None),
    ],
)
def test_equals_are_decided_by_majority_then_by_order(codes: list[str | None], chosen: str | None) -> None:
    """What code says counts, not its comments and blank lines; an answer without code is never chosen."""
    best = choose_best([Draft(code, Findings(parses=True)) for code in codes])
    assert (best and best.code) == chosen


@pytest.mark.parametrize(
    "odd", ["", "no fence at all", "```python\n```", "```text\nx\n```", fence("\ud800 = 1"), "```python\nreturn 9"]
)
def test_odd_replies_cost_a_step_and_nothing_else(tmp_path: Path, odd: str) -> None:
    """An empty answer is asked for twice, then ends the trial; what was drafted before is handed in."""
    solution, _, _ = play(BestOfNAgent(), tmp_path, [fence("    return 3"), odd], n=3)
    assert "return 3" in body(solution)
    assert (solution.stop, solution.steps) == (("empty_reply", 1) if not odd else ("answered", 3))
    only, log, _ = play(SelfRepairAgent(), tmp_path / "b", [odd or "nothing"], n=2)
    assert only.stop in ("no_answer", "answered")
    assert log.of("snapshot")


def test_own_tests_are_written_once_after_the_first_draft(tmp_path: Path) -> None:
    """They cost a step; the first draft is looked at again with them; later drafts cannot change them."""
    seen: list[bytes] = []

    def see(text: str) -> Findings:
        own = tmp_path / OWN_TESTS
        seen.append(own.read_bytes() if own.exists() else b"-")
        own.write_bytes(b"spoilt")
        return ranks(text)

    drafts = [fence("    return 2"), TESTS, fence("    return 3"), fence("    return 2")]
    solution, log, talker = play(BestOfNAgent(), tmp_path, drafts, kind="own", see=see, n=3)
    assert seen == [b"-", *[b"import unittest\n"] * 3]
    assert (solution.steps, "return 3" in body(solution)) == (4, True)
    assert "Wanted: a test file" in str(talker.asked[1])
    assert [event["step"] for event in log.of("snapshot")] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("caps", "stop", "steps"),
    [
        ({"max_steps": 2}, "max_steps", 2),
        ({"max_tokens": 31}, "max_tokens", 3),
        ({"max_cost": 0.5}, "max_cost", 2),
        ({"max_tokens": 1}, "max_tokens", 1),
        ({"max_seconds": 0}, "max_seconds", 0),
        ({"max_cost": 0}, "max_cost", 0),
    ],
)
def test_a_budget_ends_it_and_the_best_so_far_is_handed_in(
    tmp_path: Path, caps: dict[str, Any], stop: str, steps: int
) -> None:
    """Looked at before each call, so one call at most goes beyond; with no draft the blank stays empty."""
    drafts = [
        fence(f"    return {n}") for n in (3, 2, 1, 0)
    ]  # a Budget's clock runs from its making: not at collection
    solution, _, talker = play(BestOfNAgent(), tmp_path, drafts, budget=Budget(**caps), n=None)
    assert (solution.stop, solution.steps, len(talker.asked)) == (stop, steps, steps)
    assert ("return 3" in body(solution)) == bool(steps)


def test_a_draft_that_takes_the_sandbox_with_it_does_not_win(tmp_path: Path) -> None:
    """The trial ends there; the drafts before are what there is."""

    def see(text: str) -> Findings:
        if "return 9" in text:
            raise SandboxLost("gone")
        return ranks(text)

    drafts = [fence("    return 1"), fence("    return 9"), fence("    return 3")]
    for agent in (BestOfNAgent(), SelfRepairAgent()):
        solution, _, talker = play(agent, tmp_path / agent.name, drafts, see=see, n=3)
        assert (solution.stop, solution.steps, len(talker.asked)) == ("sandbox_lost", 2, 2)
        assert "return 1" in body(solution)


def test_a_repair_is_told_what_was_found_and_stops_when_it_is_good(tmp_path: Path) -> None:
    """The conversation grows by the draft and the report; the third reply is never asked for."""
    drafts = [fence("    return 1"), fence("    return 3"), fence("    return 2")]
    solution, log, talker = play(SelfRepairAgent(), tmp_path, drafts)
    assert (solution.stop, solution.steps) == ("answered", 2)
    assert "return 3" in body(solution)
    assert [one["role"] for one in talker.asked[1]] == ["user", "assistant", "user"]
    assert talker.asked[1][2]["content"].startswith("seen\n")
    assert log.of("tool")[0]["text"] == "seen"


def test_a_repair_that_makes_it_worse_is_not_handed_in(tmp_path: Path) -> None:
    """Among equals the latest; a draft that repeats the one before ends it."""
    drafts = [fence("    return 2 + 0"), fence("    return 2"), fence("    return 1"), fence("    return 1 # x")]

    def red(text: str) -> Findings:
        return replace(ranks(text), tests=False)

    solution, _, _ = play(SelfRepairAgent(), tmp_path, drafts, see=red, budget=Budget(max_steps=3))
    assert (solution.stop, "return 2\n" in body(solution)) == ("max_steps", True)
    same = [fence("    return 1"), fence("    return 1\n    # again")]
    solution, _, _ = play(SelfRepairAgent(), tmp_path / "b", same, kind="none")
    assert (solution.stop, solution.steps) == ("answered", 2)
