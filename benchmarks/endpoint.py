"""An OpenAI-compatible endpoint on loopback that takes its time: one tool call after another, in a process of its own.

    python benchmarks/endpoint.py DELAY TOOL ARGUMENTS [LAST_TOOL]

Prints its URL and serves until its input ends.
A conversation gets TOOL with ARGUMENTS each time; the request after ``calls`` answers of that (the model's name ends in
the number, ``loopback-5``) gets LAST_TOOL, where one is given. Asyncio without a library, so that 50 callers at once
cost it little of the CPU that is being measured.
"""

import asyncio
import json
import sys
from typing import Any


class Endpoint:
    """Answers every request of every connection after ``delay`` seconds."""

    def __init__(self, delay: float, call: tuple[str, str], last: str) -> None:
        self.delay, self.call, self.last = delay, call, last

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
                request = json.loads(await reader.readexactly(int(fields[b"content-length"])))
                await asyncio.sleep(self.delay)
                body = json.dumps(self.answer(request)).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n" % len(body) + body)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            writer.close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the completion that follows from the conversation alone."""
        ordinal = sum(message["role"] == "assistant" for message in request["messages"]) + 1
        over = self.last and ordinal > int(request["model"].rsplit("-", 1)[1])
        name, arguments = (self.last, "{}") if over else self.call
        call = {"id": f"call-{ordinal}", "type": "function", "function": {"name": name, "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return {
            "id": f"answer-{ordinal}",
            "object": "chat.completion",
            "created": 1,
            "model": request["model"],
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020},
        }


async def main(delay: float, tool: str, arguments: str, last: str = "") -> None:
    endpoint = Endpoint(delay, (tool, arguments), last)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, backlog=512)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), *sys.argv[2:]))
