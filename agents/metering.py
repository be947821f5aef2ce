"""Stands between an agent and its model: looks at the budget before each call, asks once more after silence.

Silence a second time ends the trial. A cap on tokens or dollars is exceeded by one call at most; once a call's usage or
cost is unknown, a cap on it can no longer be held and the trial ends.

Providers raise no error for a refusal, an empty answer or a content filter; an agent that took one for an answer would
be judged by it. Every ask goes through the model inside, so each is recorded and charged; a silent reply is no step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rcb_agent.agents.base import NOTHING_USED, SILENCES, Budget, Message, Model, Reply, Sampling
from rcb_agent.errors import BudgetSpent, NoAnswer

MAX_ASKS = 2
"""How often one request is made in all while nothing but silence or refusals come back."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What the trial around a model does: ``allow`` may forbid a call by raising, ``remark`` keeps a line."""

    allow: Callable[[], None]
    remark: Callable[[str], None]


class MeteredModel:
    """A model that returns answers only, within a budget."""

    def __init__(self, model: Model, budget: Budget, watch: Watch) -> None:
        self._model = model
        self._budget = budget
        self._watch = watch
        self._usage = NOTHING_USED
        self._cost: float | None = 0.0

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self._model.name

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Complete. Raises BudgetSpent, and NoAnswer after a content filter or MAX_ASKS replies without an answer."""
        for ask in range(1, MAX_ASKS + 1):
            self._check_budget()
            self._watch.allow()
            reply = self._model.complete(messages, tools, sampling)
            self._usage = self._usage.plus(reply.usage)
            self._cost = None if self._cost is None or reply.cost is None else self._cost + reply.cost
            if reply.kind not in SILENCES:
                return reply
            self._watch.remark(f"no answer: {reply.kind} (ask {ask} of {MAX_ASKS})")
            if reply.kind == "filtered":  # the same words would meet the same filter
                break
        raise NoAnswer(f"{self.name}: no answer: {reply.kind}", SILENCES[reply.kind])

    def _check_budget(self) -> None:
        for used, cap, stop in (
            (self._usage.total, self._budget.max_tokens, "max_tokens"),
            (self._cost, self._budget.max_cost, "max_cost"),
        ):
            if cap is not None and used is None:
                raise BudgetSpent(f"{stop}: what a call took is unknown, so the cap cannot be held", stop)
            if cap is not None and used is not None and used >= cap:
                raise BudgetSpent(f"{stop}: {used:g} of {cap:g} used", stop)
