"""Guards: a diff that does not give back exactly the bytes that were submitted, or that takes for ever."""

import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcb_agent.environments.diff import unified_diff

LINES = st.lists(
    st.sampled_from([b"a\n", b"b\n", b"\n", b" x\r\n", b"\xff\n", b"-\x0c\n", b"@@\n", "\u2028\n".encode()])
)
TEXTS = st.builds(lambda lines, end: b"".join(lines) + end, LINES, st.sampled_from([b"", b"last", b"\\ No newline"]))


def apply(before: bytes, diff: str) -> bytes:
    with TemporaryDirectory() as folder:
        Path(folder, "f.py").write_bytes(before)
        command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
        subprocess.run(
            command, cwd=folder, input=diff.encode("utf-8", "surrogateescape"), check=True, capture_output=True
        )
        path = Path(folder, "f.py")
        return path.read_bytes() if path.exists() else b""


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_applying_the_diff_gives_the_bytes(before: bytes, after: bytes) -> None:
    """For any two files ``git apply`` turns one into the other."""
    diff = unified_diff({"f.py": before}, {"f.py": after})
    if before == after:
        assert diff == ""
    else:
        assert apply(before, diff) == after


def test_a_deleted_file_applies() -> None:
    """Gone means gone."""
    assert apply(b"a\nb\n", unified_diff({"f.py": b"a\nb\n"}, {"f.py": None})) == b""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_one_line_stays_one_line(line_end: bytes) -> None:
    """A one-line edit is a one-line diff, whatever the line endings."""
    lines = [b"line %d" % number for number in range(50)]
    before = line_end.join(lines)
    after = before.replace(b"line 25", b"changed")
    diff = unified_diff({"f.py": before}, {"f.py": after})
    changed = [line for line in diff.split("\n") if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
    assert len(changed) == 2


def test_a_diff_made_to_take_long(capsys: pytest.CaptureFixture[str]) -> None:
    """Many repeated lines do not keep the harness busy."""
    before = b"".join(b"%d\n" % (number % 150) for number in range(3000))
    after = b"".join(b"%d\n" % (number * 7 % 150) for number in range(200_000))
    started = time.monotonic()
    assert apply(before, unified_diff({"f.py": before}, {"f.py": after})) == after
    assert time.monotonic() - started < 5


def test_what_is_no_file_is_named() -> None:
    """A link or a giant is said in words, and the other files are still diffed."""
    diff = unified_diff({"a": b"1\n", "b": b"2\n"}, {"a": None, "b": b"3\n"}, kinds={"a": "too_large", "b": "file"})
    assert diff == "# a is not shown: too large\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-2\n+3\n"
