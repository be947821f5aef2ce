"""Guards: a pull that is half there, differs from what is published, or fails in anything but one clear line."""

import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rcb_agent.errors import EnvironmentFault, TaskError
from rcb_agent.tasks.origins import RECORD, Origin, pulled_root, read_record, tree_digest
from rcb_agent.tasks.pull import PullRequest, pull_suite
from rcb_agent.tasks.suites import load_suite, read_suite
from tests.runs.command import rcb_agent_within
from tests.tasks.conftest import WriteSuite
from tests.tasks.tiny_repository import Heard, commit_all, facts_file, git, tiny_origin

PULL = """\
import sys
from pathlib import Path
from rcb_agent.tasks.origins import read_origin
from rcb_agent.tasks.pull import PullRequest, pull_suite
from tests.tasks.tiny_repository import Heard
pull_suite(read_origin("tiny", Path(sys.argv[1])), PullRequest(sys.argv[2], force=True), Heard())
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def upstream(tmp_path: Path, write_suite: WriteSuite) -> Path:
    """A checkout with one commit."""
    up = tmp_path / "up"
    up.mkdir()
    write_suite({}).rename(up / "pset")
    (up / "README.md").write_text("not of the suite\n")
    git(up, "init", "--quiet", "--initial-branch=main")
    commit_all(up)
    return up


@pytest.fixture
def origin(tmp_path: Path, upstream: Path) -> Origin:
    """What is known of that commit."""
    return tiny_origin(tmp_path, git(upstream, "rev-parse", "HEAD"))


@pytest.fixture
def mirror(upstream: Path) -> Path:
    """The same, bare, with one file for each object."""
    git(upstream, "clone", "--quiet", "--bare", "--no-local", str(upstream), str(upstream.parent / "mirror"))
    place = upstream.parent / "mirror"
    packs = [pack.rename(place / pack.name) for pack in (place / "objects" / "pack").glob("*.pack")]
    for pack in packs:
        with pack.open("rb") as data:
            subprocess.run(["git", "-C", str(place), "unpack-objects", "-q"], stdin=data, check=True)
    return place


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing about it."""

    def log_message(self, *_: object) -> None:
        pass


class Stalled(Quiet):
    """Takes a request and never answers."""

    asked = threading.Event()
    over = threading.Event()

    def do_GET(self) -> None:
        self.asked.set()
        self.over.wait(60)


@pytest.fixture
def served(mirror: Path) -> Iterator[str]:
    """The mirror behind a server that knows files only, as the oldest do."""
    git(mirror, "update-server-info")
    handler = partial(Quiet, directory=str(mirror))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def left_over(origin: Origin) -> set[str]:
    record = read_record(origin)
    kept = {".lock", RECORD, record.folder.split("/")[0] if record else ""}
    return {path.name for path in origin.home.iterdir()} - kept


def test_a_checkout_a_mirror_and_a_plain_server_give_the_same(
    origin: Origin, upstream: Path, mirror: Path, served: str
) -> None:
    """Paths, file addresses and a server without shallow fetches; only the suite's folder is kept, without history."""
    places = [str(upstream), str(mirror), f"file://{mirror}", served]
    records = [pull_suite(origin, PullRequest(place, force=True), Heard()) for place in places]
    assert len({record.digest for record in records}) == 1
    assert (records[0].papers, records[0].tasks, records[0].lines) == (1, 2, 3)
    names = {path.name for path in origin.home.rglob("*")}
    assert "papers.yaml" in names
    assert not names & {".git", "README.md", "gitconfig", "objects"}
    assert not left_over(origin)


def test_again_is_no_work_unless_asked(origin: Origin) -> None:
    """A second pull leaves everything as it is; ``force``, another commit or a damaged copy do not."""
    first = pull_suite(origin, PullRequest(), Heard())
    heard = Heard()
    assert pull_suite(origin, PullRequest("/etc"), heard) == first
    assert "already pulled" in heard.remarks[0]
    (origin.home / first.folder / "good" / "model.py").write_text("changed\n")
    again = pull_suite(origin, PullRequest(), Heard())
    assert again.folder != first.folder
    assert again.digest == first.digest
    assert not left_over(origin)


def test_a_source_that_was_not_looked_at_is_said(origin: Origin, upstream: Path) -> None:
    """What is there may have come from elsewhere; a password in the address is not repeated."""
    pull_suite(origin, PullRequest(), Heard())
    for source, shown in ((str(upstream), str(upstream)), ("https://me:secret@127.0.0.1/x", "https://127.0.0.1/x")):
        heard = Heard()
        pull_suite(origin, PullRequest(source), heard)
        assert f"--from {shown} was not looked at: --force" in heard.remarks[0]


