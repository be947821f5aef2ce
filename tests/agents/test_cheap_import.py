"""Guards: loading an agent costs what only running it should cost."""

import subprocess
import sys
from pathlib import Path

import pytest

from rcb_agent.agents.prompts import prompts_digest

HEAVY = {"litellm", "langgraph", "langchain_core", "langsmith", "openai", "jsonschema", "yaml", "tenacity", "numpy"}


@pytest.mark.parametrize(
    "statement",
    [
        "import rcb_agent.agents.registry",
        "from rcb_agent.agents.registry import load_agent; load_agent('react'); load_agent('direct')",
        "from rcb_agent.agents.registry import open_model; open_model('openai/x'); open_model('scripted/demo')",
    ],
)
def test_loading_imports_nothing_heavy(statement: str) -> None:
    """In a fresh interpreter: litellm takes seconds, langgraph one."""
    code = f"import sys; {statement}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


TRIAL = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
peers = []
sys.addaudithook(lambda event, _: peers.append(event) if event in ("socket.connect", "socket.getaddrinfo") else None)
from rcb_agent.agents.react import ReactAgent
from tests.agents.samples import PROBLEM, Talker, call, make_session, open_sample, says
session, _ = make_session(Talker([says(call("list_files")), says(call("submit"))]), open_sample(Path({folder!r})))
assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
import time; time.sleep(0.5)
assert not peers, peers
"""


def test_a_trial_sends_nothing_to_a_tracing_service(tmp_path: Path) -> None:
    """Whatever the user's shell has switched on for other programs."""
    root = Path(__file__).resolve().parent.parent.parent
    code = TRIAL.format(root=str(root), folder=str(tmp_path))
    tracing = {"LANGSMITH_TRACING": "true", "LANGCHAIN_TRACING_V2": "true", "LANGSMITH_API_KEY": "lsv2_planted"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, env={**tracing, "PATH": ""}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_prompts_have_a_digest() -> None:
    """It stands in the run's config, so it is the same in every process."""
    assert len(prompts_digest()) == 64
    assert prompts_digest() == prompts_digest()
