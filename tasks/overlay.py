"""Our own keys of papers whose folders are not ours: an overlay says per paper id what ``rcb-agent.yaml`` would."""

from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.errors import TaskError
from rcb_agent.tasks.base import Fault
from rcb_agent.tasks.documents import Document, read_document
from rcb_agent.tasks.origins import PULLED

SCHEMA = "rcb-agent.json"


class Overlay:
    """The keys of a suite's papers, each checked when it is asked for."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._papers: dict[str, Any] = document.data

    def keys_of(self, paper_id: str) -> tuple[dict[str, Any], list[Fault]]:
        """Return what the overlay says of a paper (nothing is fine), and what is wrong with it."""
        keys = self._papers.get(paper_id, {})
        faults = self._document.violations(SCHEMA, keys, (paper_id,))
        return ({}, faults) if faults else (keys, [])

    def strays(self, known: Iterable[str]) -> list[Fault]:
        """Name the entries that speak of no paper of the suite."""
        unknown = self._papers.keys() - set(known)
        return [
            self._document.fault((paper,), "is no paper of the suite: correct the id")
            for paper in self._papers
            if paper in unknown
        ]

    def papers_with(self, runtime: str) -> tuple[str, ...]:
        """Return the ids of the papers that name a runtime here."""
        return tuple(paper for paper in self._papers if self.runtime_of(paper) == runtime)

    def runtime_of(self, paper_id: str) -> str | None:
        """Return the runtime that a paper names here."""
        keys, _ = self.keys_of(paper_id)
        return keys.get("runtime")


def read_overlay(path: Path) -> Overlay:
    """Read an overlay. Raises TaskError naming the file when nothing of it can be used."""
    shown = f"{path.parent.name}/{path.name}"
    document = read_document(path, shown)
    if isinstance(document, Fault):
        raise TaskError(str(document))
    if not isinstance(document.data, dict):
        raise TaskError(f"{shown}:1: must map paper ids to their keys")
    return Overlay(document)


@lru_cache(maxsize=8)
def shipped_overlay(name: str) -> Overlay:
    """Return the overlay that is shipped for a pulled suite."""
    return read_overlay(Path(str(files("rcb_agent.tasks") / "data" / name / "overlay.yaml")))


def runtime_of_paper(paper_id: str) -> str | None:
    """Return the runtime of a paper of any suite that can be pulled, pulled or not; None for other papers."""
    return next((found for name in PULLED if (found := shipped_overlay(name).runtime_of(paper_id))), None)


def papers_of_runtime(runtime: str) -> tuple[str, ...]:
    """Return the papers of all suites that can be pulled which need a runtime."""
    return tuple(paper for name in PULLED for paper in shipped_overlay(name).papers_with(runtime))