@pytest.mark.parametrize("source", ["", " "])
def test_an_empty_source_is_no_source(source: str) -> None:
    """It is not taken for the published address."""
    done = rcb_agent_within("tasks", "pull", "researchcodebench", "--from", source)
    assert done.code == 2
    assert "--from is empty" in done.err


def test_what_is_not_published_is_not_kept(tmp_path: Path, upstream: Path) -> None:
    """Ids and sizes of the tasks are looked at one by one; the line names the first that differ."""
    commit = git(upstream, "rev-parse", "HEAD")
    sizes: list[list[object]] = [["good", "double it", 3], ["good", "halve it", 1]]
    wrong = tiny_origin(tmp_path, commit, sizes)
    with pytest.raises(TaskError) as caught:
        pull_suite(wrong, PullRequest(), Heard())
    for part in ("good/halve it is missing", "good/double it has 2 lines, not 3", "good/give it back is new"):
        assert part in str(caught.value)
    assert caught.value.exit_code == 3
    assert read_record(wrong) is None
    assert not left_over(wrong)


def test_another_commit_is_taken_with_warnings(origin: Origin, upstream: Path) -> None:
    """Differences of a commit that was asked for are said and stand in the record; then the published one returns."""
    model = upstream / "pset" / "good" / "model.py"
    model.write_text(model.read_text().replace("    # twice\n", "    z = 0\n"))
    other = commit_all(upstream)
    heard = Heard()
    record = pull_suite(origin, PullRequest(commit=other[:9]), heard)
    assert (record.commit, record.differences) == (other, ("good/double it has 3 lines, not 2",))
    assert "differs from what is published: good/double it" in heard.remarks[-1]
    assert pull_suite(origin, PullRequest(commit="main"), heard).commit == other
    assert pull_suite(origin, PullRequest(), heard).commit == origin.commit


@pytest.mark.parametrize(
    ("source", "commit", "message"),
    [
        ("nowhere", None, "is no address, and there is no such path"),
        ("plain", None, "does not appear to be a git repository: give a whole clone or bare mirror by --from"),
        ("up", "1" * 40, f"has no commit {'1' * 40}: give the right repository"),
        ("up", "--upload-pack=touch", "give a commit's hash, a branch or a tag"),
        ("ext::sh -c true", None, "transport 'ext' not allowed"),
        (
            "http://me:word@127.0.0.1:9/x",
            None,
            r"http://127.0.0.1:9/x: cannot be fetched: .*: check address and network",
        ),
    ],
)
def test_a_source_that_gives_nothing_is_one_line(
    origin: Origin, tmp_path: Path, source: str, commit: str | None, message: str
) -> None:
    """No path, no repository, no such commit, no transport, no network: exit 3, what to do, nothing left."""
    (tmp_path / "plain").mkdir()
    place = source if ":" in source else str(tmp_path / source)
    with pytest.raises(TaskError, match=message) as caught:
        pull_suite(origin, PullRequest(place, commit), Heard())
    assert "\n" not in str(caught.value)
    assert "word" not in str(caught.value)
    assert not origin.home.exists() or not left_over(origin)


@pytest.mark.parametrize("how", ["gone", "torn"])
def test_a_damaged_mirror_is_one_line(origin: Origin, mirror: Path, how: str) -> None:
    """Objects that are missing or cut short: nothing is kept of the rest."""
    sha = git(mirror, "rev-parse", "HEAD:pset/good/model.py")
    damaged = mirror / "objects" / sha[:2] / sha[2:]
    damaged.chmod(0o644)
    if how == "gone":
        damaged.unlink()
    else:
        os.truncate(damaged, 20)
    with pytest.raises(TaskError, match=r"cannot be fetched: .*: give a whole clone or bare mirror by --from"):
        pull_suite(origin, PullRequest(str(mirror)), Heard())
    assert read_record(origin) is None
    assert not left_over(origin)


def test_a_mirror_of_somebody_else_is_read(origin: Origin, mirror: Path) -> None:
    """Git refuses folders of other owners unless told; a mirror is only read."""
    if os.getuid() != 0:
        pytest.skip("not root: cannot give a folder to somebody else")
    for path in (mirror, *mirror.rglob("*")):
        os.chown(path, 1234, 1234)
    assert pull_suite(origin, PullRequest(str(mirror)), Heard()).tasks == 2


