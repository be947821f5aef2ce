"""Controls: ``oracle`` must score 100 and ``null`` 0. They take a Task, answer included, so they are no agents."""

from collections.abc import Callable, Mapping

from rcb_agent.environments.base import Collected, Submission
from rcb_agent.tasks.base import Task
from rcb_agent.tasks.masking import filled_files, null_code


def oracle(task: Task) -> Submission:
    """Submit the gold code."""
    return submission_from(filled_files(task.problem, task.answer.gold), task)


def null(task: Task) -> Submission:
    """Submit the blank replaced by nothing, or by ``pass`` where that does not parse."""
    return submission_from(filled_files(task.problem, null_code(task.problem)), task)


CONTROLS: Mapping[str, Callable[[Task], Submission]] = {"oracle": oracle, "null": null}


def submission_from(files: Mapping[str, bytes], task: Task) -> Submission:
    """Make a submission of annotated files that were never in a workspace; a path left out stays as given."""
    given = {file.path: file.encode() for file in task.problem.files}
    return make_submission(task, {path: Collected(path, "file", files.get(path, data)) for path, data in given.items()})


def make_submission(task: Task, files: Mapping[str, Collected]) -> Submission:
    """Put collected files beside their diff against what the agent was given."""
    from rcb_agent.environments.diff import unified_diff

    given = {file.path: file.encode() for file in task.problem.files}
    left = {path: item.data for path, item in files.items()}
    return Submission(tuple(files.values()), unified_diff(given, left, kinds={p: i.kind for p, i in files.items()}))
