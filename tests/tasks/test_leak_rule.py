"""Guards: a copy of the answer that is not recognised because of its spacing or comments, and a chance line that is."""

import pytest

from rcb_agent.tasks.leaks import compare, first_line_of, telling_lines, without_comment

GOLD = """\
    # scale by the norm
    norm = sum(v * v for v in values) ** 0.5
    scaled = [v / norm for v in values]  # unit length
    if x:
        pass
    return scaled
"""


def test_spacing_and_comments_do_not_hide_a_copy() -> None:
    """Reindented, respaced, with other comments: still whole; line numbers are the file's."""
    copy = "def f(values):\n  norm=sum(v*v for v in values)**0.5 # other\n  scaled = [ v/norm for v in values ]\n  return scaled\n"
    found = compare(telling_lines(GOLD), copy)
    assert (found.held, found.of, found.is_copy, found.is_whole) == (3, 3, True, True)
    assert first_line_of(telling_lines(GOLD), copy) == 2


@pytest.mark.parametrize(
    ("held", "is_copy"), [("return scaled\n", False), ("return scaled\nscaled = [v / norm for v in values]\n", True)]
)
def test_half_of_the_lines_make_a_copy(held: str, *, is_copy: bool) -> None:
    """One of three is chance, two of three are not."""
    assert compare(telling_lines(GOLD), held).is_copy is is_copy


def test_trivial_lines_do_not_count() -> None:
    """What every file holds gives nothing away, and a blank of nothing else has no copy."""
    assert not telling_lines("pass\nelse:\n)\nx = 1\nreturn\n# a comment that is long enough\n")
    assert not compare(telling_lines("pass\n"), "pass\n").is_copy


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("x = '#1'  # one", "x = '#1'  "),
        ('x = "it\'s #1" # one', 'x = "it\'s #1" '),
        ("x = 'a\\'#b'# c", "x = 'a\\'#b'"),
        ("plain", "plain"),
    ],
)
def test_a_hash_in_a_string_begins_no_comment(line: str, code: str) -> None:
    """Else two different lines would be equal up to there."""
    assert without_comment(line) == code
