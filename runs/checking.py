"""Carries out ``tasks check``: everything that can be known of a suite or paper before anybody runs it, as findings.

Each finding says file and line, what is wrong, and what to do. Errors make the exit code 3; warnings are for the author to
decide on.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rcb_agent.errors import TaskError
from rcb_agent.runs.audit import ANNOTATED, FILE, GIT, LEAST_UNNEEDED, PACKAGE, PAPER, SAME_FILE, UNNEEDED
from rcb_agent.runs.auditing import audit_suite, open_packages
from rcb_agent.runs.base import Json
from rcb_agent.runs.depth import FULL, QUICK
from rcb_agent.runs.scaffold import TO_WRITE
from rcb_agent.runs.scratch import claim_scratch, release_scratch
from rcb_agent.runs.screen import visible
from rcb_agent.runs.soundness import SOUND
from rcb_agent.runs.validation import BROKEN, FLAKY
from rcb_agent.scoring.base import NOT_MEASURED
from rcb_agent.tasks.base import Fault, Task
from rcb_agent.tasks.folders import TEST_NAME
from rcb_agent.tasks.leaks import first_line_of, telling_lines
from rcb_agent.tasks.markers import END, START, find_blanks, split_lines
from rcb_agent.tasks.masking import fill_blank, null_code
from rcb_agent.tasks.suites import LoadedSuite, load_suite
from rcb_agent.tasks.syntax import parse_quietly

ERROR, WARNING, UNMEASURED = "error", "warning", "unmeasured"
FOUND = 3
_LARGEST = 1 << 20

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at. ``file`` is relative to the suite, ``line`` counts from 1 (0: the whole file), ``rule`` says which
    check found it."""

    file: str
    line: int
    severity: str
    rule: str
    message: str
    fix: str = ""

    def shown(self, root: Path) -> str:
        """One line: place, severity, what, what to do."""
        place = f"{show_path(root / self.file)}:{self.line}" if self.line else show_path(root / self.file)
        return f"{place}: {self.severity}: {self.message}{f'; {self.fix}' if self.fix else ''}"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: a suite, or one paper of it (``paper`` is empty for all)."""

    suite: LoadedSuite
    paper: str

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks that can be checked."""
        return tuple(task for task in self.suite.tasks if self.paper in ("", task.info.id))

    @property
    def papers(self) -> tuple[str, ...]:
        """The papers whose files could be read."""
        return tuple(dict.fromkeys(task.info.id for task in self.tasks))

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What keeps papers from being read; what is no paper's file is everybody's."""
        return tuple(
            fault
            for fault in self.suite.faults
            if "/" not in fault.file or self.paper in ("", fault.file.split("/")[0])
        )


def check_folder(options: Options) -> int:
    """Carry out the command; returns its exit code. Raises TaskError for a folder that is neither suite nor paper."""
    subject = find_subject(Path(options["folder"]))
    findings = [*check_texts(subject), *check_leaks(subject)]
    verdicts: dict[str, str] = {}
    if not options["static"] and subject.tasks and not _hopeless(findings):
        verdicts, more = check_worth(subject, options)
        findings += more
    findings = sorted(dict.fromkeys(findings), key=lambda one: (one.file, one.line, one.severity, one.message))
    _print(subject, findings, verdicts, as_json=options["as_json"])
    severities = {one.severity for one in findings}
    return FOUND if ERROR in severities else 1 if UNMEASURED in severities else 0


def find_subject(folder: Path) -> Subject:
    """Load the suite that a folder is, or that it is a paper of."""
    folder = folder.absolute()
    if (folder / "papers.yaml").is_file():
        return Subject(load_suite(str(folder)), "")
    if (folder.parent / "papers.yaml").is_file():
        return Subject(load_suite(str(folder.parent)), folder.name)
    raise TaskError(
        f"{folder}: is no suite (no papers.yaml in it) and no paper (none beside it): see `rcb-agent tasks new`"
    )


def _hopeless(findings: Iterable[Finding]) -> bool:
    """Tests that are still to be written would only fail, and a cut statement fails without any test."""
    return any(one.rule == "blank" or (one.rule == "to write" and one.file.endswith(TEST_NAME)) for one in findings)


# Schemas, markers, places to fill in


def check_texts(subject: Subject) -> Iterator[Finding]:
    """Find what keeps a paper from being read, and what its author has still to write."""
    yield from map(_from_fault, subject.faults)
    papers = subject.papers or ((subject.paper,) if subject.paper else ())
    for paper in dict.fromkeys((*papers, *(f.file.split("/")[0] for f in subject.faults if "/" in f.file))):
        yield from _places_to_write(subject.suite.root, paper)
    if subject.paper and not subject.tasks and not subject.faults:
        yield Finding("papers.yaml", 0, ERROR, "schema", f"has no paper {subject.paper}", "add an entry with this id")
    for task in {task.info.id: task for task in subject.tasks}.values():
        yield from _check_paper(subject, task)
    for task in subject.tasks:
        if not _parses(fill_blank(task.problem, null_code(task.problem))):
            yield Finding(
                *place_of_blank(subject.suite.root, task),
                ERROR,
                "blank",
                f'"{task.problem.name}" cuts a statement: the file does not parse without it',
                "let the markers stand around whole statements of one block",
            )


def _parses(text: str) -> bool:
    try:
        parse_quietly(text)
    except SyntaxError:
        return False
    return True


def _from_fault(fault: Fault) -> Finding:
    """Faults say what is wrong and then, after a colon, what to do; an unknown key is followed by those that are known."""
    what, _, fix = fault.message.partition(": ")
    if "; known" in what:
        what, fix = fault.message, "correct the key or take it away"
    elif "holds no blank" in what:
        fix = '# <paper2code name="..."> belongs before each blank and # </paper2code name="..."> after it'
    return Finding(fault.file, fault.line, ERROR, "schema", f"{fault.key}: {what}" if fault.key else what, fix)


def _places_to_write(root: Path, paper: str) -> Iterator[Finding]:
    for path in sorted((root / paper).rglob("*")):
        if path.suffix not in (".py", ".md", ".tex", ".yaml") or path.is_symlink() or path.stat().st_size > _LARGEST:
            continue
        for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
            if TO_WRITE in line:
                name = path.relative_to(root).as_posix()
                yield Finding(name, number, ERROR, "to write", f"still says {TO_WRITE}", "write it")


def _check_paper(subject: Subject, task: Task) -> Iterator[Finding]:
    info, own = task.info, f"{task.info.id}/rcb-agent.yaml"
    if len(task.answer.hidden) == 1 and task.answer.rules.values is None:
        yield Finding(
            f"{info.id}/{TEST_NAME}", 0, WARNING, "reference", "imports no reference of the paper",
            "compare with a second, independent program rather than with numbers from the code itself",
        )  # fmt: skip
    for key, value in (("licence", info.licence), ("verified_by", info.verified_by)):
        if not value:
            yield Finding(
                own, 0, WARNING, "facts", f"says no {key}", f"add `{key}: ...`, so that others know what they may trust"
            )
    if not subject.suite.version:
        yield Finding("suite.yaml", 0, WARNING, "version", "there is no version", 'write `version: "0.1"` into it')


# Leaks


def check_leaks(subject: Subject) -> Iterator[Finding]:
    """Find where answers lie about."""
    if not subject.tasks:
        return
    document = audit_suite(subject.suite, subject.tasks, open_packages(subject.tasks, ()), git=True)
    tasks = {task.id: task for task in subject.tasks}
    for found in document["tasks"]:
        for place in (*found["withheld"], *_worth_saying(found["visible"])):
            yield _leak(subject.suite.root, tasks[found["id"]], place)


def _worth_saying(places: Sequence[Json]) -> Iterator[Json]:
    """Leave out what authors can do nothing about: a line of the blank in some package, and all packages but the first."""
    packages = [place for place in places if place["place"] == "packages" and place["held"] >= LEAST_UNNEEDED]
    yield from (place for place in places if place["place"] != "packages")
    yield from packages[:1]


def _leak(root: Path, task: Task, place: Json) -> Finding:
    kind = place["kind"]
    severity = ERROR if place["avoidable"] else WARNING
    count = f'{place["held"]} of the {place["of"]} lines of "{task.problem.name}" stand here'
    if place["place"] in ("packages", "git"):
        blank = place_of_blank(root, task)
        return Finding(
            *blank, severity, "leak", f"{count.replace('here', 'in')} {place['path']} ({place['reason']})", _MEND[kind]
        )
    file = f"{task.info.id}/{place['path']}"
    if kind == "withheld":
        held = place["reason"].startswith("holds")
        message = (
            f"{count}; agents of this task do not see the file" if held else f"{count}; {place['reason']}, withheld"
        )
        return Finding(file, place["line"], severity, "leak", message, _MEND[CONTEXT if held else "withheld"])
    return Finding(
        file, _line_outside(root, task, place["path"]), severity, "leak", f"{count}, where agents see them", _MEND[kind]
    )


CONTEXT = "context"
_MEND = {
    SAME_FILE: "put the repeat into the blank, or share the code",
    ANNOTATED: "share the code between the files, or put it into a blank of its own",
    PAPER: "say it in words or formulas",
    PACKAGE: "nothing can be withheld: choose another blank if it gives the answer away",
    UNNEEDED: "use a runtime without this package",
    FILE: "take the file out of what agents see",
    GIT: "please report it",
    CONTEXT: "move these lines elsewhere if the code needs the file to run",
    "withheld": "a test or reference that repeats the code agrees with its mistakes: write it in another way",
}


def _line_outside(root: Path, task: Task, path: str) -> int:
    """Return the first line of the author's file, as it lies on disk, that gives the answer away outside the blank itself."""
    text = (root / task.info.id / path).read_text("utf-8", "replace")
    lines = split_lines(text)
    if path == task.problem.path:
        blank = next(one for one in find_blanks(text) if one.name == task.problem.name)
        lines[blank.start : blank.end + 1] = ["\n"] * (blank.end + 1 - blank.start)
    kept = ["\n" if START.match(line) or END.match(line) else line for line in lines]
    return first_line_of(telling_lines(task.answer.gold), "".join(kept))


