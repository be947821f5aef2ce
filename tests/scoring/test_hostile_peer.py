"""Guards: a candidate's process that speaks the protocol badly on purpose, and thereby hurts or fools T."""

import json
import socket
import time
import unittest
from collections.abc import Callable
from typing import Any

import pytest

from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.trusted_session import Request, Session
from rcb_agent.scoring.wire import HEADER
from tests.scoring.peers import peer, session_with


def frame(head: Any, *blobs: bytes) -> bytes:
    text = json.dumps({**head, "b": [len(blob) for blob in blobs]} if isinstance(head, dict) else head).encode()
    return HEADER.pack(len(text), sum(map(len, blobs))) + text + b"".join(blobs)


def answer(result: Any, *blobs: bytes, **more: Any) -> bytes:
    return frame({"q": 1, "r": result, "w": [], **more}, *blobs)


def frame_of_blobs(count: int) -> bytes:
    return frame({"q": 1, "r": {"t": "none"}, "w": []}, *[b""] * count)


def nested(depth: int) -> Any:
    node: Any = {"t": "none"}
    for _ in range(depth):
        node = {"t": "list", "v": [node]}
    return node


ARRAY = {"t": "array", "d": "float64", "s": [1], "k": 0}

BROKEN: dict[str, bytes] = {
    "text": b'{"passed": 3}\n' * 20,
    "giant JSON header": HEADER.pack(0xFFFFFFFF, 0),
    "giant blob header": HEADER.pack(2, 0xFFFFFFFF),
    "no JSON": HEADER.pack(3, 0) + b"???",
    "a JSON number": HEADER.pack(1, 0) + b"1",
    "a float": frame({"q": 1.0, "r": {"t": "none"}, "w": []}),
    "NaN": HEADER.pack(12, 0) + b'{"q": NaN, }',
    "deep JSON": HEADER.pack(200_000, 0) + b"[" * 200_000,
    "no lengths": HEADER.pack(2, 0) + b"{}",
    "wrong lengths": HEADER.pack(9, 3) + b'{"b":[1]}' + b"abc",
    "negative length": HEADER.pack(13, 0) + b'{"b":[-1, 1]}',
    "another answer's number": frame({"q": 7, "r": {"t": "none"}, "w": []}),
    "no result": frame({"q": 1}),
    "no in-place list": frame({"q": 1, "r": {"t": "none"}}),
    "surplus in-place results": frame({"q": 1, "r": {"t": "none"}, "w": [{"t": "none"}]}),
    "error without lineage": frame({"q": 1, "e": {"kind": "ValueError", "message": "x"}}),
    "error of a wrong kind": frame({"q": 1, "e": ["ValueError"]}),
    "an unknown tag": answer({"t": "pickle", "v": "gASVJAAAAA=="}),
    "no node": answer(3),
    "a list as tag": answer({"t": ["none"]}),
    "too deep": answer(nested(40)),
    "a wrong shape": answer({**ARRAY, "s": [2]}, b"\0" * 8),
    "a negative shape": answer({**ARRAY, "s": [-1, -1]}, b"\0" * 8),
    "a huge empty shape": answer({**ARRAY, "s": [0, 1 << 62, 1 << 62]}, b""),
    "a true shape": answer({**ARRAY, "s": [True]}, b"\0" * 8),
    "an object array": answer({**ARRAY, "d": "object"}, b"\0" * 8),
    "a structured array": answer({**ARRAY, "d": "i4,f4"}, b"\0" * 8),
    "a missing blob": answer(ARRAY),
    "a negative blob": answer({**ARRAY, "k": -1}, b"\0" * 8),
    "a blob used twice": answer({"t": "list", "v": [ARRAY, ARRAY]}, b"\0" * 8),
    "a huge float": answer({"t": "float", "v": "0x1p+99999999999"}),
    "a float that is none": answer({"t": "float", "v": "import os"}),
    "a huge int": answer({"t": "int", "v": 1 << 5000}),
    "an int of a bool": answer({"t": "int", "v": True}),
    "a set of lists": answer({"t": "set", "v": [{"t": "list", "v": []}]}),
    "a key twice": answer({"t": "dict", "v": [[{"t": "int", "v": 1}, {"t": "none"}]] * 2}),
    "a list as key": answer({"t": "dict", "v": [[{"t": "list", "v": []}, {"t": "none"}]]}),
    "a type that runs": answer({"t": "type", "v": "builtins.eval"}),
    "a type of a module": answer({"t": "type", "v": "os.system"}),
    "a tensor": answer({"t": "tensor", "d": "float32", "s": [1], "k": 0}, b"\0" * 4),
    "a shared tensor": answer(
        {"t": "shared", "i": 1, "d": "float32", "s": [1], "k": 0, "rg": False, "p": False}, b"\0" * 4
    ),
    "a graph": answer(
        {"t": "none"}, b"\0" * 4, graph=1, outputs=[{"t": "tensor", "d": "float32", "s": [1], "k": 0}], leaves=[]
    ),
    "a jax array": answer({"t": "jax", "d": "float32", "s": [1], "k": 0}, b"\0" * 4),
    "a random key of strange kind": answer({"t": "jax_key", "n": "os", "v": {"t": "none"}}),
    "gone objects of a strange kind": answer({"t": "none"}, gone=["x"]),
    "too many blobs": frame_of_blobs(1 << 17),
    "T's own object as result": answer({"t": "outside", "i": 0}),
    "a handle without a number": answer({"t": "handle", "i": "x", "c": True}),
    "an exception class of a strange name": answer({"t": "exception", "n": "a b", "i": 1, "v": []}),
    "endless exception classes": answer({"t": "exception", "n": "A", "i": 1, "v": [{"t": "exception"}]}),
    "a callback to nothing": frame({"c": 99, "op": "call", "n": "", "a": [], "k": []}),
    "a callback to a negative number": frame({"c": -1, "op": "call", "n": "", "a": [], "k": []}),
    "nothing": b"",
    "half a frame": answer({"t": "none"})[:-3],
}


