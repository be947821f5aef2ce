"""What people see: tables, trajectories, progress.

Everything that came out of a model or a sandbox is shown with its control characters made visible: a record
must not be able to drive the reader's terminal.
"""

import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from rcb_agent.environments.registry import is_isolated
from rcb_agent.runs.base import Json
from rcb_agent.runs.flags import KINDS
from rcb_agent.runs.reader import RunReader
from rcb_agent.runs.setups import setup_line
from rcb_agent.runs.summary import NOT_RUN, other_files, verdicts
from rcb_agent.scoring.base import UNPROTECTED

_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}
_MARKS = {
    "passed": ("pass", "green"),
    "failed": ("fail", "red"),
    "not_measured": ("n/m", "yellow"),
    NOT_RUN: ("-", "dim"),
}

NO_ISOLATION = "nothing was isolated; agents and candidates could read the hidden tests"


def visible(text: str) -> str:
    """Return text with control, bidirectional and surrogate characters spelled out (tab and newline stay)."""
    return "".join(c if _is_plain(c) else f"\\u{ord(c):04x}" if ord(c) > 0xFF else f"\\x{ord(c):02x}" for c in text)


def _is_plain(character: str) -> bool:
    if character in "\n\t":
        return True
    return unicodedata.category(character) not in ("Cc", "Cs", "Co") and ord(character) not in _BIDI


def open_console() -> Console:
    """Return a console on standard output; what is no terminal gets lines as long as the tables need."""
    console = Console()
    return console if console.is_terminal else Console(width=240)


def run_table(document: Json, width: int = 240) -> Table:
    """Return the result table: one line per arm, headline scope ``diff``; a narrow one leaves the side views out."""
    title = f"{visible(document['suite'])} · {visible(document['run'])}"
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("arm", no_wrap=True)
    columns = [column for column in _COLUMNS if width >= _WIDE or column[0] not in _SIDE_VIEWS]
    for name, _ in columns:
        table.add_column(name, justify="right")
    for arm in document["arms"]:
        table.add_row(Text(visible(arm["arm"])), *(cell(arm) for _, cell in columns))
    if remarks := _remarks(document):
        table.caption = Text("\n".join(remarks))
    return table


def _remarks(document: Json) -> list[str]:
    """What a reader of the numbers must know beside them."""
    remarks = [] if is_isolated(document["sandbox"]) else [f"sandbox {visible(document['sandbox'])}: {NO_ISOLATION}"]
    if source := document["imported"]:
        remarks.append(
            f"imported from {visible(source['file'])}: measured by {visible(source['by'])}, not by rcb-agent"
        )
    mode = document["grading"]["mode"]
    if mode in UNPROTECTED:
        remarks.append(f"grading {mode}: {UNPROTECTED[mode]}")
    if cheaters := [arm for arm in document["arms"] if "cheats" in arm]:
        names = ", ".join(visible(arm["arm"]) for arm in cheaters)
        remarks.append(
            f"{names}: tries to cheat and must score 0; it says something of the grading, nothing of a model"
        )
    remarks += [
        f"{visible(arm['arm'])}: {visible(words)}" for arm in document["arms"] if (words := setup_line(arm["setup"]))
    ]
    remarks += [line for arm in document["arms"] if (line := _flag_line(arm))]
    remarks += [line for arm in document["arms"] for line in _gate_remarks(arm)]
    remarks += _sound_remarks(document)
    if document["faults"]:
        remarks.append(f"{len(document['faults'])} faults in papers of the suite: those papers are left out")
    return remarks


def _sound_remarks(document: Json) -> list[str]:
    """Say over how many tasks the sound rate is, where that is not all of them."""
    sound, tasks = document["sound_tasks"], document["arms"][0]["tasks"] if document["arms"] else 0
    if sound is None or sound == tasks:
        return []
    missing = f", {count} not validated (tasks validate)" if (count := document["not_validated"]) else ""
    return [f"sound: over {sound} of {tasks} tasks{missing}"]


