"""What of the benchmark authors' own procedure a run takes over: their prompt, the folders that their grading copies."""

import hashlib
from collections.abc import Sequence

from rcb_agent.runs.base import Arm
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.origins import tree_digest
from rcb_agent.tasks.suites import LoadedSuite
from rcb_agent.tasks.upstream_prompt import read_published_prompt


def given_prompt(arm: Arm, suite: LoadedSuite, task: Task) -> str | None:
    """Return the whole prompt where an arm asks in the authors' words. Raises TaskError where the suite has none."""
    if arm.prompt != "upstream":
        return None
    prompt = read_published_prompt(suite.name, suite.root)
    return prompt.write(suite.root, task, with_paper=arm.paper == "prompt")


def digest_prompts(own: str, arms: Sequence[Arm], suite: LoadedSuite) -> str:
    """Return a hash over our templates and, where an arm asks in them, the authors' words. Raises TaskError."""
    if not any(arm.prompt == "upstream" for arm in arms):
        return own
    return hashlib.sha256(f"{own} {read_published_prompt(suite.name, suite.root).digest}".encode()).hexdigest()


def digest_folders(own: str, suite: LoadedSuite, tasks: Sequence[Task]) -> str:
    """Return a hash over tasks and the whole folders of their papers."""
    papers = sorted({task.info.id for task in tasks})
    folders = [f"{paper} {tree_digest(suite.root / paper)}" for paper in papers]
    return hashlib.sha256("\n".join([own, *folders]).encode()).hexdigest()
