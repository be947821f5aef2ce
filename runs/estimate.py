"""What a run would take, before anything is spent: tokens, dollars and minutes per arm, as low, middle and high.

The first request is measured. What comes after it is assumed: how long answers are, how many steps an agent takes, how
much its tools return, how much of the conversation the provider has cached. The assumptions are in ``ASSUMED`` and are
printed beside the numbers; they are guesses of ours, no measurements.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rcb_agent.agents.base import Price
from rcb_agent.agents.pricing import ModelFacts
from rcb_agent.agents.tokens import Count
from rcb_agent.runs.base import Arm, Json
from rcb_agent.runs.first_request import first_request
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite

Band = tuple[float, float, float]
CASES = ("low", "middle", "high")

ASSUMED: Mapping[str, Band] = {
    "tokens per line of a direct answer": (12, 20, 40),
    "tokens of a direct answer beside its code": (20, 150, 800),
    "steps of an agent": (6, 12, 30),
    "tokens of an agent's reply": (80, 200, 500),
    "tokens that a step's tools return": (300, 900, 2_500),
    "part of a paper file that is read": (0.0, 0.5, 1.0),
    "tokens of thought per reply, where reasoning effort is asked for": (300, 2_000, 10_000),
    "tokens of thought per reply, of a model that can reason and is not asked to": (0, 1_000, 10_000),
    "part of a repeated conversation that is cached": (1.0, 0.8, 0.0),
    "tokens per second of a reply": (100, 50, 25),
    "seconds per reply beside its tokens": (1, 3, 8),
    "seconds of a step's tools": (0.2, 1, 4),
    "drafts of a self-repair": (1, 3, 8),
    "tokens of a test file that a model writes": (150, 400, 1_000),
    "tokens of a report on a draft": (30, 200, 1_000),
}


@dataclass(frozen=True, slots=True)
class ArmEstimate:
    """One arm over all its trials; ``cost`` None = unknown. ``cached`` is a part of ``sent``."""

    arm: str
    trials: int
    counted: str
    sent: Band
    cached: Band
    made: Band
    cost: Band | None
    minutes: Band

    def as_json(self) -> Json:
        """Return the document form."""
        bands = {
            "input_tokens": self.sent,
            "cached_tokens": self.cached,
            "output_tokens": self.made,
            "cost": self.cost,
            "minutes": self.minutes,
        }
        named = {name: band and dict(zip(CASES, band, strict=True)) for name, band in bands.items()}
        return {"arm": self.arm, "trials": self.trials, "counted_by": self.counted, **named}


@dataclass(frozen=True, slots=True)
class Scale:
    """What multiplies one trial: attempts, trials at once; and how tokens are counted."""

    attempts: int
    workers: int
    count: Callable[[Sequence[str], str], Count]


def estimate_arm(arm: Arm, suite: LoadedSuite, tasks: Sequence[Task], facts: ModelFacts, scale: Scale) -> ArmEstimate:
    """Estimate one arm. Raises UsageError where its first request cannot be known without a sandbox."""
    from rcb_agent.agents.registry import NO_MODEL

    trials = len(tasks) * scale.attempts
    if arm.model == NO_MODEL:
        return ArmEstimate(arm.id, trials, "nothing is asked", _NOTHING, _NOTHING, _NOTHING, _NOTHING, _NOTHING)
    start, counted = _measure_start(arm, suite, tasks, scale)
    price = Price(*arm.price) if arm.price else facts.price
    cached = None if arm.price else facts.cached
    thoughts = _thoughts(arm, facts)
    cases = [_assume_trial(arm, start, index, thoughts[index]) for index in range(len(CASES))]
    minutes = [
        _seconds(arm, case, index) * trials / min(scale.workers, trials) / 60 for index, case in enumerate(cases)
    ]
    return ArmEstimate(
        arm=arm.id,
        trials=trials,
        counted=counted,
        sent=_band(case.sent * trials for case in cases),
        cached=_band(case.cached * trials for case in cases),
        made=_band(case.made * trials for case in cases),
        cost=None if price is None else _band(_dollars(arm, case, price, cached) * trials for case in cases),
        minutes=_band(minutes),
    )


_NOTHING: Band = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Start:
    """Of a mean trial: tokens of its first request and of its paper where that is a file, lines of its blank."""

    first: float
    paper: float
    lines: float


@dataclass(frozen=True, slots=True)
class _Trial:
    """What one trial takes under one of the three sets of assumptions."""

    steps: float
    sent: float
    cached: float
    made: float


def _measure_start(arm: Arm, suite: LoadedSuite, tasks: Sequence[Task], scale: Scale) -> tuple[_Start, str]:
    """Look at the first request of each task; of one task per paper where it hardly depends on the task."""
    sample = tasks if not arm.tools else list({task.info.id: task for task in tasks}.values())
    requests = [first_request(arm, suite, task) for task in sample]
    first = scale.count([text for request in requests for text in request.texts()], arm.model)
    papers = [task.problem.paper.text for task in sample if task.problem.paper and arm.paper == "file"]
    paper = scale.count(papers, arm.model).tokens / len(sample)
    lines = sum(task.problem.loc for task in tasks) / len(tasks)
    return _Start(first.tokens / len(sample), paper, lines), first.by if first.exact else f"{first.by}, a stand-in"


def _thoughts(arm: Arm, facts: ModelFacts) -> Band:
    if arm.reasoning_effort is not None:
        return ASSUMED["tokens of thought per reply, where reasoning effort is asked for"]
    if facts.reasons:
        return ASSUMED["tokens of thought per reply, of a model that can reason and is not asked to"]
    return _NOTHING


def _assume_trial(arm: Arm, start: _Start, index: int, thought: float) -> _Trial:
    case = {name: band[index] for name, band in ASSUMED.items()}
    if not arm.tools:
        answer = start.lines * case["tokens per line of a direct answer"]
        made = answer + case["tokens of a direct answer beside its code"] + thought
        return _assume_drafts(arm, start, case, made)
    steps = min(case["steps of an agent"], _most_steps(arm))
    repeats = steps - 1
    paper = start.paper * case["part of a paper file that is read"]
    growth = case["tokens of an agent's reply"] + case["tokens that a step's tools return"]
    sent = steps * start.first + repeats * (paper + steps / 2 * growth)
    newest = start.first + repeats * growth + (paper if repeats else 0.0)
    cached = (sent - newest) * case["part of a repeated conversation that is cached"]
    return _cap(_Trial(steps, sent, cached, steps * (case["tokens of an agent's reply"] + thought)), _most_tokens(arm))


def _assume_drafts(arm: Arm, start: _Start, case: Mapping[str, float], made: float) -> _Trial:
    """Assume an arm without tools: one answer, or drafts and, where it has to have tests of its own, a test file."""
    repairs = arm.agent == "self-repair"
    drafts = case["drafts of a self-repair"] if repairs else arm.max_steps if arm.agent == "best-of-n" else 1.0
    drafts = min(drafts, arm.options.get("n") or drafts)
    tests = 1.0 if arm.feedback == "own" and drafts > 1 else 0.0
    steps = min(drafts + tests, _most_steps(arm))
    again = (drafts - 1) / 2 * drafts * (made + case["tokens of a report on a draft"]) if repairs else 0.0
    sent = steps * start.first + again
    cached = max(0.0, steps - 1) * start.first * case["part of a repeated conversation that is cached"]
    output = (steps - tests) * made + tests * case["tokens of a test file that a model writes"]
    return _cap(_Trial(steps, sent, cached, output), _most_tokens(arm))


def _most_steps(arm: Arm) -> float:
    return min(arm.max_steps, _matched(arm, "steps") or arm.max_steps)


def _most_tokens(arm: Arm) -> float | None:
    caps = [cap for cap in (arm.max_tokens, _matched(arm, "tokens")) if cap is not None]
    return min(caps, default=None)


def _matched(arm: Arm, by: str) -> float | None:
    """Return what a matched budget allows a mean task, None where it is not of this kind."""
    return fmean(arm.match["tasks"].values()) if arm.match.get("by") == by else None


def _cap(trial: _Trial, tokens: float | None) -> _Trial:
    if tokens is None or trial.sent + trial.made <= tokens:
        return trial
    part = tokens / (trial.sent + trial.made)
    return _Trial(trial.steps * part, trial.sent * part, trial.cached * part, trial.made * part)


def _dollars(arm: Arm, trial: _Trial, price: Price, cached: float | None) -> float:
    again = price.input if cached is None else cached
    dollars = (trial.sent - trial.cached) * price.input + trial.cached * again + trial.made * price.output
    caps = [cap for cap in (arm.max_cost, _matched(arm, "dollars")) if cap is not None]
    return min([dollars / 1e6, *caps])


def _seconds(arm: Arm, trial: _Trial, index: int) -> float:
    waiting = ASSUMED["seconds per reply beside its tokens"][index]
    tools = ASSUMED["seconds of a step's tools"][index] if arm.max_steps > 1 else 0.0
    writing = trial.made / ASSUMED["tokens per second of a reply"][index]
    return min(writing + trial.steps * (waiting + tools), arm.max_seconds)


def _band(values: Iterable[float]) -> Band:
    low, middle, high = values
    return low, middle, high
