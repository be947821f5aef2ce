"""Guards: a damaged or shared run folder that loses, doubles or invents a result."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.runs.reader import RunReader, find_run
from rcb_agent.runs.store import RunStore, open_store

Open = Callable[..., RunStore]
Make = Callable[..., dict[str, Any]]


def test_records_survive_closing_and_opening(open_run: Open, make_trial: Make, make_grade: Make) -> None:
    """What was appended is there for the next process, the latest of a key counts."""
    with open_run() as store:
        store.add_trial(make_trial(steps=1))
        store.add_trial(make_trial(steps=2))
        store.add_grade(make_grade(verdict="failed", reason="tests_failed"))
        store.add_grade(make_grade())
    with open_run() as store:
        assert [record["steps"] for record in store.trials().values()] == [2]
        assert [record["verdict"] for record in store.grades().values()] == ["passed"]


@pytest.mark.parametrize("tail", [b'{"schema_version": 1, "tri', b"\x00" * 64, b'{"a": "\xe2\x82', b"{nonsense}\n"])
def test_torn_last_line_is_cut_off_and_said(tail: bytes, open_run: Open, make_trial: Make) -> None:
    """A crash while writing costs that line only, and nothing is appended behind it."""
    with open_run() as store:
        store.add_trial(make_trial())
        path = store.path / "trials.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    reader = RunReader(path.parent)
    assert len(reader.trials()) == 1
    assert reader.torn == ["trials.jsonl"]
    with open_run() as store:
        assert store.mended == ["trials.jsonl"]
        assert path.read_bytes() == whole


def test_damage_in_the_middle_is_named_by_file_and_line(open_run: Open, make_trial: Make) -> None:
    """Bytes that change under us are no torn write: nothing may be guessed."""
    with open_run() as store:
        store.add_trial(make_trial())
        store.add_trial(make_trial("p/two"))
        path = store.path / "trials.jsonl"
    lines = path.read_bytes().split(b"\n")
    for broken, words in (
        (b'{"task": "p/one", "passed": true}', "no schema_version"),
        (b"\x00\x00", "not a record"),
        (b'{"x": NaN}', "NaN is no number"),
        (b'{"schema_version": 9}', "format 9"),
    ):
        path.write_bytes(b"\n".join([broken, *lines[1:]]))
        with pytest.raises(UsageError, match=r"trials\.jsonl:1: .*" + words):
            RunReader(path.parent).trials()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"suite_digest": "9" * 64}, "suite_digest"),
        ({"tasks": ("p/one",)}, "tasks"),
        ({"attempts": 3}, r"attempts \(1 -> 3\)"),
        ({"sandbox": "docker"}, "sandbox"),
        ({"limits": {"memory_mb": 64}}, r"limits\.memory_mb \(512 -> 64\)"),
        ({"grader": "2"}, "grader"),
        ({"prompts": "9" * 64}, "prompts"),
        ({"runtimes": {"mini": "9" * 64}}, r"runtimes\.mini"),
        ({"harness": "99"}, "harness"),
    ],
)
def test_resume_with_another_config_is_refused_by_key(changes: dict[str, Any], named: str, open_run: Open) -> None:
    """Two configs in one folder would be averaged into a result that nobody measured."""
    open_run().close()
    with pytest.raises(UsageError, match=named):
        open_run(**changes)


def test_second_writer_is_refused_while_the_first_lives(open_run: Open) -> None:
    """The lock is held by a live process; a dead one's is free at once."""
    with open_run() as store:
        code = (
            "import sys; from filelock import FileLock, Timeout\n"
            "try: FileLock(sys.argv[1]).acquire(timeout=0)\n"
            "except Timeout: print('refused')\n"
        )
        command = [sys.executable, "-c", code, str(store.path / ".lock")]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"
        with pytest.raises(UsageError, match="another process"):
            open_run()
    open_run().close()


def test_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    """``--out`` at a folder that is no run must not write into it."""
    from rcb_agent.runs.config import RunConfig  # noqa: F401 - the import a user's script would need

    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match=r"thesis\.tex lies there"):
        open_store(tmp_path, None, {}, tmp_path)  # type: ignore[arg-type]
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def test_damaged_blob_is_noticed(open_run: Open) -> None:
    """A blob whose bytes are not what its name says must not be graded."""
    with open_run() as store:
        sha256 = store.add_blob(b"code")
        assert store.blob(sha256) == b"code"
        path = store.path / "blobs" / sha256[:2] / sha256
        path.write_bytes(b"other")
        with pytest.raises(UsageError, match="does not hold what its name says"):
            store.blob(sha256)
        with pytest.raises(UsageError, match="missing"):
            store.blob("a" * 64)


