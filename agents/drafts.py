"""What agents share that answer by drafts: ask for code, put it into the workspace, look at it, keep the better one.

A draft is one reply to the direct prompt, so one step. After each step the workspace holds the draft that would be handed in
if the trial ended there, and that is what its snapshot shows. Which one it is follows from the feedback alone (does it
parse, does its module import, do the arm's own tests pass): no hidden test has a part in it.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rcb_agent.agents.arguments import clean
from rcb_agent.agents.base import NOTHING_USED, Feedback, Findings, Message, Reply, Session, Solution
from rcb_agent.agents.conversation import bound_text
from rcb_agent.agents.direct import build_prompt, choose_rule, describe_given, extract_code
from rcb_agent.agents.extraction import extract_tolerant
from rcb_agent.agents.prompts import render
from rcb_agent.agents.snapshots import snapshot_json
from rcb_agent.environments.base import Workspace
from rcb_agent.errors import EnvironmentFault, SandboxFileError, TrialOver, UsageError
from rcb_agent.tasks.base import Problem
from rcb_agent.tasks.folders import module_name
from rcb_agent.tasks.masking import filled_files

OWN_TESTS = "test_own.py"
"""Where the tests lie that a model wrote when asked."""

_LOST = Findings(parses=False, report="The sandbox was lost while your code was looked at.")
_NOTHING_FOUND = Findings(parses=False, report="Your answer held no usable code block.")


@dataclass(frozen=True, slots=True)
class Draft:
    """One answer: ``code`` is None where it held none. ``findings`` are those of the look at it."""

    code: str | None
    findings: Findings = _NOTHING_FOUND

    @property
    def normal(self) -> str:
        """The code without what does not count: indentation of the whole, comment lines, blank lines, trailing space."""
        lines = (line.rstrip() for line in textwrap.dedent(self.code or "").split("\n"))
        return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def choose_best(drafts: Sequence[Draft]) -> Draft | None:
    """Return the draft that got furthest; among equals what most of them say, then the first. None without any code."""
    usable = [draft for draft in drafts if draft.code is not None]
    if not usable:
        return None
    furthest = max(draft.findings.rank for draft in usable)
    best = [draft for draft in usable if draft.findings.rank == furthest]
    votes = Counter(draft.normal for draft in best)
    return max(best, key=lambda draft: votes[draft.normal])  # the first of equals


class Bench:
    """One trial of an agent that answers by drafts: its workspace, what it has used, how many steps it made."""

    def __init__(self, name: str, problem: Problem, session: Session) -> None:
        if session.workspace is None or session.feedback is None:
            raise UsageError(f"the agent {name} needs a workspace and something that looks at it")
        self.problem, self.session = problem, session
        self.first = build_prompt(problem, session.paper)
        self.steps = 0
        self.stop, self.note = "", ""
        self._workspace: Workspace = session.workspace
        self._feedback: Feedback = session.feedback
        self._rule = choose_rule(session)
        self._tests = b""
        self._asked_for_tests = False
        self._usage = NOTHING_USED
        self._cost: float | None = 0.0

    def begin(self, messages: Sequence[Message]) -> None:
        """Record how a conversation begins."""
        self.session.journal("prompt", messages=list(messages), tools=[])

    def ask(self, messages: Sequence[Message]) -> Reply | None:
        """Return the next reply, which is a step; None, with ``stop`` set, where a budget or the model ends it."""
        if self.stop or self._out_of_budget():
            return None
        try:
            reply = self.session.model.complete(messages, (), self.session.sampling)
        except TrialOver as end:
            self.stop, self.note = end.stop, str(end)
            return None
        self.steps += 1
        self._usage = self._usage.plus(reply.usage)
        self._cost = None if self._cost is None or reply.cost is None else self._cost + reply.cost
        self._journal_reply(reply)
        return reply

    def _out_of_budget(self) -> bool:
        if self.steps >= self.session.budget.max_steps:
            self.stop = "max_steps"
        elif self.session.budget.seconds_left() <= 0:
            self.stop = "max_seconds"
        return bool(self.stop)

    def _journal_reply(self, reply: Reply) -> None:
        self.session.journal(
            "reply",
            step=self.steps,
            text=bound_text(reply.text),
            tool_calls=[],
            finish=reply.finish,
            usage=reply.usage.as_json(),
            cost=reply.cost,
        )

    def read(self, reply: Reply) -> str | None:
        """Return the code of a reply, None for none."""
        return extract_code(reply, self.problem, self._rule)

    def look_at(self, code: str | None) -> Draft:
        """Put code into the workspace and look at it. A sandbox that is lost by it ends the trial."""
        if code is None:
            return Draft(None)
        try:
            self._put(code)
            draft = Draft(code, self._feedback())
        except (EnvironmentFault, SandboxFileError) as lost:
            self._lose(lost)
            draft = Draft(code, _LOST)
        self._journal_findings(draft.findings)
        return draft

    def _journal_findings(self, findings: Findings) -> None:
        self.session.journal(
            "tool",
            step=self.steps,
            id=f"look-{self.steps}",
            name=f"feedback {self._feedback.kind}",
            text=findings.report,
            error=False,
            seconds=0.0,
        )

    def hold(self, choice: Draft | None) -> None:
        """Let the workspace hold the choice so far, and take the step's snapshot."""
        if self.stop == "sandbox_lost":
            return
        try:
            self._put(choice.code if choice and choice.code is not None else None)
            snapshot = self._workspace.snapshot()
        except (EnvironmentFault, SandboxFileError) as lost:
            self._lose(lost)
            return
        self.session.journal("snapshot", step=self.steps, snapshot=snapshot_json(snapshot))

    def _put(self, code: str | None) -> None:
        """Write the annotated files, and the arm's own tests, as they have to be: a draft before may have changed them."""
        files: Mapping[str, bytes] = {file.path: file.encode() for file in self.problem.files}
        for path, data in (files if code is None else filled_files(self.problem, code)).items():
            self._workspace.sandbox.write(path, data)
        if self._tests:
            self._workspace.sandbox.write(OWN_TESTS, self._tests)

    def _lose(self, lost: Exception) -> None:
        self.stop, self.note = "sandbox_lost", str(lost)

    @property
    def kind(self) -> str:
        """The kind of the arm's feedback."""
        return self._feedback.kind

    def look_with_tests(self, first: Draft) -> Draft:
        """Let the model write tests where the arm is to have its own and the paper shows none; look at its draft again.

        That is a step of its own, made once. Returns the draft as it is found to be now.
        """
        if self._asked_for_tests or self.kind != "own" or self.problem.public_tests or self.stop:
            return first
        self._asked_for_tests = True
        message = build_tests_prompt(self.problem, self.session.paper)
        self.begin([message])
        reply = self.ask([message])
        if reply is None:
            return first
        code = extract_tolerant(clean(reply.text), "", cut=reply.finish == "length")
        if code is None:
            self.session.journal("note", text="no test file in the answer: there are no own tests")
        self._tests = (code or "").encode()
        again = self.look_at(first.code)
        self.hold(again)
        return again

    def finish(self, choice: Draft | None) -> Solution:
        """Return the solution: the choice's code in the blank, or nothing there."""
        stop = self.stop or ("no_answer" if choice is None else "answered")
        files = filled_files(self.problem, choice.code or "" if choice else "")
        return Solution(stop, self.steps, self._usage, self._cost, files, self.note)


def build_tests_prompt(problem: Problem, paper: str) -> Message:
    """Return the one message that asks for a test file."""
    values = describe_given(problem, paper)
    return {"role": "user", "content": render("own_tests", **values, module=module_name(problem.path))}
