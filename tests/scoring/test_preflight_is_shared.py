"""Guards: a grade without a working gold behind it, gold runs repeated for nothing, and stale ones used."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments.base import Runtime, Sandbox, SandboxSpec
from rcb_agent.errors import EnvironmentFault
from rcb_agent.scoring import split
from rcb_agent.scoring.preflight import Kept, describe_processor, preflight_key
from rcb_agent.scoring.split import SplitGrader, SplitLimits, Turns
from rcb_agent.tasks.base import GradingRules, SourceFile, Task
from rcb_agent.tasks.markers import find_blanks
from rcb_agent.tasks.masking import gold_view
from tests.scoring.support import (
    ATTACKS,
    OPEN,
    SANDBOXED,
    Counting,
    fixture_task,
    grade_text,
    honest,
    make_task,
    runtime,
)

SANDBOX, NEEDED = SANDBOXED
RUNTIME = Runtime("mini", Path("/usr/bin/python3"), (), "0" * 64)


@SANDBOX
@NEEDED
def test_a_papers_gold_runs_once(tmp_path: Path) -> None:
    """Two threads at once, then another grader on the same cache: the gold and the empty blank are not run again."""
    opener, task, text = Counting(), fixture_task("golden"), honest("golden")
    grader = SplitGrader(opener, lambda _: runtime(), cache=tmp_path)
    verdicts: list[str] = []
    threads = [
        threading.Thread(target=lambda: verdicts.append(grade_text(grader, task, text).verdict)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == ["passed", "passed"]
    kind, gold, null, candidates = 1, 2 * 2, 2, 2 * 2
    assert opener.opened == kind + gold + null + candidates
    for path in tmp_path.glob("*.json"):  # what an older program or a person may leave there
        kept = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in kept.items() if name not in ("names", "verdict")}))
    damaged = SplitGrader(OPEN, lambda _: runtime(), cache=tmp_path)
    assert grade_text(damaged, task, text).verdict == "passed"
    again = Counting()
    assert grade_text(SplitGrader(again, lambda _: runtime(), cache=tmp_path), task, text).verdict == "passed"
    assert again.opened == kind + 2
    assert not [path for path in tmp_path.rglob("*") if path.suffix not in ("", ".json")]


def test_every_blank_of_a_paper_shares_the_key() -> None:
    """Which blank is open changes neither the gold code nor its run."""
    text = honest("plain")
    first = fixture_task("plain")
    blanks = find_blanks(text)
    other_file = SourceFile("model.py", gold_view(text, blanks[1])[0])
    second = replace(first, answer=replace(first.answer, files=(other_file,)))
    assert first.answer.files != second.answer.files
    assert preflight_key(first.answer, RUNTIME, ["x"]) == preflight_key(second.answer, RUNTIME, ["x"])


def changed(**parts: Any) -> Task:
    task = fixture_task("plain")
    return replace(task, answer=replace(task.answer, **parts))


@pytest.mark.parametrize(
    ("task", "where", "conditions"),
    [
        (changed(files=(SourceFile("model.py", "x = 1\n"),)), RUNTIME, "x"),
        (changed(hidden=(SourceFile("paper2code_test.py", ""),)), RUNTIME, "x"),
        (changed(support=(SourceFile("data.txt", ""),)), RUNTIME, "x"),
        (changed(rules=GradingRules(skip_form=("f()",))), RUNTIME, "x"),
        (changed(rules=GradingRules(seconds=1.0)), RUNTIME, "x"),
        (changed(modules=("other",)), RUNTIME, "x"),
        (changed(), replace(RUNTIME, digest="1"), "x"),
        (changed(), RUNTIME, "y"),
    ],
    ids=["files", "hidden", "support", "rules", "seconds", "modules", "runtime", "conditions"],
)
def test_whatever_can_change_the_gold_run_changes_the_key(task: Task, where: Runtime, conditions: str) -> None:
    """A stale preflight is never used."""
    known = preflight_key(fixture_task("plain").answer, RUNTIME, ["x"])
    assert preflight_key(task.answer, where, [conditions]) != known


def test_a_damaged_cache_is_computed_again(tmp_path: Path) -> None:
    """Half a file, other JSON, another format, or a folder nobody can write, only costs time."""
    (tmp_path / "key.json").write_text('{"failure": ')
    needs = {"n": int}
    assert Kept(tmp_path).get("key", lambda: ({"n": 1}, True), needs=needs) == {"n": 1}
    assert Kept(tmp_path).get("key", lambda: ({"n": 2}, True), needs=needs) == {"n": 1}
    assert Kept(tmp_path / "key.json" / "no").get("key", lambda: ({"n": 3}, True), needs=needs) == {"n": 3}
    assert Kept(tmp_path).get("key", lambda: ({"n": 4, "m": ""}, True), needs={**needs, "m": str})["n"] == 4
    for text in ("[]", "1", '{"n": "1"}', "{}", "[" * 10_000):
        (tmp_path / "key.json").write_text(text)
        assert Kept(tmp_path).get("key", lambda: ({"n": 5}, True), needs=needs) == {"n": 5}


def test_a_failed_gold_is_not_kept_on_disk(tmp_path: Path) -> None:
    """What failed may have failed because of the machine: the next process tries again."""
    assert Kept(tmp_path).get("key", lambda: ({"failure": "x"}, False), needs={"failure": str}) == {"failure": "x"}
    assert Kept(tmp_path).get("key", lambda: ({"failure": ""}, True), needs={"failure": str}) == {"failure": ""}


GOLD = 'def f(x):\n    # <paper2code name="f">\n    return x\n    # </paper2code name="f">\n'
LOOP = """\
def f(x):
    while x < 9:
        # <paper2code name="f">
        x += 1
        # </paper2code name="f">
    return x
