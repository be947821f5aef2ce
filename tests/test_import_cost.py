"""Guards: a command that only prints help must not pay for litellm, langgraph or docker."""

import subprocess
import sys

HEAVY = ("litellm", "langgraph", "langchain_core", "docker", "git", "numpy", "jsonschema", "rich")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    """``import rcb_agent`` is free of side effects and cheap."""
    assert not loaded_after("import rcb_agent") & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    """``--help`` needs none of the libraries that only some commands need."""
    code = "import sys\nfrom rcb_agent.cli import cli\ntry: cli(['run', '--help'])\nexcept SystemExit: pass\nprint('\\n', *sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    help_text, _, modules = done.stdout.rpartition("\n ")
    assert "--agent" in help_text
    assert not set(modules.split()) & set(HEAVY)


def test_packages_are_never_imported_under_their_folder_names() -> None:
    """A second copy of a module under ``agents.x`` would split every isinstance check."""
    loaded = loaded_after("import rcb_agent.agents.base, rcb_agent.runs.base")
    assert not loaded & {"agents", "environments", "runs", "scoring", "tasks"}
