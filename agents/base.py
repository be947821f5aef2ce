"""The contract of ``agents``: an agent solves a problem in a session; a model completes messages."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from rcb_agent.environments.base import Workspace
from rcb_agent.tasks.base import Problem

Message = dict[str, Any]
"""One chat message in OpenAI's form: role, content, tool_calls, tool_call_id."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model wrote it: ``arguments`` is the raw text, which need not be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls; None where the provider did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None  # of the input, read from the provider's cache
    reasoning_tokens: int | None = None  # of the output, not shown as text

    @property
    def total(self) -> int | None:
        """Input and output together."""
        return _sum(self.input_tokens, self.output_tokens)

    def plus(self, other: "Usage") -> "Usage":
        """Add two usages; unknown plus anything is unknown."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
        )

    def as_json(self) -> dict[str, int | None]:
        """Return the record form; the details are only there where they are known."""
        known = {"input_tokens", "output_tokens"}
        return {name: value for name, value in asdict(self).items() if name in known or value is not None}


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens; cached input counts as input."""

    input: float
    output: float

    def cost(self, usage: Usage) -> float | None:
        """Return what a usage costs, None where it is unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1e6


NOTHING_USED = Usage(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; None means that the parameter is not sent."""

    temperature: float | None = 0.0
    max_output_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    reasoning_effort: str | None = None
    reply_schema: Mapping[str, Any] | None = None  # JSON Schema of the text


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model. ``cost`` is in US dollars, None = unknown (never 0 for unknown).

    ``raw`` is what the provider sent, JSON-able, for the record. ``finish`` is its finish reason, ``refusal`` where it
    marks one. ``retried`` says what the attempts before met. ``thinking``: it sent reasoning beside the text.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    finish: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    retried: Sequence[Mapping[str, object]] = ()
    thinking: bool = False

    @property
    def kind(self) -> str:
        """One of REPLY_KINDS. No provider raises an error for those in SILENCES."""
        if self.finish == "content_filter":
            return "filtered"
        if self.tool_calls or (self.text.strip() and self.finish != "refusal"):
            return "cut" if self.finish == "length" else "answer"
        if self.finish == "refusal":
            return "refusal"
        return "thinking_only" if self.thinking else "empty"


REPLY_KINDS = ("answer", "cut", "filtered", "refusal", "empty", "thinking_only")

SILENCES: Mapping[str, str] = {
    "filtered": "filtered",
    "refusal": "refused",
    "empty": "empty_reply",
    "thinking_only": "empty_reply",
}
"""Kind of a reply that is no answer -> how a trial stops that gets nothing better. Such a reply is no step."""


class Model(Protocol):
    """Completes a conversation.

    Raises ModelUnavailable when no call can succeed, TrialOver when the trial has to end with what is there, else
    ModelError.
    """

    @property
    def name(self) -> str: ...
    def complete(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling
    ) -> Reply: ...


@dataclass(frozen=True, slots=True)
class Budget:
    """What one trial may use. ``seconds`` is wall time of the agent phase, counted from ``started``
    (``time.monotonic``). Tokens (input and output) and dollars are looked at before each call; None = no cap."""

    max_steps: int = 30
    max_seconds: float = 900.0
    max_tokens: int | None = None
    max_cost: float | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def deadline(self) -> float:
        """When the seconds end, on the clock of ``time.monotonic``."""
        return self.started + self.max_seconds

    def seconds_left(self) -> float:
        """Wall seconds left, at least 0."""
        return max(0.0, self.deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class Solution:
    """How the agent phase ended.

    ``stop`` is one of STOPS. ``files`` is set by agents that answer without a workspace (annotated path ->
    bytes); otherwise the workspace as it is gets collected. ``variant`` names which of several ways an agent took
    that has several.
    """

    stop: str
    steps: int
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    files: Mapping[str, bytes] | None = None
    note: str = ""
    variant: str = ""


STOPS = (
    "submitted",  # the submit tool
    "no_tool_call",  # a reply without a call
    "max_steps",
    "max_seconds",
    "max_tokens",
    "max_cost",
    "context_full",  # the conversation is longer than the model takes
    "refused",  # the model refused, and again when asked again
    "filtered",  # the provider's content filter took the answer
    "empty_reply",  # neither text nor call, and again when asked again
    "sandbox_lost",  # the last snapshot is graded, no retry
    "answered",  # a single-shot agent with a usable code block
    "no_answer",  # and without one
    "control",  # oracle and null
    "error",  # a fault of provider, machine or harness: not measured
)


class Journal(Protocol):
    """Takes one trajectory event; ``kind`` is prompt, reply, tool, snapshot, note or stop, fields are JSON-able."""

    def __call__(self, kind: str, /, **fields: Any) -> None: ...


FEEDBACKS = ("none", "import", "own")
"""What an arm's feedback may look at: only whether the code parses, also whether it imports, also the arm's own tests."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What one look at the workspace found; None = not looked at. ``report`` is what a model may be told of it.

    No hidden test has a part in it: code is parsed and imported, and tests that lie in the workspace are run.
    """

    parses: bool
    imports: bool | None = None
    tests: bool | None = None
    report: str = ""

    @property
    def good(self) -> bool:
        """Say that nothing that was looked at went wrong."""
        return self.parses and self.imports is not False and self.tests is not False

    @property
    def rank(self) -> int:
        """How far the code got: the more, the higher."""
        return sum(map(bool, (self.parses, self.imports, self.tests)))


class Feedback(Protocol):
    """Looks at the workspace as it is. ``kind`` is one of FEEDBACKS. Raises SandboxLost."""

    @property
    def kind(self) -> str: ...
    def __call__(self) -> Findings: ...


@dataclass(frozen=True, slots=True)
class Session:
    """All that one trial gives its agent. ``paper`` is prompt, file or none; ``options`` are the agent's own.

    ``prompt`` is the whole first message where the arm does not leave its wording to the agent. ``turn`` is the place of
    the task in the run plus the number of earlier attempts: by it, an agent that has several ways takes them in turn.
    """

    workspace: Workspace | None
    model: Model
    budget: Budget
    journal: Journal
    sampling: Sampling = field(default_factory=Sampling)
    tools: tuple[str, ...] = ()
    paper: str = "file"
    options: Mapping[str, Any] = field(default_factory=dict)
    feedback: Feedback | None = None
    prompt: str | None = None
    turn: int = 0


class Agent(Protocol):
    """Solves one problem. ``uses_workspace`` says whether a sandbox has to be opened for it.

    ``uses_model``, where it is there and False, says that it asks no model; ``uses_tools``, where it is False, that it
    gives its model none although it has a workspace. ``default_feedback``, where it is there, is the kind of feedback
    that its arms get when none is named; an agent without it takes none. ``default_drafts``: how many drafts it makes then. A method ``prepare()``, where there is one, is
    called once before the first trial, to load what is slow to load.
    """

    name: str
    uses_workspace: bool
    default_paper: str

    def solve(self, problem: Problem, session: Session) -> Solution: ...
