"""Guards: a step cap that is off by one, calls without an answer, an end with the wrong name."""

from pathlib import Path

import pytest

from rcb_agent.agents.base import Budget, Reply, Solution, ToolCall, Usage
from rcb_agent.agents.react import MAX_CALLS, ReactAgent
from rcb_agent.errors import ModelError, UsageError
from tests.agents.samples import PROBLEM, Log, Talker, call, check_conversation, make_session, open_sample, says


def solve(
    root: Path, *replies: Reply, max_steps: int = 10, lives: int = 1_000_000, tools: tuple[str, ...] = ()
) -> tuple[Solution, Talker, Log]:
    model = Talker(replies)
    session, log = make_session(model, open_sample(root, lives=lives), budget=Budget(max_steps=max_steps), tools=tools)
    return ReactAgent().solve(PROBLEM, session), model, log


def write(text: str, id_: str = "c1") -> ToolCall:
    return call("write_file", id_, path="note.txt", content=text)


def test_the_last_allowed_reply_is_still_carried_out(tmp_path: Path) -> None:
    """With max_steps 2 the second reply's calls run, a snapshot is taken, and no third call is made."""
    solution, model, log = solve(tmp_path, says(write("one")), says(write("two"), write("three", "c2")), max_steps=2)
    assert (solution.stop, solution.steps, len(model.asked)) == ("max_steps", 2, 2)
    assert (tmp_path / "note.txt").read_text() == "three"
    assert [event["step"] for event in log.of("snapshot")] == [1, 2]
    assert list(log.of("snapshot")[-1]["snapshot"]["files"]) == ["note.txt"]
    assert [event["text"][:5] for event in log.of("tool")] == ["wrote"] * 3


def test_submit_in_the_last_allowed_reply_counts_as_submitted(tmp_path: Path) -> None:
    """The cap does not hide that the agent was done in time."""
    solution, _, _ = solve(tmp_path, says(call("submit")), max_steps=1)
    assert (solution.stop, solution.steps) == ("submitted", 1)


def test_a_long_loop_ends_at_its_cap_and_not_at_langgraphs(tmp_path: Path) -> None:
    """The recursion limit is a backstop that an ordinary run never meets."""
    solution, model, _ = solve(tmp_path, says(call("list_files")), max_steps=60)
    assert (solution.stop, solution.steps) == ("max_steps", 60)
    check_conversation(model.asked[-1])


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", "refusal"])
def test_a_reply_without_a_call_ends_the_trial(tmp_path: Path, finish: str) -> None:
    """Text, silence and refusals alike: counted as a step, named in the note."""
    solution, _, log = solve(tmp_path, says(text="done?" if finish == "stop" else "", finish=finish))
    assert (solution.stop, solution.steps, solution.note) == ("no_tool_call", 1, f"finish: {finish}")
    assert len(log.of("snapshot")) == 1


def test_time_that_is_up_ends_the_trial_before_the_next_model_call(tmp_path: Path) -> None:
    """The budget is looked at before each call, the first included."""
    model = Talker([says(call("list_files"))])
    session, _ = make_session(model, open_sample(tmp_path), budget=Budget(max_seconds=0.0))
    assert ReactAgent().solve(PROBLEM, session).stop == "max_seconds"
    assert not model.asked
    session, _ = make_session(model, open_sample(tmp_path), budget=Budget(max_steps=1000, max_seconds=0.5))
    solution = ReactAgent().solve(PROBLEM, session)
    assert solution.stop == "max_seconds"
    assert solution.steps == len(model.asked) > 0


def test_a_command_gets_no_more_time_than_the_budget_has(tmp_path: Path) -> None:
    """run_python's own limit of a minute gives way to what is left."""
    workspace = open_sample(tmp_path)
    session, log = make_session(
        Talker([says(call("run_python", code="import time; time.sleep(30)"))]),
        workspace,
        budget=Budget(max_seconds=1.2),
    )
    assert ReactAgent().solve(PROBLEM, session).stop == "max_seconds"
    assert "took too long" in log.of("tool")[0]["text"]


