"""The errors a user may meet, each with the exit code of its kind.

    RcbAgentError                70   internal: nothing a user did
    |-- UsageError                2   wrong words on the command line, a config that does not fit
    |-- TaskError                 3   a suite, paper or task that cannot be read
    |-- RecordsLost               4   the run folder cannot be written (disk full, taken away): stops the run
    |-- EnvironmentFault          4   sandbox, runtime or machine
    |   `-- SandboxLost           4   a sandbox that was open and no longer answers
    |-- ModelError                5   provider or model
    |   |-- ModelUnavailable      5   no call can succeed (wrong key, nothing listening): stops the run
    |   `-- TrialOver             5   nothing more to ask: the trial ends with what is there, and is graded
    |       |-- ContextFull       5   the conversation is longer than the model takes
    |       |-- OutOfTime         5   the trial's seconds ran out during a call
    |       |-- BudgetSpent       5   the trial's tokens or dollars are used up
    |       `-- NoAnswer          5   the model refused or was silent, again when asked again
    `-- RunBudgetSpent            5   the run's tokens or dollars are used up: its trials under way are not measured

``SandboxFileError`` is no harness error: it is what a file tool answers (no such file, outside the workspace)
and always ends as text for the model. Only ``cli.py`` prints errors, one line each, without a traceback.
"""

from collections.abc import Mapping, Sequence


class RcbAgentError(Exception):
    """Base of all errors raised on purpose; ``str(error)`` is one line for the user."""

    exit_code = 70


class UsageError(RcbAgentError):
    """The command, an option or a run folder's config does not fit."""

    exit_code = 2


class TaskError(RcbAgentError):
    """A suite, paper or task cannot be used as it is."""

    exit_code = 3


class RecordsLost(RcbAgentError):
    """The run folder cannot be written any more: going on would lose what is paid for."""

    exit_code = 4


class EnvironmentFault(RcbAgentError):
    """The machine, a sandbox or a runtime cannot do what is needed."""

    exit_code = 4


class SandboxLost(EnvironmentFault):
    """An open sandbox died or stopped answering."""


class ModelError(RcbAgentError):
    """A model call failed for good; ``retried`` says of each attempt before the last what it met and waited."""

    exit_code = 5
    retried: Sequence[Mapping[str, object]] = ()


class ModelUnavailable(ModelError):
    """No call to this model can succeed; the run stops before more trials are spent on it."""


class TrialOver(ModelError):
    """The trial ends with what is there, which is graded; ``stop`` is its stop word."""

    stop = "error"


class ContextFull(TrialOver):
    """The conversation is longer than the model's context window."""

    stop = "context_full"


class OutOfTime(TrialOver):
    """The trial's own seconds ran out while a model was asked."""

    stop = "max_seconds"


class BudgetSpent(TrialOver):
    """The trial's own tokens or dollars are used up; ``stop`` is max_tokens or max_cost."""

    def __init__(self, message: str, stop: str) -> None:
        super().__init__(message)
        self.stop = stop


class NoAnswer(TrialOver):
    """The model gave no answer: ``stop`` is refused, filtered or empty_reply."""

    def __init__(self, message: str, stop: str) -> None:
        super().__init__(message)
        self.stop = stop


class RunBudgetSpent(RcbAgentError):
    """The run's tokens or dollars are used up."""

    exit_code = 5


class SandboxFileError(Exception):
    """A file operation inside a sandbox was refused; ``str(error)`` is a line the model can act on."""
