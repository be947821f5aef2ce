"""Guards: a long test, or a candidate that hoards, whose objects pile up on either side until a limit ends the grade."""

import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.trusted_session import Request, SessionLimits
from tests.scoring.peers import peer, session_with
from tests.scoring.test_hostile_peer import frame
from tests.scoring.torch_support import NEEDS_TORCH, run_in_runtime

SOURCE = """
import gc

class Thing:
    def __init__(self, n): self.n = n

def things():
    gc.collect()
    return sum(isinstance(one, Thing) for one in gc.get_objects())

def outsides():
    gc.collect()
    return sum(type(one).__name__ == "Outside" for one in gc.get_objects())

kept = []
def use(f): return f(1)
def keep(f):
    kept.append(f)
    return f(1)
def again(get):
    first = get()
    del first
    kept.append(get())
def use_kept(): return [f(1) for f in kept]
class Big:
    def large(self): return "x" * (1 << 20), "y" * (1 << 20)
"""


def test_objects_that_the_test_dropped_are_dropped() -> None:
    """A thousand objects, one at a time, leave none behind."""
    with session_with(SOURCE) as (_, module):
        for n in range(1000):
            assert module.Thing(n).n == n
        kept = module.Thing(0)
        assert module.things() <= 2
        assert kept.n == 0


def test_functions_that_the_candidate_dropped_are_dropped() -> None:
    """What C no longer has may go in T as well; what it kept still works, also when it is given again."""
    with session_with(SOURCE) as (session, module):
        for n in range(40):
            assert module.use(lambda x, n=n: x + n) == 1 + n
        assert module.outsides() <= 1
        assert len(session._offered) <= 2

        def mine(x: int) -> int:
            return x + 70

        assert module.keep(mine) == 71
        assert module.use(mine) == 71
        assert module.use_kept() == [71]
        assert mine in session._offered.values()


def test_a_function_that_died_and_came_again_in_one_request_lives() -> None:
    """What was let go and given once more before T heard of it is not dropped."""
    with session_with(SOURCE) as (_, module):
        module.again(lambda: half)
        assert module.use_kept() == [0.5]


def half(x: int) -> float:
    return x / 2


def test_an_answer_too_large_for_a_frame_is_an_error_of_the_call() -> None:
    """It ends one call with a reason, not the candidate's process without one."""
    with session_with(SOURCE) as (session, module):
        with pytest.raises(RemoteError, match="over the limit"):
            module.Big().large()
        assert session.ended is None
        assert module.use(lambda x: x) == 1


def answering(make: Callable[[int], Any]) -> Callable[[socket.socket], None]:
    def serve(end: socket.socket) -> None:
        try:
            for number in range(1, 1000):
                if not end.recv(1 << 20):
                    return
                end.sendall(frame({"q": number, "w": [], **make(number)}))
        except OSError:
            return

    return serve


CAPS: dict[str, tuple[Callable[[int], Any], str]] = {
    "objects": (
        lambda n: {"r": {"t": "list", "v": [{"t": "handle", "i": 500 * n + i, "c": True} for i in range(500)]}},
        "more than 2000 objects of the candidate's",
    ),
    "requests": (lambda _: {"r": {"t": "none"}}, "more than 60 requests"),
    "classes": (
        lambda n: {
            "r": {"t": "list", "v": [{"t": "exception", "n": "E", "i": 50 * n + i, "v": []} for i in range(50)]}
        },
        "more than 1000 exception classes",
    ),
}


@pytest.mark.parametrize("name", CAPS)
def test_each_cap_ends_the_session_and_is_named(name: str) -> None:
    """However the candidate's process hoards in T, it ends as ``limit``, once and for good."""
    make, words = CAPS[name]
    limits = SessionLimits(5.0, 5.0, calls=60, handles=2000)
    held = []
    with peer(answering(make), limits=limits) as session, contextlib.suppress(RemoteError):
        while True:
            held.append(session.ask(Request("call", 1, label="f()")))
    assert session.ended == ("limit", words)


SHARED = """
import gc, json, socket, threading, sys, types
from split.candidate_side import Server
from split.trusted_session import Adapter, Request, Session, SessionLimits
from split.trusted_proxies import CallableProxy, Proxy
from split.wire import Channel, WireError, WireLimits
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
    def forward(self, x):
        return x * self.weight
    def double(self):
        with torch.no_grad():
            self.weight.mul_(2)

def main(_):
    module = sys.modules["layers"] = types.ModuleType("layers")
    module.Layer = Layer
    here, there = socket.socketpair()
    server = Server(Channel(there, WireLimits()))
    def serve():
        try:
            server.serve()
        except WireError:
            pass
    threading.Thread(target=serve, daemon=True).start()
    session = Session(Channel(here, WireLimits()), SessionLimits(30.0, 30.0), Adapter())
    session.make_proxy = lambda number, called, label: (CallableProxy if called else Proxy)(session, number, label)
    layers = session.ask(Request("import", name="layers"))
    found = {}
    for n in range(40):
        layer = layers.Layer(4)
        layer.weight.data.fill_(n)
        found[n] = float(layer(torch.ones(4)).sum())
        (layer(torch.ones(4)) * 2).sum().backward()
    del layer
    layers.Layer(1)
    t_side, c_side = session._tensors, server.tensors
    counts = [t_side._graphs, len(c_side._graphs)]
    layer = layers.Layer(2)
    view, weight = layer.weight.data, None
    gc.collect()
    layer.double()
    seen_by_view = view.tolist()
    held = layer.weight
    layer.double()
    print(json.dumps({
        "right": all(found[n] == 4.0 * n for n in found),
        "counts": counts,
        "view": seen_by_view,
        "held": held.tolist(),
        "same": held is layer.weight,
        "grads": layers.Layer(1).weight.grad is None,
    }))
"""


@pytest.mark.parametrize("script", [pytest.param(SHARED, marks=NEEDS_TORCH)], ids=["torch"])
def test_graphs_that_the_test_dropped_are_dropped(script: str) -> None:
    """What a test wrote into a parameter it dropped arrives, and a view of a parameter follows it."""
    found = run_in_runtime(script, with_candidate=True)
    assert found["right"] is True
    assert all(count <= 16 for count in found["counts"]), found[
        "counts"
    ]  # of 80; the rest waits for the cycle collector
    assert (found["view"], found["held"], found["same"], found["grads"]) == ([2.0, 2.0], [4.0, 4.0], True, True)
