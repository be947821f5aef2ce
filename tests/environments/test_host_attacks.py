"""Guards: what a hostile tree does to whoever collects it (programs h02 to h11): links, git hooks, FIFOs, sizes, names."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rcb_agent.environments.base import Limits, Runtime, Snapshot, Workspace
from rcb_agent.environments.workspace import LiveWorkspace, WorkspaceSpec, hash_bytes, open_workspace
from rcb_agent.tasks.base import Problem, SourceFile

pytestmark = pytest.mark.sandbox
Reader = Callable[[str], bytes]

MODEL = "def f(x):\n    # the blank\n    return x\n"
PROBLEM = Problem(
    task_id="p/blank",
    paper_id="p",
    name="blank",
    path="model.py",
    loc=1,
    files=(SourceFile("model.py", MODEL), SourceFile("lib/other.py", "y = 2\r\n")),
    files_support=(SourceFile("lib/__init__.py", ""), SourceFile("weights.txt", "1 2 3")),
    prompt_target="",
    paper=SourceFile("paper.md", "# a paper\n"),
    runtime="bare",
    public_tests=(SourceFile("test_public.py", "import unittest\n"),),
)


@pytest.fixture
def blobs() -> dict[str, bytes]:
    return {}


@pytest.fixture
def workspace(runtime: Runtime, blobs: dict[str, bytes]) -> Iterator[LiveWorkspace]:
    with open_workspace(PROBLEM, WorkspaceSpec("bubblewrap", runtime, Limits(), "file", blobs.__setitem__)) as opened:
        yield opened


def attack(workspace: Workspace, program: bytes) -> None:
    """Run a program that is itself no part of the tree."""
    result = workspace.sandbox.run(["python", "-"], timeout=20, stdin=program)
    assert result.exit_code in (0, 1), result.text()


def test_a_link_in_place_of_the_file(workspace: LiveWorkspace, poc: Reader) -> None:
    """Its target is never read; the submission says what became of the file."""
    attack(workspace, poc("h02"))
    submission = workspace.submission()
    assert (submission.files[0].kind, submission.files[0].data) == ("symlink", None)
    assert submission.diff == "# model.py is not shown: symlink\n"
    snapshot = workspace.snapshot()
    assert "model.py" in snapshot.listed
    assert "model.py" not in snapshot.deleted


def test_no_git_runs_on_the_agents_tree(workspace: LiveWorkspace, poc: Reader, tmp_path: Path) -> None:
    """A file-system monitor in the agent's git configuration stays its own affair."""
    attack(workspace, poc("h03"))
    workspace.sandbox.run(["mkdir", "/tmp/outside"], timeout=5)
    workspace.snapshot()
    workspace.submission()
    assert workspace.sandbox.run(["ls", "/tmp/outside"], timeout=5).stdout == b""


def test_a_commit_hides_nothing(workspace: LiveWorkspace, poc: Reader) -> None:
    """What differs is measured from what was given, wherever HEAD is."""
    attack(workspace, poc("h06"))
    log = workspace.sandbox.run(["git", "log", "--oneline"], timeout=5).stdout
    assert len(log.splitlines()) == 2
    assert workspace.submission().diff == (
        "--- a/model.py\n+++ b/model.py\n@@ -1,3 +1,4 @@\n def f(x):\n     # the blank\n     return x\n+# work\n"
    )


def test_new_and_ignored_files_are_kept(workspace: LiveWorkspace, blobs: dict[str, bytes], poc: Reader) -> None:
    """An ignore rule of the agent counts for nothing."""
    attack(workspace, poc("h07"))
    snapshot = workspace.snapshot()
    assert set(snapshot.files) == {"model.py", "lib/other.py", "helper_real.py", ".gitignore"}
    assert blobs[snapshot.files["helper_real.py"]] == b"X = 1\n"


def test_names_that_break_lists(workspace: LiveWorkspace, poc: Reader) -> None:
    """Newlines, escapes, other encodings, dashes and 255 bytes arrive as they are."""
    attack(workspace, poc("h09"))
    names = set(workspace.snapshot().files)
    odd = (b"a\nb.py", b"\x1b]0;pwned\x07.py", b"\xff\xfe.py", b"-rf", b'"q".py', b"x" * 255, "café.py".encode())
    assert {name.decode("utf-8", "surrogateescape") for name in odd} < names


def test_a_fifo_does_not_block(workspace: LiveWorkspace, poc: Reader) -> None:
    """It is named, not opened."""
    attack(workspace, poc("h10"))
    assert workspace.submission().files[0].kind == "other"
    assert "model.py" in workspace.snapshot().listed


