"""Waits for the end of its input, then removes the containers of one owner; a program of its own.

A harness that is killed between making a container and starting it leaves one that will never end by itself. Only
the harness holds the other end of the input, so it ends with it, however that ends.

    python -I -S afterwards.py ADDRESS LABEL=VALUE
"""

import http.client
import json
import socket
import sys
import time
from contextlib import suppress
from urllib.parse import quote, urlsplit

LOOK_SECONDS = 6.0  # a request that was on its way when the harness died is answered by then
PAUSE_SECONDS = 0.25


class LocalConnection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        """Connect to the path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def open_connection(address: str) -> http.client.HTTPConnection:
    """Return a connection to ``unix://PATH``, ``tcp://HOST:PORT`` or ``http://HOST:PORT``."""
    parts = urlsplit(address)
    if parts.scheme == "unix":
        return LocalConnection(parts.path)
    return http.client.HTTPConnection(parts.hostname or "localhost", parts.port or 2375, timeout=30)


def ask(address: str, method: str, path: str) -> bytes:
    """Make one request."""
    connection = open_connection(address)
    try:
        connection.request(method, path)
        return connection.getresponse().read()
    finally:
        connection.close()


def remove_all(address: str, label: str) -> None:
    """Remove containers with a label for a while: one more may come to be."""
    wanted = quote(json.dumps({"label": [label]}))
    deadline = time.monotonic() + LOOK_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError, ValueError, http.client.HTTPException):
            for container in json.loads(ask(address, "GET", f"/containers/json?all=1&filters={wanted}")):
                ask(address, "DELETE", f"/containers/{container['Id']}?force=1&v=1")
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    remove_all(*sys.argv[1:3])