def moves_table(moves: list[Json]) -> Table:
    """Return the verdicts that a regrade moved."""
    table = Table(title="moved", title_justify="left")
    for name in ("task", "arm", "attempt", "scope", "from", "to", "reason"):
        table.add_column(name, overflow="fold", justify="right" if name == "attempt" else "left")
    for move in moves:
        reason = ": ".join(part for part in (move["reason"], move["message"][:200]) if part)
        cells = [move["task"], move["arm"], str(move["attempt"]), move["scope"], move["from"], move["to"], reason]
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table


def cheat_tables(document: Json) -> list[Table]:
    """Return a table per cheater's arm: each cheat, where it comes in, what became of it."""
    return [_cheat_table(arm) for arm in document["arms"] if "cheats" in arm]


def _cheat_table(arm: Json) -> Table:
    table = Table(title=f"{visible(arm['arm'])} (a cheater)", title_justify="left", caption_justify="left")
    for name in ("cheat", "door", "trials", "passed", "flags"):
        table.add_column(name, overflow="fold", justify="right" if name in ("trials", "passed") else "left")
    lines = [line for line in arm["cheats"] if line["trials"]]
    for line in lines:
        passed = Text(str(line["passed"]), style="bold red" if line["passed"] else "green")
        if line["vacuous"]:
            passed.append(f" (and {line['vacuous']} vacuous)")
        table.add_row(visible(line["cheat"]), line["door"], str(line["trials"]), passed, Text(_cheat_flags(line)))
    if untried := len(arm["cheats"]) - len(lines):
        table.caption = f"{untried} more cheats were not tried: --cheats all"
    return table


def _cheat_flags(line: Json) -> str:
    seen = ", ".join(f"{visible(kind)} {count}" for kind, count in line["flags"].items())
    missing = f"MISSING: {', '.join(line['missing'])}" if line["missing"] else ""
    return "; ".join(part for part in (seen, missing) if part) or f"none needed: {line['none_needed']}"