def serve_once(reply: bytes) -> Callable[[socket.socket], None]:
    def serve(end: socket.socket) -> None:
        end.recv(1 << 20)
        end.sendall(reply)
        end.shutdown(socket.SHUT_WR)

    return serve


def ask_often(session: Session) -> None:
    for _ in range(100):
        ask(session)


def ask(session: Session) -> Any:
    return session.ask(Request("call", 1, arguments=(abs,), label="f()"))


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_ends_the_session_for_good(reply: bytes) -> None:
    """One error of the candidate's process is its last: T sees RemoteError now and ever after."""
    with peer(serve_once(reply)) as session:
        with pytest.raises(RemoteError):
            ask(session)
        ended = session.ended
        assert ended is not None
        assert ended[0] in ("protocol", "limit", "candidate_exited")
        with pytest.raises(RemoteError, match="over"):
            ask(session)
        assert session.ended == ended


@pytest.mark.parametrize("name", ["giant JSON header", "giant blob header"])
def test_an_announced_giant_is_refused_unread(name: str) -> None:
    """The lengths alone end the session; T does not wait for what they announce."""
    with peer(serve_once(BROKEN[name])) as session:
        with pytest.raises(RemoteError, match="over the limit"):
            ask(session)
        assert session.ended is not None
        assert session.ended[0] == "protocol"


def test_silence_ends_at_the_time_limit() -> None:
    """A call has a deadline, however the bytes are dripped."""

    def drip(end: socket.socket) -> None:
        end.recv(1 << 20)
        for byte in answer({"t": "none"}) * 3:
            time.sleep(0.05)
            try:
                end.sendall(bytes([byte]))
            except OSError:
                return

    with peer(drip, seconds=0.4) as session:
        started = time.monotonic()
        with pytest.raises(RemoteError):
            ask(session)
        assert time.monotonic() - started < 2
        assert session.ended is not None
        assert session.ended[0] == "time_limit"


