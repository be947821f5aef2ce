"""Guards: a marker mistake that is swallowed, or named on the wrong line."""

import pytest

from rcb_agent.tasks.markers import MarkerError, find_blanks

START, END = '# <paper2code name="{}">', '# </paper2code name="{}">'


def text_of(*lines: str) -> str:
    return "\n".join(lines) + "\n"


MISTAKES = {
    "never closed": (text_of(START.format("a"), "x = 1"), 1, "never closed"),
    "never opened": (text_of("x = 1", END.format("a")), 2, "never opened"),
    "crossing": (
        text_of(START.format("a"), START.format("b"), "x = 1", END.format("a"), END.format("b")),
        4,
        'while "b" (line 2) is open',
    ),
    "same name": (text_of(*[START.format("a"), "x = 1", END.format("a")] * 2), 4, "rename one"),
    "other indent": (text_of(START.format("a"), "x = 1", "  " + END.format("a")), 3, "indented differently"),
    "no code": (text_of(START.format("a"), "# only a comment", "", END.format("a")), 1, "no line of code"),
    "no quotes": (text_of("# <paper2code name=a>", "x = 1", "# </paper2code name=a>"), 1, "malformed"),
    "behind code": (text_of("# see <paper2code name='a'> below", "x = 1"), 1, "malformed"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_mistake_is_named_with_its_line(kind: str) -> None:
    """Each kind of mistake raises with the line a person has to look at."""
    text, line, words = MISTAKES[kind]
    with pytest.raises(MarkerError) as caught:
        find_blanks(text)
    assert caught.value.line == line
    assert words in str(caught.value)


def test_size_counts_code_and_docstrings_but_no_comments_markers_or_blank_lines() -> None:
    """The published LoC rule; nested code counts in each parent."""
    text = text_of(
        START.format("outer"),
        '"""A docstring."""',
        "# a comment",
        "",
        START.format("inner"),
        "x = 1  # code with a comment",
        END.format("inner"),
        END.format("outer"),
    )
    outer, inner = find_blanks(text)
    assert (outer.name, outer.loc, outer.depth, outer.parent) == ("outer", 2, 0, None)
    assert (inner.name, inner.loc, inner.depth, inner.parent) == ("inner", 1, 1, "outer")


def test_markers_with_trailing_spaces_and_crlf_are_found() -> None:
    """Upstream has a start marker with trailing spaces; Windows editors leave carriage returns."""
    text = START.format("a") + "   \r\nx = 1\r\n" + END.format("a") + "\r\n"
    assert [blank.loc for blank in find_blanks(text)] == [1]


def test_unusual_line_separators_do_not_shift_lines() -> None:
    """A form feed or U+2028 is a character, not a line end: str.splitlines would split there."""
    text = text_of("a = '\u2028\x0c\x85'", START.format("a"), "x = 1", END.format("a"))
    assert [blank.start for blank in find_blanks(text)] == [1]
