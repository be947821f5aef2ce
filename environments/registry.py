"""Sandboxes by short name.

``SANDBOXES`` maps a name to ``module:callable``; plug-ins add names with the entry-point group
``rcb_agent.sandboxes``, and any ``module:callable`` is accepted as it is. There is no guessing and no falling
back from one kind to another.
"""

from importlib import import_module, metadata

from rcb_agent.environments.base import Sandbox, SandboxSpec
from rcb_agent.errors import EnvironmentFault, UsageError

SANDBOXES = {
    "bubblewrap": "rcb_agent.environments.bubblewrap:open_bubblewrap",
    "docker": "rcb_agent.environments.docker:open_docker",
    "host": "rcb_agent.environments.host:open_host",
}
NOT_ISOLATED = ("host",)
ENTRY_POINTS = "rcb_agent.sandboxes"


def known_sandboxes() -> dict[str, str]:
    """Return the shipped names and those of plug-ins; a shipped name cannot be taken over."""
    plugins = {point.name: point.value for point in metadata.entry_points(group=ENTRY_POINTS)}
    return {**plugins, **SANDBOXES}


def find_target(kind: str) -> str | None:
    """Return the ``module:callable`` behind a name."""
    # Looking for plug-ins reads the metadata of every installed package, at each call.
    return kind if ":" in kind else SANDBOXES.get(kind) or known_sandboxes().get(kind)


def is_isolated(kind: str) -> bool:
    """Say whether a kind of sandbox isolates at all, under whatever name; of others' kinds we know nothing."""
    return find_target(kind) not in [SANDBOXES[name] for name in NOT_ISOLATED]


def open_sandbox(kind: str, spec: SandboxSpec) -> Sandbox:
    """Open a sandbox of a kind; an unknown kind is a UsageError that names the known ones."""
    target = find_target(kind)
    if target is None:
        raise UsageError(f"unknown sandbox {kind}; known: {', '.join(sorted(known_sandboxes()))}, or module:callable")
    module, _, name = target.partition(":")
    try:
        opener = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"sandbox {kind} cannot be loaded: {error}") from None
    sandbox: Sandbox | None = opener(spec)
    if sandbox is None:
        raise EnvironmentFault(f"sandbox {kind} opened nothing")
    return sandbox
