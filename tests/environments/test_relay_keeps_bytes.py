"""Guards: carried sockets that lose, reorder or hold bytes, or a relay that believes what no relay sends."""

import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcb_agent.environments import frames, relay
from rcb_agent.environments.relay import Relay, RelayError

SMALL_WINDOW, SMALL_CHUNK = 16384, 1024


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows so small that they are full all the time."""
    monkeypatch.setattr(relay, "WINDOW", SMALL_WINDOW)
    monkeypatch.setattr(relay, "CHUNK", SMALL_CHUNK)
    monkeypatch.setattr(relay, "OUT_ENOUGH", 4 * SMALL_CHUNK)


class Pair:
    """Two relays, a user at each outer end, and a pipe that moves any number of bytes at a time."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.users: list[socket.socket] = []
        self.relays: list[Relay] = []
        self.readers = [frames.FrameReader(), frames.FrameReader()]
        for _ in range(2):
            user, carried = socket.socketpair()
            stack.enter_context(user)
            stack.enter_context(carried)
            user.setblocking(False)
            carried.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least the kernel has: it is full at once
            self.users.append(user)
            self.relays.append(Relay([carried]))
        self.written = [bytearray(), bytearray()]
        self.read = [bytearray(), bytearray()]
        self.closed = [False, False]
        self.met_end = [False, False]

    def write(self, side: int, data: bytes) -> None:
        if not self.closed[side]:
            self.written[side] += data[: self.users[side].send(data)]

    def close(self, side: int) -> None:
        if not self.closed[side]:
            self.closed[side] = True
            self.users[side].shutdown(socket.SHUT_WR)

    def take(self, side: int, size: int) -> None:
        with contextlib.suppress(BlockingIOError):
            data = self.users[side].recv(size)
            self.met_end[side] |= not data
            self.read[side] += data

    def serve(self, side: int) -> None:
        for number in self.relays[side].wants():
            self.relays[side].ready(number)

    def move(self, side: int, size: int) -> None:
        """Let bytes of one relay's pipe reach the other."""
        reader, out = self.readers[side], self.relays[side].out
        while size > 0 and out:
            count = min(size, len(out), reader.missing())
            frame = reader.add(bytes(out[:count]))
            del out[:count]
            size -= count
            if frame is not None:
                self.relays[1 - side].take(*frame)

    def check(self) -> None:
        for one in self.relays:
            for each in one.carried:
                assert len(each.waiting) <= SMALL_WINDOW
                assert 0 <= each.credit <= SMALL_WINDOW
                assert 0 <= each.allowed <= SMALL_WINDOW


ACTIONS = st.one_of(
    st.tuples(
        st.just("write"), st.integers(0, 1), st.integers(1, 6000).map(lambda n: bytes(n % 251 for n in range(n)))
    ),
    st.tuples(st.just("take"), st.integers(0, 1), st.integers(1, 3000)),
    st.tuples(st.just("serve"), st.integers(0, 1)),
    st.tuples(st.just("move"), st.integers(0, 1), st.integers(1, 9000)),
    st.tuples(st.just("close"), st.integers(0, 1)),
)


@given(st.lists(ACTIONS, max_size=60))
@settings(max_examples=150, deadline=None)
def test_bytes_arrive_in_order_whatever_the_order_of_events(actions: list[Any]) -> None:
    """Nothing is lost or held back for good, both ends are met, and never more than the window is held."""
    with contextlib.ExitStack() as stack:
        pair = Pair(stack)
        for name, *arguments in actions:
            getattr(pair, name)(*arguments)
            pair.check()
        for _ in range(300):
            for side in (0, 1):
                pair.close(side)
                pair.serve(side)
                pair.move(side, 1 << 20)
                pair.take(side, 1 << 16)
            if all(pair.met_end):
                break
        assert pair.met_end == [True, True]
        assert (pair.read[0], pair.read[1]) == (pair.written[1], pair.written[0])


