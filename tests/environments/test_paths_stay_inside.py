"""Guards: file tools that can be led out of the workspace, block, or destroy what they replace (program t01)."""

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments import supervised
from rcb_agent.environments.base import Runtime, SandboxSpec
from rcb_agent.environments.bubblewrap import open_bubblewrap
from rcb_agent.environments.supervised import SupervisedSandbox
from rcb_agent.errors import SandboxFileError
from tests.environments.conftest import POC, OpenBox

pytestmark = [pytest.mark.sandbox, pytest.mark.isolated]

HOSTILE: dict[str, str] = runpy.run_path(str(POC / "t01_tool_args.py"))["PATHS"]
# Strange, but names like any other: they may be written inside the workspace.
PLAIN_NAMES = {
    "tilde",
    "home_var",
    "backslash",
    "newline",
    "escape",
    "unicode_nfd",
    "bidi",
    "git_config",
    "git_hook",
    "dash",
    "hidden_test",
    "pycache",
    "case",
    "url",
}


def lay_trap(box: SupervisedSandbox) -> SupervisedSandbox:
    """Links that lead out, to something the command's user may write."""
    setup = (
        "mkdir /tmp/ws-evil && echo out > /tmp/outside.txt && echo out > /tmp/ws-evil/x.txt && "
        "ln -s /tmp lnk && ln -s /tmp/outside.txt f.txt && ln -s /tmp/created.txt newfile && mkfifo pipe && "
        "ln -s ../tmp/outside.txt up.txt && ln -s model.py inner && ln -s a folder && ln -s /proc/self/cwd magic"
    )
    assert box.run(["sh", "-c", setup], timeout=5).exit_code == 0
    return box


FILES = {"model.py": b"x", "a/keep": b""}


@pytest.fixture
def trap(open_box: OpenBox) -> SupervisedSandbox:
    """A fresh workspace with links."""
    return lay_trap(open_box(FILES))


@pytest.fixture(scope="module")
def reading_trap(runtime: Runtime) -> Iterator[SupervisedSandbox]:
    """One for all cases that must change nothing."""
    with open_bubblewrap(SandboxSpec(runtime, files=FILES)) as box:
        yield lay_trap(box)


@pytest.fixture(scope="module")
def writing_trap(runtime: Runtime) -> Iterator[SupervisedSandbox]:
    """One for all cases that may add a file inside."""
    with open_bubblewrap(SandboxSpec(runtime, files=FILES)) as box:
        yield lay_trap(box)


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_reading_a_hostile_path(reading_trap: SupervisedSandbox, case: str) -> None:
    """Every one is refused: none of these names an existing regular file of the workspace."""
    path = HOSTILE[case].replace("{OUT}", "/tmp")
    with pytest.raises(SandboxFileError) as refusal:
        reading_trap.read(path)
    assert str(refusal.value)
    assert "Traceback" not in str(refusal.value)


@pytest.mark.parametrize("case", sorted(HOSTILE))
def test_writing_a_hostile_path(writing_trap: SupervisedSandbox, case: str) -> None:
    """Refused, or a plain name inside; outside nothing changes either way."""
    path = HOSTILE[case].replace("{OUT}", "/tmp")
    if case in PLAIN_NAMES:
        writing_trap.write(path, b"X")
        assert writing_trap.read(path) == b"X"
    else:
        with pytest.raises(SandboxFileError):
            writing_trap.write(path, b"X")
    after = writing_trap.run(["sh", "-c", "cat /tmp/outside.txt /tmp/ws-evil/x.txt; ls /tmp"], timeout=5).stdout
    assert after == b"out\nout\noutside.txt\nws-evil\n"


@pytest.mark.parametrize("path", ["f.txt", "up.txt", "newfile", "lnk/outside.txt", "magic/model.py", "lnk/new/x"])
def test_links_that_lead_out(trap: SupervisedSandbox, path: str) -> None:
    """Followed by neither reading, writing nor collecting."""
    with pytest.raises(SandboxFileError):
        trap.read(path)
    with pytest.raises(SandboxFileError):
        trap.write(path, b"X")
    (taken,) = trap.collect([path])
    assert taken.data is None


def test_links_that_stay_inside(trap: SupervisedSandbox) -> None:
    """Reading follows them; collecting and replacing do not."""
    assert trap.read("inner") == b"x"
    assert trap.read("folder/keep") == b""
    assert trap.collect(["inner"])[0].kind == "symlink"
    with pytest.raises(SandboxFileError, match="link"):
        trap.write("inner", b"X")
    trap.write("folder/new.py", b"n")
    assert trap.read("a/new.py") == b"n"


def test_search_and_scan_follow_no_link(trap: SupervisedSandbox) -> None:
    """A link is an entry, not a way."""
    kinds = {entry.path: entry.kind for entry in trap.scan()}
    assert {kinds[name] for name in ("lnk", "f.txt", "newfile", "magic")} == {"symlink"}
    assert kinds["pipe"] == "other"
    assert [match.path for match in trap.search("out|x")] == ["model.py"]
    for path in ("lnk", "../tmp", "/tmp", "lnk/outside.txt"):
        with pytest.raises(SandboxFileError):
            trap.search("out", path=path)


def test_replacing_keeps_the_mode_and_the_old_file_on_failure(open_box: OpenBox) -> None:
    """A full disk leaves the old contents; modes survive, read-only files can be replaced by their owner."""
    from rcb_agent.environments.base import Limits

    box = open_box({"run.sh": b"old\n"}, Limits(disk_mb=4))
    box.run(["sh", "-c", "chmod 755 run.sh"], timeout=5)
    box.write("run.sh", b"new\n")
    assert box.run(["stat", "-c", "%a", "run.sh"], timeout=5).stdout == b"755\n"
    box.run(["sh", "-c", "dd if=/dev/zero of=fill bs=64k 2>/dev/null"], timeout=10)
    with pytest.raises(SandboxFileError, match="No space"):
        box.write("run.sh", b"y" * (1 << 20))
    assert box.read("run.sh") == b"new\n"
    assert [entry.path for entry in box.scan()] == ["fill", "run.sh"]