def test_secrets_are_in_no_file(open_run: Open, make_trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that a provider echoes, in whatever record or blob, is replaced where records are written."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1")
    with open_run() as store:
        name = make_trial()["trial"]
        store.add_trial(make_trial(note="auth sk-very-secret-1 failed"))
        store.emit(name, "event", {"kind": "note", "time": 0.0, "text": "sk-very-secret-1"})
        store.emit(name, "call", {"sk-very-secret-1": 1})
        sha256 = store.add_blob(b"\xffkey = 'sk-very-secret-1'")
        assert store.blob(sha256) == b"\xffkey = '[OPENAI_API_KEY]'"
        files = [path for path in store.path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert not [path for path in files if b"very-secret" in path.read_bytes()]


def test_equal_bytes_from_several_threads_are_readable_at_once(open_run: Open) -> None:
    """Whoever is told a hash may read it: a blob must not be known before it is written."""
    import threading

    data = os.urandom(4 << 20)
    with open_run() as store:
        missing: list[str] = []

        def add_and_read() -> None:
            try:
                store.blob(store.add_blob(data))
            except UsageError as error:
                missing.append(str(error))

        threads = [threading.Thread(target=add_and_read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not missing


def test_start_that_was_killed_leaves_no_unusable_folder(open_run: Open, tmp_path: Path) -> None:
    """A folder with our own names and no run.json yet is taken over."""
    (tmp_path / "run" / "blobs").mkdir(parents=True)
    (tmp_path / "run" / ".run.json.1234").write_text("{")
    with open_run() as store:
        assert store.id == "run"


def test_cost_counts_every_try(open_run: Open, make_trial: Make) -> None:
    """Money spent on a try that was repeated is spent all the same; unknown stays unknown."""
    with open_run() as store:
        for cost in (0.5, 0.25):
            store.add_trial(make_trial(cost=cost))
        store.add_trial(make_trial("p/two", cost=None))
        store.add_trial(make_trial("p/two", cost=1.0))
        assert list(store.cost_of_tries().values()) == [0.75, None]


def test_trajectory_of_a_repeated_trial_starts_at_its_last_start(open_run: Open) -> None:
    """The events of an aborted attempt stay in the file and out of the story."""
    with open_run() as store:
        for kind in ("start", "note", "start", "stop"):
            store.emit("t", "event", {"kind": kind, "time": 0.0})
        assert [event["kind"] for event in store.events("t")] == ["start", "stop"]


def test_unwritable_place_is_one_line(tmp_path: Path) -> None:
    """A results path below a file cannot be made: UsageError, no traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file"):
        open_store(tmp_path / "file" / "run", None, {}, tmp_path)  # type: ignore[arg-type]


def test_run_is_found_by_unique_prefix_only(tmp_path: Path) -> None:
    """An ambiguous or unknown RUN names what to do; glob characters are no pattern."""
    for name in ("20260101-mini-aaaa", "20260101-mini-bbbb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({}))
    assert find_run("20260101-mini-a", tmp_path).name == "20260101-mini-aaaa"
    assert find_run(str(tmp_path / "20260101-mini-bbbb"), tmp_path).name == "20260101-mini-bbbb"
    assert find_run("latest", tmp_path).name == "20260101-mini-bbbb"
    for text, words in (
        ("2026", "fits 2 runs"),
        ("/nowhere", "no run"),
        ("nope", "no run"),
        ("*", "no run"),
        ("", "no run"),
    ):
        with pytest.raises(UsageError, match=words):
            find_run(text, tmp_path)


def test_latest_is_the_run_that_began_last_whatever_it_is_called(tmp_path: Path) -> None:
    """``--out`` names are no dates; equal times go by name; a damaged folder is never chosen over a whole one."""
    began = {"zebra": "2026-01-01T00:00:00+00:00", "a": "2026-01-03T00:00:00+00:00", "b": "2026-01-03T00:00:00+00:00"}
    for name, created in began.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"schema_version": 1, "created": created}))
    for name, content in (("zz-odd", '{"schema_version": 1, "created": 9}'), ("zz-torn", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    assert find_run("latest", tmp_path).name == "b"


def test_records_fit_their_published_schemas(make_trial: Make, make_grade: Make, open_run: Open) -> None:
    """The files under runs/schema are what readers of a run folder rely on."""
    from importlib.resources import files

    from jsonschema import Draft202012Validator

    def check(name: str, record: object) -> None:
        schema = json.loads((files("rcb_agent.runs") / "schema" / f"{name}.json").read_text())
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(record)

    with open_run() as store:
        check("run", store.run)
    check("trial", make_trial())
    check("grade", make_grade())
    assert os.path.basename(store.path) == store.id  # noqa: PTH119 - the id is the folder's name
