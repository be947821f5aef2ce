"""How a snapshot stands in a trajectory."""

from typing import Any

from rcb_agent.agents.arguments import printable
from rcb_agent.environments.base import Snapshot


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the record form; names with bytes that are not UTF-8 are spelled out."""
    return {
        "files": {printable(path): digest for path, digest in snapshot.files.items()},
        "listed": [printable(path) for path in snapshot.listed],
        "deleted": [printable(path) for path in snapshot.deleted],
    }
