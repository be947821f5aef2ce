"""Reads files of results that ResearchCodeBench's own program wrote: ``overall_stats.json``, ``results_summary.json``.

Each completion becomes one value. What a file does not say stays unsaid; what it says twice, or differently, is refused.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from rcb_agent.errors import TaskError

BY = "ResearchCodeBench"


@dataclass(frozen=True, slots=True)
class Completion:
    """One completion of one model for one task, as it was judged; ``attempt`` counts from 1."""

    model: str
    task: str
    attempt: int
    passed: bool
    exit_code: int | None


@dataclass(frozen=True, slots=True)
class UpstreamResults:
    """A file of results: sizes of its tasks, its models (id -> the provider's name, or the id), its completions."""

    file: str
    sha256: str
    sizes: Mapping[str, int]
    models: Mapping[str, str]
    completions: Mapping[tuple[str, str, int], Completion]

    @property
    def attempts(self) -> int:
        """The most completions that any cell has."""
        return max(completion.attempt for completion in self.completions.values())


def read_upstream_results(path: Path) -> UpstreamResults:
    """Read a file. Raises TaskError that names file and key."""
    data = _read_bytes(path)
    try:
        document = json.loads(data, object_pairs_hook=_refuse_doubles)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"{path}: is not JSON: {error}") from None
    if isinstance(document, dict) and not set(document) <= {"results", "overall_scores"}:
        document = {"results": document}
    _check(path, document)
    reader = _Reader(path)
    reader.read(document["results"])
    if not reader.completions:
        raise TaskError(f"{path}: results: holds no completion of any model")
    settings = document.get("overall_scores", {})
    names = {model: settings.get(model, {}).get("llm_cfg", {}).get("model", model) for model in reader.models}
    return UpstreamResults(path.name, hashlib.sha256(data).hexdigest(), reader.sizes, names, reader.completions)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path}: cannot be read: {error.strerror}") from None


def _refuse_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The last of two equal keys would silently win."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        double = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {double!r} stands twice in one object")
    return found


def _check(path: Path, document: Any) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads((files("rcb_agent.runs") / "schema" / "upstream_results.json").read_text("utf-8"))
    for error in Draft202012Validator(schema).iter_errors(document):
        _refuse(path, error.absolute_path, " ".join(error.message.split())[:200])


def _refuse(path: Path, key: Iterable[str | int], what: str) -> NoReturn:
    place = ".".join(str(part) for part in key) or "the whole file"
    raise TaskError(f"{path}: {place}: {what}")


class _Reader:
    """Collects what the papers of a file hold."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        self.models: dict[str, None] = {}
        self.completions: dict[tuple[str, str, int], Completion] = {}

    def read(self, papers: Mapping[str, Any]) -> None:
        """Take every completion; a snippet without one is still a task of its model."""
        for paper, entry in papers.items():
            for model, results in entry["results"].items():
                self.models.setdefault(model)
                for snippet, completions in results["results"].items():
                    for index, record in enumerate(completions):
                        key = (paper, "results", model, "results", snippet, index)
                        self._take(key, model, f"{paper}/{snippet}", record)

    def _take(self, key: tuple[str | int, ...], model: str, task: str, record: Mapping[str, Any]) -> None:
        size, attempt = int(record["snippet_code_line_count"]), int(record["completion_idx"]) + 1
        if self.sizes.setdefault(task, size) != size:
            what = f"is {size}, but {self.sizes[task]} for another completion of the task"
            _refuse(self.path, ("results", *key, "snippet_code_line_count"), what)
        if (model, task, attempt) in self.completions:
            _refuse(
                self.path, ("results", *key, "completion_idx"), f"a second completion {attempt - 1} of this snippet"
            )
        self.completions[model, task, attempt] = Completion(
            model, task, attempt, record["passed"], record.get("exit_code")
        )
