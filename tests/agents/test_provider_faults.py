"""Guards: a provider's fault that costs the run, loops for ever, passes for an answer, or tells a key."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from rcb_agent.agents.base import Reply, Sampling, Usage
from rcb_agent.agents.litellm_errors import asked_wait
from rcb_agent.agents.litellm_model import LiteLLMModel, Patience
from rcb_agent.agents.react import ReactAgent
from rcb_agent.agents.recording import CallScope, Record, RecordingModel
from rcb_agent.agents.redaction import LENGTH_IN_ERRORS, redact
from rcb_agent.agents.tools import TOOL_NAMES, Toolbox
from rcb_agent.errors import ModelError, ModelUnavailable
from tests.agents.local_sandbox import FolderWorkspace
from tests.agents.loopback import Answer, Server, calls, message, serve, status, text
from tests.agents.samples import PROBLEM, check_conversation, make_session, open_sample

KEY = "sk-planted-0123456789"
QUICK = Patience(timeout=1.0, attempts=3, first_wait=0.01, longest_wait=0.05)
ASK = [{"role": "user", "content": "hello"}]

# LiteLLM and what it uses leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("default::ResourceWarning", "default::pytest.PytestUnraisableExceptionWarning")


def ask(
    monkeypatch: pytest.MonkeyPatch, script: Sequence[Answer], sampling: Sampling | None = None
) -> tuple[Reply, Server]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve(script) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        reply = LiteLLMModel("openai/loopback", QUICK).complete(ASK, (), sampling or Sampling())
    return reply, server


def test_a_call_comes_back_as_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and raw arguments, malformed ones included; usage; an unmapped model has no price."""
    reply, server = ask(monkeypatch, [calls(("read_file", '{"path": "a"}'), ("write_file", '{"path": '))])
    assert [(one.name, one.arguments) for one in reply.tool_calls] == [
        ("read_file", '{"path": "a"}'),
        ("write_file", '{"path": '),
    ]
    assert (reply.usage, reply.cost, reply.finish) == (Usage(11, 7), None, "tool_calls")
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_mapped_model_has_a_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM's own table, read from the package."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([text("hi")]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        reply = LiteLLMModel("openai/gpt-4o-mini", QUICK).complete(ASK, (), Sampling())
    assert reply.cost == pytest.approx(11 * 0.15e-6 + 7 * 0.6e-6)


def test_only_what_is_set_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some models refuse a temperature; then none may be in the request."""
    _, server = ask(monkeypatch, [text("hi")], Sampling(temperature=None))
    assert set(server.requests[0].body) == {"model", "messages"}
    _, server = ask(monkeypatch, [text("hi")], Sampling(temperature=0.0, max_output_tokens=9))
    assert (server.requests[0].body["temperature"], server.requests[0].body["max_tokens"]) == (0.0, 9)


@pytest.mark.parametrize(
    "fault",
    [
        status(429),
        status(429, headers={"retry-after": "1"}),
        status(429, headers={"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}),
        status(500),
        status(503),
        status(529),
        Answer(502, b"<html>Bad Gateway</html>", {"content-type": "text/html"}),
        Answer(reset=True),
        Answer(delay=1.5),
    ],
    ids=["429", "429 wait", "429 date", "500", "503", "529", "html", "reset", "hang"],
)
def test_what_passes_is_waited_out(monkeypatch: pytest.MonkeyPatch, fault: Answer) -> None:
    """One fault, then the answer; the wait is bounded whatever the header asks for."""
    begin = time.monotonic()
    reply, server = ask(monkeypatch, [fault, text("at last")])
    assert reply.text == "at last"
    assert len(server.requests) == 2
    assert len(reply.retried) == 1
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("code", [429, 500])
def test_what_does_not_pass_is_given_up(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Exactly as many requests as attempts: nobody retries inside."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([status(code)]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        with pytest.raises(ModelError, match="out of order") as caught:
            LiteLLMModel("openai/loopback", QUICK).complete(ASK, (), Sampling())
    assert not isinstance(caught.value, ModelUnavailable)
    assert len(server.requests) == QUICK.attempts


@pytest.mark.parametrize(
    ("code", "variable"), [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "OPENAI_API_BASE")]
)
def test_a_wrong_key_or_model_stops_at_once(monkeypatch: pytest.MonkeyPatch, code: int, variable: str) -> None:
    """One request, one line that names model and variable and never the key, though the server repeats it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([status(code, f"bad key {KEY}")]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        with pytest.raises(ModelUnavailable) as caught:
            LiteLLMModel("openai/loopback", QUICK).complete(ASK, (), Sampling())
    line = str(caught.value)
    assert len(server.requests) == 1
    assert line.startswith("openai/loopback: ")
    assert variable in line
    assert KEY not in line
    assert "\n" not in line


def test_an_endpoint_where_nothing_listens_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quickly, and naming the variable."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{port}/v1")
    begin = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"openai/loopback: nothing answers.*OPENAI_API_BASE"):
        LiteLLMModel("openai/loopback", Patience(first_wait=10)).complete(ASK, (), Sampling())
    assert time.monotonic() - begin < 10