def _flag_line(arm: Json) -> str:
    """Count the trials of an arm by flag; the evidence is in ``show RUN TRIAL``."""
    counts = sorted(arm["flags"].items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ", ".join(f"{kind} {count}" for kind, count in counts if kind != "imported")
    return f"flags, {visible(arm['arm'])}: {shown} (trials; they decide nothing)" if shown else ""


def _gate_remarks(arm: Json) -> list[str]:
    """Say what a gate of ours alone decided: honest code of another form may be among it."""
    gates = (("form", "the form gate"), ("values", "the comparison with the gold's values"))
    return [
        f"{visible(arm['arm'])}: {words} alone failed {count}: without it pass rate "
        f"{arm[f'pass_rate_without_{gate}']:.1f}, scaled {arm[f'scaled_pass_rate_without_{gate}']:.1f}"
        for gate, words in gates
        if (count := arm[f"{gate}_only"])
    ]


def _counts_cell(arm: Json) -> str:
    missing = [(arm["not_measured"] - arm["not_run"], "not measured"), (arm["not_run"], "not run yet")]
    remarks = ", ".join(f"{count} {words}" for count, words in missing if count)
    return f"{arm['passed']}/{arm['trials']}{f' ({remarks})' if remarks else ''}"


def _rate(values: Json, key: str) -> str:
    low, high = values[key], values[f"{key}_upper"]
    if low is None:
        return "-"
    return f"{low:.1f}" if high == low else f"{low:.1f} .. {high:.1f}"


def _sound_rate(values: Json | None) -> str:
    return "not validated" if values is None else _rate(values, "scaled_pass_rate")


_WIDE = 110
_SIDE_VIEWS = ("scaled, outermost", "scaled, blank scope", "scaled, sound")
_COLUMNS: tuple[tuple[str, Callable[[Json], str]], ...] = (
    ("passed", _counts_cell),
    ("pass rate", lambda arm: _rate(arm, "pass_rate")),
    ("scaled", lambda arm: _rate(arm, "scaled_pass_rate")),
    ("scaled, outermost", lambda arm: _rate(arm["scopes"]["diff"]["outermost"], "scaled_pass_rate")),
    ("scaled, sound", lambda arm: _sound_rate(arm["scopes"]["diff"].get("sound"))),
    ("scaled, blank scope", lambda arm: _rate(arm["scopes"]["blank"], "scaled_pass_rate")),
    ("steps", lambda arm: "unknown" if arm["steps"] is None else str(arm["steps"])),
    ("cost", lambda arm: "unknown" if arm["cost"] is None else f"${arm['cost']:.2f}"),
)


def task_table(reader: RunReader) -> Table:
    """Return tasks against arms: verdicts of all attempts, with the reason where it is not a plain test failure.

    More arms than can stand side by side are counted instead.
    """
    arms = [arm["id"] for arm in reader.config["arms"]]
    found = verdicts(reader)
    if len(arms) > _MOST_ARMS:
        return _count_table(reader, found)
    table = Table()
    table.add_column("task", overflow="fold")
    table.add_column("lines", justify="right")
    for arm in arms:
        table.add_column(visible(arm), overflow="fold")
    for task in reader.config["tasks"]:
        cells = [
            Text(" ").join(_mark(found[arm, task, n + 1]) for n in range(reader.config["attempts"])) for arm in arms
        ]
        table.add_row(Text(visible(task)), str(reader.run["task_facts"][task]["loc"]), *cells)
    return table


_MOST_ARMS = 12


def _count_table(reader: RunReader, found: Mapping[tuple[str, str, int], Json]) -> Table:
    table = Table(caption="over all arms; one arm at a time: show RUN TRIAL", caption_justify="left")
    for name in ("task", "lines", "passed", "failed", "not measured"):
        table.add_column(name, overflow="fold", justify="left" if name == "task" else "right")
    for task in reader.config["tasks"]:
        counts = Counter(grade["verdict"] for (_, name, _), grade in found.items() if name == task)
        missing = counts["not_measured"] + counts[NOT_RUN]
        numbers = (reader.run["task_facts"][task]["loc"], counts["passed"], counts["failed"], missing)
        table.add_row(Text(visible(task)), *map(str, numbers))
    return table


def _mark(grade: Json) -> Text:
    word, style = _MARKS[grade["verdict"]]
    reason = grade["reason"]
    return Text(word if reason in ("", "tests_failed") else f"{word}:{visible(reason)}", style=style)


def show_events(console: Console, trial: Json, grades: list[Json], events: list[Json]) -> None:
    """Print one trial as a story: what was asked, each step, how it ended, how it was graded."""
    console.print(Text(visible(f"{trial['task']} · {trial['arm']} · attempt {trial['attempt']}"), style="bold"))
    for event in events:
        printer = _PRINTERS.get(event["kind"])
        if printer:
            printer(console, event)
    if not is_isolated(trial["sandbox"]["kind"]):
        _line(console, "sandbox", f"{trial['sandbox']['kind']}: {NO_ISOLATION}")
    error = f" ({trial['error']['reason']}: {trial['error']['message']})" if trial["error"] else ""
    effort = "" if trial["seconds"] is None else f" after {trial['steps']} steps, {trial['seconds']:.1f} s"
    _line(console, "stop", f"{trial['stop']}{effort}{error}")
    if others := other_files(trial):
        _line(console, "other files, not graded", _clip(", ".join(others), 2000))
    _show_flags(console, trial["flags"])
    for grade in grades:
        detail = ": ".join(part for part in (grade["reason"], grade["message"]) if part)
        label = f", {grade['mode']} (unprotected)" if grade["mode"] in UNPROTECTED else ""
        _line(console, f"grade, {grade['scope']}{label}", f"{grade['verdict']}{f' ({detail})' if detail else ''}")
        for test in grade["tests"]:
            _line(console, f"  {test['outcome']}", f"{test['id']} {test['message']}".rstrip())
        _show_flags(console, grade["flags"])


def _show_flags(console: Console, flags: list[Any]) -> None:
    for flag in flags:
        if not isinstance(flag, dict):
            _line(console, "flag", str(flag))
            continue
        step = "" if flag["step"] is None else f", step {flag['step']}"
        _line(
            console, f"flag {flag['kind']}", f"{flag['where']}{step}: {flag['excerpt']} [{KINDS.get(flag['kind'], '')}]"
        )


def _line(console: Console, head: str, text: str) -> None:
    console.print(Text.assemble((f"{head}: ", "cyan"), visible(text)), soft_wrap=True)


def _block(console: Console, text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style), soft_wrap=True)


