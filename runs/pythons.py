"""Pythons that somebody furnished, in place of built runtimes: they are part of what a run measures and stand in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rcb_agent.environments.base import Runtime
from rcb_agent.errors import TaskError, UsageError
from rcb_agent.tasks.base import Task

Pythons = Mapping[str, str]


def choose_pythons(words: Sequence[str], tasks: Sequence[Task]) -> dict[str, str]:
    """Read ``PATH`` (for every runtime) or ``NAME=PATH``, NAME a runtime or paper of these tasks; the environment's too.

    Raises UsageError for a name that no task needs.
    """
    from rcb_agent.environments.runtimes import chosen_python

    names = runtimes_of(tasks)
    papers = {task.info.id: task.problem.runtime for task in tasks}
    chosen = {name: python for name in names if (python := chosen_python(name))}
    for word in words:
        name, equals, path = ("", "", word) if Path(word).exists() else word.rpartition("=")
        if equals and name not in {*names, *papers}:
            raise UsageError(f"--python {word!r}: no task of this run needs {name!r}; needed: {', '.join(names)}")
        chosen |= dict.fromkeys([papers.get(name, name)] if equals else names, path)
    return {name: str(Path(path).expanduser().absolute()) for name, path in chosen.items()}


def runtimes_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Name the runtimes that these tasks need."""
    return tuple(sorted({task.problem.runtime for task in tasks}))


def load_runtimes(tasks: Sequence[Task], pythons: Pythons) -> dict[str, Runtime]:
    """Load what these tasks need. Raises EnvironmentFault or TaskError with what to do."""
    return {name: _load(name, tasks, pythons) for name in runtimes_of(tasks)}


def _load(name: str, tasks: Sequence[Task], pythons: Pythons) -> Runtime:
    from rcb_agent.environments.runtimes import load_runtime, runtime_variable

    try:
        return load_runtime(name, pythons.get(name))
    except UsageError:
        paper = next(task.info.id for task in tasks if task.problem.runtime == name)
        raise TaskError(
            f"paper {paper} needs the runtime {name!r}, which is not shipped: bring a Python that has its packages "
            f"(--python {name}=PATH, or {runtime_variable(name)}), leave its tasks out, or, in a suite of your own, say "
            f"`runtime: mini` in {paper}/rcb-agent.yaml"
        ) from None
