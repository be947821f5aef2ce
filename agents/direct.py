"""The agent ``direct``: the benchmark's own way of asking. One user message, no tools, one fence of code.

The prompt holds the paper (where the arm gives it one), the context files and the file with the blank; the code of
the answer's fence goes between the two markers. A session may bring the whole prompt instead: the authors' own words.
An answer without usable code is ``no_answer``: the blank becomes nothing, and is graded like any other.
"""

from rcb_agent.agents.arguments import clean
from rcb_agent.agents.base import NOTHING_USED, Message, Reply, Session, Solution
from rcb_agent.agents.conversation import bound_text
from rcb_agent.agents.extraction import EXTRACTIONS, extract_tolerant, extract_upstream
from rcb_agent.agents.prompts import describe_problem, quote_file, render
from rcb_agent.errors import TrialOver, UsageError
from rcb_agent.tasks.base import Problem
from rcb_agent.tasks.masking import blank_lines, filled_files

_WITH_PAPER = "The paper that the code belongs to is given; use it."
_WITHOUT_PAPER = "There is no paper; go by the code."


class DirectAgent:
    """One prompt, one answer; option ``extract``: one of EXTRACTIONS."""

    name = "direct"
    uses_workspace = False
    default_paper = "prompt"

    def solve(self, problem: Problem, session: Session) -> Solution:
        """Ask once and put the answer's code into the blank."""
        rule = choose_rule(session)
        given = session.prompt
        messages = [build_prompt(problem, session.paper) if given is None else {"role": "user", "content": given}]
        session.journal("prompt", messages=list(messages), tools=[])
        try:
            reply = session.model.complete(messages, (), session.sampling)
        except TrialOver as end:
            return Solution(end.stop, 0, NOTHING_USED, 0.0, filled_files(problem, ""), str(end))
        _journal_reply(session, reply)
        code = extract_code(reply, problem, rule)
        stop = "no_answer" if code is None else "answered"
        note = f"finish: {reply.finish}" if code is None and reply.finish else ""
        return Solution(stop, 1, reply.usage, reply.cost, filled_files(problem, code or ""), note)


def choose_rule(session: Session) -> str:
    """Return by which of EXTRACTIONS an arm's replies are read. Raises UsageError."""
    rule = str(session.options.get("extract", EXTRACTIONS[0]))
    if rule not in EXTRACTIONS:
        raise UsageError(f"extract is {rule!r}; known: {', '.join(EXTRACTIONS)}")
    return rule


def _journal_reply(session: Session, reply: Reply) -> None:
    session.journal(
        "reply",
        step=1,
        text=bound_text(reply.text),
        tool_calls=[],
        finish=reply.finish,
        usage=reply.usage.as_json(),
        cost=reply.cost,
    )


def build_prompt(problem: Problem, paper: str) -> Message:
    """Return the one user message. ``paper`` is prompt or none: nothing is read from a file."""
    return {"role": "user", "content": render("direct", **describe_given(problem, paper))}


def describe_given(problem: Problem, paper: str) -> dict[str, object]:
    """Return what a prompt without tools gives: the paper where there is one, context files, the file with the blank."""
    if paper not in {"prompt", "none"}:
        raise UsageError(f"an agent without tools takes paper=prompt or paper=none, not {paper!r}: it reads no files")
    source = problem.paper if paper == "prompt" else None
    context = [file for file in problem.files_support if file.path in problem.context_paths]
    shown = "".join(f"\n{quote_file(file)}" for file in context)
    return {
        **describe_problem(problem),
        "role": _WITHOUT_PAPER if source is None else _WITH_PAPER,
        "paper_text": "" if source is None else f"\n{quote_file(source, 'paper')}",
        "context_text": f"\nFiles that it works with:\n{shown}" if shown else "",
        "target": problem.prompt_target if problem.prompt_target.endswith("\n") else f"{problem.prompt_target}\n",
    }


def extract_code(reply: Reply, problem: Problem, rule: str) -> str | None:
    """Return the code of a reply by one of EXTRACTIONS; None for no usable code."""
    text = clean(reply.text)
    if rule in ("upstream", "strict"):
        return extract_upstream(text)
    return extract_tolerant(text, blank_indentation(problem), cut=reply.finish == "length")


def blank_indentation(problem: Problem) -> str:
    """Return the indentation of the blank: that of the TODO between its markers."""
    todo = blank_lines(problem, problem.target.text) or ""
    return todo[: len(todo) - len(todo.lstrip(" \t"))]
