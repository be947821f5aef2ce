"""The contract of ``tasks``: values that describe one task, the answer apart from the problem.

``Problem`` is all that an agent may ever see; ``Answer`` is all that it may never see. ``Agent.solve`` takes
a ``Problem``, so the answer is hidden by type, not by care.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One text file of a paper folder; ``path`` is POSIX and relative, ``text`` keeps its line endings."""

    path: str
    text: str

    def encode(self) -> bytes:
        """Return the bytes of the file as they lie on disk."""
        return self.text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a paper folder that is data, whatever its bytes are; ``path`` is POSIX and relative.

    It is handed on as it lies and never read as text: nothing of it reaches a prompt.
    """

    path: str
    data: bytes

    def encode(self) -> bytes:
        """Return the bytes of the file as they lie on disk."""
        return self.data


@dataclass(frozen=True, slots=True)
class Problem:
    """What an agent may see of a task.

    ``files`` are the annotated files in the order of ``papers.yaml``: the one at ``path`` holds the blank
    (its two markers with a TODO between them), every other marker is gone. ``prompt_target`` is the same
    file as the direct prompt shows it: no markers, two comment lines in place of the blank.
    ``loc`` is the size of the blank in counted lines. ``files_support`` are the files the annotated ones
    need or that the paper declares as context, less those withheld because they hold the answer; ``data`` are those
    of the declared context that are no text.
    """

    task_id: str
    paper_id: str
    name: str
    path: str
    loc: int
    files: tuple[SourceFile, ...]
    files_support: tuple[SourceFile, ...]
    prompt_target: str
    paper: SourceFile | None
    runtime: str
    title: str = ""
    context_paths: tuple[str, ...] = ()
    public_tests: tuple[SourceFile, ...] = ()
    data: tuple[DataFile, ...] = ()

    @property
    def target(self) -> SourceFile:
        """The annotated file that holds the blank."""
        return next(file for file in self.files if file.path == self.path)


@dataclass(frozen=True, slots=True)
class ValueRules:
    """That the numbers of all crossings are compared with the gold code's: ``atol + rtol * |gold|`` apart at most.

    ``skip`` lists labels whose numbers honest code may have otherwise, such as those that depend on the order of draws.
    """

    rtol: float = 1e-4
    atol: float = 1e-6
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GradingRules:
    """What a paper declares about its grading (``rcb-agent.yaml``, key ``grading``).

    ``in_place`` maps a call label to the indices of positional arguments that the candidate changes in place
    and the test looks at afterwards; a label is the dotted path of a call as the test writes it, with ``()``
    for each call, e.g. ``"whiten_()"`` or ``"Optimizer().step()"``. ``shared`` lists labels of calls (an optimizer's
    construction) whose tensor arguments the candidate keeps and changes: value and gradient stay equal on both sides.
    ``offers`` maps the name of a class that
    the test itself defines or mocks to what the candidate may use of its objects: public attributes, and ``"()"`` for
    a call; plain functions may always be called. ``skip_form`` lists labels whose results
    may differ in form from the gold's. ``seconds`` limits one grade (wall). ``clock``, if not 0, makes each
    reading of the time module's clocks advance by that many seconds and no more, on both sides: for code that
    stops on measured time, whose results would depend on how fast the machine is. ``values``: see ValueRules; with
    ``asserts`` False they decide alone, for tests that hold floats recorded on another machine.

    ``plain`` maps a class of the candidate's file to the reference's, which the tests get in its place; ``by_value`` names
    classes of trusted objects that go to the candidate whole; ``weights`` maps a call of ``state_dict`` to the reference
    class that is built in its place, whose weights the candidate is given; ``trusted`` lists labels of attributes and calls
    whose values are the gold code's; ``prelude`` is Python that runs before the candidate's file does, on its side; with
    ``salt`` False the seeds of its tests are never salted. See docs/adapters.md.
    """

    in_place: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    offers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    skip_form: tuple[str, ...] = ()
    seconds: float = 60.0
    clock: float = 0.0
    values: ValueRules | None = None
    asserts: bool = True
    plain: Mapping[str, str] = field(default_factory=dict)
    by_value: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    trusted: tuple[str, ...] = ()
    prelude: str = ""
    salt: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent may never see of a task.

    ``gold`` is the text strictly between the markers (nested markers stripped). ``files`` are the annotated
    files complete, without markers except the two of this blank: the pristine base that a submission
    replaces. ``support`` are the pristine files that the candidate's side needs at grading, ``hidden`` those
    that only the trusted side may hold (tests, references). ``test_path`` names the hidden test in
    ``hidden``; ``modules`` are the import names under which tests reach the annotated files. ``data`` are data files
    that both sides read at grading, ``hidden_data`` those that only the trusted side may hold.
    """

    gold: str
    files: tuple[SourceFile, ...]
    support: tuple[SourceFile, ...]
    hidden: tuple[SourceFile, ...]
    test_path: str
    modules: tuple[str, ...]
    rules: GradingRules = field(default_factory=GradingRules)
    data: tuple[DataFile, ...] = ()
    hidden_data: tuple[DataFile, ...] = ()

    @property
    def shared_bytes(self) -> dict[str, bytes]:
        """What both sides of a grade get beside the annotated files, by path."""
        return {file.path: file.encode() for file in self.support} | {file.path: file.encode() for file in self.data}

    @property
    def hidden_bytes(self) -> dict[str, bytes]:
        """What the trusted side alone may hold, by path."""
        texts = {file.path: file.encode() for file in self.hidden}
        return texts | {file.path: file.encode() for file in self.hidden_data}


@dataclass(frozen=True, slots=True)
class Withheld:
    """A file of the paper folder that the workspace does not show, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class PaperInfo:
    """What ``papers.yaml`` and ``rcb-agent.yaml`` say of a paper; dates are ISO strings or empty.

    ``flows`` answers whether anything that a candidate returns flows into the reference or an expected value.
    """

    id: str
    title: str
    venue: str = ""
    area: str = ""
    url: str = ""
    arxiv_date: str = ""
    arxiv_v1_date: str = ""
    first_commit_date: str = ""
    licence: str = ""
    verified_by: str = ""
    flows: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """One blank of one paper; ``depth`` is 0 for an outermost blank, ``parent`` the enclosing task's id."""

    problem: Problem
    answer: Answer
    info: PaperInfo
    depth: int
    parent: str | None
    withheld: tuple[Withheld, ...]
    digest: str

    @property
    def id(self) -> str:
        """``<paper>/<snippet name>``."""
        return self.problem.task_id


@dataclass(frozen=True, slots=True)
class Fault:
    """A paper that cannot be used: file, line (1-based, 0 = whole file), key, what is wrong and what to do."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        """One line: ``file:line: key: message``."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class Suite(Protocol):
    """A set of papers. A faulty paper is in ``faults`` and its tasks are absent; the others are usable."""

    @property
    def name(self) -> str: ...
    @property
    def root(self) -> Path: ...
    @property
    def tasks(self) -> tuple[Task, ...]: ...
    @property
    def faults(self) -> tuple[Fault, ...]: ...
    @property
    def digest(self) -> str: ...
