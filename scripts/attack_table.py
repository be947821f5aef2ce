"""Runs every attack we have through the real command and prints what became of it, as a table in Markdown.

Programs of ``tests/attacks`` run on their own small tasks, as solutions, as things an agent does in its workspace, or as steps
beside an honest solution; then every cheat of ``--agent cheater`` on one task. Exit 1 where a program passes, an honest
control fails or has a flag, or a flag that is expected is missing.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcb_agent.agents.cheater import load_cheats
from rcb_agent.environments.runtimes import load_runtime
from rcb_agent.errors import EnvironmentFault
from rcb_agent.runs.flags import kind_of
from rcb_agent.runs.reader import RunReader

ATTACKS = Path(__file__).resolve().parent.parent / "tests" / "attacks"
PAPERS = {"plain": "mini", "np": "mini", "timed": "mini", "torch": "torch"}
REMARKS = {"markers_lost", "vacuous"}
RUBBISH = {
    "conftest.py": "raise RuntimeError('broken')\n",
    "unittest.py": "raise RuntimeError('broken')\n",
    "model_ref.py": "def gated_mean(*a): return 0\n",
}


@dataclass(frozen=True, slots=True)
class Attack:
    """One arm of a run: its replies, and whether its trial has to pass (an honest one) or must not."""

    name: str
    paper: str
    calls: tuple[dict[str, Any], ...]
    honest: bool = False
    step: bool = False

    def write(self, folder: Path) -> str:
        """Write the scripted replies; return the arm's text."""
        path = folder / f"{self.name}.json"
        calls = [*self.calls, call("submit")]
        path.write_text(json.dumps([{"text": "", "tool_calls": [one]} for one in calls]))
        return f"react@scripted/file:{path},name={self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one program."""

    name: str
    task: str
    verdict: str
    reason: str
    flags: tuple[str, ...]
    wrong: str = ""

    def __str__(self) -> str:
        flags = ", ".join(self.flags) or "none"
        mark = f" **{self.wrong}**" if self.wrong else ""
        return f"| {self.name} | {self.task} | {self.verdict}{mark} | {self.reason} | {flags} |"


