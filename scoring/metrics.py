"""Rates of a set of trials, as pure functions: plain and line-weighted, with what was not measured as a bracket.

Rates are percentages. ``not_measured`` counts as not passed, and as passed in the ``*_upper`` rates. Several attempts
at a task are averaged within the task first, so that a task counts once however often it was tried. No trials give
None, never NaN and never 100 % of nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED, VERDICTS


@dataclass(frozen=True, slots=True)
class Row:
    """One graded trial in one scope; ``depth`` is 0 for an outermost blank."""

    task: str
    paper: str
    loc: int
    depth: int
    verdict: str
    attempt: int = 1
    form_only: bool = False
    values_only: bool = False

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"{self.task}: {self.verdict!r} is no verdict")


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of trials and rates over tasks.

    ``loc_passed`` of ``loc_total`` lines: a task's lines count by the share of its attempts that passed.
    ``form_only`` trials failed by the form gate alone, ``values_only`` ones by the comparison with the gold's values
    alone; ``*_without_form`` and ``*_without_values`` count them as passed.
    """

    trials: int
    tasks: int
    passed: int
    failed: int
    not_measured: int
    form_only: int
    values_only: int
    loc_passed: float
    loc_passed_upper: float
    loc_total: int
    pass_rate: float | None
    pass_rate_upper: float | None
    pass_rate_without_form: float | None
    pass_rate_without_values: float | None
    scaled_pass_rate: float | None
    scaled_pass_rate_upper: float | None
    scaled_pass_rate_without_form: float | None
    scaled_pass_rate_without_values: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the record form; whole numbers of lines are ints."""
        record = asdict(self)
        for key in ("loc_passed", "loc_passed_upper"):
            record[key] = int(record[key]) if float(record[key]).is_integer() else record[key]
        return record


def summarise(rows: Iterable[Row]) -> Summary:
    """Summarise trials, whatever their order."""
    known = list(rows)
    tasks = _by_task(known)
    sound = _weigh(tasks, lambda row: row.verdict == PASSED)
    upper = _weigh(tasks, lambda row: row.verdict in (PASSED, NOT_MEASURED))
    without_form = _weigh(tasks, lambda row: row.verdict == PASSED or row.form_only)
    without_values = _weigh(tasks, lambda row: row.verdict == PASSED or row.values_only)
    return Summary(
        trials=len(known),
        tasks=len(tasks),
        passed=sum(row.verdict == PASSED for row in known),
        failed=sum(row.verdict == FAILED for row in known),
        not_measured=sum(row.verdict == NOT_MEASURED for row in known),
        form_only=sum(row.form_only for row in known),
        values_only=sum(row.values_only for row in known),
        loc_passed=float(sound.lines),
        loc_passed_upper=float(upper.lines),
        loc_total=sound.total,
        pass_rate=sound.pass_rate,
        pass_rate_upper=upper.pass_rate,
        pass_rate_without_form=without_form.pass_rate,
        pass_rate_without_values=without_values.pass_rate,
        scaled_pass_rate=sound.scaled_pass_rate,
        scaled_pass_rate_upper=upper.scaled_pass_rate,
        scaled_pass_rate_without_form=without_form.scaled_pass_rate,
        scaled_pass_rate_without_values=without_values.scaled_pass_rate,
    )


def outermost(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows of blanks that lie in no other blank: their lines count once."""
    return tuple(row for row in rows if row.depth == 0)


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """Return the unbiased estimate of the chance that at least one of ``k`` attempts passes (one task).

    1 - C(n-c, k) / C(n, k) as a product that never leaves [0, 1]. Raises ValueError outside 1 <= k <= n, 0 <= c <= n.
    """
    if not 1 <= k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"pass@{k} of {passed} passed in {attempts} attempts is not defined")
    if attempts - passed < k:
        return 1.0
    missing = 1.0
    for index in range(attempts - passed + 1, attempts + 1):
        missing *= 1.0 - k / index
    return 1.0 - missing


def pass_at_k_rates(rows: Iterable[Row], k: int) -> tuple[float | None, float | None]:
    """Return (plain, line-weighted) pass@k in percent over all tasks; None where a task has fewer attempts than k."""
    tasks = _by_task(rows)
    if not tasks or any(len(attempts) < k for attempts in tasks.values()):
        return None, None
    chances = [
        (attempts[0].loc, pass_at_k(len(attempts), sum(row.verdict == PASSED for row in attempts), k))
        for attempts in tasks.values()
    ]
    lines = sum(loc for loc, _ in chances)
    plain = 100 * sum(chance for _, chance in chances) / len(chances)
    return plain, 100 * sum(loc * chance for loc, chance in chances) / lines if lines else None


@dataclass(frozen=True, slots=True)
class _Weight:
    """Passed tasks and lines, as exact fractions of attempts."""

    tasks: Fraction
    count: int
    lines: Fraction
    total: int

    @property
    def pass_rate(self) -> float | None:
        return float(100 * self.tasks / self.count) if self.count else None

    @property
    def scaled_pass_rate(self) -> float | None:
        return float(100 * self.lines / self.total) if self.total else None


def _by_task(rows: Iterable[Row]) -> dict[str, list[Row]]:
    tasks: dict[str, list[Row]] = {}
    for row in rows:
        tasks.setdefault(row.task, []).append(row)
    return tasks


def _weigh(tasks: Mapping[str, list[Row]], counts: Callable[[Row], bool]) -> _Weight:
    shares = [(rows[0].loc, Fraction(sum(map(counts, rows)), len(rows))) for rows in tasks.values()]
    return _Weight(
        tasks=sum((share for _, share in shares), Fraction()),
        count=len(shares),
        lines=sum((loc * share for loc, share in shares), Fraction()),
        total=sum(loc for loc, _ in shares),
    )
