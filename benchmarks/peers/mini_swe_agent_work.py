"""The same work with mini-swe-agent, run by a Python that has it; prints one JSON line like ``own.py``.

    PYTHON benchmarks/peers/mini_swe_agent_work.py TRIALS STEPS WORKERS MODEL

Its agent and its local environment, which isolates nothing: one ``true`` per step. MODEL is ``scripted`` (its deterministic
model) or a LiteLLM name. Each trial's trajectory is saved once, at its end, as its runner for SWE-bench does.
"""

import json
import logging
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("MSWEA_COST_TRACKING", "ignore_errors")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

logging.disable(logging.WARNING)


def scripted(steps: int) -> DeterministicToolcallModel:
    """Call ``true`` again and again."""

    def output(number: int) -> dict[str, object]:
        name = f"call-{number}"
        function = {"name": "bash", "arguments": '{"command": "true"}'}
        calls = [{"id": name, "type": "function", "function": function}]
        made: dict[str, object] = make_toolcall_output("", calls, [{"command": "true", "tool_call_id": name}])
        return made

    return DeterministicToolcallModel(outputs=[output(number) for number in range(steps)], cost_per_call=0.0)


def solve(steps: int, model: str, path: Path) -> float:
    """Carry out one trial; returns when it was over."""
    made = scripted(steps) if model == "scripted" else LitellmModel(model_name=model)
    templates = {"system_template": "You have a shell.", "instance_template": "Task: {{task}}"}
    limits = {"step_limit": steps, "cost_limit": 0.0}
    agent = DefaultAgent(made, LocalEnvironment(), **templates, **limits)
    agent.run("nothing")
    agent.save(path)
    return time.monotonic()


def cpu() -> tuple[float, float]:
    """CPU seconds of this process and of its children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def main(trials: int, steps: int, workers: int, model: str) -> None:
    with tempfile.TemporaryDirectory(dir="results") as folder, ThreadPoolExecutor(workers) as pool:
        if model == "scripted":
            solve(2, model, Path(folder, "warm.json"))
        before, begin = cpu(), time.monotonic()
        ends = pool.map(lambda number: solve(steps, model, Path(folder, f"{number}.json")), range(trials))
        wall = max(ends) - begin
        after = cpu()
        saved = [json.loads(Path(folder, f"{number}.json").read_text())["messages"] for number in range(trials)]
    commands = sum(message["role"] == "tool" for messages in saved for message in messages)
    figures = {"own": after[0] - before[0], "boxes": after[1] - before[1], "wall": wall}
    print(json.dumps({"trials": trials, "steps": trials * steps, "commands": commands, **figures}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