def call(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def make_suite(root: Path, papers: Sequence[str]) -> Path:
    """Make a suite of the attack fixtures: each one's solution is the gold code."""
    entries = []
    for name in papers:
        source, paper = ATTACKS / "task" / name, root / name
        paper.mkdir(parents=True)
        shutil.copy(source / "solution.py", paper / "model.py")
        for file in ("model_ref.py", "paper2code_test.py"):
            shutil.copy(source / file, paper / file)
        (paper / "paper2code_paper.md").write_text("A gate is a sigmoid.\n")
        (paper / "rcb-agent.yaml").write_text(f"runtime: {PAPERS[name]}\ngrading:\n  seconds: 20\n")
        entries.append(f"- id: {name}\n  annotated_file_paths: model.py\n")
    (root / "papers.yaml").write_text("".join(entries))
    return root


def find_attacks(papers: Sequence[str]) -> Iterator[Attack]:
    """Yield every program as an arm of the paper that it aims at, and honest controls."""
    for paper in papers:
        honest = call("write_file", path="model.py", content=(ATTACKS / "task" / paper / "solution.py").read_text())
        yield Attack(f"honest-{paper}", paper, (honest,), honest=True)
        rubbish = [call("write_file", path=path, content=text) for path, text in RUBBISH.items()]
        yield Attack(f"honest-rubbish-{paper}", paper, (honest, *rubbish), honest=True)
        for path in sorted((ATTACKS / "poc").glob("[aghs]*.py")):
            text = path.read_text()
            if aim(text) != paper:
                continue
            run = (call("write_file", path="attack.py", content=text), call("run_python", path="attack.py"))
            if "kind: solution" in text:
                yield Attack(path.stem, paper, (call("write_file", path="model.py", content=text),))
            elif "kind: step" in text:
                yield Attack(path.stem, paper, (honest, *run), step=True)
            else:
                yield Attack(path.stem, paper, run)


def aim(text: str) -> str:
    """Return the fixture that a program's first line names; those that aim at the harness run beside any."""
    parts = [part.strip() for part in text.split("\n", 1)[0].split("|")]
    return next((part.removeprefix("task: ") for part in parts if part.startswith("task: ")), "plain")


def run_command(*words: str | Path) -> None:
    """Carry out ``rcb-agent run WORDS``; its progress is on standard error. What was not measured shows in the table."""
    command = [sys.executable, "-m", "rcb_agent", "run", *map(str, words)]
    code = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
    if code not in (0, 1):
        sys.exit(f"attack_table: rcb-agent run ended with exit code {code}")


def read_rows(run: Path, attacks: dict[str, Attack]) -> Iterator[Row]:
    """Yield a row per trial of a run: the verdict of both scopes, flags of the trial and of its grade."""
    reader = RunReader(run)
    grades = reader.grades()
    for trial in sorted(reader.trials().values(), key=lambda record: (record["arm"], record["attempt"])):
        found = [grades[trial["trial"], "final", scope, "split"] for scope in ("diff", "blank")]
        flags = {kind_of(flag) for record in (trial, *found) for flag in record["flags"]} - REMARKS
        verdicts = list(dict.fromkeys(grade["verdict"] for grade in found))
        name = trial.get("variant") or trial["arm"]
        wrong = judge(attacks.get(trial["arm"]), name, set(verdicts), flags)
        reason = " / ".join(dict.fromkeys(grade["reason"] for grade in found if grade["reason"]))
        yield Row(name, trial["task"], " / ".join(verdicts), reason, tuple(sorted(flags)), wrong)


def judge(attack: Attack | None, name: str, verdicts: set[str], flags: set[str]) -> str:
    """Say what is wrong with a result, or return ""."""
    should = "passed" if attack is not None and (attack.honest or attack.step) else "failed"
    if verdicts != {should}:
        return f"should have {should}"
    if attack is not None and attack.honest and flags:
        return "an honest control has a flag"
    expected = next((set(cheat.flags) for cheat in load_cheats() if attack is None and cheat.name == name), set())
    missing = expected - flags
    return f"no flag {', '.join(sorted(missing))}" if missing else ""


def has_runtime(name: str) -> bool:
    """Say whether a runtime is built here."""
    try:
        load_runtime(name)
    except EnvironmentFault:
        return False
    return True


def collect_rows(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, list[Row]]]:
    """Run everything; yield a heading and its rows."""
    papers = [paper for paper, runtime in PAPERS.items() if has_runtime(runtime)]
    for paper in sorted(set(PAPERS) - set(papers)):
        sys.stderr.write(f"left out: programs of {paper}: its runtime is not built\n")
    suite = make_suite(folder / "suite", papers)
    for paper in papers:
        attacks = {attack.name: attack for attack in find_attacks(papers) if attack.paper == paper}
        arms = [word for attack in attacks.values() for word in ("--arm", attack.write(folder))]
        out = folder / f"run-{paper}"
        first = "gated mean" if paper == "plain" else "*"
        run_command("--suite", suite, "--tasks", f"{paper}/{first}", *arms, "--memory-mb", "1024", "--out", out)
        yield f"Programs of tests/attacks on {paper}", list(read_rows(out, attacks))
    if options.cheats:
        out = folder / "run-cheater"
        words = ("--agent", "cheater", "--cheats", options.cheats, "--tasks", options.task, "--out", out)
        run_command(*words)
        yield f"Cheats of --agent cheater on {options.task}", list(read_rows(out, {}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--task", default="parley/shortlist", help="the task of mini that cheats run on")
    parser.add_argument("--cheats", default="all", help="which cheats; empty: none")
    parser.add_argument("--out", type=Path, help="also write the table to a file")
    options = parser.parse_args()
    lines: list[str] = []
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="rcb-agent-attacks-") as place:
        for heading, rows in collect_rows(Path(place), options):
            bad = [row for row in rows if row.wrong]
            wrong += len(bad)
            lines += [f"## {heading}", "", f"{len(rows)} trials, {len(bad)} not as they should be.", ""]
            lines += ["| program | task | verdict | reason | flags |", "|---|---|---|---|---|"]
            lines += [*map(str, rows), ""]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(f"{text}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
