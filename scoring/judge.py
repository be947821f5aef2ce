"""Turns what the two processes left into a grade. Pure: the same facts always give the same verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rcb_agent.environments.base import CommandResult
from rcb_agent.scoring.base import FAILED, PASSED, Grade, TestResult
from rcb_agent.scoring.form import Entries, Live, Names
from rcb_agent.scoring.gold_form import first_changed_name, first_difference
from rcb_agent.scoring.gold_values import GoldValues, Tolerance, first_other_value
from rcb_agent.scoring.pair import PairResult
from rcb_agent.scoring.trusted_declared import Kept
from rcb_agent.scoring.trusted_gates import Irregular

_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Expected:
    """What the gold code's own run showed: its test ids, the form of every crossing, its odd comparisons, which
    crossings were tensors that it goes on changing, the names that star imports took, and the numbers that crossed, where
    these are compared."""

    manifest: tuple[str, ...]
    trace: Entries = field(default_factory=dict)
    irregular: Irregular = field(default_factory=dict)
    live: Live = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    values: GoldValues | None = None
    kept: Kept = field(default_factory=dict)
    tolerance: Tolerance = field(default_factory=lambda: Tolerance(0.0, 0.0))
    salt: str = ""
    is_gold: bool = False
    """The gold code's own run: nothing is known yet."""

    def settings(self) -> dict[str, Any]:
        """Return what the trusted side is told of it; the numbers are not."""
        known = {
            "irregular": self.irregular,
            "kept": self.kept,
            "trace": self.trace,
            "live": self.live,
            "names": self.names,
        }
        return dict.fromkeys(known) if self.is_gold else known


def judge(result: PairResult, expected: Expected) -> Grade:
    """Return the grade of one run; in the gold's own every test that ran must have passed."""
    tests = _test_results(result.verdict, expected)
    reason, message = _reason(result, tests)
    gates = _gates(expected, result.verdict) if result.verdict and not reason and not expected.is_gold else {}
    if gates:
        reason, message = next(iter(gates.items()))
    return Grade(
        verdict=FAILED if reason else PASSED,
        reason=reason,
        message=message,
        tests=tests,
        flags=_flags(result),
        seconds=result.seconds,
        form_only=list(gates) == ["form"],
        values_only=list(gates) == ["values"],
        details=_details(result),
    )


def _reason(result: PairResult, tests: tuple[TestResult, ...]) -> tuple[str, str]:
    if (fault := _process_fault(result)) is not None:
        return fault
    verdict = result.verdict or {}
    failed = next((test for test in tests if test.outcome != "passed"), None)
    if verdict["memory_error"] and (failed is not None or verdict["import_failure"]):
        return "memory_limit", "the candidate's process ran out of memory"
    if verdict["import_failure"]:
        return "import_error", verdict["import_failure"]
    if verdict["load_error"]:
        reason = "import_error" if verdict["load_error_is_import"] else "tests_failed"
        return reason, f"the tests cannot be loaded: {verdict['load_error']}"
    if failed is not None:
        return "tests_failed", f"{failed.id}: {failed.outcome}: {failed.message}"
    if not tests:
        return "tests_failed", "no test ran"
    return "", ""


def _gates(expected: Expected, verdict: Mapping[str, Any]) -> dict[str, str]:
    """Return what the gates say to a run whose tests pass: reason -> message, the form first."""
    form = first_changed_name(expected.names, verdict["names"]) or first_difference(expected.trace, verdict["trace"])
    values = first_other_value(expected.values, verdict, expected.tolerance) if expected.values else ""
    return {reason: message for reason, message in (("form", form), ("values", values)) if message}


def _process_fault(result: PairResult) -> tuple[str, str] | None:
    """Return what ended a process before its time, whatever the tests say."""
    ended = result.verdict["ended"] if result.verdict else None
    candidate = result.candidate
    if candidate is not None and candidate.killed == "memory":
        return "memory_limit", "the candidate's sandbox hit its memory limit"
    if ended is not None and ended[0] == "candidate_exited":
        status = f" (exit status {candidate.exit_code})" if candidate else ""
        return "candidate_exited", f"the candidate's process ended while it was needed{status}"
    if ended is not None:
        return str(ended[0]), str(ended[1])
    if result.verdict is not None:
        return None
    if result.trusted is not None and result.trusted.timed_out:
        return "time_limit", "the grade took too long"
    return "no_verdict", "the trusted side ended without a verdict"


def _test_results(verdict: Mapping[str, Any] | None, expected: Expected) -> tuple[TestResult, ...]:
    """Return the outcome of every test id seen or expected; one that is not in the manifest is no pass."""
    seen = {
        test["id"]: TestResult(test["id"], test["outcome"], test["message"], test["milliseconds"] / 1000)
        for test in (verdict["tests"] if verdict else ())
    }
    if expected.is_gold:
        return tuple(seen.values())
    missing = [TestResult(name, "missing", "the test did not run") for name in expected.manifest if name not in seen]
    known = [test if test.id in expected.manifest else _unknown(test) for test in seen.values()]
    return (*known, *missing)


def _unknown(test: TestResult) -> TestResult:
    if test.outcome != "passed":
        return test
    return TestResult(test.id, "other", "no test of the gold code's run has this id", test.seconds)


def _flags(result: PairResult) -> tuple[str, ...]:
    flags = [f"refused_callback:{name}" for name in (result.verdict["refused"] if result.verdict else ())]
    if result.candidate is not None and result.candidate.survivors:
        flags.append(f"survivors:{result.candidate.survivors}")
    if result.candidate_lost:
        flags.append(f"sandbox_lost:{result.candidate_lost}")
    return tuple(flags)


def _details(result: PairResult) -> dict[str, Any]:
    """Return evidence for people; no rule reads it."""
    verdict = result.verdict or {}
    return {
        "calls": verdict.get("calls", 0),
        "bytes": verdict.get("bytes", 0),
        "enforcement": dict(result.enforcement),
        "candidate": _output(result.candidate),
        "trusted": _output(result.trusted),
    }


def _output(result: CommandResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {"exit_code": result.exit_code, "seconds": round(result.seconds, 3), "output": result.text(_TAIL)}