def place_of_blank(root: Path, task: Task) -> tuple[str, int]:
    """Return file and line of the blank's first marker."""
    text = (root / task.info.id / task.problem.path).read_text("utf-8", "replace")
    blank = next(one for one in find_blanks(text) if one.name == task.problem.name)
    return f"{task.info.id}/{task.problem.path}", blank.start + 1


# What the tests are worth


def check_worth(subject: Subject, options: Options) -> tuple[dict[str, str], list[Finding]]:
    """Run gold, empty, trivial and mutated answers; return the verdict of each task and what to mend."""
    from rcb_agent.runs.validating import validate_tasks

    depth = QUICK if options["quick"] else FULL
    if options["mutants"] is not None:
        depth = replace(depth, mutants=options["mutants"])
    claim_scratch()
    try:
        document = validate_tasks(subject.suite, subject.tasks, depth, sandbox=options["sandbox"])
    finally:
        release_scratch()
    tasks = {task.id: task for task in subject.tasks}
    findings = [one for record in document["tasks"] for one in _judge(subject.suite.root, tasks[record["id"]], record)]
    return {record["id"]: record["verdict"] for record in document["tasks"]}, findings


def _judge(root: Path, task: Task, record: Json) -> Iterator[Finding]:
    test = f"{task.info.id}/{TEST_NAME}"
    message = " ".join(record["message"].split())
    if record["verdict"] == NOT_MEASURED:
        yield Finding(f"{task.info.id}/rcb-agent.yaml", 0, UNMEASURED, "run", f"nothing could be run: {message}")
    elif record["verdict"] in _GOLD:
        yield Finding(
            test,
            0,
            ERROR,
            "gold",
            f"the gold code {_GOLD[record['verdict']]}: {message}",
            _MEND_GOLD[record["verdict"]],
        )
    blank = place_of_blank(root, task)
    for one in record["survivors"]:
        severity = WARNING if one["kind"] == "mutant" else ERROR
        what = f'"{task.problem.name}": the tests pass with {_SURVIVORS[one["kind"]]}: {one["description"]}'
        yield Finding(*blank, severity, "tests", what, _MEND_TESTS[one["kind"]])


