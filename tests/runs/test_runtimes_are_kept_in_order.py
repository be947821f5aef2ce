"""Guards: a build that stops at the first runtime, a removal that takes too much or leaves a half, papers nobody names."""

import json
import sys
from pathlib import Path

import pytest

from rcb_agent.cli import cli
from rcb_agent.environments import stock
from rcb_agent.environments.runtimes import MARKER, RUNTIMES, runtime_path
from rcb_agent.errors import RcbAgentError
from rcb_agent.tasks.overlay import shipped_overlay


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; nothing can be downloaded."""
    for name, value in {"RCB_AGENT_CACHE": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return tmp_path


def run(*words: str) -> int:
    """Run a command; return its exit code, with the one line of its error on stderr."""
    try:
        cli.main(args=list(words), standalone_mode=False)
    except RcbAgentError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def make_stored(name: str, lock: str = "") -> Path:
    """Put what looks like a runtime into the cache, of the present lock or of another."""
    folder = runtime_path(name) if not lock else runtime_path(name).with_name(f"{name}-{lock}-cpython-311")
    (folder / "venv").mkdir(parents=True)
    (folder / MARKER).write_text("{}")
    (folder / "venv" / "data").write_bytes(bytes(3 << 20))
    return folder


def test_one_that_cannot_be_built_stops_no_other(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate comes first, then each is tried; the end names why, and whose tasks are not measured."""
    assert run("env", "build", "scipy", "mini") == 4
    shown = capsys.readouterr().err
    assert shown.index("2 runtimes to build: about") < shown.index("[1/2] scipy") < shown.index("[2/2] mini")
    assert "tasks of LEN are not measured without it" in shown
    assert "tasks of the suite mini are not measured without it" in shown


@pytest.mark.parametrize("words", [("build",), ("build", "mini", "--all"), ("remove",), ("remove", "nope")])
def test_nothing_is_built_or_removed_by_a_guess(cache: Path, words: tuple[str, ...]) -> None:
    """Names, or --all: not neither, not both, and no name that is none."""
    assert run("env", *words) == 2


def test_removal_takes_what_is_named(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Older locks of it as well; its neighbours stay; a dry run removes nothing."""
    torch, older, torchrl = make_stored("torch"), make_stored("torch", "0123456789ab"), make_stored("torchrl")
    assert run("env", "remove", "torch", "--dry-run") == 0
    assert torch.is_dir()
    assert run("env", "remove", "torch") == 0
    assert not torch.exists()
    assert not older.exists()
    assert (torchrl / MARKER).is_file()
    shown = capsys.readouterr().out
    assert "6 MB would be freed" in shown
    assert f"{older}: 3 MB (of an older lock)" in shown


def test_every_runtime_is_for_somebody_and_every_paper_has_one() -> None:
    """A runtime that no paper names is dead weight; a name that no runtime has is a typing mistake."""
    served = {name: stock.papers_served(name) for name in RUNTIMES}
    assert all(served.values())
    overlay = shipped_overlay("researchcodebench")
    named = {overlay.runtime_of(paper) for paper in {paper for papers in served.values() for paper in papers}}
    assert named <= {*RUNTIMES, None}


def test_a_listing_says_size_and_papers(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of what is built and of what is not."""
    make_stored("scipy")
    assert run("env", "list", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["runtimes"]}
    assert (rows["scipy"]["papers"], rows["scipy"]["bytes"] >> 20) == (["LEN"], 3)
    assert (rows["jax"]["papers"], rows["jax"]["bytes"], rows["jax"]["built"]) == (["hyla"], 0, False)


def test_a_broken_one_is_found(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there, but does not run, is not good enough."""
    make_stored("scipy")
    assert run("env", "check", "--json") == 4
    shown = capsys.readouterr()
    (row,) = json.loads(shown.out)["runtimes"]
    assert (row["name"], row["works"]) == ("scipy", False)
    assert "scipy cannot be used" in shown.err