METAS = st.fixed_dictionaries(
    {},
    optional={
        "relay": st.one_of(st.sampled_from([relay.DATA, relay.END, relay.DEAF, relay.ROOM, "answer"]), st.none()),
        "socket": st.one_of(st.integers(-2, 3), st.booleans(), st.text(max_size=2), st.none()),
        "count": st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.none()),
    },
)


@given(
    given_frames=st.lists(st.tuples(METAS, st.integers(0, 3 * SMALL_CHUNK).map(bytes)), max_size=40),
    serve=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_frames_that_make_no_sense_change_no_bound(
    given_frames: list[tuple[dict[str, Any], bytes]], *, serve: bool
) -> None:
    """Each is taken within the bounds or is a RelayError; nothing else is raised and nothing grows."""
    with contextlib.ExitStack() as stack:
        pair = Pair(stack)
        for meta, blob in given_frames:
            with contextlib.suppress(RelayError):
                pair.relays[0].take(meta, blob)
            if serve:
                pair.serve(0)
            pair.check()
            assert len(pair.relays[0].out) < 100 * (len(given_frames) + 1) + 8 * SMALL_WINDOW


@pytest.fixture
def one() -> Iterator[tuple[Relay, socket.socket]]:
    user, carried = socket.socketpair()
    with user, carried:
        yield Relay([carried]), user


def fill(carrier: Relay) -> None:
    """Let the socket take no more."""
    with contextlib.suppress(BlockingIOError):
        while True:
            carrier.carried[0].socket.send(b"x" * 1000, socket.MSG_DONTWAIT)


@pytest.mark.parametrize(
    "sent",
    [
        [({"relay": relay.END, "socket": 0}, b"")] * 2,
        [({"relay": relay.DEAF, "socket": 0}, b"")] * 2,
        [({"relay": relay.END, "socket": 0}, b""), ({"relay": relay.DATA, "socket": 0}, b"late")],
        [({"relay": relay.DATA, "socket": 0}, b"x" * SMALL_CHUNK)] * (SMALL_WINDOW // SMALL_CHUNK + 1),
        [({"relay": relay.DATA, "socket": 0}, b"x" * (SMALL_CHUNK + 1))],
        [({"relay": relay.DATA, "socket": 0}, b"")],
        [({"relay": relay.ROOM, "socket": 0, "count": 1}, b"")],
        [({"relay": relay.ROOM, "socket": 0, "count": True}, b"")],
        [({"relay": relay.DATA, "socket": 1}, b"x")],
        [({"relay": relay.DATA, "socket": False}, b"x")],
        [({"relay": relay.DATA}, b"x")],
    ],
)
def test_a_liar_is_known(one: tuple[Relay, socket.socket], sent: list[tuple[dict[str, Any], bytes]]) -> None:
    """More than the window, anything after an end, room that was never used, a socket that is not there."""
    fill(one[0])
    *before, last = sent
    for frame in before:
        one[0].take(*frame)
    with pytest.raises(RelayError):
        one[0].take(*last)


def test_who_sends_and_does_not_read_is_known(
    one: tuple[Relay, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for the pipe is bounded too: each byte passed on would be told for ever."""
    monkeypatch.setattr(relay, "OUT_LIMIT", 500)
    carrier, user = one

    def send() -> None:
        for _ in range(10_000):
            carrier.take({"relay": relay.DATA, "socket": 0}, b"x" * SMALL_CHUNK)
            carrier.ready(carrier.carried[0].socket.fileno())
            user.recv(1 << 16)

    with pytest.raises(RelayError, match="does not read"):
        send()


def test_a_reader_that_is_gone_stops_the_writer(one: tuple[Relay, socket.socket]) -> None:
    """Bytes for a socket that nobody reads are dropped and the other side is told, once."""
    carrier, user = one
    user.close()
    carrier.take({"relay": relay.DATA, "socket": 0}, b"x")
    carrier.ready(carrier.carried[0].socket.fileno())
    carrier.take({"relay": relay.DATA, "socket": 0}, b"y")
    assert carrier.carried[0].waiting == b""
    assert carrier.out.count(b'"deaf"') == 1
    assert carrier.wants() == {} or carrier.out.count(b'"end"') <= 1
