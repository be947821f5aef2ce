"""Controls: ``oracle`` must score 100 and ``null`` 0. They take a Task, answer included, so they are no agents."""

from collections.abc import Callable, Mapping

from rcb_agent.environments.base import Collected, Submission
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import fill_blank, null_code


def oracle(task: Task) -> Submission:
    """Submit the gold code."""
    return _submit(task, task.answer.gold)


def null(task: Task) -> Submission:
    """Submit the blank replaced by nothing, or by ``pass`` where that does not parse."""
    return _submit(task, null_code(task.problem))


CONTROLS: Mapping[str, Callable[[Task], Submission]] = {"oracle": oracle, "null": null}


def _submit(task: Task, code: str) -> Submission:
    texts = {file.path: file.text for file in task.problem.files} | {task.problem.path: fill_blank(task.problem, code)}
    return submission_from({path: text.encode("utf-8", "surrogateescape") for path, text in texts.items()}, task)


def submission_from(files: Mapping[str, bytes], task: Task) -> Submission:
    """Make a submission of annotated files that were never in a workspace."""
    from rcb_agent.environments.diff import unified_diff

    given = {file.path: file.encode() for file in task.problem.files}
    collected = tuple(Collected(path, "file", files.get(path, data)) for path, data in given.items())
    return Submission(collected, unified_diff(given, {item.path: item.data for item in collected}))
