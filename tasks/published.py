"""What is published of ResearchCodeBench: papers with their dates, tasks with their size, passes of 32 models.

Facts only, shipped with us, so that they can be looked at without the suite. Rates are never stored: whoever wants
one computes it from the passes.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from rcb_agent.tasks.cutoffs import Cutoff, load_cutoffs

SUITE = "researchcodebench"
HARD_SOLVED_BY = 10
"""A task is HARD when at most this many of the published models solved it. Of ResearchCodeBench-HARD only the number of
tasks is published, 109; this rule gives as many (10 is the median over tasks), so which tasks they are is inferred.
"""


@dataclass(frozen=True, slots=True)
class PublishedPaper:
    """A paper; dates are ISO strings: the first commit of its code, the first version on arXiv."""

    id: str
    venue: str
    first_commit: str
    arxiv_v1: str


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """A blank; ``depth`` is 0 for an outermost one, ``solved_by`` counts the published models that passed."""

    paper: str
    name: str
    loc: int
    depth: int
    solved_by: int

    @property
    def id(self) -> str:
        """``<paper>/<snippet name>``."""
        return f"{self.paper}/{self.name}"

    @property
    def hard(self) -> bool:
        """Whether it is one of ResearchCodeBench-HARD."""
        return self.solved_by <= HARD_SOLVED_BY


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model as it was released: one completion per task; ``passed`` holds ids of tasks."""

    id: str
    pretty_name: str
    developer: str
    cutoff: Cutoff | None
    passed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Published:
    """Everything that is published; ``source`` says in which file, by hash and commit."""

    source: Mapping[str, str]
    papers: Mapping[str, PublishedPaper]
    tasks: Mapping[str, PublishedTask]
    models: tuple[PublishedModel, ...]

    @property
    def latest_cutoff(self) -> Cutoff:
        """The latest cutoff of any published model: what came after it, none of them can have seen."""
        return max((model.cutoff for model in self.models if model.cutoff is not None), key=lambda cutoff: cutoff.last)


@lru_cache(maxsize=1)
def load_published() -> Published:
    """Read the shipped facts."""
    facts, results = _read("facts.json"), _read("published.json")
    solved = Counter(position for model in results["models"] for position in model["passed"])
    tasks = [
        PublishedTask(paper, name, loc, depth, solved[position])
        for position, (paper, name, loc, depth) in enumerate(facts["tasks"])
    ]
    cutoffs = {entry.model: entry.cutoff for entry in load_cutoffs()}
    models = tuple(
        PublishedModel(
            entry["id"],
            entry["pretty_name"],
            entry["developer"],
            cutoffs.get(entry["id"]),
            frozenset(tasks[position].id for position in entry["passed"]),
        )
        for entry in results["models"]
    )
    papers = {name: PublishedPaper(name, **dates) for name, dates in facts["papers"].items()}
    return Published(results["source"], papers, {task.id: task for task in tasks}, models)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((files("rcb_agent.tasks") / "data" / SUITE / name).read_text("utf-8"))
    return found
