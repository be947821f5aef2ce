"""Makes a run folder of results that another program measured, for ``show``, ``leaderboard`` and every other reader.

It is marked as imported in ``run.json``, in each record and on the screen; what was not recorded is null, never 0. A
completion that the file lacks is a trial that was not measured: nothing leaves the denominator. The benchmark puts each
completion between the two markers of the original file, so scope ``blank`` is scope ``diff``.
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rcb_agent.agents.redaction import redact
from rcb_agent.errors import UsageError
from rcb_agent.runs.base import SCHEMA_VERSION, Arm, Json, slug, trial_name
from rcb_agent.runs.config import RunConfig
from rcb_agent.runs.flags import Flag
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.screen import open_console, run_table, visible
from rcb_agent.runs.store import open_store, write_atomically
from rcb_agent.runs.summary import summarise_run
from rcb_agent.runs.upstream_results import BY, Completion, UpstreamResults, read_upstream_results
from rcb_agent.scoring.base import FAILED, NOT_MEASURED, PASSED
from rcb_agent.tasks.published import SUITE, PublishedTask, load_published

FLAG = "imported"
_TIMEOUT = 124
_UNKNOWN = "unknown"


def import_upstream(options: Mapping[str, Any]) -> None:
    """Import a file of results and print the table of the new run."""
    results = read_upstream_results(options["file"])
    out, known = options["out"], load_published().tasks
    config = _config(results, known)
    with open_store(out, config, _facts(results, known), options["results"]) as store:
        trials, grades = _records(config, results)
        _write_lines(store.path / "trials.jsonl", trials)
        _write_lines(store.path / "grades.jsonl", grades)
        document = summarise_run(store)
    for line in _warnings(results, known):
        sys.stderr.write(f"rcb-agent: warning: {visible(line)}\n")
    if options["as_json"]:
        sys.stdout.write(json.dumps(document) + "\n")
        return
    console = open_console()
    console.print(run_table(document, console.width))
    sys.stdout.write(f"imported: {store.path}\n")


def refuse_imported(reader: RunReader) -> None:
    """Raise UsageError for a run that nobody can go on with."""
    if source := reader.run.get("imported"):
        raise UsageError(
            f"{reader.path}: was imported from {source['file']}, not run here: there is nothing to resume; "
            "import a newer file with `rcb-agent import-upstream`"
        )


def _config(results: UpstreamResults, known: Mapping[str, PublishedTask]) -> RunConfig:
    return RunConfig(
        suite=SUITE if all(_is_published(results, task, known) for task in results.sizes) else f"{SUITE}-other",
        suite_digest=_UNKNOWN,
        tasks=(
            *(task for task in known if task in results.sizes),
            *(task for task in results.sizes if task not in known),
        ),
        arms=tuple(_make_arms(results.models)),
        attempts=results.attempts,
        sandbox=_UNKNOWN,
        limits={},
        runtimes={},
        grader=FLAG,
        prompts=_UNKNOWN,
        code=f"{BY}: {results.sha256}",
        mode="upstream",
    )


def _is_published(results: UpstreamResults, task: str, known: Mapping[str, PublishedTask]) -> bool:
    return task in known and known[task].loc == results.sizes[task]


def _make_arms(models: Mapping[str, str]) -> Iterable[Arm]:
    """Yield an arm per model; what its sampling and its prompt were, the file does not say."""
    ids = [slug(model, 60) for model in models]
    for model, name in models.items():
        mark = hashlib.sha256(model.encode()).hexdigest()[:6] if ids.count(slug(model, 60)) > 1 else ""
        options = {"upstream_id": model, "unknown": ["paper", "temperature", "max_seconds"]}
        yield Arm(
            id="-".join(filter(None, (slug(model, 60), mark))),
            agent="upstream",
            model=name,
            paper=_UNKNOWN,
            prompt="upstream",
            max_steps=1,
            max_seconds=0.0,
            temperature=None,
            options=options,
        )


def _facts(results: UpstreamResults, known: Mapping[str, PublishedTask]) -> Json:
    facts = {
        task: {"paper": task.partition("/")[0], "loc": loc, "depth": known[task].depth if task in known else 0}
        for task, loc in results.sizes.items()
    }
    imported = {"file": results.file, "sha256": results.sha256, "by": BY}
    return {"task_facts": facts, "faults": [], "imported": imported}


def _warnings(results: UpstreamResults, known: Mapping[str, PublishedTask]) -> list[str]:
    other = [task for task in results.sizes if task not in known]
    resized = [task for task in results.sizes if task in known and not _is_published(results, task, known)]
    lines = []
    if other:
        lines.append(f"{len(other)} tasks are not the benchmark's (first {other[0]!r}): taken as outermost blanks")
    if resized:
        lines.append(f"{len(resized)} tasks have another size than published (first {resized[0]!r})")
    cells = len(results.models) * len(results.sizes) * results.attempts
    if missing := cells - len(results.completions):
        lines.append(f"{missing} of {cells} completions are not in the file: not measured, and in the denominator")
    return lines


def _records(config: RunConfig, results: UpstreamResults) -> tuple[list[Json], list[Json]]:
    trials: list[Json] = []
    grades: list[Json] = []
    for spec in config.trials():
        completion = results.completions.get((spec.arm.options["upstream_id"], spec.task, spec.attempt))
        head = {
            "schema_version": SCHEMA_VERSION,
            "trial": trial_name(spec.arm.id, spec.task, spec.attempt),
            "arm": spec.arm.id,
            "task": spec.task,
            "attempt": spec.attempt,
        }
        trials.append(head | _trial_fields(completion, results.file))
        diff = head | _grade_fields(completion, results.file)
        grades += [diff, {**diff, "scope": "blank", "same_as": "diff"}]
    return trials, grades


def _trial_fields(completion: Completion | None, file: str) -> Json:
    missing = {"reason": "model", "message": f"{file} holds no such completion"}
    return {
        "stop": "error" if completion is None else FLAG,
        "steps": None,
        "usage": {"input_tokens": None, "output_tokens": None},
        "cost": None,
        "seconds": None,
        "started": None,
        "submission": None,
        "snapshots": [],
        "sandbox": {"kind": _UNKNOWN, "enforcement": {}},
        "error": missing if completion is None else None,
        "flags": [Flag(FLAG, "run", file).as_json()],
        "note": f"imported from {file}, measured by {BY}",
    }


def _grade_fields(completion: Completion | None, file: str) -> Json:
    verdict, reason, message = _judge(completion, file)
    return {
        "snapshot": "final",
        "scope": "diff",
        "mode": "upstream",
        "grader": FLAG,
        "verdict": verdict,
        "reason": reason,
        "message": message,
        "tests": [],
        "flags": [Flag(FLAG, "run", file).as_json()],
        "seconds": None,
        "form_only": False,
        "details": {} if completion is None else {"exit_code": completion.exit_code},
    }


def _judge(completion: Completion | None, file: str) -> tuple[str, str, str]:
    """Return verdict, reason and message; a verdict is the recorded one, whatever the exit code."""
    if completion is None:
        return NOT_MEASURED, "model", f"{file} holds no such completion"
    if completion.passed:
        return PASSED, "", ""
    reason = "time_limit" if completion.exit_code == _TIMEOUT else "tests_failed"
    return FAILED, reason, "" if completion.exit_code is None else f"exit code {completion.exit_code}"


def _write_lines(path: Path, records: Iterable[Json]) -> None:
    """Write a file of records in one step: a file that is there is whole, and importing again makes the same."""
    text = "".join(redact(json.dumps(record, allow_nan=False)) + "\n" for record in records)
    write_atomically(path, text.encode())