def test_a_sparse_giant_is_only_listed(workspace: LiveWorkspace, poc: Reader) -> None:
    """20 GiB that take no disk are neither read nor hashed, as a spare file and as the annotated one."""
    attack(workspace, poc("h11"))
    result = workspace.sandbox.run(["truncate", "-s", "20G", "model.py"], timeout=5)
    listed = workspace.snapshot().listed
    if result.exit_code:  # where files have a size limit
        return
    assert listed == ("model.py", "model.py.bak")
    assert workspace.submission().files[0].kind == "too_large"


def test_nobody_is_alive_while_files_are_taken(workspace: LiveWorkspace) -> None:
    """A daemon that rewrites the file all the time is dead before the file is read."""
    daemon = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nwhile True: open('model.py', 'w').write('swapped')\n"
    result = workspace.sandbox.run(["python", "-c", daemon], timeout=5)
    assert result.survivors == 1
    workspace.sandbox.write("model.py", b"mine\n")
    assert workspace.submission().files[0].data == b"mine\n"


def test_the_repository_holds_one_commit_and_no_trace(workspace: LiveWorkspace, poc: Reader) -> None:
    """Clean status, one commit, no remote, tag, stash, reflog, hook or host configuration; a13 finds nothing."""
    script = (
        "git status --porcelain --ignored; git log --all --reflog --format='%H %an %ad' | wc -l; git stash list;"
        "git tag; git remote; git reflog; git fsck --no-reflogs --lost-found; ls .git; git config --list --show-scope"
    )
    shown = workspace.sandbox.run(["sh", "-c", script], timeout=10).text().splitlines()
    assert shown[:6] == ["1", "HEAD", "config", "index", "objects", "refs"]
    assert all(line.startswith("local\tcore.") for line in shown[6:])
    before = workspace.sandbox.read("model.py")
    attack(workspace, (Path(__file__).parent.parent / "attacks/poc/a13_git_history.py").read_bytes())
    assert workspace.sandbox.read("model.py") == before


def test_exactly_the_allowed_files_are_there(workspace: LiveWorkspace, runtime: Runtime) -> None:
    """Annotated, support, public tests, and the paper only where the arm wants it as a file."""
    given = {"model.py", "lib/other.py", "lib/__init__.py", "weights.txt", "test_public.py"}
    assert {entry.path for entry in workspace.sandbox.scan() if entry.kind == "file"} == {*given, "paper.md"}
    for place in ("prompt", "none"):
        spec = WorkspaceSpec("bubblewrap", runtime, Limits(), place, lambda _sha, _data: None)
        with open_workspace(PROBLEM, spec) as other:
            assert {entry.path for entry in other.sandbox.scan() if entry.kind == "file"} == given


def test_an_untouched_workspace(workspace: LiveWorkspace, blobs: dict[str, bytes]) -> None:
    """Nothing differs, nothing is deleted; annotated files are kept all the same, once."""
    for _ in range(2):
        snapshot = workspace.snapshot()
        assert set(snapshot.files) == {"model.py", "lib/other.py"}
        assert (snapshot.listed, snapshot.deleted) == ((), ())
    assert blobs == {hash_bytes(MODEL.encode()): MODEL.encode(), hash_bytes(b"y = 2\r\n"): b"y = 2\r\n"}
    submission = workspace.submission()
    assert submission.diff == ""
    assert [item.data for item in submission.files] == [MODEL.encode(), b"y = 2\r\n"]


def test_deleted_and_replaced_by_a_folder(workspace: LiveWorkspace) -> None:
    """Gone is gone, also for the annotated file; a folder in its place is named."""
    workspace.sandbox.run(["sh", "-c", "rm model.py weights.txt; rm lib/other.py; mkdir lib/other.py"], timeout=5)
    snapshot = workspace.snapshot()
    assert snapshot.deleted == ("model.py", "weights.txt")
    assert snapshot.listed == ("lib/other.py",)
    submission = workspace.submission()
    assert [item.kind for item in submission.files] == ["missing", "dir"]
    assert submission.diff.startswith("--- a/model.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-def f(x):\n")


def test_a_tree_without_end_is_bounded(workspace: LiveWorkspace) -> None:
    """Too many, too large, too much: kept up to the bounds, listed up to a bound, never more."""
    code = (
        "import os\n"
        "for i in range(30): open(f'b{i:02}', 'wb').write(os.urandom(1) * 250_000)\n"
        "open('huge', 'wb').write(b'x' * 300_000)\n"
        "os.mkdir('many')\n"
        "for i in range(25_000): open(f'many/{i}', 'w').close()\n"
    )
    assert workspace.sandbox.run(["python", "-c", code], timeout=60).exit_code == 0
    snapshot = workspace.snapshot()
    kept = [path for path in snapshot.files if path.startswith("b")]
    assert len(kept) == (4 << 20) // 250_000
    assert len(snapshot.files) < 600
    assert "huge" in snapshot.listed
    assert len(snapshot.listed) == 1000 + 2  # a line on what the scan left out, and one on what the snapshot did
    assert snapshot.listed[-1].startswith("[... ")
    assert snapshot.deleted == ()


