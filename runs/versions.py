"""The versions of what a result rests on, as ``run.json`` keeps them."""

from importlib.resources import files
from pathlib import Path


def library_versions() -> dict[str, str]:
    """Return the versions of what a result rests on; a missing package is left out."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "kernel": platform.release(), **_commit()}
    for name in ("rcb-agent", "langgraph", "litellm"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> dict[str, str]:
    """Return the commit of the checkout we run from, marked when files differ from it; nothing when installed."""
    home = Path(str(files("rcb_agent.runs"))).resolve().parent
    try:
        from git import InvalidGitRepositoryError, Repo
    except ImportError:  # GitPython without a git program
        return {}
    try:
        with Repo(home) as checkout:
            return {"git": checkout.head.commit.hexsha + ("+changes" if checkout.is_dirty() else "")}
    except (InvalidGitRepositoryError, ValueError, OSError):
        return {}