@pytest.mark.parametrize("lives", [0, 1, 2, 3])
def test_a_lost_sandbox_ends_the_trial_with_its_own_stop(tmp_path: Path, lives: int) -> None:
    """Whether a tool or the snapshot meets it first: no exception, no further step."""
    two = says(call("read_file", path="model.py"), call("list_files", "c2"))
    solution, model, log = solve(tmp_path, two, lives=lives)
    assert solution.stop == "sandbox_lost"
    assert "no longer answers" in solution.note
    assert solution.steps == len(model.asked)
    assert len(log.of("snapshot")) == (1 if lives == 3 else 0)


def test_usage_and_cost_add_up_and_unknown_stays_unknown(tmp_path: Path) -> None:
    """One reply without usage makes the sum unknown, never smaller."""
    solution, _, _ = solve(tmp_path / "a", says(call("list_files")), says(call("submit")))
    assert (solution.usage, solution.cost) == (Usage(20, 10), 0.5)
    unknown = Reply("", (call("submit"),), Usage(None, 5), None)
    solution, _, _ = solve(tmp_path / "b", says(call("list_files")), unknown)
    assert (solution.usage, solution.cost) == (Usage(None, 10), None)


def test_calls_behind_a_submit_are_answered_and_not_executed(tmp_path: Path) -> None:
    """What is handed in is what stood there when it was handed in."""
    solution, _, log = solve(tmp_path, says(write("before"), call("submit", "c2"), write("after", "c3")))
    assert solution.stop == "submitted"
    assert (tmp_path / "note.txt").read_text() == "before"
    assert [event["id"] for event in log.of("tool")] == ["c1", "c2", "c3"]
    assert log.of("tool")[-1]["text"].startswith("not executed")


def test_a_refused_submit_submits_nothing(tmp_path: Path) -> None:
    """Arguments that do not fit are an error like any other."""
    solution, _, log = solve(tmp_path, says(ToolCall("c1", "submit", '{"verdict": ')), max_steps=1)
    assert solution.stop == "max_steps"
    assert log.of("tool")[0]["error"]


def test_hundreds_of_calls_in_one_reply_are_bounded(tmp_path: Path) -> None:
    """Each id still gets its one answer."""
    many = says(*(write(str(number), f"c{number}") for number in range(300)))
    _, model, log = solve(tmp_path, many, says(call("submit", "end")))
    assert (tmp_path / "note.txt").read_text() == str(MAX_CALLS - 1)
    assert len(log.of("tool")) == 301
    check_conversation(model.asked[-1])


def test_a_reply_cut_at_the_output_limit_is_not_executed(tmp_path: Path) -> None:
    """Neither the cut call nor the whole ones beside it; the model is told."""
    cut = says(write("whole"), ToolCall("c2", "write_file", '{"path":"model.py","content":"def f'), finish="length")
    _, model, log = solve(tmp_path, cut, says(call("submit", "c3")))
    assert not (tmp_path / "note.txt").exists()
    assert ["cut off" in event["text"] for event in log.of("tool")[:2]] == [True, True]
    check_conversation(model.asked[-1])


def test_a_model_error_leaves_as_it_is(tmp_path: Path) -> None:
    """A provider's fault is no stop of the agent: the run records it as not measured."""

    class Broken(Talker):
        def complete(self, *arguments: object) -> Reply:
            raise ModelError("no answer")

    session, _ = make_session(Broken([]), open_sample(tmp_path))
    with pytest.raises(ModelError, match="no answer"):
        ReactAgent().solve(PROBLEM, session)


def test_no_workspace_is_a_usage_error() -> None:
    """An agent with tools cannot be run without a place to use them."""
    session, _ = make_session(Talker([]), None)
    with pytest.raises(UsageError):
        ReactAgent().solve(PROBLEM, session)
