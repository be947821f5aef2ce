"""Guards: a provider's fault that is recorded as something else, is retried for ever, or ends with the wrong stop."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.command import Done, rcb_agent, records
from tests.runs.faulty import KEY, Script, endpoint, run

pytestmark = pytest.mark.sandbox


@dataclass(frozen=True)
class Case:
    """A script of the endpoint and what the record must say of it."""

    script: str
    kinds: str
    stop: str
    steps: int
    requests: int
    retried: tuple[int | None, ...] = ()
    measured: bool = True
    note: str = ""


SUBMIT = "tool:submit:{}"
CASES = {
    "ok": Case("ok", "answer", "no_tool_call", 1, 1),
    "tool": Case(SUBMIT, "answer", "submitted", 1, 1),
    "two-calls": Case(f"tools2|{SUBMIT}", "answer answer", "submitted", 2, 2),
    "same-ids": Case(f"dupids|{SUBMIT}", "answer answer", "submitted", 2, 2),
    "unknown-tool": Case(f"unknown_tool|{SUBMIT}", "answer answer", "submitted", 2, 2),
    "bad-arguments": Case(f"badargs|{SUBMIT}", "answer answer", "submitted", 2, 2),
    "cut-arguments": Case(f"cutargs|{SUBMIT}", "cut answer", "submitted", 2, 2),
    "refusal": Case("refusal", "refusal refusal", "refused", 0, 2, note="refusal"),
    "refusal-once": Case(f"refusal|{SUBMIT}", "refusal answer", "submitted", 1, 2),
    "empty": Case("empty", "empty empty", "empty_reply", 0, 2),
    "null": Case("tools2|nullcontent", "answer empty empty", "empty_reply", 1, 3),
    "thinking": Case("think_only", "thinking_only thinking_only", "empty_reply", 0, 2, note="thinking_only"),
    "filter": Case("tools2|filter", "answer filtered", "filtered", 1, 2),
    "429": Case(f"429|{SUBMIT}", "answer", "submitted", 1, 2, (429,)),
    "429-wait": Case(f"429ra:1|{SUBMIT}", "answer", "submitted", 1, 2, (429,)),
    "429-date": Case(f"429date|{SUBMIT}", "answer", "submitted", 1, 2, (429,)),
    "500": Case(f"500|503|{SUBMIT}", "answer", "submitted", 1, 3, (500, 503)),
    "500-for-ever": Case("500", "error", "error", 0, 3, (500, 500), measured=False),
    "529": Case(f"529|529|{SUBMIT}", "answer", "submitted", 1, 3, (529, 529)),
    "html": Case(f"502html|{SUBMIT}", "answer", "submitted", 1, 2, (502,)),
    "reset": Case(f"reset|{SUBMIT}", "answer", "submitted", 1, 2, (500,)),
    "hang": Case(f"hang:9|{SUBMIT}", "answer", "submitted", 1, 2, (None,)),
    "drip": Case(f"drip:15|{SUBMIT}", "answer", "submitted", 1, 2, (None,)),
    "cut-stream": Case(f"cut|{SUBMIT}", "answer", "submitted", 1, 2, (500,)),
    "no-finish": Case(f"eof_nofinish|{SUBMIT}", "answer", "submitted", 1, 2, (500,)),
    "bad-utf-8": Case(f"badutf8|{SUBMIT}", "answer", "submitted", 1, 2, (500,)),
    "context": Case("tools2|400ctx", "answer context_full", "context_full", 1, 2),
    "context-anthropic": Case("tools2|400ctx_anthropic", "answer context_full", "context_full", 1, 2),
    "context-azure": Case("tools2|400ctx_azure", "answer context_full", "context_full", 1, 2),
    "no-usage": Case("nousage", "answer", "no_tool_call", 1, 1),
    "another-model": Case("wrongmodel", "answer", "no_tool_call", 1, 1),
    "big": Case("big:8", "answer", "no_tool_call", 1, 1),
}


@dataclass(frozen=True)
class Outcome:
    """A finished run over all cases."""

    folder: Path
    done: Done
    models: dict[str, Script]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Run every case as a model of its own, in one run: what is slow is the start."""
    folder = tmp_path_factory.mktemp("faults")
    with endpoint({name: case.script for name, case in CASES.items()}) as (url, models):
        done = run(folder, url, CASES)
    return Outcome(folder, done, models)


@pytest.mark.parametrize("name", CASES)
def test_what_came_back_is_recorded_bounded_and_graded(outcome: Outcome, name: str) -> None:
    """Kinds, retries and their waits, stop, steps; graded unless the provider gave up."""
    case, folder = CASES[name], outcome.folder / "run"
    arm = f"react@openai-{name}"
    trial = next(record for record in records(folder, "trials.jsonl") if record["arm"] == arm)
    made = records(folder, f"calls/{trial['trial']}.jsonl")
    assert (trial["stop"], trial["steps"]) == (case.stop, case.steps)
    assert " ".join(call["kind"] for call in made) == case.kinds
    assert len(outcome.models[name].seen) == case.requests
    retried = [attempt for call in made for attempt in call["retried"]]
    # A timeout is LiteLLM's own (408) or, on a busy machine, ours (None).
    assert tuple(None if attempt["status"] == 408 else attempt["status"] for attempt in retried) == case.retried
    assert all(0 < attempt["waited"] <= 0.1 for attempt in retried)
    assert case.note in trial["note"]
    grade = next(record for record in records(folder, "grades.jsonl") if record["arm"] == arm)
    assert grade["verdict"] == ("failed" if case.measured else "not_measured")


def test_no_file_holds_the_key_and_only_what_was_not_measured_counts(outcome: Outcome) -> None:
    """One case gave up: exit 1."""
    assert outcome.done.code == 1, outcome.done.err
    assert KEY not in outcome.done.out + outcome.done.err
    assert not [path for path in outcome.folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_direct_ends_as_refused_and_not_as_an_answer(tmp_path: Path) -> None:
    """The single prompt knows the same stops; its blank stays empty and is graded."""
    with endpoint({"x": "refusal"}) as (url, _):
        done = run(tmp_path, url, ["x"], agent="direct")
    assert done.code == 0, done.err
    (trial,) = records(tmp_path / "run", "trials.jsonl")
    assert (trial["stop"], trial["steps"], trial["usage"]["input_tokens"]) == ("refused", 0, 22)


def test_a_parameter_that_is_refused_stops_the_run(tmp_path: Path) -> None:
    """Every other trial would be refused as well: exit 5, one line, nothing recorded."""
    with endpoint({"x": "400tool_choice"}) as (url, _):
        done = run(tmp_path, url, ["x"])
    assert done.code == 5
    assert "tool_choice" in done.err.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_patience_that_is_no_number_is_a_usage_error(tmp_path: Path) -> None:
    """Known before anything is asked."""
    words = ("run", "--model", "openai/x", "--json")
    done = rcb_agent(*words, cwd=tmp_path, env={"OPENAI_API_KEY": KEY, "RCB_AGENT_PATIENCE": "timeout=soon"})
    assert done.code == 2
    assert "RCB_AGENT_PATIENCE" in json.dumps(done.err)
