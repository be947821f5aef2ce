"""Guards: bytes nobody thought of that T takes for a value, chokes on, waits for, or grows without bound on."""

import contextlib
import json
import random
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcb_agent.scoring.candidate_side import Server
from rcb_agent.scoring.trusted_errors import RAISABLE, RemoteError
from rcb_agent.scoring.trusted_session import Request, Session
from rcb_agent.scoring.wire import HEADER, Channel, WireError
from tests.scoring.mutations import NODES, POOL, mutate
from tests.scoring.peers import LIMITS, MODULE, made_module, peer
from tests.scoring.test_hostile_peer import frame
from tests.scoring.torch_support import NEEDS_TORCH, run_in_runtime

SOURCE = """
import numpy as np

class Box:
    def __init__(self, values): self.values = values
    def __len__(self): return len(self.values)
    def __getitem__(self, key): return self.values[key]

class OwnError(ValueError): pass

def table(f, x): return {"a": [f(x) for _ in range(2)], "b": np.arange(6.0).reshape(2, 3) * 0.7310585, "c": (1, "s", None)}
def box(n): return Box([0.28366219] * n)
def refuse(): raise OwnError("no")
"""
FRAMES = 15
SECRET = 0.28366219


def converse(session: Session) -> None:
    """Do what a test does, with assertions that only the right values satisfy."""
    module = session.ask(Request("import", name=MODULE))
    table = module.table(lambda x: x + 0.5, 1.25)
    assert type(table) is dict
    assert table["a"] == [1.75, 1.75]
    assert np.array_equal(table["b"], np.arange(6.0).reshape(2, 3) * 0.7310585)
    assert table["c"] == (1, "s", None)
    box = module.box(3)
    assert len(box) == 3
    assert [box[i] for i in range(3)] == [SECRET] * 3
    assert box.values == [SECRET] * 3
    own = module.OwnError
    assert issubclass(own, ValueError)
    try:
        module.refuse()
    except own:
        return
    raise AssertionError


def outcome(session: Session) -> str:
    """Return what became of the conversation.

    The test may trip over a strange value (TypeError, KeyError); T itself raises nothing but its few named errors.
    """
    try:
        converse(session)
    except Exception as error:  # noqa: BLE001 - judged here
        names = {kind.__name__ for kind in type(error).__mro__}
        is_own = type(error).__module__ == "rcb_agent.scoring.trusted_errors"
        found = "named" if is_own or names & {RemoteError.__name__, *RAISABLE} else f"{names}: {error}"
    else:
        return "passed"
    ended = session.ended or ("",)
    return found if ended[0] in ("", "protocol", "limit", "candidate_exited", "time_limit") else str(ended)


def replaying(data: bytes) -> Callable[[socket.socket], None]:
    """Answer T's first word with these bytes, and then end."""

    def serve(end: socket.socket) -> None:
        try:
            Channel(end, LIMITS).receive()
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)
        except (OSError, WireError):
            end.close()

    return serve


def between(change: Callable[[int, dict[str, Any], list[bytes]], list[bytes]]) -> Callable[[socket.socket], None]:
    """Serve as an honest candidate does, with each of its frames changed on its way."""

    def serve(end: socket.socket) -> None:
        near, far = socket.socketpair()
        thread = threading.Thread(target=serve_quietly, args=(far,), daemon=True)
        thread.start()
        outer, inner = Channel(end, LIMITS), Channel(near, LIMITS)
        try:
            for number in range(1000):
                inner.send(*outer.receive())
                head, blobs = inner.receive()
                blobs = change(number, head, blobs)
                outer.send(head, blobs)
        except (OSError, WireError, RecursionError):
            pass
        finally:
            near.close()
            end.close()
            thread.join(5)
            far.close()

    return serve


def serve_quietly(end: socket.socket) -> None:
    with contextlib.suppress(WireError):
        Server(Channel(end, LIMITS)).serve()


