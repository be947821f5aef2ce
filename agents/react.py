"""The agent ``react``: a LangGraph loop of model and tools until it submits, stops calling, or a budget ends.

A step is one reply with all its calls. With ``max_steps`` N the Nth reply's calls are still executed and a snapshot
is taken. Each call gets exactly one result, in order. LangGraph drives the loop; the count of steps is our own, its
recursion limit only a backstop.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypedDict

from rcb_agent.agents.arguments import ArgumentsError, parse_object
from rcb_agent.agents.base import NOTHING_USED, Message, Reply, Session, Solution, ToolCall
from rcb_agent.agents.conversation import CallIds, assistant_message, bound_text, tool_message
from rcb_agent.agents.prompts import describe_problem, quote_file, render
from rcb_agent.agents.snapshots import snapshot_json
from rcb_agent.agents.tools import Toolbox, ToolResult
from rcb_agent.environments.base import Workspace
from rcb_agent.errors import EnvironmentFault, SandboxFileError, TrialOver, UsageError
from rcb_agent.tasks.base import Problem

MAX_CALLS = 32
"""Calls of one reply that are executed; each further one is answered with a refusal."""

_SUPER_STEPS = 2
_SPARE_SUPER_STEPS = 10


class ReactAgent:
    """Model and tools in turn, on a workspace."""

    name = "react"
    uses_workspace = True
    default_paper = "file"

    def prepare(self) -> None:
        """Load LangGraph."""
        _build_graph()

    def solve(self, problem: Problem, session: Session) -> Solution:
        """Work on one problem until a stop; the workspace as it is then is the answer."""
        if session.workspace is None:
            raise UsageError("the agent react needs a workspace")
        return Episode(problem, session, session.workspace).run()


class _State(TypedDict):
    episode: "Episode"
    stop: str


@lru_cache(maxsize=1)
def _build_graph() -> Any:
    """Return the loop, compiled once for all trials: it holds nothing of any, the state does."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Command

    def go(stop: str, onwards: str) -> Command[str]:
        return Command(update={"stop": stop}, goto=END if stop else onwards)

    def model(state: _State) -> Command[str]:
        return go(state["episode"].ask_model(), "tools")

    def tools(state: _State) -> Command[str]:
        return go(state["episode"].act(), "model")

    graph = StateGraph(_State)
    graph.add_node("model", model, destinations=("tools", END))
    graph.add_node("tools", tools, destinations=("model", END))
    graph.add_edge(START, "model")
    return graph.compile()


