"""Guards: a prompt that hides the rules, tells of a paper that is not there, or offers what is switched off."""

from dataclasses import replace

from rcb_agent.agents.base import Budget
from rcb_agent.agents.react import first_messages
from rcb_agent.tasks.base import Problem, SourceFile
from tests.agents.samples import PROBLEM, Talker, make_session


def prompt(problem: Problem = PROBLEM, paper: str = "file", tools: tuple[str, ...] = ()) -> str:
    session, _ = make_session(Talker([]), None, budget=Budget(7, 90.0), paper=paper, tools=tools)
    return "\n".join(str(message["content"]) for message in first_messages(problem, session))


def test_the_rules_are_told() -> None:
    """Task, file, blank, its size, markers, grading, budget, tools."""
    text = prompt()
    assert "\nTask: sample/mean of values\nFile: model.py\n" in text
    assert '"mean of values", about 1 line(s)' in text
    assert "against model.py and other.py as left by you" in text
    assert "7 steps and 1.5 minutes" in text
    assert '# </paper2code name="mean of values">' in text
    assert "$" not in text


def test_the_paper_is_where_the_arm_puts_it() -> None:
    """A path, the text, or no trace of it."""
    assert "Paper: paper2code_paper.md (38 characters)" in prompt()
    assert "additions" not in prompt()
    assert "The mean costs $n additions." in prompt(paper="prompt")
    assert "Paper: " not in prompt(paper="none")
    assert "paper2code_paper" not in prompt(paper="none")
    assert "Paper: " not in prompt(replace(PROBLEM, paper=None))


def test_what_is_switched_off_is_not_offered() -> None:
    """No tool that is not there, no tests that cannot be run."""
    public = replace(PROBLEM, public_tests=(SourceFile("test_public.py", ""),))
    assert "test_public.py" in prompt(public)
    text = prompt(public, tools=("read_file", "edit_file"))
    assert "test_public.py" not in text
    assert "submit" not in text
    assert "Tools: read_file, edit_file." in text
    assert "answer without calling a tool" in text