def play(serve: Callable[[socket.socket], None]) -> str:
    """Return what becomes of a conversation, which ends soon."""
    started = time.monotonic()
    with made_module(SOURCE), peer(serve, seconds=2.0) as session:
        found = outcome(session)
    assert time.monotonic() - started < 10
    assert found in ("passed", "named")
    return found


def test_the_conversation_passes_untouched() -> None:
    """The control: an honest candidate between the same ends."""
    seen: list[int] = []

    def change(number: int, _: dict[str, Any], blobs: list[bytes]) -> list[bytes]:
        seen.append(number)
        return blobs

    assert play(between(change)) == "passed"
    assert len(seen) == FRAMES


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    """Noise ends the session."""
    assert play(replaying(data)) != "passed"


names = st.sampled_from(
    ["none", "int", "float", "list", "dict", "tuple", "array", "scalar", "str", "bytes", "set", "slice"]
)
odd_tags = st.sampled_from(
    ["handle", "outside", "exception", "shared", "output", "tensor", "type", "dtype", "iterator", "x"]
)
atoms = st.one_of(st.sampled_from([value for value in POOL if not isinstance(value, list | dict)]), st.text(max_size=3))
nodes = st.recursive(
    st.sampled_from(NODES)
    | st.fixed_dictionaries({"t": names | odd_tags}, optional={"v": atoms, "i": atoms, "k": atoms}),
    lambda inner: st.fixed_dictionaries(
        {"t": names | odd_tags, "v": st.lists(inner, max_size=3) | st.lists(st.lists(inner, max_size=2), max_size=2)},
        optional={"d": atoms, "s": st.lists(atoms, max_size=2), "k": atoms, "n": atoms, "i": atoms, "c": atoms},
    ),
    max_leaves=6,
)
answers = st.fixed_dictionaries(
    {"q": st.just(1) | atoms},
    optional={
        "r": nodes,
        "w": st.lists(nodes, max_size=1),
        "e": nodes | st.fixed_dictionaries({"kind": atoms, "lineage": st.lists(atoms, max_size=2), "message": atoms}),
        "shared": st.lists(nodes, max_size=2),
        "graph": atoms,
        "outputs": st.lists(nodes, max_size=2),
        "leaves": st.lists(nodes, max_size=2),
        "gone": st.lists(atoms, max_size=2),
    },
)
callbacks = st.fixed_dictionaries(
    {"c": atoms, "op": st.sampled_from(["call", "get", "set"]) | atoms},
    optional={
        "n": atoms,
        "a": st.lists(nodes, max_size=2),
        "k": st.lists(st.lists(nodes | atoms, max_size=2), max_size=1),
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(answers | callbacks, min_size=1, max_size=3), st.lists(st.binary(max_size=16), max_size=2))
def test_arbitrary_frames(heads: list[Any], blobs: list[bytes]) -> None:
    """Well-formed frames of our own words in any order end the session, or a test that gets no right value."""
    assert play(replaying(b"".join(frame(head, *blobs) for head in heads))) != "passed"


@settings(max_examples=150, deadline=None)
@given(st.integers(0, FRAMES - 1), st.integers(0, 1 << 32))
def test_mutated_honest_frames(place: int, seed: int) -> None:
    """One change in one frame: the test passes on the right values only, and T raises nothing unnamed."""

    def change(number: int, head: dict[str, Any], blobs: list[bytes]) -> list[bytes]:
        return mutate(head, blobs, random.Random(seed)) if number == place else blobs  # noqa: S311

    play(between(change))


FLOODS = {
    "empty lists": b'{"b":[],"q":1,"w":[],"r":[' + b"[]," * 300_000 + b"[]]}",
    "keys": b'{"b":[],"q":1,"w":[],"r":{' + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}}",
    "numbers": b'{"b":[],"q":1,"w":[],"r":[' + b"1000," * 180_000 + b"1]}",
    "nodes": b'{"b":[],"q":1,"w":[],"r":{"t":"list","v":[' + b'{"t":"none"},' * 78_000 + b'{"t":"none"}]}}',
    "nested": b'{"b":[],"q":1,"w":[],"r":' + b'{"t":"list","v":[' * 50_000 + b"]}" * 50_000 + b"}",
    "empty blobs": b'{"b":[' + b"0," * 400_000 + b'0],"q":1,"w":[],"r":{"t":"none"}}',
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_frame_grows_by_a_bounded_factor(name: str) -> None:
    """What a frame of a megabyte becomes in T stays below 64; the largest frame is then a quarter of T's memory."""
    data = HEADER.pack(len(FLOODS[name]), 0) + FLOODS[name]
    assert len(data) < LIMITS.json_bytes
    tracemalloc.start()
    try:
        assert play(replaying(data)) != "passed"
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


