"""Guards: a view of a task that shows the answer, drops other code, or cannot be filled again byte by byte."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rcb_agent.tasks.base import Problem, SourceFile
from rcb_agent.tasks.markers import find_blanks, is_marker, split_lines, strip_markers
from rcb_agent.tasks.masking import agent_view, blank_lines, fill_blank, gold_view, null_code, prompt_view

FILE = """\
def f(x):
    before = 1
    # <paper2code name="outer">
    y = secret_one(x)
    # <paper2code name="inner">
    z = secret_two(y)
    # </paper2code name="inner">
    # </paper2code name="outer">
    # <paper2code name="sibling">
    w = sibling_code(x)
    # </paper2code name="sibling">
    return before
"""


def problem_of(text: str, name: str) -> tuple[Problem, str, str]:
    blank = next(blank for blank in find_blanks(text) if blank.name == name)
    complete, gold = gold_view(text, blank)
    view = agent_view(text, blank)
    problem = Problem(
        task_id=f"p/{name}",
        paper_id="p",
        name=name,
        path="m.py",
        loc=blank.loc,
        files=(SourceFile("m.py", view),),
        files_support=(),
        prompt_target=prompt_view(text, blank),
        paper=None,
        runtime="mini",
    )
    return problem, complete, gold


def test_agent_view_keeps_two_markers_a_todo_and_all_other_code() -> None:
    """The blank is empty but for a TODO with name and size; siblings stay filled, their markers go."""
    problem, _, _ = problem_of(FILE, "outer")
    view = problem.target.text
    assert [line.strip() for line in split_lines(view) if is_marker(line)] == [
        '# <paper2code name="outer">',
        '# </paper2code name="outer">',
    ]
    assert "secret" not in view
    assert "w = sibling_code(x)" in view
    assert 'TODO: implement "outer" here (about 2 lines of code)' in view


def test_child_blank_is_seen_with_its_parents_remaining_code() -> None:
    """A nested blank hides its own lines only."""
    problem, _, _ = problem_of(FILE, "inner")
    assert "secret_one" in problem.target.text
    assert "secret_two" not in problem.target.text
    assert "(about 1 line of code)" in problem.target.text


def test_prompt_view_has_no_marker_and_no_answer() -> None:
    """The direct prompt shows two comment lines in place of the blank."""
    problem, _, _ = problem_of(FILE, "outer")
    assert "paper2code" not in problem.prompt_target
    assert "secret" not in problem.prompt_target
    assert problem.prompt_target.count('"outer"') == 1


def test_null_is_nothing_or_pass_where_the_file_would_not_parse() -> None:
    """A function whose whole body is the blank needs a statement."""
    body = 'def f(x):\n    # <paper2code name="all">\n    return x\n    # </paper2code name="all">\n'
    assert null_code(problem_of(FILE, "outer")[0]) == ""
    assert null_code(problem_of(body, "all")[0]) == "    pass\n"


def test_lost_doubled_or_swapped_markers_cannot_be_cut_out() -> None:
    """Scope ``blank`` must not guess."""
    problem, complete, gold = problem_of(FILE, "outer")
    start, end = '    # <paper2code name="outer">\n', '    # </paper2code name="outer">\n'
    assert blank_lines(problem, complete) == gold
    assert blank_lines(problem, complete.replace(start, "")) is None
    assert blank_lines(problem, complete.replace(end, end * 2)) is None
    assert blank_lines(problem, complete.replace(start, "X").replace(end, start).replace("X", end)) is None


line = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12).filter(
    lambda text: "paper2code" not in text
)


@given(
    before=st.lists(line, max_size=4),
    inside=st.lists(line, max_size=4),
    after=st.lists(line, max_size=4),
    crlf=st.booleans(),
    final=st.booleans(),
)
def test_filling_with_the_gold_gives_the_original_back(**parts: Any) -> None:
    """Whatever characters a file holds, masking and filling changes no byte outside or inside the blank."""
    ending = "\r\n" if parts["crlf"] else "\n"
    inside = [*parts["inside"], "x = 1"]
    lines = [*parts["before"], '# <paper2code name="b">', *inside, '# </paper2code name="b">', *parts["after"]]
    if parts["crlf"]:
        lines = [text.replace("\r", "") for text in lines]
    text = ending.join(lines) + (ending if parts["final"] else "")
    problem, complete, gold = problem_of(text, "b")
    assert complete == text
    assert fill_blank(problem, gold) == complete
    assert blank_lines(problem, complete) == gold
    assert strip_markers(complete) == "".join(part for part in split_lines(text) if not is_marker(part))
