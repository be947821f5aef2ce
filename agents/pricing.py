"""What a model's tokens cost and whether it thinks before it answers, by LiteLLM's table; nothing is asked online."""

from dataclasses import dataclass

from rcb_agent.agents.base import Price
from rcb_agent.agents.litellm_model import import_litellm


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """``price`` and ``cached`` (of input read from the provider's cache) in dollars per million tokens; None = unknown."""

    price: Price | None = None
    cached: float | None = None
    reasons: bool = False


def look_up(model: str) -> ModelFacts:
    """Return what is known of a model; a script costs nothing."""
    if model.startswith("scripted/"):
        return ModelFacts(Price(0.0, 0.0), 0.0)
    try:
        found = import_litellm().get_model_info(model)
    except Exception:  # noqa: BLE001 - LiteLLM raises a bare Exception for a model that it does not know
        return ModelFacts()
    sent, made = found.get("input_cost_per_token"), found.get("output_cost_per_token")
    cached = found.get("cache_read_input_token_cost")
    return ModelFacts(
        price=Price(sent * 1e6, made * 1e6) if sent and made else None,
        cached=None if cached is None else cached * 1e6,
        reasons=bool(found.get("supports_reasoning")),
    )
