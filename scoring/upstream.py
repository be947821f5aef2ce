"""Grading mode ``upstream``: the benchmark authors' published rule, for parity with their numbers only. UNPROTECTED.

The paper's whole folder, hidden test and references included, is copied into a fresh sandbox, the candidate's file is
written over it, and the hidden test runs there as a program: a pass is exit status 0 without one of four words in what
it prints. The candidate's code runs in the same process as the tests, so it can read the answer, patch the tests and
print what it likes; the sandbox only protects the machine.

A file that differs from what the agent was given between the two markers alone is put together as the authors do it,
from the original with all its markers.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from rcb_agent.environments.base import CommandResult, Limits, Runtime, Sandbox, SandboxSpec
from rcb_agent.errors import EnvironmentFault, SandboxLost
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED, Grade
from rcb_agent.scoring.preflight import Kept, cache_folder
from rcb_agent.scoring.sides import OpenSandbox
from rcb_agent.scoring.split import Turns
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import blank_lines, filled_files, null_code
from rcb_agent.tasks.upstream_text import fill_original, read_lines

MODE = "upstream"
FORMAT = 1
SECONDS = 60.0
TIMEOUT_STATUS = 124  # of the program ``timeout``, which ends theirs
WORDS = (b"Error:", b"Exception:", b"Traceback", b"failed")
OUTPUT_BYTES = 8 << 20
_TAIL = 2_000
_PASSING = {".git", "__pycache__"}


class UpstreamGrader:
    """A Grader (see ``scoring.base``) over the suite's folder ``root``. Safe to use from several threads."""

    def __init__(
        self,
        open_sandbox: OpenSandbox,
        runtime_of: Callable[[str], Runtime],
        root: Path,
        *,
        limits: Limits | None = None,
        cache: Path | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._open_sandbox = open_sandbox
        self._runtime_of = runtime_of
        self._root = root
        self._limits = replace(limits or Limits(), output_bytes=OUTPUT_BYTES)
        self._seconds = seconds
        self._kept = Kept(cache or cache_folder())
        self._turns = Turns()
        self._version = f"{MODE}-{FORMAT}+{_digest()}"

    @property
    def mode(self) -> str:
        """The mode recorded with each grade."""
        return MODE

    @property
    def version(self) -> str:
        """Changes with every change of the code that grades."""
        return self._version

    def preflight(self, task: Task) -> str:
        """Say why the paper's folder as it lies fails here, or return "". Raises EnvironmentFault as ``grade`` does."""
        folder, runtime = read_tree(self._root / task.info.id), self._runtime_of(task.problem.runtime)

        def run_gold() -> tuple[dict[str, str], bool]:
            grade = self._run(task, runtime, folder)
            passes = grade.verdict == PASSED
            return {"failure": "" if passes else f"{grade.reason}: {grade.message}"}, passes

        return str(self._kept.get(self._key(task, folder, runtime), run_gold, needs={"failure": str})["failure"])

    def start_cold(self) -> None:
        """It always does."""

    def close(self) -> None:
        """Nothing is kept running."""

    def grade(self, task: Task, files: Mapping[str, bytes]) -> Grade:
        """Grade candidate files put into a copy of the paper's folder. Raises EnvironmentFault as ``preflight`` does."""
        given = {file.path for file in task.problem.files}
        if stray := sorted(set(files) - given):
            raise ValueError(f"{', '.join(stray)}: no annotated file of {task.id}")
        if task.problem.path not in files:  # the original one holds the answer
            return Grade(FAILED, "file_missing", f"{task.problem.path} is missing")
        if failure := self.preflight(task):
            return Grade(NOT_MEASURED, "gold_fails", failure)
        folder, runtime = read_tree(self._root / task.info.id), self._runtime_of(task.problem.runtime)
        grade = self._run(task, runtime, {**folder, **place_candidate(self._root, task, files)})
        if grade.reason in ("time_limit", "candidate_exited"):
            self._check_machine(task, runtime, folder)
        if grade.verdict != PASSED:
            return grade
        return replace(grade, flags=(*grade.flags, *self._vacuous(task, runtime, folder)))

    def _vacuous(self, task: Task, runtime: Runtime, folder: Mapping[str, bytes]) -> tuple[str, ...]:
        """Return the flag of a task that an empty blank passes."""
        empty = filled_files(task.problem, null_code(task.problem))
        files = {**folder, **place_candidate(self._root, task, empty)}

        def run_null() -> tuple[dict[str, str], bool]:
            grade = self._run(task, runtime, files)
            return {"verdict": grade.verdict}, grade.reason not in ("time_limit", "candidate_exited")

        try:
            kept = self._kept.get(self._key(task, files, runtime), run_null, needs={"verdict": str})
        except EnvironmentFault:  # the flag is a remark; a grade is not given up for it
            return ()
        return ("vacuous:an empty blank passes",) if kept["verdict"] == PASSED else ()

    def _run(self, task: Task, runtime: Runtime, files: Mapping[str, bytes]) -> Grade:
        """Run the hidden test; what ran out of time beside others runs once more, alone."""
        with self._turns.shared() as company:
            grade = self._run_once(task, runtime, files)
        if grade.reason == "time_limit" and company.was_seen:
            with self._turns.alone():
                grade = self._run_once(task, runtime, files)
        return grade

    def _run_once(self, task: Task, runtime: Runtime, files: Mapping[str, bytes]) -> Grade:
        box = self._open_sandbox(SandboxSpec(runtime, files, limits=self._limits))
        try:
            result = box.run(["python", task.answer.test_path], timeout=self._seconds)
            return judge(result, box)
        except SandboxLost as lost:  # it was open: what broke it came from inside, or the machine (asked later)
            return Grade(FAILED, "candidate_exited", str(lost), details={"protected": False})
        finally:
            box.close()

    def _check_machine(self, task: Task, runtime: Runtime, folder: Mapping[str, bytes]) -> None:
        """Run the gold code now and alone. Raises EnvironmentFault where it fails too."""
        with self._turns.alone():
            control = self._run_once(task, runtime, folder)
        if control.verdict != PASSED:
            raise EnvironmentFault(
                f"the gold code, which passed before, fails now: {control.reason}: {control.message}"
            )

    def _key(self, task: Task, folder: Mapping[str, bytes], runtime: Runtime) -> str:
        parts = [self._version, self._kind(runtime), str(self._limits), runtime.digest, task.answer.test_path]
        total = hashlib.sha256("\0".join(parts).encode())
        for path, data in sorted(folder.items()):
            total.update(f"\0{path} {len(data)} ".encode("utf-8", "surrogateescape") + data)
        return total.hexdigest()

    def _kind(self, runtime: Runtime) -> str:
        def ask() -> tuple[dict[str, str], bool]:
            box = self._open_sandbox(SandboxSpec(runtime, limits=self._limits))
            box.close()
            return {"kind": box.kind}, False

        return str(self._kept.get("kind of sandbox", ask, needs={"kind": str})["kind"])


def read_tree(root: Path) -> dict[str, bytes]:
    """Return every file of a paper's folder."""
    files = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {name.as_posix(): path.read_bytes() for name, path in files.items() if not _PASSING & set(name.parts)}


def place_candidate(root: Path, task: Task, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return what to write over the paper's folder; files that are as they were given stay as the authors have them."""
    problem = task.problem
    given = {file.path: file.encode() for file in problem.files}
    changed = {path: data for path, data in files.items() if path != problem.path and data != given[path]}
    data = files[problem.path]
    inside = blank_lines(problem, data.decode("utf-8", "surrogateescape"))
    if inside is not None and filled_files(problem, inside)[problem.path] == data:
        lines = read_lines(root / task.info.id / problem.path)
        data = fill_original(lines, problem.name, inside).encode("utf-8", "surrogateescape")
    return {**changed, problem.path: data}


def judge(result: CommandResult, box: Sandbox) -> Grade:
    """Apply the published rule to what the test program left."""
    words = [word.decode() for word in WORDS if word in result.stdout or word in result.stderr]
    reason, message = _reason(result, words)
    return Grade(
        verdict=FAILED if reason else PASSED,
        reason=reason,
        message=message,
        flags=(f"output_dropped:{result.truncated} bytes were not searched",) if result.truncated else (),
        seconds=result.seconds,
        details={
            "protected": False,
            "exit_code": TIMEOUT_STATUS if result.timed_out else result.exit_code,
            "words": words,
            "enforcement": dict(box.enforcement),
            "candidate": _output(result),
        },
    )


def _reason(result: CommandResult, words: list[str]) -> tuple[str, str]:
    if result.timed_out:
        return "time_limit", "the test program took longer than it may"
    if result.killed == "memory":
        return "memory_limit", "the sandbox hit its memory limit"
    if result.exit_code:
        last = result.text(_TAIL).strip().splitlines()
        return "tests_failed", f"exit status {result.exit_code}: {last[-1] if last else 'no output'}"
    return ("tests_failed", f"exit status 0, but the output holds {words[0]!r}") if words else ("", "")


def _output(result: CommandResult) -> dict[str, Any]:
    return {"exit_code": result.exit_code, "seconds": round(result.seconds, 3), "output": result.text(_TAIL)}


def _digest() -> str:
    sources = (
        package_files("rcb_agent.scoring") / "upstream.py",
        package_files("rcb_agent.tasks") / "upstream_text.py",
    )
    return hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]