def test_a_missing_key_is_named_before_anything_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM would call it an error of the server."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY is not set"):
        LiteLLMModel("openai/loopback").complete(ASK, (), Sampling())


def test_an_endpoint_that_goes_away_later_is_a_passing_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a first answer the trial fails, not the run."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([replace(text("hi"), headers={"connection": "close"})]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        model = LiteLLMModel("openai/loopback", QUICK)
        model.complete(ASK, (), Sampling())
    with pytest.raises(ModelError) as caught:
        model.complete(ASK, (), Sampling())
    assert not isinstance(caught.value, ModelUnavailable)


@pytest.mark.parametrize(
    ("answer", "finish"),
    [
        (text(""), "stop"),
        (text(None), "stop"),
        (text(None, "content_filter"), "content_filter"),
        (message({"refusal": "I cannot help with that."}), "refusal"),
        (message({"content": "", "reasoning_content": "hm"}), "stop"),
    ],
    ids=["empty", "null", "filter", "refusal", "thinking only"],
)
def test_silence_and_refusals_come_back_as_no_text(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, finish: str
) -> None:
    """Told apart by ``finish``; never an invented answer."""
    reply, _ = ask(monkeypatch, [answer])
    assert (reply.text, reply.tool_calls, reply.finish) == ("", (), finish)


