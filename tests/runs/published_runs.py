"""Files of results in the form of the benchmark's own program, and run folders over its tasks; made up, no real result."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rcb_agent.runs.base import Arm, trial_name
from rcb_agent.runs.store import open_store
from rcb_agent.tasks.published import PublishedTask, load_published
from tests.runs.conftest import config, grade_record, trial_record

Passes = Callable[[PublishedTask, int], bool | None]
"""Whether completion n of a task passes; None: there is none."""


def results_of(models: dict[str, Passes], completions: int = 1, papers: Iterable[str] = ()) -> dict[str, Any]:
    """Return ``results_summary.json`` of models that pass what a function says."""
    chosen = set(papers)
    document: dict[str, Any] = {}
    for task in load_published().tasks.values():
        if chosen and task.paper not in chosen:
            continue
        paper = document.setdefault(task.paper, {"paper_metadata": {}, "results": {}, "problem_scores": {}})
        for model, passes in models.items():
            snippets = paper["results"].setdefault(model, {"results": {}})["results"]
            snippets[task.name] = [
                {
                    "snippet_code_line_count": task.loc,
                    "completion_idx": index,
                    "passed": passed,
                    "exit_code": 0 if passed else 1,
                }
                for index in range(completions)
                if (passed := passes(task, index)) is not None
            ]
    return document


def published_passes(model_id: str) -> Passes:
    """Return what a published model passed."""
    passed = next(model.passed for model in load_published().models if model.id == model_id)
    return lambda task, _: task.id in passed


def write_json(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document))
    return path


def make_run(path: Path, verdicts: dict[str, str], *, model: str = "openai/gpt-4.1", **changes: Any) -> Path:
    """Write a run of one arm ``a`` over some published tasks: task id -> verdict; a loc may be changed by ``locs``."""
    known = load_published().tasks
    locs = changes.pop("locs", {})
    facts = {
        task: {"paper": task.partition("/")[0], "loc": locs.get(task, known[task].loc), "depth": known[task].depth}
        for task in verdicts
    }
    arms = changes.pop("arms", (Arm("a", "react", model),))
    settings = config(suite="researchcodebench", tasks=tuple(verdicts), arms=arms, **changes)
    with open_store(path, settings, {"task_facts": facts, "faults": []}, path.parent) as store:
        for task, verdict in verdicts.items():
            name = trial_name("a", task, 1)
            store.add_trial(trial_record(task, trial=name))
            for scope in ("diff", "blank"):
                store.add_grade(grade_record(task, scope, trial=name, verdict=verdict))
    return path
