"""The contract of ``scoring``: a grader turns candidate files into a grade.

``not_measured`` is only for what neither agent nor candidate can cause.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rcb_agent.tasks.base import Task

PASSED, FAILED, NOT_MEASURED = "passed", "failed", "not_measured"
VERDICTS = (PASSED, FAILED, NOT_MEASURED)
SCOPES = ("diff", "blank")
UNPROTECTED: Mapping[str, str] = {
    "upstream": "unprotected, for parity only: candidates could read the answer and decide their own verdict",
}
"""Grading modes in which the candidate's code runs beside the hidden tests -> what is said wherever their grades are."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test id: ``outcome`` is passed, failed, error, skipped, other or missing; seconds are wall time in T."""

    __test__ = False  # not a test class for pytest

    id: str
    outcome: str
    message: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the record form."""
        return {"id": self.id, "outcome": self.outcome, "message": self.message, "seconds": round(self.seconds, 4)}


@dataclass(frozen=True, slots=True)
class Grade:
    """Verdict on one candidate. ``reason`` is "" when passed, else one of REASONS; ``message`` is for people.

    ``flags`` name what was seen and did not decide (vacuous, survivors, refused_callback, ...), one short
    word each with evidence after a colon. ``form_only`` is True when the form gate alone turned a pass into a
    fail, ``values_only`` when the comparison with the gold's values alone did, so that every table can also be shown
    without the one or the other.
    """

    verdict: str
    reason: str = ""
    message: str = ""
    tests: tuple[TestResult, ...] = ()
    flags: tuple[str, ...] = ()
    seconds: float = 0.0
    form_only: bool = False
    values_only: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)


REASONS = (
    "tests_failed",  # a test id failed, errored, was skipped or is missing
    "import_error",  # the candidate module cannot be imported
    "time_limit",  # the candidate or the whole grade took too long
    "memory_limit",  # the candidate's sandbox hit its memory limit
    "candidate_exited",  # the candidate's process ended while it was needed
    "limit",  # the candidate's process used more than a grade may: bytes, requests, callbacks, objects, tensors, graphs
    "protocol",  # the candidate's process sent what no honest one sends
    "form",  # the tests pass, but on values of another form than the gold's
    "values",  # the tests pass, but on other values than the gold's, in a paper that declares them compared
    "no_verdict",  # the trusted side ended without a verdict, twice
    "file_missing",  # an annotated file is gone, a link, a FIFO, too large or not text
    "markers_lost",  # scope blank: the two markers are not there once each, in order
    "gold_fails",  # not_measured: the gold code fails under the same conditions
    "budget",  # not_measured: the run's own tokens or dollars were used up
    "environment",  # not_measured: sandbox, runtime or host
    "model",  # not_measured: provider
    "harness",  # not_measured: a fault of ours
)


class Grader(Protocol):
    """Grades candidate files (annotated path -> bytes, put onto the pristine tree) for one task.

    Raises EnvironmentFault when a sandbox cannot be opened: the caller records not_measured.
    """

    @property
    def mode(self) -> str: ...
    @property
    def version(self) -> str: ...
    def preflight(self, task: Task) -> str:
        """Say why the gold code of a task does not pass here, or return ""; kept, so that asking again is cheap."""

    def grade(self, task: Task, files: Mapping[str, bytes]) -> Grade: ...
    def start_cold(self) -> None:
        """Grade in freshly started interpreters from now on, at their cost; verdicts do not depend on it."""

    def close(self) -> None:
        """End what was kept running for the next grade; grading again is an error."""