def test_usage_that_is_missing_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteLLM says zero tokens; zero would be a lie, and so would the price of it."""
    reply, _ = ask(monkeypatch, [text("hi", usage=None)])
    assert (reply.usage, reply.cost) == (Usage(), None)


def test_no_record_holds_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a reply that repeats it, not in an error."""
    records: list[Record] = []
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serve([text(f"your key is {KEY}"), status(400, f"no {KEY}")]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        model = RecordingModel(LiteLLMModel("openai/loopback", QUICK), CallScope("a", "p/t", 1), records.append)
        model.complete(ASK, (), Sampling())
        with pytest.raises(ModelError):
            model.complete(ASK, (), Sampling())
    assert len(records) == 2
    assert KEY not in json.dumps(records)


def test_redaction_leaves_short_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable TOKEN=1 must not turn every 1 of a reply into its name."""
    monkeypatch.setenv("MY_TOKEN", "1")
    monkeypatch.setenv("OTHER_API_KEY", "long-enough-1")
    monkeypatch.setenv("LOCAL_API_KEY", "anything")
    assert redact("1 long-enough-1 anything") == "1 [OTHER_API_KEY] anything"
    assert redact("1 anything", LENGTH_IN_ERRORS) == "1 [LOCAL_API_KEY]"


def test_a_secret_is_found_as_json_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are redacted as they are written, with quotes and line breaks as escapes."""
    secret = 'pass"word\nof two lines'
    monkeypatch.setenv("PLANTED_SECRET", secret)
    assert redact(json.dumps([secret])) == '["[PLANTED_SECRET]"]'


def test_a_password_in_an_address_is_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a key in its query, and a value that begins with another one; the rest of the address may be said."""
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://user:hunter2-hunter2@host/v1?a=1&api_key=0123456789abcdef")
    monkeypatch.setenv("A_TOKEN", "long-enough-1")
    monkeypatch.setenv("B_TOKEN", "long-enough-1-and-more ")
    assert redact("http://user:hunter2-hunter2@host/?api_key=0123456789abcdef") == (
        "http://user:[HOSTED_VLLM_API_BASE]@host/?api_key=[HOSTED_VLLM_API_BASE]"
    )
    assert redact("long-enough-1-and-more long-enough-1") == "[B_TOKEN] [A_TOKEN]"


def test_a_trial_over_http_ends_as_one_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tool calls, malformed ones, duplicate ids: the next request is valid and its tools are the arm's."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    same = {"id": "c", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
    script = [message({"tool_calls": [same, same]}), calls(("read_file", "{oops")), calls(("submit", "{}"))]
    with serve(script) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)
        session, _ = make_session(LiteLLMModel("openai/loopback", QUICK), open_sample(tmp_path))
        assert ReactAgent().solve(PROBLEM, session).stop == "submitted"
    check_conversation(server.requests[-1].body["messages"])
    assert server.requests[-1].body["tools"] == Toolbox(TOOL_NAMES, FolderWorkspace.__new__(FolderWorkspace)).specs()


def test_asked_waits_are_read_from_wherever_the_header_is() -> None:
    """The header may hang on the cause of what LiteLLM raises; nonsense asks for nothing."""

    class Response:
        headers: ClassVar = {"retry-after": "soon"}

    error = RuntimeError("outer")
    error.__cause__ = ValueError("inner")
    assert asked_wait(error) == 0.0
    error.__cause__.response = Response()  # type: ignore[attr-defined]
    assert asked_wait(error) == 0.0
    Response.headers["retry-after"] = "7"
    assert asked_wait(error) == 7.0


PROBE = """
import sys
peers = []
def watch(event, arguments):
    if event == "socket.connect":
        peers.append(str(arguments[1]))
    if event == "socket.getaddrinfo":
        peers.append(str(arguments[0]))
sys.addaudithook(watch)
from rcb_agent.agents.litellm_model import LiteLLMModel
from rcb_agent.agents.base import Sampling
reply = LiteLLMModel("openai/llama-of-nobody").complete([{"role": "user", "content": "x"}], (), Sampling())
assert reply.text == "hi", reply
foreign = [peer for peer in peers if "127.0.0.1" not in peer]
assert peers and not foreign, foreign
"""


def test_nothing_but_the_endpoint_is_contacted_and_nothing_printed() -> None:
    """A fresh process: no price table, no telemetry, no banner."""
    with serve([text("hi")]) as server:
        environment = {"OPENAI_API_KEY": KEY, "OPENAI_API_BASE": server.url, "HOME": "/nonexistent", "PATH": ""}
        done = subprocess.run(
            [sys.executable, "-I", "-c", PROBE],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=120,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_redaction_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is set, changed or removed after the first line was written is known at the next."""
    assert redact("key first-long-value second-long-value") == "key first-long-value second-long-value"
    monkeypatch.setenv("LATER_API_KEY", "first-long-value")
    assert redact("key first-long-value second-long-value") == "key [LATER_API_KEY] second-long-value"
    monkeypatch.setenv("LATER_API_KEY", "second-long-value")
    assert redact("key first-long-value second-long-value") == "key first-long-value [LATER_API_KEY]"
    monkeypatch.delenv("LATER_API_KEY")
    assert redact("key second-long-value") == "key second-long-value"