"""
TEST = "import unittest\nfrom model import f\nclass T(unittest.TestCase):\n    def test_f(self):\n        {}\n"

NO_GOLD = {
    "fails": TEST.format("self.assertEqual(f(1), 2)"),
    "is skipped": TEST.format('self.skipTest("no GPU")'),
    "is expected to fail": TEST.replace("    def", "    @unittest.expectedFailure\n    def").format(
        "self.assertEqual(f(1), 2)"
    ),
    "does not load": "import a_missing_package\n",
    "has no test": "from model import f\n",
    "leaves": "import sys\nsys.exit(0)\n",
    "passes only sometimes": TEST.format(
        "import os; self.assertEqual(f(1), 1 if os.urandom(8) else 2); raise SystemExit"
    ),
}


@SANDBOX
@NEEDED
@pytest.mark.parametrize("test", NO_GOLD.values(), ids=NO_GOLD)
def test_without_a_passing_gold_nothing_is_measured(grader: SplitGrader, test: str) -> None:
    """Whatever a candidate does then says nothing about it."""
    grade = grade_text(grader, make_task(GOLD, test), GOLD)
    assert (grade.verdict, grade.reason) == ("not_measured", "gold_fails")
    assert grade.message


@SANDBOX
@NEEDED
def test_a_task_that_an_empty_blank_passes_is_flagged(grader: SplitGrader) -> None:
    """It is graded all the same."""
    task = make_task(GOLD, TEST.format("f(1)"), rules=GradingRules(skip_form=("f()",)))
    grade = grade_text(grader, task, GOLD)
    assert grade.verdict == "passed"
    assert grade.flags == ("vacuous:an empty blank passes",)
    assert grade_text(grader, fixture_task("plain"), honest("plain")).flags == ()


@SANDBOX
@NEEDED
def test_an_empty_blank_that_never_ends_costs_its_time_once(tmp_path: Path) -> None:
    """A loop whose condition nothing changes any more is tried by the first run of a paper and not by every one after it."""
    task = make_task(LOOP, TEST.format("self.assertEqual(f(1), 9)"), rules=GradingRules(seconds=2.0))
    opened = []
    for _ in range(2):
        opener = Counting()
        grader = SplitGrader(opener, lambda _: runtime(), cache=tmp_path)
        assert grade_text(grader, task, LOOP).verdict == "passed"
        opened.append(opener.opened)
    assert opened[1] == 3


@SANDBOX
@NEEDED
def test_ids_beside_the_manifest_are_no_pass(grader: SplitGrader) -> None:
    """A test that exists only with this candidate counts against it, as does one that vanished."""
    test = (
        "import unittest\nimport model\nclass T(unittest.TestCase):\n"
        "    def test_f(self):\n        model.f(1)\n"
        "for name in model.names():\n    setattr(T, f'test_{name}', lambda self: model.f(1))\n"
    )
    gold = GOLD + 'def names():\n    return ["a", "b"]\n'
    task = make_task(gold, test, rules=GradingRules(skip_form=("names()",)))
    assert grade_text(grader, task, gold).verdict == "passed"
    fewer = grade_text(grader, task, gold.replace('["a", "b"]', '["a"]'))
    assert (fewer.reason, [t.outcome for t in fewer.tests if t.id.endswith("_b")]) == ("tests_failed", ["missing"])
    more = grade_text(grader, task, gold.replace('["a", "b"]', '["a", "b", "c"]'))
    assert (more.reason, [t.outcome for t in more.tests if t.id.endswith("_c")]) == ("tests_failed", ["other"])


def test_the_target_file_must_be_given(grader: SplitGrader) -> None:
    """The pristine file would be the answer itself."""
    task = fixture_task("plain")
    grade = grader.grade(task, {})
    assert (grade.verdict, grade.reason) == ("failed", "file_missing")
    with pytest.raises(ValueError, match="no annotated file"):
        grader.grade(task, {"model.py": b"", "model_ref.py": b""})


def test_a_sandbox_that_cannot_be_opened_is_no_grade(tmp_path: Path) -> None:
    """The caller is told; the candidate is not blamed."""

    def refuse(_: SandboxSpec) -> Sandbox:
        raise EnvironmentFault("no sandbox here")

    grader = SplitGrader(refuse, lambda _: RUNTIME, cache=tmp_path, limits=SplitLimits())
    with pytest.raises(EnvironmentFault, match="no sandbox here"):
        grade_text(grader, fixture_task("plain"), honest("plain"))


def test_one_grade_alone_waits_for_the_others() -> None:
    """What runs alone runs with nothing beside it, and what runs side by side knows it."""
    turns, log = Turns(), []

    def hold(enter: Callable[[], Any], name: str, started: threading.Event, leave: threading.Event) -> None:
        with enter():
            log.append(name)
            started.set()
            leave.wait(5)

    started, leave, inside = threading.Event(), threading.Event(), threading.Event()
    first = threading.Thread(target=hold, args=(turns.shared, "shared", started, leave))
    first.start()
    started.wait(5)
    second = threading.Thread(target=hold, args=(turns.alone, "alone", inside, leave))
    second.start()
    assert not inside.wait(0.1)
    leave.set()
    first.join(5)
    second.join(5)
    assert log == ["shared", "alone"]
    with turns.shared() as one, turns.shared() as two:
        assert (one.was_seen, two.was_seen) == (True, True)
    with turns.shared() as lonely:
        assert not lonely.was_seen


def test_the_version_names_the_code_that_ran(grader: SplitGrader) -> None:
    """A grade can be told from one of another grader."""
    assert grader.mode == "split"
    assert grader.version.startswith("split-")
    assert ATTACKS.is_dir()


@SANDBOX
@NEEDED
def test_another_processor_is_another_gold_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of kept runs may be seen from several machines, and the last bits of floats follow the processor."""
    task, opened = fixture_task("golden"), []
    for name in ("this", "this", "that"):
        monkeypatch.setattr(split, "describe_processor", lambda name=name: name)
        opener = Counting()
        assert not SplitGrader(opener, lambda _: runtime(), cache=tmp_path).preflight(task)
        opened.append(opener.opened)
    kind, gold = 1, 2 * 2
    assert opened == [kind + gold, kind, kind + gold]
    assert describe_processor() == describe_processor.__wrapped__() != ""
