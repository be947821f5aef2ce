"""Guards: an arm that is said to ask in the authors' words and asks in others (needs RCB_UPSTREAM; no word is shipped)."""

import hashlib
from pathlib import Path

import pytest

from rcb_agent.tasks.suites import load_suite
from rcb_agent.tasks.upstream_prompt import read_published_prompt
from tests.tasks.published_code import find_checkout, run_published

pytestmark = pytest.mark.upstream

LISTEN = """
class Listener:
    def __init__(self):
        self.heard = []
    async def run(self, user_message, **_):
        self.heard.append(user_message)
        return ["no code"]

found = {}
for name, problem in problems.items():
    names = [snippet.name for file in problem.problem_files for snippet in file.snippets]
    for setting in ("paper", "no paper"):
        listener = Listener()
        for file in problem.problem_files:
            for snippet in file.snippets:
                snippet.predictions = {}
        asyncio.run(problem.generate_solutions([model], 1, 0.0, listener, wo_paper=setting == "no paper"))
        assert len(listener.heard) == len(names)
        for blank, text in zip(names, listener.heard):
            data = text.encode()
            found[f"{name}/{blank}, {setting}"] = [len(data), hashlib.sha256(data).hexdigest()]
print(json.dumps(found))
"""


def test_all_prompts_are_the_authors_byte_for_byte(tmp_path: Path) -> None:
    """212 tasks with and without paper: what their code sends and what ours does."""
    checkout = find_checkout(tmp_path)
    theirs = run_published(checkout, LISTEN)
    suite = load_suite(str(checkout / "pset"))
    prompt = read_published_prompt(suite.name, suite.root)
    ours = {}
    for task in suite.tasks:
        for setting in ("paper", "no paper"):
            data = prompt.write(suite.root, task, with_paper=setting == "paper").encode()
            ours[f"{task.id}, {setting}"] = [len(data), hashlib.sha256(data).hexdigest()]
    assert len(ours) == 424
    assert [name for name in ours if ours[name] != theirs[name]] == []
