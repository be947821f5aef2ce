"""The runtime with torch, for tests that need it; they skip where it was not built."""

import json
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.environments.base import Runtime
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import RcbAgentError
from rcb_agent.scoring import programs
from rcb_agent.scoring.split import SplitGrader
from tests.scoring.support import OPEN, SANDBOXED, warm

BUILD = "rcb-agent env build minp"


@cache
def torch_runtime() -> Runtime | None:
    """The runtime of the paper minp, if it is there."""
    try:
        return load_runtime("minp")
    except RcbAgentError:
        return None


NEEDS_TORCH = [
    *SANDBOXED,
    pytest.mark.skipif(torch_runtime() is None, reason=f"the runtime minp (torch) is not built: {BUILD}"),
]


def make_torch_grader(cache: Path, *, start: str = "warm") -> SplitGrader:
    """A grader whose papers all need torch; ``start`` as in ``make_grader``."""
    kept = warm() if start == "warm" else None
    return SplitGrader(OPEN, lambda _: load_runtime("minp"), cache=cache, warm=kept)


def run_in_runtime(script: str, *, with_candidate: bool = False, extra: Mapping[str, str] | None = None) -> Any:
    """Run ``main(settings)`` of a script beside the grader's own modules in the runtime's Python; return what it prints.

    The modules are there under the names they have in a sandbox (``split.tensors``).
    """
    runtime = torch_runtime()
    assert runtime is not None
    sides = ("trusted", "candidate") if with_candidate else ("trusted",)
    modules = dict(module for side in sides for module in programs.program(side).modules)
    program = {"modules": [*modules.items(), *(extra or {}).items(), ("split.script", script)], "settings": {}}
    command = [str(runtime.python), "-I", "-B", "-c", programs.BOOTSTRAP]
    done = subprocess.run(command, input=json.dumps(program).encode(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)