_GOLD = {BROKEN: "does not pass its own tests", FLAKY: "passes its own tests only sometimes"}
_MEND_GOLD = {
    BROKEN: "mend code, reference or test",
    FLAKY: "take out what differs from run to run: unseeded draws, order of sets, time",
}
_SURVIVORS = {"empty": "no answer at all", "trivial": "an answer that knows nothing", "mutant": "a changed answer"}
_MEND_TESTS = {
    "empty": f"add a test to {TEST_NAME} that needs this code",
    "trivial": f"let {TEST_NAME} look at values, not only at kinds and shapes",
    "mutant": f"add a case to {TEST_NAME} that tells them apart, unless both are right",
}


# What is printed


def _print(subject: Subject, findings: Sequence[Finding], verdicts: Mapping[str, str], *, as_json: bool) -> None:
    (_print_json if as_json else _print_lines)(subject, findings, verdicts)


def _print_json(subject: Subject, findings: Sequence[Finding], verdicts: Mapping[str, str]) -> None:
    document = {
        "suite": subject.suite.name,
        "version": subject.suite.version,
        "papers": list(subject.papers),
        "tasks": [{"id": task.id, "verdict": verdicts.get(task.id)} for task in subject.tasks],
        "findings": [asdict(one) for one in findings],
        **{f"{severity}s": sum(one.severity == severity for one in findings) for severity in (ERROR, WARNING)},
    }
    sys.stdout.write(json.dumps(document) + "\n")


def _print_lines(subject: Subject, findings: Sequence[Finding], verdicts: Mapping[str, str]) -> None:
    for one in findings:
        sys.stdout.write(visible(one.shown(subject.suite.root)).replace("\n", " ") + "\n")
    counts = {severity: sum(one.severity == severity for one in findings) for severity in (ERROR, WARNING, UNMEASURED)}
    said = [f"{counts[ERROR]} errors", f"{counts[WARNING]} warnings"]
    if counts[UNMEASURED]:
        said.append(f"{counts[UNMEASURED]} not measured")
    sound = sum(verdict == SOUND for verdict in verdicts.values())
    worth = f", {sound} sound" if verdicts else ", nothing was run"
    name = show_path(subject.suite.root / subject.paper)
    sys.stdout.write(f"{visible(name)}: {len(subject.tasks)} tasks{worth}; {', '.join(said)}\n")


def show_path(path: Path) -> str:
    """Return a path as short as it can be said from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
