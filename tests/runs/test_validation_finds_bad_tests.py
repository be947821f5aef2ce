"""Guards: hidden tests that anything passes, that pass sometimes or never, and go unnoticed; work done twice or lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rcb_agent.runs.soundness import known_verdicts
from rcb_agent.tasks.suites import load_suite
from tests.runs.command import Done, rcb_agent

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not on PATH"),
]

CODE = """\
def mean(numbers):
    # <paper2code name="mean of a list">
    total = sum(numbers)
    return total / len(numbers)
    # </paper2code name="mean of a list">


def ordered(numbers):
    # <paper2code name="ascending order">
    return sorted(numbers)
    # </paper2code name="ascending order">
"""
HEAD = "import unittest\nfrom model import mean, ordered\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        "
TESTS = {
    "strong": "self.assertEqual(mean([1, 2, 6]), 3.0); self.assertEqual(ordered([2.5, 0.5, 1.5]), [0.5, 1.5, 2.5])",
    "weak": "self.assertEqual(len(ordered([2.5, 0.5])), 2); self.assertEqual(mean([4.0]), 4.0)",
    "vacuous": "self.assertTrue(callable(mean)); self.assertTrue(callable(ordered))",
    "flaky": "self.assertEqual(mean([1, 2, 6]), 3.0); self.assertEqual(list({'a', 'b', 'c', 'd', 'e', 'f'}), ORDER)",
    "broken": "self.assertEqual(mean([1, 2, 6]), 4.0)",
}
FIXED = {"PYTHONHASHSEED": "0"}


def order_by_hash() -> list[str]:
    """How sandboxes of a run order a set: their hash seed is fixed."""
    command = [sys.executable, "-c", "print(*{'a', 'b', 'c', 'd', 'e', 'f'})"]
    return subprocess.run(
        command, env={**os.environ, **FIXED}, capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One paper for each thing that tests can be."""
    root = tmp_path_factory.mktemp("suite")
    for name, body in TESTS.items():
        folder = root / name
        folder.mkdir()
        (folder / "model.py").write_text(CODE)
        (folder / "paper2code_test.py").write_text(HEAD + body.replace("ORDER", repr(order_by_hash())) + "\n")
        (folder / "paper2code_paper.md").write_text("The mean is the sum by the count.\n")
        (folder / "rcb-agent.yaml").write_text("runtime: mini\n")
    (root / "papers.yaml").write_text("".join(f"- id: {name}\n  annotated_file_paths: model.py\n" for name in TESTS))
    return root


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A cache of its own, with the runtime that is built already."""
    from rcb_agent.environments.runtimes import load_runtime

    python = load_runtime("mini").python
    return {"RCB_AGENT_CACHE": str(tmp_path_factory.mktemp("cache")), "RCB_AGENT_RUNTIME_MINI": str(python)}


@pytest.fixture(scope="module")
def done(suite: Path, cache: dict[str, str]) -> Done:
    """The whole suite, validated once."""
    return rcb_agent("tasks", "validate", "--suite", suite, "--json", cwd=suite, env=cache)


def by_paper(done: Done) -> dict[str, set[str]]:
    verdicts: dict[str, set[str]] = {}
    for record in done.document["tasks"]:
        verdicts.setdefault(record["paper"], set()).add(record["verdict"])
    return verdicts


def test_each_kind_of_bad_test_is_named(done: Done) -> None:
    """A vacuous, weak, flaky or broken test would make a score of it worthless without anybody knowing."""
    assert done.code == 0, done.err
    assert by_paper(done) == {
        "strong": {"sound"},
        "weak": {"weak"},
        "vacuous": {"vacuous"},
        "flaky": {"flaky"},
        "broken": {"broken"},
    }


def test_survivors_are_shown_as_diffs(done: Done) -> None:
    """What passed in place of the gold code is what an author needs to see."""
    weak = [record for record in done.document["tasks"] if record["verdict"] == "weak"]
    survivors = [one for record in weak for one in record["survivors"]]
    assert {one["kind"] for one in survivors} == {"trivial", "mutant"}
    for one in survivors:
        assert one["description"]
        assert "\n-    return " in one["diff"]
        assert "\n+    return " in one["diff"]


def test_a_gold_that_fails_says_how(done: Done) -> None:
    """Neither the machine nor the model is to blame: the test's own message is there."""
    broken = next(record for record in done.document["tasks"] if record["paper"] == "broken")
    assert "3.0 != 4.0" in broken["message"]
    assert broken["gold"]["passed"] == 0


