"""Guards: a failure that is counted as another kind of mistake than it shows."""

from typing import Any

import pytest

from rcb_agent.scoring.error_classes import CLASSES, PAPER, classify_failure, count_classes


def grade(reason: str = "tests_failed", message: str = "", *tests: str, **changes: Any) -> dict[str, Any]:
    """Make the record of a failed grade, with the messages of its failed tests."""
    found = [{"id": f"t{n}", "outcome": "failed", "message": text, "seconds": 0.0} for n, text in enumerate(tests)]
    passed = {"id": "ok", "outcome": "passed", "message": "", "seconds": 0.0}
    return {"verdict": "failed", "reason": reason, "message": message, "tests": [passed, *found], **changes}


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (grade("import_error", "model: SyntaxError: '(' was never closed (model.py, line 3)"), "syntax"),
        (grade("import_error", "model: IndentationError: unexpected indent (model.py, line 3)"), "syntax"),
        (grade("import_error", "model: ModuleNotFoundError: No module named 'einops'"), "import"),
        (grade("import_error", "model: NameError: name 'np' is not defined"), "name"),
        (grade("import_error", "model: ValueError: odd"), "import"),
        (grade("tests_failed", "", "NameError: name 'x' is not defined"), "name"),
        (grade("tests_failed", "", "RemoteError: UnboundLocalError: cannot access local variable"), "name"),
        (grade("tests_failed", "", "TypeError: f() takes 1 positional argument but 2 were given"), "type"),
        (grade("tests_failed", "", "AttributeError: module 'm' has no attribute 'f'"), "attribute"),
        (grade("tests_failed", "", "KeyError: 'a'"), "index/key"),
        (grade("tests_failed", "", "IndexError: list index out of range"), "index/key"),
        (grade("tests_failed", "", "ValueError: shapes differ"), "functional"),
        (grade("tests_failed", "", "AssertionError: TypeError: is only quoted here"), "functional"),
        (grade("tests_failed", "no test ran"), "functional"),
        (grade("time_limit", "the grade took too long"), "timeout"),
        (grade("memory_limit", ""), "resource"),
        (grade("limit", ""), "resource"),
        (grade("form", "list against tuple"), "functional"),
        (grade("values", ""), "functional"),
        (grade("candidate_exited", ""), "other"),
        (grade("file_missing", ""), "other"),
    ],
)
def test_each_failure_is_what_it_shows(record: dict[str, Any], kind: str) -> None:
    assert classify_failure(record) == kind


def test_an_exception_says_more_than_failed_comparisons() -> None:
    """Two wrong values and one missing name: the name is the mistake that can be told."""
    record = grade("tests_failed", "", "AssertionError: 1 != 2", "NameError: name 'x'", "AssertionError: 3 != 4")
    assert classify_failure(record) == "name"


def test_the_commonest_exception_counts() -> None:
    record = grade("tests_failed", "", "TypeError: a", "KeyError: b", "KeyError: c")
    assert classify_failure(record) == "index/key"


def test_what_a_program_printed_is_read_in_mode_upstream() -> None:
    """There are no test records there; the last lines of the program are all there is."""
    output = "Traceback (most recent call last):\n  File\nAttributeError: no f\n\nFAILED (errors=1)\n"
    record = grade(
        "tests_failed", "exit status 1: FAILED (errors=1)", details={"candidate": {"output": output}}, tests=[]
    )
    assert classify_failure(record) == "attribute"
    torch = output.replace("AttributeError", "torch.cuda.OutOfMemoryError")
    assert classify_failure({**record, "details": {"candidate": {"output": torch}}}) == "functional"
    assert classify_failure({**record, "details": {}, "message": "exit code 1"}) == "unknown"


def test_what_did_not_fail_is_no_failure() -> None:
    """Neither a pass nor what was not measured is counted; every class is there, counted or not."""
    records = [{**grade(), "verdict": "passed"}, {**grade("model"), "verdict": "not_measured"}, grade("time_limit")]
    counts = count_classes(records)
    assert (sum(counts.values()), counts["timeout"]) == (1, 1)
    assert tuple(counts) == CLASSES
    assert PAPER.keys() == counts.keys()