class Episode:
    """One trial of a tool-using agent: its conversation, its count of steps, what it has used."""

    def __init__(self, problem: Problem, session: Session, workspace: Workspace) -> None:
        self._session = session
        self._workspace = workspace
        self._toolbox = Toolbox(session.tools, workspace, seconds_left=session.budget.seconds_left)
        self._messages = first_messages(problem, session)
        self._ids = CallIds()
        self._reply = Reply("")
        self._steps = 0
        self._usage = NOTHING_USED
        self._cost: float | None = 0.0
        self._note = ""

    def run(self) -> Solution:
        """Carry the loop out."""
        self._session.journal("prompt", messages=list(self._messages), tools=self._toolbox.specs())
        stop = self._drive()
        return Solution(stop, self._steps, self._usage, self._cost, note=self._note)

    def _drive(self) -> str:
        # LangSmith would send the whole conversation away if the user's shell has it switched on.
        from langsmith import tracing_context

        if stop := self._check_budget():
            return stop
        limit = _SUPER_STEPS * self._session.budget.max_steps + _SPARE_SUPER_STEPS
        with tracing_context(enabled=False):
            end = _build_graph().invoke(_State(episode=self, stop=""), {"recursion_limit": limit})
        return str(end["stop"])

    def _check_budget(self) -> str:
        if self._steps >= self._session.budget.max_steps:
            return "max_steps"
        return "" if self._session.budget.seconds_left() > 0 else "max_seconds"

    def ask_model(self) -> str:
        """Take the next reply; returns why to stop when there is none."""
        try:
            reply = self._session.model.complete(self._messages, self._toolbox.specs(), self._session.sampling)
        except TrialOver as end:
            self._note = str(end)
            return end.stop
        self._steps += 1
        self._usage = self._usage.plus(reply.usage)
        self._cost = None if self._cost is None or reply.cost is None else self._cost + reply.cost
        reply = self._ids.make_unique(reply)
        self._messages.append(assistant_message(reply))
        self._journal_reply(reply)
        if not reply.tool_calls:
            self._note = f"finish: {reply.finish}" if reply.finish else ""
        self._reply = reply
        return ""

    def act(self) -> str:
        """Answer the reply's calls and take a snapshot; returns why to stop, empty to go on."""
        stop = self._answer_calls(self._reply) if self._reply.tool_calls else "no_tool_call"
        lost = stop if stop == "sandbox_lost" else self._take_snapshot()
        return lost or stop or self._check_budget()

    def _journal_reply(self, reply: Reply) -> None:
        calls = [{"id": one.id, "name": one.name, "arguments": bound_text(one.arguments)} for one in reply.tool_calls]
        self._session.journal(
            "reply",
            step=self._steps,
            text=bound_text(reply.text),
            tool_calls=calls,
            finish=reply.finish,
            usage=reply.usage.as_json(),
            cost=reply.cost,
        )

    def _answer_calls(self, reply: Reply) -> str:
        refusal = _refuse_all(reply)
        stop = ""
        for index, call in enumerate(reply.tool_calls):
            why_not = refusal or _refuse_one(index, stop)
            try:
                result = ToolResult(why_not, error=True) if why_not else self._toolbox.call(call)
            except EnvironmentFault as lost:
                self._note = str(lost)
                return "sandbox_lost"
            stop = "submitted" if result.submit else stop
            self._keep_result(call, result)
        return stop

    def _keep_result(self, call: ToolCall, result: ToolResult) -> None:
        self._messages.append(tool_message(call, result.text))
        self._session.journal(
            "tool",
            step=self._steps,
            id=call.id,
            name=call.name,
            text=result.text,
            error=result.error,
            seconds=round(result.seconds, 4),
        )

    def _take_snapshot(self) -> str:
        try:
            snapshot = self._workspace.snapshot()
        except (EnvironmentFault, SandboxFileError) as lost:
            # Whatever an agent does to its sandbox is its own doing: the last snapshot is graded.
            self._note = str(lost)
            return "sandbox_lost"
        self._session.journal("snapshot", step=self._steps, snapshot=snapshot_json(snapshot))
        return ""


def _refuse_all(reply: Reply) -> str:
    if reply.finish != "length" or all(_is_object(call.arguments) for call in reply.tool_calls):
        return ""
    return "not executed: your reply was cut off at the output limit; send the call again, in smaller pieces if need be"


def _is_object(arguments: str) -> bool:
    try:
        parse_object(arguments)
    except ArgumentsError:
        return False
    return True


def _refuse_one(index: int, stop: str) -> str:
    if stop:
        return "not executed: the task was submitted before this call"
    return f"not executed: at most {MAX_CALLS} calls in one reply" if index >= MAX_CALLS else ""


def first_messages(problem: Problem, session: Session) -> list[Message]:
    """Return the system and the first user message of a tool-using agent."""
    tools = session.tools
    task = render(
        "react_task",
        **describe_problem(problem),
        **_describe_paper(problem, session.paper),
        graded=" and ".join(file.path for file in problem.files),
        tests_line=_describe_tests(problem, tools),
        max_steps=session.budget.max_steps,
        max_minutes=f"{session.budget.max_seconds / 60:.3g}",
        tools=", ".join(tools),
        submit_line=_describe_end(tools),
    )
    return [{"role": "system", "content": render("react_system")}, {"role": "user", "content": task.rstrip() + "\n"}]


def _describe_paper(problem: Problem, place: str) -> dict[str, str]:
    if problem.paper is None or place == "none":
        return {"paper_line": "There is no paper; go by the code.", "paper_text": ""}
    if place == "prompt":
        return {"paper_line": "Paper: at the end of this message", "paper_text": quote_file(problem.paper, "paper")}
    return {"paper_line": f"Paper: {problem.paper.path} ({len(problem.paper.text):,} characters)", "paper_text": ""}


def _describe_tests(problem: Problem, tools: Sequence[str]) -> str:
    if not problem.public_tests or "run_tests" not in tools:
        return ""
    paths = ", ".join(file.path for file in problem.public_tests)
    return f"Tests that you may see and run: {paths}.\n"


def _describe_end(tools: Sequence[str]) -> str:
    if "submit" in tools:
        return "When the block is done, call submit."
    return "When the block is done, answer without calling a tool."