def test_strict_is_for_scripts(suite: Path, cache: dict[str, str], done: Done) -> None:
    """An author's CI must be able to refuse a suite."""
    assert done.code == 0
    words = ("tasks", "validate", "--suite", suite, "--strict", "--tasks")
    assert rcb_agent(*words, "strong/*", cwd=suite, env=cache).code == 0
    assert rcb_agent(*words, "weak/*", cwd=suite, env=cache).code == 3


def test_nothing_is_tried_twice(suite: Path, cache: dict[str, str], done: Done) -> None:
    """The same task under the same conditions is read from the cache, whatever its name; a changed one is not."""
    again = rcb_agent("tasks", "validate", "--suite", suite, "--json", cwd=suite, env=cache)
    assert again.document["cached"] == len(done.document["tasks"])
    assert again.document["tasks"] == done.document["tasks"]
    quick = rcb_agent(
        "tasks", "validate", "--suite", suite, "--quick", "--json", "--tasks", "strong/*", cwd=suite, env=cache
    )
    assert quick.document["cached"] == 0


def test_verdicts_are_found_by_content(
    suite: Path, cache: dict[str, str], done: Done, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A score's second line is about the very tasks that were validated."""
    monkeypatch.setenv("RCB_AGENT_CACHE", cache["RCB_AGENT_CACHE"])
    wanted = {record["digest"]: record["verdict"] for record in done.document["tasks"]}
    tasks = load_suite(str(suite)).tasks
    assert known_verdicts(task.digest for task in tasks) == wanted
    assert known_verdicts(["0" * 64]) == {}


@pytest.mark.usefixtures("done")
def test_a_record_without_its_depth_gets_it_and_nothing_is_tried_again(suite: Path, cache: dict[str, str]) -> None:
    """Records of before count for little until the same command has read them."""
    folder = Path(cache["RCB_AGENT_CACHE"]) / "validation"
    kept = [(path, json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    full = [(path, record) for path, record in kept if record["depth"]["trivial"]]  # others are of a --quick beside it
    strong = [(path, record) for path, record in full if record["paper"] == "strong"]
    for path, record in strong:
        path.write_text(json.dumps({key: value for key, value in record.items() if key != "depth"}))
    again = rcb_agent("tasks", "validate", "--suite", suite, "--tasks", "strong/*", "--json", cwd=suite, env=cache)
    assert (again.code, again.document["cached"]) == (0, 2), again.err
    assert [json.loads(path.read_text()) for path, _ in strong] == [record for _, record in strong]


def test_an_interrupted_validation_goes_on(suite: Path, cache: dict[str, str], tmp_path: Path) -> None:
    """Ctrl-C after the first task: what is done is kept, and read the next time."""
    own = {**cache, "RCB_AGENT_CACHE": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "rcb_agent",
        "tasks",
        "validate",
        "--suite",
        str(suite),
        "--workers",
        "1",
        "--json",
    ]
    process = subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    folder = tmp_path / "validation"
    deadline = time.monotonic() + 120
    while not (folder.is_dir() and list(folder.glob("*.json"))) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    kept = len(list(folder.glob("*.json")))
    assert 0 < kept < 2 * len(TESTS)
    again = rcb_agent("tasks", "validate", "--suite", suite, "--json", cwd=tmp_path, env=own)
    assert again.document["cached"] == kept
    assert json.loads(again.out)["verdicts"]["sound"] == 2
