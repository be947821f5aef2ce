"""What an arm was given beside its agent, model and tools, as tables say it."""

from collections.abc import Mapping
from typing import Any

from rcb_agent.runs.base import Json


def describe_setup(arm: Mapping[str, Any]) -> Json:
    """Return the fields of a recorded arm that tables and documents carry; a matched budget without its amounts."""
    match = arm.get("match") or None
    return {
        "paper": arm.get("paper"),
        "context": arm.get("context", "full"),
        "feedback": arm.get("feedback", "none"),
        "drafts": arm.get("options", {}).get("n"),
        "match": match and {name: match[name] for name in ("run", "arm", "by")},
    }


def setup_line(setup: Mapping[str, Any]) -> str:
    """Return in words what is not as usual, empty when all is."""
    parts = []
    if setup["context"] != "full":
        parts.append("no context files")
    if setup["feedback"] != "none":
        parts.append(f"feedback {setup['feedback']}")
    if setup["drafts"] is not None:
        parts.append(f"at most {setup['drafts']} drafts")
    if match := setup["match"]:
        parts.append(f"per task the {match['by']} of {match['arm']} in {match['run']}")
    return ", ".join(parts)
