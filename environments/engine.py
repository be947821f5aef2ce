"""The docker engine: finding it, and what goes wrong with it in one line.

The SDK is imported here, when a container is asked for, and nowhere else. One client per address serves all threads.
"""

import atexit
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rcb_agent.errors import EnvironmentFault

CALL_SECONDS = 60
CONNECTIONS = 128  # kept open; more are made and closed again
SOCKET = "unix:///var/run/docker.sock"
ADDRESS_VARIABLES = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")

_clients: dict[tuple[str, ...], Any] = {}
_connecting = threading.Lock()


class ImageMissing(EnvironmentFault):
    """The engine has no such image."""


def connect() -> Any:
    """Return the client of the engine that the environment names, or raise EnvironmentFault saying what is missing."""
    address = tuple(os.environ.get(name, "") for name in ADDRESS_VARIABLES)
    with _connecting:
        if address not in _clients:
            _clients[address] = open_client()
            atexit.register(disconnect)
        return _clients[address]


def disconnect() -> None:
    """Close what is kept open."""
    with _connecting:
        while _clients:
            _clients.popitem()[1].close()


def engine_address() -> str:
    """Where the engine is looked for."""
    return os.environ.get("DOCKER_HOST") or SOCKET


def open_client() -> Any:
    """Connect and agree on a version of the protocol."""
    try:
        import docker
        from docker.utils import kwargs_from_env
    except ImportError:
        raise EnvironmentFault("the docker SDK is not installed: pip install docker") from None
    where = engine_address()
    if not where.startswith(("unix://", "http://", "tcp://")) or os.environ.get("DOCKER_TLS_VERIFY"):
        raise EnvironmentFault(f"the docker engine at {where} cannot be attached to: only a socket or plain TCP can")
    knock(where)
    try:
        options = {"base_url": SOCKET, **kwargs_from_env()}
        return docker.APIClient(**options, version="auto", timeout=CALL_SECONDS, max_pool_size=CONNECTIONS)
    except (docker.errors.DockerException, ValueError) as error:
        raise EnvironmentFault(explain_silence(where, error)) from None


def knock(where: str) -> None:
    """Try a socket of this machine first: where nobody answers, the SDK leaves its own open. Raises EnvironmentFault."""
    if not where.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CALL_SECONDS)
        try:
            probe.connect(where.removeprefix("unix://"))
        except OSError as error:
            raise EnvironmentFault(explain_silence(where, error)) from None


def explain_silence(where: str, error: Exception) -> str:
    """One line on why nobody answers."""
    if isinstance(error, PermissionError) or "PermissionError" in str(error):
        return f"no permission to use the docker engine at {where}: join the group docker, or set DOCKER_HOST"
    return f"no docker engine answers at {where}: start it (dockerd), or name it in DOCKER_HOST"


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what the SDK raises into EnvironmentFault; ImageMissing where an image is."""
    import docker
    import requests

    try:
        yield
    except docker.errors.ImageNotFound as error:
        raise ImageMissing(f"docker could not {doing}: {reason(error)}") from None
    except docker.errors.APIError as error:
        raise EnvironmentFault(f"docker could not {doing}: {reason(error)}") from None
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise EnvironmentFault(f"docker could not {doing}: the engine at {engine_address()}: {text}") from None


def reason(error: Any) -> str:
    """Return the engine's own words, on one line."""
    explanation = error.explanation
    text = explanation.decode("utf-8", "replace") if isinstance(explanation, bytes) else str(explanation or error)
    return " ".join(text.split())
