"""Keeps the caps of a whole run on tokens and dollars, over all its trials and everything it made before.

It is asked before each model call and told of each call's record, so calls under way at once may exceed a cap by one
each. The caps are no part of the config: they end a run early, they change no result, and a resume may raise them.
"""

import threading
from dataclasses import dataclass

from rcb_agent.errors import RunBudgetSpent
from rcb_agent.runs.base import Emit, Json


@dataclass(frozen=True, slots=True)
class RunCaps:
    """Tokens (input and output) and dollars of a run; None = no cap."""

    tokens: int | None = None
    cost: float | None = None

    @property
    def any(self) -> bool:
        """Say whether there is a cap at all."""
        return self.tokens is not None or self.cost is not None


class Purse:
    """What a run has used; unknown amounts make a cap on them impossible to hold, which ends the run as well."""

    def __init__(self, caps: RunCaps, earlier: list[Json]) -> None:
        self._caps = caps
        self._mutex = threading.Lock()
        self._tokens: int | None = 0
        self._cost: float | None = 0.0
        for reply in earlier:
            self._add(reply)

    def guard(self, emit: Emit) -> Emit:
        """Return ``emit`` with this purse before it."""

        def watched(kind: str, payload: Json, /) -> None:
            if kind == "ask" and (why := self.spent()):
                raise RunBudgetSpent(why)
            emit(kind, payload)
            if kind == "call" and payload["reply"] is not None:
                self._add(payload["reply"])

        return watched

    def spent(self) -> str:
        """Say which cap is reached, empty for none."""
        with self._mutex:
            for used, cap, name in (
                (self._tokens, self._caps.tokens, "run-max-tokens"),
                (self._cost, self._caps.cost, "run-max-cost"),
            ):
                if cap is not None and used is None:
                    return f"--{name}: what a call took is unknown, so the cap cannot be held"
                if cap is not None and used is not None and used >= cap:
                    return f"--{name}: {used:g} of {cap:g} used"
        return ""

    def _add(self, reply: Json) -> None:
        sent, made, cost = reply["usage"]["input_tokens"], reply["usage"]["output_tokens"], reply["cost"]
        with self._mutex:
            self._tokens = None if None in {self._tokens, sent, made} else self._tokens + sent + made
            self._cost = None if self._cost is None or cost is None else self._cost + cost