def _print_prompt(console: Console, event: Json) -> None:
    for message in event.get("messages", []):
        _line(console, message["role"], "")
        _block(console, _clip(str(message.get("content") or "")), "dim")


def _print_reply(console: Console, event: Json) -> None:
    _line(console, f"step {event.get('step', '')}", _clip(event.get("text") or ""))
    for call in event.get("tool_calls", []):
        _line(console, "  calls", f"{call['name']} {_clip(call['arguments'], 2000)}")


def _print_tool(console: Console, event: Json) -> None:
    _line(console, f"  {event['name']}", "refused" if event.get("error") else "")
    _block(console, _clip(event["text"], 4000), "dim")


def _print_note(console: Console, event: Json) -> None:
    _line(console, "note", _clip(str(event.get("text", ""))))


_PRINTERS = {"prompt": _print_prompt, "reply": _print_reply, "tool": _print_tool, "note": _print_note}


def _clip(text: str, limit: int = 6000) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n[... {len(text) - limit} characters, see --json ...]\n{text[-limit // 2 :]}"


class ScreenWatch:
    """Shows a run as it goes on standard error: a bar on a terminal, a line per trial elsewhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=self.console, disable=not self.console.is_terminal)
        self.counts = dict.fromkeys(("passed", "failed", "not_measured"), 0)
        self.total = self.finished = 0
        self.bar: Any = None

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def begin(self, total: int, done: int) -> None:
        """Take the number of trials of the run, and how many of them are measured already."""
        self.total, self.finished = total, done
        self.bar = self.progress.add_task("trials", total=total, completed=done)
        if done:
            self.remark(f"{done} of {total} trials are measured already")

    def trial_done(self, record: Json) -> None:
        """Say that an agent phase ended and is being graded."""
        self.progress.update(self.bar, description=self._description())
        if record["error"]:
            self.remark(f"{record['trial']}: {record['error']['reason']}: {record['error']['message']}")

    def graded(self, records: list[Json]) -> None:
        """Count a verdict."""
        headline = records[0]
        self.counts[headline["verdict"]] += 1
        self.finished += 1
        self.progress.update(self.bar, completed=self.finished, description=self._description())
        if not self.console.is_terminal:
            reason = f" ({headline['reason']})" if headline["reason"] else ""
            self.remark(
                f"[{self.finished}/{self.total}] {headline['arm']} {headline['task']}: {headline['verdict']}{reason}"
            )

    def _description(self) -> str:
        return " ".join(f"{_MARKS[name][0]} {count}" for name, count in self.counts.items())

    def remark(self, text: str) -> None:
        """Print one line above the bar."""
        self.console.print(Text(visible(text)), soft_wrap=True)


def write_bytes_safely(data: bytes) -> None:
    """Write bytes to standard output as they are, or made visible when a person's terminal reads them."""
    if sys.stdout.isatty():
        sys.stdout.write(visible(data.decode("utf-8", "surrogateescape")))
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
