"""Turns a trial record into grade records: both scopes, equal bytes graded once.

Scope ``diff`` grades the annotated files as left, on a pristine tree; scope ``blank`` only the lines between
the two markers, put into the original file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rcb_agent.errors import EnvironmentFault, UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Json
from rcb_agent.runs.flags import grade_flags
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, Grade, Grader
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import blank_lines, filled_files

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a scope cannot be graded: the candidate's own doing, so the verdict is ``failed``."""

    reason: str
    message: str


def grade_trial(trial: Json, task: Task, grader: Grader, read_blob: Callable[[str], bytes]) -> list[Json]:
    """Grade the final submission of a trial in both scopes."""
    if trial["error"] is not None:
        grade = Grade(NOT_MEASURED, trial["error"]["reason"], trial["error"]["message"])
        return [grade_record(trial, scope, grade, grader) for scope in ("diff", "blank")]
    try:
        diff = files_as_left(trial, read_blob)
        blank = files_in_blank_scope(trial, task, read_blob)
    except UsageError as damage:  # a blob that is gone: nobody's failure
        grade = Grade(NOT_MEASURED, "harness", str(damage))
        return [grade_record(trial, scope, grade, grader) for scope in ("diff", "blank")]
    first = _grade(task, diff, grader)
    same = diff == blank
    second = first if same else _grade(task, blank, grader)
    records = [grade_record(trial, "diff", first, grader), grade_record(trial, "blank", second, grader)]
    if same:
        records[1]["same_as"] = "diff"
    return records


def files_as_left(trial: Json, read_blob: Callable[[str], bytes]) -> Files | Refusal:
    """Return the bytes of the annotated files, or why they are no candidate."""
    files: dict[str, bytes] = {}
    for item in trial["submission"]["files"]:
        if item["kind"] != "file":
            return _refuse_kind(item)
        files[item["path"]] = read_blob(item["sha256"])
    return files


def files_in_blank_scope(trial: Json, task: Task, read_blob: Callable[[str], bytes]) -> Files | Refusal:
    """Return the pristine files with the lines between the submission's two markers put in.

    Only the file that holds the blank counts here: whatever became of the others is no part of the scope.
    """
    problem = task.problem
    item = next(item for item in trial["submission"]["files"] if item["path"] == problem.path)
    if item["kind"] != "file":
        return _refuse_kind(item)
    lines = blank_lines(problem, read_blob(item["sha256"]).decode("utf-8", "surrogateescape"))
    if lines is None:
        return Refusal(
            "markers_lost", f"{problem.path}: the two markers of the blank are not there once each, in order"
        )
    return filled_files(problem, lines)


def _refuse_kind(item: Json) -> Refusal:
    return Refusal("file_missing", f"{item['path']} is {_describe_kind(item['kind'])}")


def _describe_kind(kind: str) -> str:
    words = {"missing": "gone", "too_large": "too large", "dir": "a folder", "symlink": "a symbolic link"}
    return words.get(kind, "not a regular, readable file")


def _grade(task: Task, files: Files | Refusal, grader: Grader) -> Grade:
    if isinstance(files, Refusal):
        return Grade(FAILED, files.reason, files.message)
    try:
        return grader.grade(task, files)
    except EnvironmentFault as fault:
        return Grade(NOT_MEASURED, "environment", str(fault))
    except Exception as fault:  # noqa: BLE001 - the declared boundary: a fault of ours is never a score
        return Grade(NOT_MEASURED, "harness", f"{type(fault).__name__}: {fault}")


def grade_record(trial: Json, scope: str, grade: Grade, grader: Grader) -> Json:
    """Return a record that fits runs/schema/grade.json."""
    return {
        "schema_version": SCHEMA_VERSION,
        **{key: trial[key] for key in ("trial", "arm", "task", "attempt")},
        "snapshot": "final",
        "scope": scope,
        "mode": grader.mode,
        "grader": grader.version,
        "verdict": grade.verdict,
        "reason": grade.reason,
        "message": grade.message,
        "tests": [test.as_json() for test in grade.tests],
        "flags": grade_flags(grade),
        "seconds": round(grade.seconds, 3),
        "form_only": grade.form_only,
        "values_only": grade.values_only,
        "details": {**grade.details, **_survivors(grade)},
    }


def _survivors(grade: Grade) -> Json:
    counts = [flag.partition(":")[2] for flag in grade.flags if flag.startswith("survivors:")]
    return {"survivors": int(counts[0])} if counts else {}