def test_an_owner_that_locked_itself_out(box: SupervisedSandbox) -> None:
    """Mode 000 on files and folders hides nothing, and is put back."""
    box.run(["sh", "-c", "mkdir -p d/e; echo s > d/e/f; chmod 000 d/e/f d/e d model.py; chmod 000 ."], timeout=5)
    assert [item.kind for item in box.collect(["model.py", "d/e/f"])] == ["file", "file"]
    assert "d/e/f" in {entry.path for entry in box.scan(hash_limit=10) if entry.sha256}
    assert box.read("d/e/f") == b"s\n"
    box.write("model.py", b"y")
    box.write("d/e/f", b"t")
    modes = box.run(["sh", "-c", "chmod 755 /workspace; cd /workspace; stat -c %a model.py d"], timeout=5)
    assert modes.exit_code in (0, 126)


def test_reading_is_bounded(box: SupervisedSandbox) -> None:
    """A file larger than the limit is refused with both sizes."""
    box.run(["truncate", "-s", "100M", "big"], timeout=5)
    with pytest.raises(SandboxFileError, match="104857600 bytes"):
        box.read("big")


@pytest.mark.parametrize(("pattern", "words"), [("(", "regular expression"), ("(a+)+$", "longer than")])
def test_bad_and_catastrophic_patterns(
    open_box: OpenBox, pattern: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern cannot hang the harness, and the sandbox lives on."""
    monkeypatch.setattr(supervised, "SEARCH_SECONDS", 0.5)
    box = open_box({"a.txt": b"a" * 64 + b"b\n", "b.bin": b"\0aaaa"})
    with pytest.raises(SandboxFileError, match=words):
        box.search(pattern)
    assert [(m.path, m.line, len(m.text)) for m in box.search("ab")] == [("a.txt", 1, 65)]


@pytest.mark.parametrize(
    "pattern", ["(?i)(?a)(?u)x", "(?L)x", "a{1" + "0" * 5000 + "}", "(" * 20_000, "a{99999999999}"]
)
def test_patterns_that_break_the_compiler(reading_trap: SupervisedSandbox, pattern: str) -> None:
    """Whatever ``re`` raises for it is a refusal in a few words, not a broken sandbox."""
    with pytest.raises(SandboxFileError, match="regular expression") as refusal:
        reading_trap.search(pattern)
    assert len(str(refusal.value)) <= 500


def test_warnings_do_not_fill_a_pipe(reading_trap: SupervisedSandbox) -> None:
    """A pattern that is warned of 3,000 times does not stop the sandbox's later work."""
    assert reading_trap.search("[[a]" * 3000) == ()
    assert [match.path for match in reading_trap.search("x", path="model.py")] == ["model.py"]


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "search", "pattern": 5, "path": "."},
        {"op": "search", "pattern": "x"},
        {"op": "search", "pattern": "x", "path": ["model.py"]},
        {"op": "read", "path": "model.py", "limit": "many"},
        {"op": "write", "files": [["model.py"]]},
        {"op": "collect", "paths": [5], "limit": 5},
        {"op": "scan", "hash_limit": None},
    ],
)
def test_no_argument_breaks_the_sandbox(reading_trap: SupervisedSandbox, request_: dict[str, Any]) -> None:
    """Any exception of file work is an answer; only an operation that does not exist is the harness's fault."""
    meta, _ = reading_trap._exchange({**request_, "timeout": 5}, b"", 10)
    assert meta["refused"].startswith("cannot be done: ")
    assert reading_trap.read("model.py") == b"x"


def test_an_argument_too_large_to_send(reading_trap: SupervisedSandbox) -> None:
    """Refused before anything is sent."""
    with pytest.raises(SandboxFileError, match="too large to send"):
        reading_trap.search("x" * (17 << 20))
    assert reading_trap.read("model.py") == b"x"


def test_names_and_line_endings_survive(open_box: OpenBox) -> None:
    """Surrogate escapes travel both ways; a line ends at a line feed only."""
    name = b"\xff\xfe.py".decode("utf-8", "surrogateescape")
    box = open_box({name: "one\r\ntwo\x0cthree\u2028four\n".encode()})
    assert [entry.path for entry in box.scan()] == [name]
    matches = box.search("one|three")
    assert [(match.path, match.line) for match in matches] == [(name, 1), (name, 2)]
    assert matches[0].text == "one"


def test_the_way_without_openat2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the kernel refuses openat2, no link is followed at all and dots do not climb."""
    import os

    from rcb_agent.environments import beneath, filework

    monkeypatch.setattr(beneath, "OPENAT2", 99_999)  # a call that does not exist
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "f").write_bytes(b"f")
    (tmp_path / "out").write_bytes(b"secret")
    (tmp_path / "in" / "link").symlink_to("../out")
    (tmp_path / "in" / "way").symlink_to("..")
    root = os.open(tmp_path / "in", os.O_PATH)
    try:
        assert filework.read(root, {"path": "sub/f", "limit": 9}, b"")[1] == b"f"
        for path in ("link", "way/out", "../out", "sub/../../out"):
            with pytest.raises(beneath.Refused):
                filework.read(root, {"path": path, "limit": 9}, b"")
            with pytest.raises(beneath.Refused):
                filework.write(root, {"files": [[path, 1]]}, b"X")
    finally:
        os.close(root)
    assert (tmp_path / "out").read_bytes() == b"secret"
