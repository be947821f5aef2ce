"""Guards: markers that are put where they cut code or each other."""

import pytest

from rcb_agent.tasks.markers import MarkerError, find_blanks, strip_markers
from rcb_agent.tasks.marking import Span, insert_markers

CODE = "def f(x):\n    y = x\n    if y:\n        y += 1\n    return y"


def test_nested_blanks_get_pairs_that_nest_and_nothing_else_changes() -> None:
    """Two that begin on one line, one that ends the file without a newline: found again as they were asked for."""
    spans = [Span("inner", 3, 4), Span("first", 3, 3), Span("outer", 2, 5)]
    marked = insert_markers(CODE, spans)
    assert strip_markers(marked) == f"{CODE}\n"
    assert {(one.name, one.parent, one.loc) for one in find_blanks(marked)} == {
        ("outer", None, 4),
        ("inner", "outer", 2),
        ("first", "inner", 1),
    }


@pytest.mark.parametrize(
    ("spans", "line", "message"),
    [
        ([Span("a", 1, 3), Span("b", 2, 4)], 2, "begins in"),
        ([Span("a", 0, 3)], 0, "of a file of 5"),
        ([Span("a", 4, 6)], 4, "of a file of 5"),
        ([Span("a", 3, 2)], 3, "of a file of 5"),
        ([Span('a"b', 1, 2)], 1, "quotation mark"),
        ([Span(" ", 1, 2)], 1, "cannot be a name"),
    ],
)
def test_what_cannot_be_marked_is_refused(spans: list[Span], line: int, message: str) -> None:
    """By the line of the file as it was given."""
    with pytest.raises(MarkerError, match=message) as caught:
        insert_markers(CODE, spans)
    assert caught.value.line == line


def test_a_blank_of_comments_is_refused() -> None:
    """It would be a task without lines."""
    with pytest.raises(MarkerError, match="no line of code"):
        insert_markers("# one\n\nx = 1\n", [Span("a", 1, 2)])
    with pytest.raises(MarkerError, match='two blanks are named "a"'):
        insert_markers("x = 1\ny = 2\n", [Span("a", 1, 1), Span("a", 2, 2)])
