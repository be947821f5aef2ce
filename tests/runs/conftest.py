"""Run folders made of hand-written records: no sandbox, no model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.base import Arm
from rcb_agent.runs.config import RunConfig
from rcb_agent.runs.store import RunStore, open_store

FACTS = {
    "faults": [],
    "task_facts": {"p/one": {"paper": "p", "loc": 3, "depth": 0}, "p/two": {"paper": "p", "loc": 1, "depth": 1}},
}


def config(**changes: Any) -> RunConfig:
    fields: dict[str, Any] = {
        "suite": "mini",
        "suite_digest": "0" * 64,
        "tasks": ("p/one", "p/two"),
        "arms": (Arm("a", "react", "scripted/demo"),),
        "attempts": 1,
        "sandbox": "bubblewrap",
        "limits": {"memory_mb": 512},
        "runtimes": {"mini": "1" * 64},
        "grader": "1",
        "prompts": "2" * 64,
        "code": "3" * 64,
    }
    return RunConfig(**{**fields, **changes})


def trial_record(task: str = "p/one", **changes: Any) -> dict[str, Any]:
    from rcb_agent.runs.base import trial_name

    record = {
        "schema_version": 1,
        "trial": trial_name("a", task, 1),
        "arm": "a",
        "task": task,
        "attempt": 1,
        "stop": "submitted",
        "steps": 2,
        "usage": {"input_tokens": None, "output_tokens": None},
        "cost": None,
        "seconds": 0.5,
        "started": "2026-01-01T00:00:00+00:00",
        "submission": {"files": [{"path": "m.py", "kind": "file", "sha256": "3" * 64}], "diff": "4" * 64},
        "snapshots": [],
        "sandbox": {"kind": "none", "enforcement": {}},
        "error": None,
        "flags": [],
        "note": "",
    }
    return {**record, **changes}


def grade_record(task: str = "p/one", scope: str = "diff", **changes: Any) -> dict[str, Any]:
    record = {
        **{
            key: value
            for key, value in trial_record(task).items()
            if key in ("schema_version", "trial", "arm", "task", "attempt")
        },
        "snapshot": "final",
        "scope": scope,
        "mode": "split",
        "grader": "1",
        "verdict": "passed",
        "reason": "",
        "message": "",
        "tests": [],
        "flags": [],
        "seconds": 0.1,
        "form_only": False,
        "details": {},
    }
    return {**record, **changes}


Open = Callable[..., RunStore]


@pytest.fixture
def open_run(tmp_path: Path) -> Open:
    """Return a function that opens the run folder of this test, with config fields replaced."""

    def open_it(**changes: Any) -> RunStore:
        return open_store(tmp_path / "run", config(**changes), FACTS, tmp_path)

    return open_it


@pytest.fixture
def make_trial() -> Callable[..., dict[str, Any]]:
    """Return the factory of trial records."""
    return trial_record


@pytest.fixture
def make_grade() -> Callable[..., dict[str, Any]]:
    """Return the factory of grade records."""
    return grade_record


ATTACKS = Path(__file__).parent.parent / "attacks"


@pytest.fixture(scope="session")
def attack_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a suite made of the attack fixtures: each one's solution is the gold code."""
    root = tmp_path_factory.mktemp("attack-suite")
    entries = []
    for name in ("plain", "np"):
        source, paper = ATTACKS / "task" / name, root / name
        paper.mkdir()
        (paper / "model.py").write_text((source / "solution.py").read_text())
        for file in ("model_ref.py", "paper2code_test.py"):
            (paper / file).write_text((source / file).read_text())
        (paper / "paper2code_paper.md").write_text("A gate is a sigmoid.\n")
        (paper / "rcb-agent.yaml").write_text("runtime: mini\ngrading:\n  seconds: 20\n")
        entries.append(f"- id: {name}\n  annotated_file_paths: model.py\n")
    (root / "papers.yaml").write_text("".join(entries))
    return root
