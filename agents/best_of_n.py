"""The agent ``best-of-n``: n drafts by the direct prompt, one of them handed in, chosen without hidden tests.

The drafts are independent: each is asked for in the same words, so a temperature above 0 is needed for them to differ. The
choice is by the arm's feedback (parses, imports, own tests pass), then by majority, then the first. With feedback ``own``
and no public tests the model writes a test file once, after its first draft. What it asks in all is a budget's to end.
"""

from rcb_agent.agents.base import Session, Solution
from rcb_agent.agents.drafts import Bench, Draft, choose_best
from rcb_agent.tasks.base import Problem


class BestOfNAgent:
    """Asks n times; option ``n``: how many drafts, None = until the budget ends; ``extract`` as for direct."""

    name = "best-of-n"
    uses_workspace = True
    uses_tools = False
    default_paper = "prompt"
    default_feedback = "own"
    default_drafts = 5

    def solve(self, problem: Problem, session: Session) -> Solution:
        """Ask for drafts until there are n or a budget ends, and hand in the best of them."""
        bench = Bench(self.name, problem, session)
        wanted = session.options.get("n", self.default_drafts)
        drafts: list[Draft] = []
        bench.begin([bench.first])
        while (wanted is None or len(drafts) < wanted) and (reply := bench.ask([bench.first])):
            drafts.append(bench.look_at(bench.read(reply)))
            bench.hold(choose_best(drafts))
            if len(drafts) == 1 and wanted != 1:
                drafts = [bench.look_with_tests(drafts[0])]
        return bench.finish(choose_best(drafts))
