"""The agent ``self-repair``: a draft by the direct prompt, then drafts with what a look at the one before found.

It ends when nothing that the arm's feedback looks at goes wrong any more, when a draft says what the one before said,
or with a budget. What is handed in is the draft that got furthest, among equals the latest. With feedback ``own`` and no
public tests the model writes a test file once, after its first draft.
"""

from rcb_agent.agents.base import Message, Reply, Session, Solution
from rcb_agent.agents.conversation import assistant_message
from rcb_agent.agents.drafts import Bench, Draft
from rcb_agent.agents.prompts import render
from rcb_agent.tasks.base import Problem


class SelfRepairAgent:
    """Asks, looks, asks again; option ``n``: at most so many drafts, None = until the budget ends."""

    name = "self-repair"
    uses_workspace = True
    uses_tools = False
    default_paper = "prompt"
    default_feedback = "own"

    def solve(self, problem: Problem, session: Session) -> Solution:
        """Draft and repair until there is nothing to repair or a budget ends."""
        bench = Bench(self.name, problem, session)
        wanted = session.options.get("n")
        messages: list[Message] = [bench.first]
        drafts: list[Draft] = []
        bench.begin(messages)
        while (wanted is None or len(drafts) < wanted) and (reply := bench.ask(messages)):
            drafts.append(bench.look_at(bench.read(reply)))
            bench.hold(_furthest(drafts))
            if len(drafts) == 1 and wanted != 1:
                drafts = [bench.look_with_tests(drafts[0])]
            if _is_over(drafts, bench.kind):
                break
            messages += _report(reply, drafts[-1])
        return bench.finish(_furthest(drafts))


def _furthest(drafts: list[Draft]) -> Draft | None:
    usable = [draft for draft in drafts if draft.code is not None]
    return max(reversed(usable), key=lambda draft: draft.findings.rank, default=None)


def _is_over(drafts: list[Draft], kind: str) -> bool:
    """Say that there is nothing to repair, or that the model has nothing else to say."""
    last = drafts[-1]
    if last.code is not None and kind != "none" and last.findings.good:
        return True
    return len(drafts) > 1 and last.normal == drafts[-2].normal


def _report(reply: Reply, draft: Draft) -> list[Message]:
    return [assistant_message(reply), {"role": "user", "content": render("repair", report=draft.findings.report)}]