def test_callbacks_are_counted() -> None:
    """An endless stream of callbacks ends."""

    def flood(end: socket.socket) -> None:
        end.recv(1 << 20)
        try:
            while True:
                end.sendall(frame({"c": 0, "op": "call", "n": "", "a": [{"t": "int", "v": 1}], "k": []}))
                if not end.recv(1 << 20):
                    return
        except OSError:
            return

    with peer(flood) as session:
        with pytest.raises(RemoteError):
            session.ask(Request("call", 1, arguments=(lambda x: x,), label="f()"))
        assert session.ended == ("limit", "more than 50 callbacks")


def test_total_bytes_are_bounded() -> None:
    """Many frames that are each small enough still end."""

    def flood(end: socket.socket) -> None:
        try:
            for number in range(1, 100):
                end.recv(1 << 20)
                blob = b"\0" * 1_000_000
                end.sendall(frame({"q": number, "r": {"t": "bytes", "k": 0}, "w": []}, blob))
        except OSError:
            return

    with peer(flood) as session:
        with pytest.raises(RemoteError, match="bytes were exchanged"):
            ask_often(session)
        assert session.ended is not None
        assert session.ended[0] == "limit"


def test_garbage_after_a_right_answer_is_not_taken_for_the_next() -> None:
    """An answer that was sent ahead of its question is refused."""
    reply = answer({"t": "float", "v": "0x1p+0"})
    with peer(serve_once(reply + reply)) as session:
        assert ask(session) == 1.0
        with pytest.raises(RemoteError):
            ask(session)


CALLBACKS = """
def call(f, *arguments): return f(*arguments)
def swallow(f):
    try: f(1.0)
    except BaseException: return "fine"
def look(thing): return thing.secret
def read(f): return f.__globals__
def give_back(f): return f
def pass_on(f, g): return f(g)
def name(f):
    try: f()
    except Exception as error: return type(error).__name__
"""


def test_plain_functions_of_a_test_can_be_called_back() -> None:
    """Lambdas, closures, methods and numpy's functions work as arguments, also when they use the candidate again."""
    with session_with(CALLBACKS) as (_, module):
        import numpy as np

        seen: list[float] = []
        assert module.call(lambda x: x + 1, 1.5) == 2.5
        assert module.call(seen.append, 2.5) is None
        assert seen == [2.5]
        assert module.call(np.sin, 0.0) == 0.0
        assert module.call(lambda x: module.call(lambda y: y * 2, x), 4) == 8
        assert module.pass_on(lambda g: g(3), lambda x: x + 1) == 4


def test_objects_of_a_test_offer_nothing() -> None:
    """Attributes and calls of other objects are refused and noted."""

    class Holder:
        secret = "expected value"

        def __call__(self) -> str:
            return self.secret

    with session_with(CALLBACKS) as (session, module):
        with pytest.raises(AttributeError):
            module.look(Holder())
        with pytest.raises(AttributeError):
            module.call(Holder())
        with pytest.raises(AttributeError):
            module.read(lambda: None)
        assert session.refused == {"Holder.secret", "Holder()"}


def test_a_test_object_does_not_come_back_as_a_result() -> None:
    """A function of T answers no question of T."""
    with session_with(CALLBACKS) as (session, module):
        with pytest.raises(RemoteError):
            module.give_back(lambda: None)
        assert session.ended is not None
        assert session.ended[0] == "protocol"


def test_an_assertion_in_a_callback_counts_even_if_swallowed() -> None:
    """A test's own check inside a callback cannot be caught away."""

    def check(value: float) -> None:
        assert value == 2.0, "the callback's check"

    with session_with(CALLBACKS) as (_, module):
        with pytest.raises(AssertionError, match="callback's check"):
            module.swallow(check)
        assert module.call(lambda: 1) == 1


def test_callback_errors_have_builtin_names_in_c() -> None:
    """C learns the class of an error from the fixed list only."""

    def skip() -> None:
        raise unittest.SkipTest("no reason")

    def refuse() -> None:
        raise ValueError

    with session_with(CALLBACKS) as (_, module):
        assert module.name(refuse) == "ValueError"
        assert module.name(skip) == "RuntimeError"