TORCH = """
import json, random, socket, sys, threading, types
from split.candidate_side import Server
from split.mutations import mutate
from split.trusted_errors import RAISABLE, RemoteError
from split.trusted_session import Adapter, Request, Session, SessionLimits
from split.trusted_proxies import CallableProxy, Proxy
from split.wire import Channel, WireError, WireLimits
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), 0.28366219))
    def forward(self, x):
        return x * self.weight, {"sum": (x * self.weight).sum()}
    def double(self):
        with torch.no_grad():
            self.weight.mul_(2)

LIMITS = WireLimits(1 << 20, 1 << 20, 8 << 20)

def converse(session):
    layers = session.ask(Request("import", name="layers"))
    layer, x = layers.Layer(3), torch.ones(3, requires_grad=True)
    weight = layer.weight
    assert torch.equal(weight.detach(), torch.full((3,), 0.28366219))
    y, more = layer(x * 2)
    assert torch.equal(y.detach(), torch.full((3,), 2 * 0.28366219))
    (y.sum() + more["sum"]).backward()
    assert torch.allclose(x.grad, torch.full((3,), 4 * 0.28366219))
    assert torch.equal(weight.grad, torch.full((3,), 4.0))
    layer.double()
    assert torch.equal(weight.detach(), torch.full((3,), 2 * 0.28366219))
    assert layer.weight is weight

def serve(end):
    try:
        Server(Channel(end, LIMITS)).serve()
    except WireError:
        pass

def relay(end, place, seed):
    near, far = socket.socketpair()
    threading.Thread(target=serve, args=(far,), daemon=True).start()
    outer, inner = Channel(end, LIMITS), Channel(near, LIMITS)
    try:
        for number in range(1000):
            inner.send(*outer.receive())
            head, blobs = inner.receive()
            outer.send(head, mutate(head, blobs, random.Random(seed)) if number == place else blobs)
    except (OSError, WireError, RecursionError):
        pass
    finally:
        near.close()
        end.close()

def play(place, seed):
    here, there = socket.socketpair()
    threading.Thread(target=relay, args=(there, place, seed), daemon=True).start()
    session = Session(Channel(here, LIMITS), SessionLimits(20.0, 20.0), Adapter())
    session.make_proxy = lambda number, called, label: (CallableProxy if called else Proxy)(session, number, label)
    try:
        converse(session)
    except Exception as error:
        names = {kind.__name__ for kind in type(error).__mro__}
        return "named" if names & {"RemoteError", *RAISABLE} else f"{place} {seed} {names}: {error}"
    finally:
        here.close()
    return "passed"

def main(_):
    torch.set_num_threads(1)
    sys.modules["layers"] = module = types.ModuleType("layers")
    module.Layer = Layer
    found = {"control": play(-1, 0)}
    for seed in range(400):
        word = play(seed % 8, seed)
        found[word] = found.get(word, 0) + 1
    print(json.dumps(found))
"""


@pytest.mark.parametrize("script", [pytest.param(TORCH, marks=NEEDS_TORCH)], ids=["torch"])
def test_mutated_frames_of_tensors(script: str) -> None:
    """Mirrors, graphs and gradients with one change each: right values or a named error, never a fault of T's own."""
    extra = {"split.mutations": Path(__file__).with_name("mutations.py").read_text()}
    found = run_in_runtime(script, with_candidate=True, extra=extra)
    assert found.pop("control") == "passed"
    assert set(found) <= {"passed", "named"}, json.dumps(found)[:2000]
    assert found["named"] > 100
