"""What a model would be asked first: a trial's own code up to its first call, with nobody at the other end."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from rcb_agent.agents.base import Findings, Message, Reply, Sampling, Session
from rcb_agent.environments.base import Sandbox, Snapshot, Submission
from rcb_agent.errors import TrialOver, UsageError
from rcb_agent.runs.base import Arm
from rcb_agent.runs.showing import shown_problem
from rcb_agent.runs.trial import budget_of, sampling_of
from rcb_agent.runs.upstream_parts import given_prompt
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import LoadedSuite


@dataclass(frozen=True, slots=True)
class Request:
    """Messages and tools, as they would be sent."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]

    def texts(self) -> list[str]:
        """Return everything in it that counts as input."""
        import json

        return [*(str(message["content"]) for message in self.messages), *(json.dumps(tool) for tool in self.tools)]


def first_request(arm: Arm, suite: LoadedSuite, task: Task) -> Request:
    """Return an arm's first request for a task. Raises UsageError for an arm that asks nothing, or not at once."""
    from rcb_agent.agents.registry import NO_MODEL, load_agent, with_protocol

    if arm.model == NO_MODEL:
        raise UsageError(f"{arm.agent} asks no model")
    agent, listener = load_agent(arm.agent), _Listener(arm.model)
    session = Session(
        workspace=_Nowhere(arm.agent) if agent.uses_workspace else None,
        model=with_protocol(listener, arm.tool_protocol) if arm.tools else listener,
        budget=budget_of(arm, task.id),
        journal=lambda _kind, /, **_fields: None,
        sampling=sampling_of(arm),
        tools=arm.tools,
        paper=arm.paper,
        options=arm.options,
        feedback=_Unasked(arm.feedback) if agent.uses_workspace else None,
        prompt=given_prompt(arm, suite, task),
    )
    with suppress(TrialOver):
        agent.solve(shown_problem(task.problem, arm), session)
    if listener.heard is None:
        raise UsageError(f"agent {arm.agent} asks no model")
    return listener.heard


class _Listener:
    """A model that hears one request and answers nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: Request | None = None

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        del sampling
        self.heard = self.heard or Request(list(messages), list(tools))
        raise TrialOver(f"{self.name} is not asked")


@dataclass(frozen=True, slots=True)
class _Unasked:
    """Feedback that nobody gets to: the first request comes before it."""

    kind: str

    def __call__(self) -> Findings:
        return Findings(parses=False)


class _Nowhere:
    """A workspace for agents that ask before they look."""

    def __init__(self, agent: str) -> None:
        self._agent = agent

    @property
    def sandbox(self) -> Sandbox:
        return self._refuse()

    def snapshot(self) -> Snapshot:
        return self._refuse()

    def submission(self) -> Submission:
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"agent {self._agent} works in its sandbox before it asks: run it and look at the trial")
