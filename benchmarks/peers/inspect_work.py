"""The same work with Inspect, run by a Python that has it; prints one JSON line like ``own.py``.

    PYTHON benchmarks/peers/inspect_work.py TRIALS STEPS WORKERS MODEL

Its ``react`` agent with its tool ``bash`` in its sandbox ``local``, which isolates nothing: one ``true`` per step, a log file as
by default. MODEL is ``scripted`` (its mockllm) or a name of Inspect's.
"""

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator

os.environ.setdefault("INSPECT_DISPLAY", "none")

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import bash


def replies() -> Iterator[ModelOutput]:
    """Call ``true`` again and again."""
    while True:
        output = ModelOutput.for_tool_call("mockllm", "bash", {"command": "true"})
        output.usage = ModelUsage(input_tokens=1000, output_tokens=20, total_tokens=1020)  # else it loads a tokenizer
        yield output


def open_model(name: str) -> Model:
    """Return a model that does nothing but call the shell."""
    if name == "scripted":
        return get_model("mockllm/model", custom_outputs=replies())
    return get_model(name, responses_api=False)


def make_task(trials: int, steps: int) -> Task:
    """Make as many samples of one task, each ended by a limit on messages."""
    dataset = MemoryDataset([Sample(input="nothing", id=number) for number in range(1, trials + 1)])
    # The system message, the task, and two messages per step.
    return Task(
        dataset=dataset, solver=react(tools=[bash()], submit=False), sandbox="local", message_limit=2 + 2 * steps
    )


def cpu() -> tuple[float, float]:
    """CPU seconds of this process and of its children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def evaluate(trials: int, steps: int, workers: int, model: str) -> dict[str, float]:
    """Run the task and return what it took, and how many commands really ran."""
    before, begin = cpu(), time.monotonic()
    at_once = {
        "max_samples": workers,
        "max_connections": workers,
        "max_subprocesses": workers,
        "max_sandboxes": workers,
    }
    with tempfile.TemporaryDirectory(dir="results") as folder:
        log = eval(make_task(trials, steps), model=open_model(model), log_dir=folder, display="none", **at_once)[0]
        wall, after = time.monotonic() - begin, cpu()
        messages = (message for sample in log.samples or () for message in sample.messages)
        commands = sum(message.role == "tool" and message.error is None for message in messages)
    return {"commands": commands, "own": after[0] - before[0], "boxes": after[1] - before[1], "wall": wall}


def main(trials: int, steps: int, workers: int, model: str) -> None:
    if model == "scripted":
        evaluate(1, 2, 1, model)
    print(json.dumps({"trials": trials, "steps": trials * steps, **evaluate(trials, steps, workers, model)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
