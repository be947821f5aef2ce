"""A small OpenAI-compatible endpoint on 127.0.0.1 that answers from a script; for tests of everything above it.

    with serve([text("hello"), status(429), calls(("read_file", '{"path": "a"}'))]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.url)

The last answer repeats. ``server.requests`` holds what was asked: path, headers (lower case) and body.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


@dataclass(frozen=True)
class Answer:
    """What one request gets, after ``delay`` seconds; ``reset`` closes the connection without a word."""

    code: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    reset: bool = False


@dataclass(frozen=True)
class Request:
    """What was asked."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


def message(fields: Mapping[str, Any], finish: str = "stop", usage: Mapping[str, int] | None = USAGE) -> Answer:
    """Answer with an assistant message of these fields."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **fields}}
    completion: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 1, "model": "loopback"}
    completion["choices"] = [choice]
    if usage is not None:
        completion["usage"] = usage
    return Answer(body=json.dumps(completion).encode())


def text(content: str | None, finish: str = "stop", usage: Mapping[str, int] | None = USAGE) -> Answer:
    """Answer with text."""
    return message({"content": content}, finish, usage)


def calls(*pairs: tuple[str, str], finish: str = "tool_calls") -> Answer:
    """Answer with tool calls: (name, raw arguments)."""
    tool_calls = [
        {"id": f"call-{time.monotonic_ns()}-{index}", "type": "function", "function": {"name": name, "arguments": raw}}
        for index, (name, raw) in enumerate(pairs)
    ]
    return message({"tool_calls": tool_calls}, finish)


def status(code: int, words: str = "out of order", headers: Mapping[str, str] | None = None) -> Answer:
    """Answer with an error in OpenAI's form."""
    body = json.dumps({"error": {"message": words, "type": "error", "code": str(code)}}).encode()
    return Answer(code, body, headers or {})


class Server(ThreadingHTTPServer):
    """The endpoint; ``script`` may be changed while it runs."""

    daemon_threads = True
    # A client that is gone before its answer is no fault of the server.
    handle_error = staticmethod(lambda *_: None)  # type: ignore[assignment]

    def __init__(self, script: Sequence[Answer] | Callable[[Request], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.requests: list[Request] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The value for OPENAI_API_BASE."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def next_answer(self, request: Request) -> Answer:
        """Keep the request and return what it gets."""
        with self.lock:
            self.requests.append(request)
            if callable(self.script):
                return self.script(request)
            return self.script[min(len(self.requests), len(self.script)) - 1]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without these two every call takes 49 ms: Nagle's algorithm against delayed acknowledgements.
    wbufsize = 1 << 16
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Print nothing."""

    def do_POST(self) -> None:
        """Answer one request."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.next_answer(Request(self.path, headers, json.loads(raw or b"{}")))
        time.sleep(answer.delay)
        if answer.reset:
            self.close_connection = True
            return
        self.send_response(answer.code)
        for name, value in {"content-type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


@contextmanager
def serve(script: Sequence[Answer] | Callable[[Request], Answer]) -> Iterator[Server]:
    """Run an endpoint until the block ends."""
    server = Server(script)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