def test_links_and_modules_lead_nowhere(origin: Origin, upstream: Path, tmp_path: Path) -> None:
    """What is no regular file is left out by name, and the repository's filters and line endings do nothing."""
    (upstream / "pset" / "outside").symlink_to("/etc/passwd")
    (upstream / ".gitattributes").write_text("*.py text eol=crlf filter=broken\n")
    git(upstream, "add", "--all")
    git(upstream, "update-index", "--add", "--cacheinfo", f"160000,{origin.commit},pset/module")
    git(upstream, "commit", "--quiet", "--message=with links")
    commit = git(upstream, "rev-parse", "HEAD")
    heard = Heard()
    record = pull_suite(tiny_origin(tmp_path, commit), PullRequest(), heard)
    names = {path.name for path in (origin.home / record.folder).iterdir()}
    assert names == {"papers.yaml", "good"}
    assert {line.split()[1] for line in heard.remarks[1:]} == {"pset/outside", "pset/module"}
    assert b"\r" not in (origin.home / record.folder / "good" / "model.py").read_bytes()


def test_the_users_configuration_leads_there_and_runs_nothing(
    origin: Origin, upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses replaced there are, a surrounding git command is not heard, and no hook runs."""
    hook = tmp_path / "hooks" / "reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    config = tmp_path / "config"
    config.write_text(f'[core]\nhooksPath = {hook.parent}\n[url "{upstream}"]\ninsteadOf = "elsewhere:"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert pull_suite(origin, PullRequest("elsewhere:", origin.commit[:12]), Heard()).tasks == 2
    assert not (tmp_path / "ran").exists()


def test_a_killed_pull_leaves_the_old_one(origin: Origin, tmp_path: Path) -> None:
    """SIGKILL in the middle of a fetch: what was there serves on, and the next pull clears what is left."""
    whole = pull_suite(origin, PullRequest(), Heard())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stalled) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = [str(facts_file(tmp_path, origin.commit)), f"http://127.0.0.1:{server.server_port}/"]
        with subprocess.Popen([sys.executable, "-c", PULL, *words], cwd=Path(__file__).parents[2]) as process:
            assert Stalled.asked.wait(30)
            process.send_signal(signal.SIGKILL)
        Stalled.over.set()
        server.shutdown()
    assert left_over(origin)
    assert read_record(origin) == whole
    assert tree_digest(origin.home / whole.folder) == whole.digest
    assert pull_suite(origin, PullRequest(), Heard()) == whole
    assert not left_over(origin)


def test_an_ended_pull_speaks_of_no_run() -> None:
    """It has no records and nothing to resume: the line says that it ended, and no more."""

    class Waiting(Stalled):
        asked, over = threading.Event(), threading.Event()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Waiting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = ["tasks", "pull", "researchcodebench", "--from", f"http://127.0.0.1:{server.server_port}/"]
        command = [sys.executable, "-m", "rcb_agent", *words]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert Waiting.asked.wait(30)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=30)
        Waiting.over.set()
        server.shutdown()
    assert (process.returncode, err.splitlines()[-1]) == (143, "rcb-agent: terminated")


def test_no_git_and_no_room_are_the_machines_faults(
    origin: Origin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit 4 with what to do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="apt-get install git"):
        pull_suite(origin, PullRequest(), Heard())
    assert not left_over(origin)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path / "file"))
    with pytest.raises(EnvironmentFault, match="Not a directory: make it writable"):
        pull_suite(origin, PullRequest(), Heard())


def test_a_suite_that_is_not_there_as_pulled(cache: Path) -> None:
    """By its name a suite is what was pulled: absent, damaged or changed, the line says which command mends it."""
    with pytest.raises(TaskError, match=r"is not pulled: run `rcb-agent tasks pull researchcodebench`"):
        load_suite("researchcodebench")
    home = cache / "suites" / "researchcodebench"
    (home / "ab" / "pset").mkdir(parents=True)
    fields = {"source": "", "commit": "", "date": "", "papers": 0, "tasks": 0, "lines": 0, "folder": "ab/pset"}
    (home / RECORD).write_text(json.dumps({**fields, "digest": tree_digest(home / "ab"), "differences": []}))
    assert pulled_root("researchcodebench") == home / "ab" / "pset"
    (home / "ab" / "pset" / "papers.yaml").write_text("[]\n")
    with pytest.raises(TaskError, match="is not what was pulled: run"):
        load_suite("researchcodebench")
    (home / RECORD).write_text("{")
    with pytest.raises(TaskError, match="is not pulled"):
        load_suite("researchcodebench")


def test_a_pulled_folder_is_a_suite(origin: Origin, cache: Path) -> None:
    """What was pulled loads without a fault."""
    record = pull_suite(origin, PullRequest(), Heard())
    suite = read_suite("tiny", origin.home / record.folder)
    assert [task.id for task in suite.tasks] == ["good/double it", "good/give it back"]
    shutil.rmtree(cache)
