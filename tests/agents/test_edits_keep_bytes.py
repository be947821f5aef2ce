"""Guards: a one-line edit that rewrites the file, an edit in the wrong place, a marker that vanishes unseen."""

from pathlib import Path

import pytest

from rcb_agent.agents.tools import TOOL_NAMES, Toolbox, ToolResult
from tests.agents.local_sandbox import open_folder
from tests.agents.samples import CLOSING, MODEL, OPENING, TODO, call, open_sample


def edit(root: Path, data: bytes, old: str, new: str) -> tuple[bytes, ToolResult]:
    toolbox = Toolbox(TOOL_NAMES, open_folder(root, {"f.py": data}))
    result = toolbox.call(call("edit_file", path="f.py", old=old, new=new))
    return (root / "f.py").read_bytes(), result


ODD_BYTES = {
    "CRLF": (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
    "mixed endings": (b"a\r\nb\nc\r\n", b"a\r\nB\nc\r\n"),
    "BOM": (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nB\n"),
    "form feed and U+2028": ("a\x0c\u2028\nb\n".encode(), "a\x0c\u2028\nB\n".encode()),
    "not UTF-8": (b"\xff\xfe\x80\nb\n\xe9\n", b"\xff\xfe\x80\nB\n\xe9\n"),
    "no final newline": (b"a\nb", b"a\nB"),
    "lone CR": (b"a\rb\n", b"a\rB\n"),
    "tabs and trailing spaces": (b"\ta  \nb\t \n", b"\ta  \nB\t \n"),
    "NUL": (b"\0\nb\n", b"\0\nB\n"),
}


@pytest.mark.parametrize("name", ODD_BYTES)
def test_a_one_line_edit_is_a_one_line_diff(tmp_path: Path, name: str) -> None:
    """Every byte outside the edited place stays as it was."""
    before, after = ODD_BYTES[name]
    data, result = edit(tmp_path, before, "b", "B")
    assert not result.error
    assert data == after


def test_several_lines_match_and_are_written_with_the_files_line_endings(tmp_path: Path) -> None:
    """The model never sees carriage returns, so it cannot send them."""
    data, result = edit(tmp_path, b"x\r\na\r\nb\r\ny\r\n", "a\nb\n", "1\n2\n3\n")
    assert not result.error
    assert data == b"x\r\n1\r\n2\r\n3\r\ny\r\n"
    data, _ = edit(tmp_path, b"x\r\na\r\n", "a", "1\n2")
    assert data == b"x\r\n1\r\n2\r\n"


def test_text_that_stands_in_both_line_endings_is_not_unique(tmp_path: Path) -> None:
    """A mixed file must not be edited in a place the model did not mean."""
    before = b"a\nb\n--\na\r\nb\r\n"
    data, result = edit(tmp_path, before, "a\nb", "c")
    assert result.error
    assert "2 times (lines 1, 4)" in result.text
    assert data == before


def test_overlapping_places_are_not_unique(tmp_path: Path) -> None:
    """``aa`` stands twice in ``aaa``."""
    _, result = edit(tmp_path, b"aaa", "aa", "b")
    assert "2 times" in result.text


def test_what_is_missing_is_answered_with_what_is_near(tmp_path: Path) -> None:
    """Wrong spaces, a misspelt line, copied line numbers: each has its own hint."""
    source = b"def f():\n        total = 0\n        return total\n"
    assert "line 2" in edit(tmp_path, source, "    total = 0\n    return x", "y")[1].text
    assert "nearest is line 3: return total" in edit(tmp_path, source, "return totals", "y")[1].text
    assert "line numbers" in edit(tmp_path, source, "     2\t        total = 0", "y")[1].text
    assert edit(tmp_path, source, "zzz", "y")[1].text == "error: old is not in f.py"


def test_an_edit_shows_the_place_as_it_now_reads(tmp_path: Path) -> None:
    """With numbers, so that the next step needs no further look."""
    text = edit(tmp_path, b"a\nb\nc\n", "b", "1\n2")[1].text
    assert text == "edited f.py at line 2; it now reads\n     1\ta\n     2\t1\n     3\t2\n     4\tc"


@pytest.mark.parametrize(
    ("old", "gone"), [(TODO + CLOSING, 1), (OPENING + TODO + CLOSING, 2), (OPENING.rstrip("\n"), 1), (TODO, 0)]
)
def test_a_vanished_marker_is_warned_of(tmp_path: Path, old: str, gone: int) -> None:
    """Without its markers a blank cannot be graded in the scope ``blank``."""
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    text = toolbox.call(call("edit_file", path="model.py", old=old, new="    return 1\n")).text
    assert ("warning: a marker" in text) == bool(gone)
    assert text.count("paper2code") >= gone


def test_a_rewritten_file_is_warned_of_too(tmp_path: Path) -> None:
    """write_file loses markers most easily."""
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    assert "warning" in toolbox.call(call("write_file", path="model.py", content="def mean(): pass\n")).text
    toolbox = Toolbox(TOOL_NAMES, open_sample(tmp_path))
    assert "warning" not in toolbox.call(call("write_file", path="model.py", content=MODEL + "# end\n")).text


def test_a_rewritten_file_keeps_its_line_endings_and_bom(tmp_path: Path) -> None:
    """A model that sends the file back with one line changed makes a one-line diff."""
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {"f.py": b"\xef\xbb\xbfa\r\nb\r\n", "empty.py": b""}))
    toolbox.call(call("write_file", path="f.py", content="a\nB\n"))
    assert (tmp_path / "f.py").read_bytes() == b"\xef\xbb\xbfa\r\nB\r\n"
    toolbox.call(call("write_file", path="empty.py", content="a\n"))
    toolbox.call(call("write_file", path="deep/new.py", content="a\r\n"))
    assert (tmp_path / "empty.py").read_bytes() == b"a\n"
    assert (tmp_path / "deep/new.py").read_bytes() == b"a\r\n"
