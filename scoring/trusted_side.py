"""The trusted side of a split grade: runs the hidden tests against stand-ins for the candidate's modules.

The program runs in a sandbox of its own that holds the tests, the reference and the support files, but no file of the
candidate. Its verdict leaves by a descriptor that the candidate's process does not have; what it prints is for
people only.
"""

import importlib.util
import os
import socket
import sys
import traceback
import types
import unittest
from pathlib import Path
from time import perf_counter  # by name: a grade may count the module's clocks
from typing import Any

from rcb_agent.scoring import counted_clock, salt, soft_asserts
from rcb_agent.scoring.form import Trace
from rcb_agent.scoring.random_state import START_SEED
from rcb_agent.scoring.salt import salted
from rcb_agent.scoring.trusted_declared import KeptValues
from rcb_agent.scoring.trusted_gates import ComparisonGate
from rcb_agent.scoring.trusted_proxies import CandidateModules, MissingPackages, StarImports
from rcb_agent.scoring.trusted_session import Adapter, Session, SessionLimits
from rcb_agent.scoring.value_trace import ValueTrace
from rcb_agent.scoring.wire import Channel, OverLimit, WireLimits

CHANNEL, VERDICT = 3, 4
_MESSAGE_LIMIT = 500


counted_clock.remember_loaded()
prepare = counted_clock.find_clocks
"""Called in a process that others are forked from, once it has loaded its packages."""


def main(settings: dict[str, Any]) -> None:
    """Run the tests and send the verdict; then end, whatever threads are left."""
    channel = Channel(socket.socket(fileno=CHANNEL), WireLimits(**settings["limits"]))
    session = Session(channel, SessionLimits(**settings["session"]), Adapter(**settings["adapter"]))
    session.trace = Trace(gold=settings["trace"], live=settings["live"])
    session.trace.skip(settings["skip_form"])
    session.kept = KeptValues(session.adapter.trusted, settings["kept"])
    numbers = ValueTrace(settings["skip_values"], ignored=settings["skip_form"])
    if settings["values"]:
        session.trace.on_entry, session.on_update = numbers.note, numbers.note_update
    gate = ComparisonGate(session.trace, settings["irregular"])
    stars = StarImports(session.trace, settings["names"])
    outcomes = Outcomes(session)
    load_error: BaseException | None = None
    try:
        session.greet()
        _prepare(session, gate, settings)
        sys.meta_path.insert(0, CandidateModules(session, settings["modules"], stars))
        test = _load_test(settings["test_path"], asserts=settings["asserts"])
        unittest.TestLoader().loadTestsFromModule(test).run(outcomes)
    except BaseException as error:  # noqa: BLE001 (whatever a test file does, the verdict must be told)
        traceback.print_exc()
        load_error = error
    verdict = {
        "tests": list(outcomes.results.values()),
        "load_error": _last_line(load_error) if load_error else "",
        "load_error_is_import": isinstance(load_error, ImportError),
        "ended": session.ended,
        "was_greeted": session.was_greeted,
        "import_failure": session.import_failure,
        "memory_error": session.memory_error,
        "refused": sorted(session.refused)[:20],
        "trace": session.trace.entries,
        "live": session.trace.live,
        "values": numbers.values,
        "updates": numbers.updates,
        "kept": session.kept.noted,
        "names": stars.taken,
        "unused": sorted(declared_labels(settings) - session.trace.labels),
        "irregular": gate.irregular,
        "calls": session.calls,
        "bytes": session.exchanged_bytes,
    }
    _tell(verdict)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def declared_labels(settings: dict[str, Any]) -> set[str]:
    """Return the labels that a paper declares something of."""
    declared = settings["adapter"]
    kinds = (*(declared[key] for key in ("in_place", "shared", "weights", "trusted")),)
    return {label for labels in (*kinds, settings["skip_form"], settings["skip_values"]) for label in labels}


def _tell(verdict: dict[str, Any]) -> None:
    """Send the verdict; where what crossed is too much to be told, say that in its place."""
    channel = Channel(socket.socket(fileno=VERDICT), WireLimits(json_bytes=64 << 20))
    try:
        channel.send(verdict)
    except OverLimit as error:
        nothing: dict[str, Any] = {
            key: {} for key in ("trace", "live", "names", "values", "updates", "kept", "irregular")
        }
        channel.send({**verdict, **nothing, "ended": ("limit", f"the record of the crossings: {error}")})


class Outcomes(unittest.TestResult):
    """Keeps what became of each test id; only a plain success of a test with all its subtests is one."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.results: dict[str, dict[str, Any]] = {}
        self._session = session
        self._started = 0.0

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802 (unittest's name)
        """Note when a test started and that crossings belong to it."""
        super().startTest(test)
        self._session.trace.current = test.id()
        self._started = perf_counter()

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Note how long a test took."""
        super().stopTest(test)
        entry = self.results.setdefault(test.id(), _entry(test.id(), "other", "the test reported no outcome"))
        entry["milliseconds"] = round((perf_counter() - self._started) * 1000)
        self._session.trace.current = ""

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Note a success, unless a subtest failed before."""
        self.results.setdefault(test.id(), _entry(test.id(), "passed"))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Note a failed assertion."""
        self._note(test.id(), "failed", err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        """Note any other exception, of a class's or module's set-up too."""
        self._note(test.id(), "error", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802, ARG002
        """Note a failed subtest at its test."""
        if err is not None:
            self._note(test.id(), "failed" if issubclass(err[0], test.failureException) else "error", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        """Note a skip: it is not a pass."""
        self.results[test.id()] = _entry(test.id(), "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802, ARG002
        """Note an expected failure: it says nothing."""
        self.results[test.id()] = _entry(test.id(), "other", "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        """Note an unexpected success."""
        self.results[test.id()] = _entry(test.id(), "other", "unexpected success")

    def _note(self, test_id: str, outcome: str, err: Any) -> None:
        sys.stderr.write(f"{test_id}: {outcome}\n")
        traceback.print_exception(*err)
        known = self.results.get(test_id)
        if known is None or known["outcome"] == "passed":
            self.results[test_id] = _entry(test_id, outcome, _last_line(err[1]))


def _prepare(session: Session, gate: ComparisonGate, settings: dict[str, Any]) -> None:
    test_folder = str(Path.cwd() / Path(settings["test_path"]).parent)
    sys.path[:0] = dict.fromkeys((test_folder, str(Path.cwd())))
    sys.argv[:] = [settings["test_path"]]
    counted_clock.install(settings["clock"])
    gate.hooks().install()
    if not settings["asserts"]:
        soft_asserts.install()
    session.states.hooks(salted(START_SEED, settings["salt"])).install()
    salt.install(settings["salt"])
    sys.meta_path.append(MissingPackages(settings["modules"]))


def _load_test(path: str, *, asserts: bool) -> types.ModuleType:
    """Import the test file; without ``asserts`` its assert statements are left out, as by ``python -O``."""
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, Path.cwd() / path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    code = compile(Path(path).read_bytes(), str(Path.cwd() / path), "exec", optimize=0 if asserts else 1)
    exec(code, module.__dict__)  # noqa: S102 (the hidden test)
    return module


def _entry(test_id: str, outcome: str, message: str = "") -> dict[str, Any]:
    return {"id": test_id, "outcome": outcome, "message": message[:_MESSAGE_LIMIT], "milliseconds": 0}


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in f"{type(error).__name__}: {error}".splitlines() if line.strip()]
    return " ".join(lines)[:_MESSAGE_LIMIT]
