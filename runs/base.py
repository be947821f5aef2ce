"""The contract of ``runs``: what is compared, what a trial takes and returns, and how its records look.

Everything here is JSON-able on purpose: ``run_trial(spec, emit)`` must be able to run on another machine, so it
gets values, opens its own model and sandbox, and hands everything it wants kept to ``emit``. The files
under ``schema/`` say the same for readers of a run folder.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

SCHEMA_VERSION = 1

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Arm:
    """What is compared. ``id`` is a unique slug within the run; every other field may differ between arms.

    ``prompt`` is standard (the agent's own words) or upstream (those of the benchmark's authors). ``context`` is full or
    target (no context files); ``feedback`` one of ``agents.base.FEEDBACKS``. ``match`` is empty, or a budget per task
    after another arm's: ``{"run", "arm", "by": tokens, dollars or steps, "tasks": {task id: amount}}``.
    """

    id: str
    agent: str
    model: str
    tools: tuple[str, ...] = ()
    paper: str = "file"
    prompt: str = "standard"
    context: str = "full"
    feedback: str = "none"
    max_steps: int = 30
    max_seconds: float = 900.0
    temperature: float | None = 0.0
    max_output_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    price: tuple[float, float] | None = None
    tool_protocol: str = "auto"
    match: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the form that stands in ``run.json``."""
        price = None if self.price is None else list(self.price)
        record = {**asdict(self), "tools": list(self.tools), "price": price, "options": dict(self.options)}
        if not self.match:  # an arm as it was before budgets could be matched
            del record["match"]
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Arm":
        """Rebuild an arm from its record."""
        price = record.get("price")
        return cls(**{**record, "tools": tuple(record["tools"]), "price": tuple(price) if price else None})


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """One trial to carry out; ``suite`` is a name or a path that the executing machine can load, ``pythons`` maps
    runtimes to a Python that is used in place of the built one, ``container`` is the run's (see ``runs.containers``).
    ``turn``: see ``agents.base.Session``.
    """

    arm: Arm
    suite: str
    task: str
    attempt: int
    sandbox: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    pythons: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    turn: int = 0

    @property
    def name(self) -> str:
        """The file name stem of this trial's trajectory and calls."""
        return trial_name(self.arm.id, self.task, self.attempt)


class Emit(Protocol):
    """Takes what a trial wants kept while it runs.

    ``kind`` is ``event`` (one trajectory event), ``call`` (one model call) or ``blob`` (``sha256`` and
    base64 ``data``); ``payload`` is JSON-able. ``ask`` comes before each model call, keeps nothing and raises
    RunBudgetSpent when the run may not make another one.
    """

    def __call__(self, kind: str, payload: Json, /) -> None: ...


def slug(text: str, limit: int = 40) -> str:
    """Return ``text`` as a part of a file name: lower-case letters, digits and dashes, never empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:limit].strip("-") or "x"


def trial_name(arm: str, task_id: str, attempt: int) -> str:
    """``<arm>.<paper>.<slug>-<6 hex of sha256(task id)>.<attempt>`` (DESIGN section 5)."""
    paper, _, name = task_id.partition("/")
    mark = hashlib.sha256(task_id.encode()).hexdigest()[:6]
    return f"{arm}.{slug(paper)}.{slug(name)}-{mark}.{attempt}"
