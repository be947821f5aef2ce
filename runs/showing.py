"""What of a problem an arm's agent is shown: with ``paper=none`` no paper, with ``context=target`` no context files."""

from dataclasses import replace

from rcb_agent.runs.base import Arm
from rcb_agent.tasks.base import Problem, SourceFile
from rcb_agent.tasks.folders import imports_closure
from rcb_agent.tasks.masking import fill_blank, null_code

CONTEXTS = ("full", "target")


def shown_problem(problem: Problem, arm: Arm) -> Problem:
    """Return the problem as the arm's agent gets it.

    Without context no file stands in a prompt beside the one with the blank, and a workspace holds only those
    that the annotated files need in order to be imported.
    """
    if arm.paper == "none":
        problem = replace(problem, paper=None)
    if arm.context == "full":
        return problem
    target = fill_blank(problem, null_code(problem))  # with its TODO alone it may not parse
    files = [SourceFile(file.path, target) if file.path == problem.path else file for file in problem.files]
    needed = imports_closure(files, {file.path: file for file in (*problem.files_support, *files)})
    kept = tuple(file for file in problem.files_support if file.path in needed)
    return replace(problem, context_paths=(), files_support=kept)