def written(snapshot: Snapshot) -> int:
    """Bytes of the names of a snapshot in a record."""
    names = [*snapshot.files, *snapshot.listed, *snapshot.deleted]
    return sum(len(json.dumps(os.fsencode(name).decode("utf-8", "backslashreplace"))) for name in names)


def test_names_are_bounded_together(workspace: LiveWorkspace) -> None:
    """750 names of a kilobyte, each byte of which is written as five: 64 KiB of names, the rest is a number.

    Annotated files are named all the same, also where a link stands in their place and sorts last.
    """
    code = (
        "import os\n"
        "os.unlink('model.py'); os.symlink('x', 'model.py'); os.unlink('weights.txt')\n"
        "place = b'/'.join([bytes([255]) * 250] * 4)\n"
        "os.makedirs(place); os.chdir(place[:753]); os.chdir(bytes([255]) * 250)\n"
        "for i in range(250): open(b'%03d' % i, 'w').close()\n"
        "for i in range(500): os.symlink('x', b'l%03d' % i)\n"
        "for i in range(1100): os.symlink('x', '/workspace/a%04d' % i)\n"
    )
    assert workspace.sandbox.run(["python", "-c", code], timeout=60).exit_code == 0
    snapshot = workspace.snapshot()
    assert written(snapshot) < (64 << 10) + 1000
    assert "lib/other.py" in snapshot.files
    assert "model.py" in snapshot.listed
    assert snapshot.deleted == ("weights.txt",)
    left_out = int(snapshot.listed[-1].removeprefix("[... ").removesuffix(" more ...]"))
    assert len(snapshot.files) - 1 + len(snapshot.listed) - 2 + left_out == 250 + 500 + 1100


def test_one_file_by_many_names_is_hashed_once(workspace: LiveWorkspace) -> None:
    """19,500 links to a sparse file took 5 GB of hashing at each step."""
    code = (
        "import os\n"
        "os.truncate(os.open('a', os.O_CREAT | os.O_WRONLY), 256 << 10)\n"
        "for i in range(19_500): os.link('a', f'a{i}')\n"
    )
    assert workspace.sandbox.run(["python", "-c", code], timeout=60).exit_code == 0
    started = time.monotonic()
    entries = workspace.sandbox.scan(hash_limit=256 << 10)
    assert time.monotonic() - started < 3
    assert len({entry.sha256 for entry in entries if entry.path.startswith("a")}) == 1
    assert len(workspace.snapshot().files) == 2 + 16  # annotated files, and 4 MiB of names for the one


def test_what_a_scan_hashes_is_bounded(workspace: LiveWorkspace) -> None:
    """Sparse files are read up to 64 MiB together; given files behind them are known to be unchanged all the same."""
    code = (
        "import os\n"
        "for i in range(1000): os.truncate(os.open(f'0{i:03}', os.O_CREAT | os.O_WRONLY), 256 << 10)\n"
        "open('lib/__init__.py', 'a').write('z')\n"
    )
    assert workspace.sandbox.run(["python", "-c", code], timeout=60).exit_code == 0
    entries = workspace.sandbox.scan(hash_limit=256 << 10)
    assert sum(entry.size for entry in entries if entry.sha256) <= 64 << 20
    assert {entry.path for entry in entries} >= {"0000", "0999"}
    snapshot = workspace.snapshot()
    named = {*snapshot.files, *snapshot.listed}
    assert {"model.py", "lib/other.py", "lib/__init__.py", "0000"} <= named
    assert not {"weights.txt", "test_public.py", "paper.md"} & named


def test_host_git_settings_do_not_leak(runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Variables and files by which git is steered elsewhere change nothing in the repository."""
    from rcb_agent.environments.repository import make_repository

    plain = make_repository({"a.py": b"1\r\n"})
    (tmp_path / "config").write_text("[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n[user]\n\tname = me\n")
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "x").write_text("")
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(tmp_path / "config"),
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_TEMPLATE_DIR": str(tmp_path),
        "GIT_AUTHOR_NAME": "me",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"),
    }.items():
        monkeypatch.setenv(name, value)
    leaked = make_repository({"a.py": b"1\r\n"})
    assert {path: data for path, data in leaked.items() if path != ".git/index"} == {
        path: data for path, data in plain.items() if path != ".git/index"
    }
    assert not (tmp_path / "elsewhere").exists()
