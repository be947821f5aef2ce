"""Guards: a reply that parity grading reads or puts in otherwise than the authors' code (needs RCB_UPSTREAM)."""

import hashlib
import json
from pathlib import Path

import pytest

from rcb_agent.agents.direct import DirectAgent
from rcb_agent.scoring.upstream import place_candidate, read_tree
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.suites import load_suite
from tests.agents.samples import Talker, make_session, says
from tests.tasks.published_code import find_checkout, run_published

pytestmark = pytest.mark.upstream

REPLIES = [
    "No code at all.",
    "So:\n```python\n    x = 1\n    y = 2\n```\nDone.",
    "```python\nx = 1\n```\nor rather\n```python\n        y = 2\n\n```",
    "```python\nx = 1```",
    "```python\nx = 1\r\n\ty = 2\r\n\n```",
    "```python\nx = 1\x0cy = 2\u2028z = 3\x85\n```",
    "```Python\nx = 1\n```",
    '```python\n# <paper2code name="of nobody">\n```',
    "```python\n\n\n```",
    "```python\nx = '''\n```\n'''\n```",
    "```py\nx = 1\n```\n```python\n",
    "~~~python\nx = 1\n~~~",
]

WRITE = """
for name in ("matplotlib", "matplotlib.pyplot"):
    sys.modules[name] = types.ModuleType(name)
import core.annotation.models.pset as module
replies = json.load(open(sys.argv[2]))
named = {paper["id"]: paper["annotated_file_paths"] for paper in papers}
found, asked = [], 0

class Talker:
    async def run(self, **_):
        global asked
        asked += 1
        return [replies[(asked - 1) % len(replies)]]

def look(command):
    folder = command.split()[1]
    paths = named[folder.rsplit("/", 1)[-1]]
    paths = [paths] if isinstance(paths, str) else paths
    found.append({path: hashlib.sha256(open(f"{folder}/{path}", "rb").read()).hexdigest() for path in paths})
    return True, 0, "", ""

module.run_shell_command = look
for problem in problems.values():
    asyncio.run(problem.generate_solutions([model], 1, 0.0, Talker()))
pset = module.PSet(folder_name="pset", problems=list(problems.values()))
pset.test_all(f"{root}/pset", sys.argv[3], timeout_seconds=60)
print(json.dumps(found))
"""


def answer(task: Task, reply: str) -> dict[str, bytes]:
    session, _ = make_session(Talker([says(text=reply)]), None, paper="prompt", options={"extract": "upstream"})
    files = DirectAgent().solve(task.problem, session).files
    assert files is not None
    return dict(files)


def test_every_reply_ends_in_the_authors_bytes(tmp_path: Path) -> None:
    """All 212 blanks, replies of every odd kind in turn: the files that their tests would see and those that ours do."""
    checkout = find_checkout(tmp_path / "up")
    (tmp_path / "replies.json").write_text(json.dumps(REPLIES))
    theirs = run_published(checkout, WRITE, str(tmp_path / "replies.json"), str(tmp_path / "cache"))
    suite = load_suite(str(checkout / "pset"))
    assert len(theirs) == len(suite.tasks) == 212
    different = []
    for number, task in enumerate(suite.tasks):
        files = answer(task, REPLIES[number % len(REPLIES)])
        written = {**read_tree(suite.root / task.info.id), **place_candidate(suite.root, task, files)}
        ours = {path: hashlib.sha256(written[path]).hexdigest() for path in files}
        if ours != theirs[number]:
            different.append((task.id, REPLIES[number % len(REPLIES)]))
    assert different == []
