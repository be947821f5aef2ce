"""The benchmark authors' own code, run in a process of its own where RCB_UPSTREAM names a checkout or a bare mirror."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

# Their chat clients would want keys and a network; whoever asks here is only listened to.
PROLOGUE = """\
import asyncio, hashlib, json, sys, types
import yaml
root = sys.argv[1]
sys.path.insert(0, root)
clients = types.ModuleType("core.async_chat_clients")
clients.AsyncChatClients = object
sys.modules["core.async_chat_clients"] = clients
from core.annotation.models.problem import Problem
from core.data_classes.llm_type import LLMType

model = next(iter(LLMType))
papers = yaml.safe_load(open(f"{root}/pset/papers.yaml"))
problems = {paper["id"]: Problem.parse_problem(f"{root}/pset", paper["id"], paper) for paper in papers}
"""


def find_checkout(place: Path) -> Path:
    """Return a checkout of the benchmark with its code; skips, saying why, where there is none."""
    named = os.environ.get("RCB_UPSTREAM")
    if not named:
        pytest.skip("RCB_UPSTREAM is not set: it names a checkout or a bare mirror of ResearchCodeBench")
    if (Path(named) / "pset" / "papers.yaml").is_file():
        return Path(named)
    command = ["git", "-C", named, "archive", "HEAD", "pset", "core"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(place, filter="data")
    return place


def run_published(checkout: Path, program: str, *words: str) -> Any:
    """Run a program after PROLOGUE and return the JSON on its last line; skips where a library of theirs is missing."""
    command = [sys.executable, "-B", "-c", PROLOGUE + program, str(checkout), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"the benchmark's own code needs a library: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
