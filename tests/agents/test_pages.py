"""Guards: a part of a file that no call can reach, a cut that nobody sees, a name that cannot be sent back."""

import re
from pathlib import Path

import pytest

from rcb_agent.agents.tools import TOOL_NAMES, Toolbox
from tests.agents.local_sandbox import open_folder
from tests.agents.samples import call

NEXT = re.compile(r"read_file with start=(\d+)(?:, column=(\d+))?\]")


def read_whole(toolbox: Toolbox, path: str) -> list[str]:
    """Follow the hints from page to page and return the lines as a model could put them together."""
    lines: dict[int, str] = {}
    arguments: dict[str, int] = {}
    for _ in range(1000):
        text = toolbox.call(call("read_file", path=path, **arguments)).text
        assert len(text) <= 16_000
        body = text.split("\n")[1:]
        for line in body:
            if match := re.match(r"\s*(\d+)\t(.*)$", line):
                lines[int(match[1])] = match[2]
        hint = NEXT.search(body[-1])
        if hint is None or hint[2]:
            return [lines[number] for number in sorted(lines)]
        arguments = {"start": int(hint[1])}
    raise AssertionError("pages without an end")


@pytest.mark.parametrize("width", [1, 300])
@pytest.mark.parametrize("lines", [1, 399, 400, 401, 1000])
def test_the_pages_of_a_file_are_all_of_it(tmp_path: Path, lines: int, width: int) -> None:
    """Nothing is lost or shown twice at a page's edge."""
    expected = [f"line {number} {'x' * (number % width)}" for number in range(1, lines + 1)]
    data = "\n".join(expected).encode() + b"\n"
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {"f.txt": data}))
    assert read_whole(toolbox, "f.txt") == expected


def test_a_very_long_line_is_cut_visibly_and_can_be_read_on(tmp_path: Path) -> None:
    """A paper may have its whole abstract in one line."""
    line = "".join(f"{number}," for number in range(20_000))
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {"f.tex": f"first\n{line}\nlast".encode()}))
    text = toolbox.call(call("read_file", path="f.tex")).text
    assert text.endswith("last")
    got, hint = text.split("\n")[2].split("\t")[1].split(" [")[0], NEXT.search(text)
    while hint:
        part = toolbox.call(call("read_file", path="f.tex", start=int(hint[1]), column=int(hint[2]))).text
        assert len(part) <= 16_000
        got += part.split("\n")[1]
        hint = NEXT.search(part)
    assert got == line


def test_a_range_is_cut_to_the_file(tmp_path: Path) -> None:
    """A huge end is the end; a start behind the end is named."""
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {"f": b"a\nb\nc\n", "empty": b""}))
    assert toolbox.call(call("read_file", path="f", start=2, end=10**12)).text == (
        "f, lines 2-3 of 3:\n     2\tb\n     3\tc"
    )
    assert "has 3 lines" in toolbox.call(call("read_file", path="f", start=4)).text
    assert toolbox.call(call("read_file", path="empty")).text == "empty is empty"


def test_bytes_that_are_not_text_are_shown_and_do_not_raise(tmp_path: Path) -> None:
    """Line counts agree with git's: only a line feed ends a line."""
    data = b"\xef\xbb\xbfa\xff\r\nb\x0c\xe2\x80\xa8c\rd\n\x00\x1b[2J"
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {"f": data}))
    text = toolbox.call(call("read_file", path="f")).text
    assert text.startswith("f, lines 1-3 of 3:\n     1\ta\ufffd\n")


def test_names_can_be_sent_back_as_they_are_listed(tmp_path: Path) -> None:
    """Spaces, newlines, other alphabets, bytes that are not UTF-8."""
    names = ["a b.py", "line\nfeed.py", "\u00e4\u4e2d.py", "-rf", "bad\udcff.py", "x" * 200, "d/" * 40 + "deep"]
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, dict.fromkeys(names, b"found\n")))
    listed = toolbox.call(call("list_files")).text
    assert listed.count("\n") == len(names) - 1
    for name in names:
        assert "found" in toolbox.call(call("read_file", path=name)).text
    assert "line\\u000afeed.py  (6 bytes)" in listed
    assert "bad\\udcff.py" in listed


def test_long_lists_and_many_matches_say_that_there_is_more(tmp_path: Path) -> None:
    """A cut list that looks whole sends the model the wrong way."""
    toolbox = Toolbox(TOOL_NAMES, open_folder(tmp_path, {f"d/{number:04}": b"x\n" for number in range(600)}))
    assert toolbox.call(call("list_files")).text.endswith("[100 more files: list a folder with path]")
    assert "stopped at 200" in toolbox.call(call("search", pattern="x")).text
    assert toolbox.call(call("search", pattern="x", path="d/0007")).text == "d/0007:1: x"
    assert toolbox.call(call("search", pattern="nowhere")).text == "no line matches"
    assert toolbox.call(call("list_files", path="d/../../e")).text == "no files below d/../../e"
