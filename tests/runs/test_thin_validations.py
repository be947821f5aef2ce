"""Guards: a quick validation that calls tasks sound, or takes back what a fuller one found."""

import json
from pathlib import Path
from typing import Any

import pytest

from rcb_agent.runs.soundness import known_verdicts, records_folder

DIGEST = "5" * 64
FULL = {"gold_runs": 3, "mutants": 5, "trivial": True, "seed": 0}
QUICK = {"gold_runs": 1, "mutants": 2, "trivial": False, "seed": 0}
MORE = {**FULL, "mutants": 50}
Record = tuple[Any, int, str]


@pytest.mark.parametrize(
    ("records", "verdict"),
    [
        ([(FULL, 1, "weak"), (QUICK, 2, "sound")], "weak"),
        ([(FULL, 1, "sound"), (QUICK, 2, "weak")], "sound"),
        ([(FULL, 1, "weak"), (FULL, 2, "sound")], "sound"),
        ([(MORE, 1, "weak"), (FULL, 2, "sound")], "weak"),
        ([({**MORE, "trivial": False}, 2, "vacuous"), (FULL, 1, "sound")], "sound"),
        ([(QUICK, 1, "sound")], None),
        ([(QUICK, 1, "flaky"), ({**FULL, "mutants": 4}, 2, "sound")], "flaky"),
        ([(None, 2, "sound")], None),
        ([(None, 2, "weak"), (QUICK, 1, "broken")], "broken"),
        ([({"gold_runs": "many"}, 1, "sound"), ("deep", 1, "sound")], None),
    ],
)
def test_the_deepest_validation_counts_and_no_thin_one_says_sound(
    records: list[Record], verdict: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Depth first, then time; a record that does not say its depth is the thinnest."""
    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    for turn in (records, records[::-1]):
        _keep(DIGEST, turn)
        assert known_verdicts([DIGEST]).get(DIGEST) == verdict


def test_what_is_shipped_is_of_full_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick look at mini changes nothing of it, a full one does."""
    from importlib.resources import files

    monkeypatch.setenv("RCB_AGENT_CACHE", str(tmp_path))
    shipped = json.loads((files("rcb_agent.tasks") / "data" / "validation.json").read_text("utf-8"))["tasks"]
    digest = next(one for one, verdict in shipped.items() if verdict == "sound")
    for depth, verdict in ((QUICK, "sound"), (FULL, "weak")):
        _keep(digest, [(depth, 9, "weak")])
        assert known_verdicts([digest]) == {digest: verdict}


def _keep(digest: str, records: list[Record]) -> None:
    folder = records_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for place, (depth, time, verdict) in enumerate(records):
        record = {"digest": digest, "time": time, "verdict": verdict, **({"depth": depth} if depth else {})}
        (folder / f"{digest[:32]}.{place}.json").write_text(json.dumps(record))
