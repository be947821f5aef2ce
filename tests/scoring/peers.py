"""Both sides of a session in one process, joined by a real socket pair: quick, and no part of it is a stand-in."""

import socket
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rcb_agent.scoring.candidate_side import Server
from rcb_agent.scoring.trusted_proxies import CallableProxy, Proxy
from rcb_agent.scoring.trusted_session import Adapter, Request, Session, SessionLimits
from rcb_agent.scoring.wire import Channel, WireError, WireLimits

MODULE = "candidate_under_test"
LIMITS = WireLimits(json_bytes=1 << 20, blob_bytes=1 << 20, total_bytes=8 << 20)


@contextmanager
def made_module(source: str) -> Iterator[None]:
    """Let the candidate's side find a module made from ``source``."""
    module = types.ModuleType(MODULE)
    exec(compile(source, MODULE, "exec"), module.__dict__)  # noqa: S102 - our own text
    sys.modules[MODULE] = module
    try:
        yield
    finally:
        del sys.modules[MODULE]


@contextmanager
def session_with(source: str, *, adapter: Adapter | None = None, seconds: float = 5.0) -> Iterator[tuple[Session, Any]]:
    """Yield a session and a proxy of a module made from ``source``, served by a thread."""

    def serve(end: socket.socket) -> None:
        try:
            Server(Channel(end, LIMITS)).serve()
        except WireError:
            end.close()

    with made_module(source), peer(serve, adapter=adapter, seconds=seconds) as session:
        yield session, session.ask(Request("import", name=MODULE))


@contextmanager
def peer(
    serve: Callable[[socket.socket], None],
    *,
    adapter: Adapter | None = None,
    seconds: float = 5.0,
    limits: SessionLimits | None = None,
) -> Iterator[Session]:
    """Yield a session whose other end is served by a function in a thread."""
    trusted, candidate = socket.socketpair()
    thread = threading.Thread(target=serve, args=(candidate,), daemon=True)
    thread.start()
    limits = limits or SessionLimits(seconds, seconds, callbacks=50)
    session = Session(Channel(trusted, LIMITS), limits, adapter or Adapter())
    session.make_proxy = lambda number, is_callable, label: (CallableProxy if is_callable else Proxy)(
        session, number, label
    )
    try:
        yield session
    finally:
        trusted.close()
        thread.join(5)
        candidate.close()
