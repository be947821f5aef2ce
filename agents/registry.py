"""Finds agents and models by name, importing each only when it is asked for.

An agent is a short name, a plug-in's name (entry-point group ``rcb_agent.agents``) or ``module:Class``. A model is
``scripted/<script>`` or ``<provider>/<model>`` as LiteLLM spells it.
"""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, cast

from rcb_agent.agents.base import Agent, Model, Price, Reply, Sampling
from rcb_agent.agents.prompts import prompts_digest
from rcb_agent.agents.tools import DEFAULT_TOOLS, TOOL_NAMES, select_tools
from rcb_agent.errors import UsageError

AGENTS = {
    "best-of-n": "rcb_agent.agents.best_of_n:BestOfNAgent",
    "cheater": "rcb_agent.agents.cheater:CheaterAgent",
    "direct": "rcb_agent.agents.direct:DirectAgent",
    "react": "rcb_agent.agents.react:ReactAgent",
    "self-repair": "rcb_agent.agents.self_repair:SelfRepairAgent",
}
GROUP = "rcb_agent.agents"

__all__ = ["AGENTS", "DEFAULT_TOOLS", "TOOL_NAMES", "load_agent", "open_model", "prompts_digest", "select_tools"]


def load_agent(name: str) -> Agent:
    """Return an agent by short name, plug-in name or ``module:Class``."""
    path = AGENTS.get(name) or (name if ":" in name else _find_plugin(name))
    agent = _make(_import_class(path, name), name)
    missing = [part for part in ("name", "uses_workspace", "default_paper", "solve") if not hasattr(agent, part)]
    if missing:
        raise UsageError(f"{path} is no agent: it has no {', '.join(missing)}")
    return cast("Agent", agent)


def _make(kind: Any, name: str) -> Any:
    try:
        return kind()
    except TypeError as error:
        raise UsageError(f"agent {name!r} cannot be made without arguments: {error}") from error


def _find_plugin(name: str) -> str:
    plugins = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    if name not in plugins:
        known = ", ".join(sorted({*AGENTS, *plugins}))
        raise UsageError(f"unknown agent {name!r}; known: {known}, the controls oracle and null, or module:Class")
    return plugins[name]


def _import_class(path: str, name: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        hint = "; is its folder on PYTHONPATH?" if isinstance(error, ModuleNotFoundError) else ""
        raise UsageError(f"agent {name!r} cannot be loaded from {path}: {error}{hint}") from error
    if not callable(found):
        raise UsageError(f"agent {name!r}: {path} is no class")
    return found


def prepare_model(name: str, sampling: Sampling, *, needs_price: bool = False) -> None:
    """Check a model's name and import what its calls need, so that neither happens on a trial's clock.

    Raises UsageError for a provider that LiteLLM does not know, a parameter that the model does not take, and a price
    that is needed and unknown.
    """
    open_model(name)
    if not name.startswith("scripted/"):
        from rcb_agent.agents.litellm_model import check_price, check_provider, check_sampling, warm_up

        check_provider(name)
        warm_up()
        check_sampling(name, sampling)
        if needs_price:
            check_price(name)


NO_MODEL = "none"
"""The model of arms that ask none."""


class NoModel:
    """Stands in a session whose agent asks no model."""

    name = NO_MODEL

    def complete(self, *_: Any, **__: Any) -> Reply:
        """Refuse: there is nobody to ask."""
        raise UsageError("this agent has no model")


def asks_model(agent: Agent | None) -> bool:
    """Say whether an agent asks a model; controls are no agents and ask none."""
    return agent is not None and bool(getattr(agent, "uses_model", True))


def uses_tools(agent: Agent | None) -> bool:
    """Say whether an agent gives its model tools."""
    return agent is not None and agent.uses_workspace and asks_model(agent) and bool(getattr(agent, "uses_tools", True))


def default_feedback(agent: Agent | None) -> str | None:
    """Return the kind of feedback that an agent gets when none is named; None for agents that take none."""
    return getattr(agent, "default_feedback", None)


PROTOCOLS = ("auto", "native", "json")


def with_protocol(model: Model, protocol: str) -> Model:
    """Return a model that speaks the tool protocol; ``auto`` is native wherever LiteLLM can hand tools on."""
    if protocol == "auto":
        protocol = "native"
        if model.name != NO_MODEL and not model.name.startswith("scripted/"):
            from rcb_agent.agents.litellm_model import takes_tools

            protocol = "native" if takes_tools(model.name) else "json"
    if protocol == "native":
        return model
    from rcb_agent.agents.json_protocol import JsonToolsModel

    return JsonToolsModel(model)


def open_model(name: str, deadline: float | None = None, price: Price | None = None) -> Model:
    """Return a model by name; nothing is contacted before its first call.

    ``deadline`` (``time.monotonic``) is when the trial's seconds end: no call waits longer. ``price`` stands in for LiteLLM's table.
    """
    if name == NO_MODEL:
        return NoModel()
    provider, slash, model = name.partition("/")
    if not (provider and slash and model):
        raise UsageError(f"model {name!r} names no provider; write for example openai/gpt-4o-mini or scripted/demo")
    if provider == "scripted":
        from rcb_agent.agents.scripted import open_script

        return open_script(model)
    from rcb_agent.agents.litellm_model import LiteLLMModel

    return LiteLLMModel(name, deadline=deadline, price=price)
