"""Guards: a model that `run` refuses and the commands that look ahead take, or fall over; a script asked what it cannot."""

from dataclasses import replace

import pytest

from rcb_agent.errors import UsageError
from rcb_agent.runs.config import ArmOptions, build_arms
from rcb_agent.runs.plan import check_models
from tests.runs.command import rcb_agent_within

COMMANDS = {"estimate": ["estimate"], "prompt": ["prompt", "silt/filling of the last block"]}
NAMES = {
    "foo/bar": "LiteLLM knows no provider 'foo'",
    "": "names no provider",
    "gpt-4.1": "names no provider",
    "scripted/nope": "unknown script",
}


@pytest.mark.parametrize("agent", ["react", "direct"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_model_is_refused_as_by_run(command: str, agent: str, name: str) -> None:
    """One line, exit code 2, and nothing on standard output."""
    done = rcb_agent_within(*COMMANDS[command], "--agent", agent, "--model", name)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert NAMES[name] in done.err


def test_a_script_speaks_native_calls_only() -> None:
    """`run` and what looks ahead ask the same question; an agent without tools has no protocol to refuse."""
    done = rcb_agent_within("estimate", "--tool-protocol", "json")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    options = ArmOptions(models=("scripted/demo",), common={"tool_protocol": "json"})
    with pytest.raises(UsageError, match="native calls only"):
        check_models(build_arms(options))
    check_models(build_arms(replace(options, agents=("direct",))))
