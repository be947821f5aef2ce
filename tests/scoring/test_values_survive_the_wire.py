"""Guards: a value that arrives as another one, and bytes that make the decoder do anything but decode or refuse."""

import json
import math
import socket
import threading
import tracemalloc
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcb_agent.scoring.values import _READERS, DTYPES, MAX_DEPTH, MAX_NODES, Decoder, Encoder
from rcb_agent.scoring.wire import Channel, WireError, WireLimits, _pieces, parse_head


def refuse(*_: Any) -> Any:
    raise WireError("no such value here")


def send(value: Any) -> Any:
    encoder = Encoder(refuse)
    node = json.loads(json.dumps(encoder.encode(value)))
    return Decoder(encoder.blobs, refuse).decode(node)


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), inner, max_size=4)
        | st.sets(st.integers() | st.text(), max_size=4)
    ),
    max_leaves=20,
)


@given(PLAIN)
@settings(max_examples=50, deadline=None, database=None)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    """Types and values are equal, floats to the last bit."""
    arrived = send(value)
    assert repr(arrived) == repr(value) or arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 3), (2, 3, 4)])
def test_arrays_arrive_as_they_were(name: str, shape: tuple[int, ...]) -> None:
    """Dtype, shape and bits survive, whatever the memory layout."""
    array = np.random.default_rng(0).integers(0, 2, size=shape).astype(name)
    for sent in (array, array.T, array[::-1] if shape else array, array.astype(array.dtype.newbyteorder(">"))):
        arrived = send(sent)
        assert type(arrived) is np.ndarray
        assert arrived.dtype == np.dtype(name)
        assert arrived.shape == sent.shape
        assert (arrived == sent).all()
        arrived[...] = 0  # writable: it is T's own


def test_odd_numbers_arrive() -> None:
    """NaN, infinities, negative zero and numpy scalars are numbers too."""
    assert math.isnan(send(math.nan))
    assert send(-math.inf) == -math.inf
    assert math.copysign(1, send(-0.0)) == -1
    assert type(send(np.float32(1.5))) is np.float32
    assert type(send(np.bool_(1))) is np.bool_
    assert send(np.longdouble(1.5)) == 1.5
    assert send(np.float32) is np.float32
    assert send(np.dtype("int8")) == np.dtype("int8")


def test_a_bool_array_holds_only_bools() -> None:
    """A byte 2 would be true and yet unequal to True."""
    array = Decoder([b"\x02\x00"], refuse).decode({"t": "array", "d": "bool", "s": [2], "k": 0})
    assert array.view("uint8").tolist() == [1, 0]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        np.array(["a"]),
        np.array([object()]),
        np.zeros(2, "i4,f4"),
        1 << 5000,
        "x" * (1 << 21),
        {(object(),): 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_cross_is_refused_at_the_start(value: Any) -> None:
    """The sender says so; nothing half is sent."""
    with pytest.raises(WireError):
        send(value)


def test_depth_and_size_are_bounded() -> None:
    """A cycle or an endless list is an error, not a crash."""
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WireError):
        send(loop)
    with pytest.raises(WireError):
        send([0] * (MAX_NODES + 1))
    nested: Any = 0
    for _ in range(MAX_DEPTH - 1):
        nested = [nested]
    assert send(nested) == nested


TAGS = st.sampled_from([*_READERS, "handle", "outside", "exception", "pickle"])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["nan", "0x1p+1", "float64", "bool"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["t", "v", "d", "s", "k", "i", "n", "c"]), inner, max_size=5)
        | st.builds(
            lambda tag, v, rest: {**rest, "t": tag, "v": v},
            TAGS,
            inner,
            st.dictionaries(st.sampled_from("dskinc"), inner, max_size=4),
        )
    ),
    max_leaves=25,
)


@given(JSON, st.lists(st.binary(max_size=32), max_size=3))
@settings(max_examples=150, deadline=None, database=None)
def test_any_node_decodes_or_is_refused(node: Any, blobs: list[bytes]) -> None:
    """The decoder raises WireError and nothing else."""
    with suppress(WireError):
        Decoder(blobs, refuse).decode(node)


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,0123456789.eE-tfn', max_size=200).map(str.encode))
@settings(max_examples=150, deadline=None, database=None)
def test_any_bytes_are_a_head_or_are_refused(data: bytes) -> None:
    """The parser of frames raises WireError and nothing else."""
    with suppress(WireError):
        assert type(parse_head(data)) is dict


def test_a_small_frame_cannot_become_a_large_value() -> None:
    """A blob that many nodes point at is not multiplied."""
    blob = b"\0" * (1 << 20)
    node = {"t": "list", "v": [{"t": "array", "d": "uint8", "s": [1 << 20], "k": 0}] * 1000}
    tracemalloc.start()
    with pytest.raises(WireError):
        Decoder([blob], refuse).decode(node)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


LARGE, SMALL = bytes(range(256)) * 2000, b"small"


@pytest.mark.parametrize(
    "blobs",
    [[], [LARGE], [LARGE, LARGE], [SMALL, LARGE], [LARGE, b"", LARGE], [LARGE, b"", SMALL], [b"", LARGE * 9], [b""]],
)
def test_large_and_small_parts_arrive_in_order(blobs: list[bytes]) -> None:
    """Whatever is sent in one piece and whatever in several; to send nothing could fail after the last byte has arrived."""
    pieces = list(_pieces(blobs))
    assert b"".join(pieces) == b"".join(blobs)
    assert all(pieces)
    one, other = socket.socketpair()
    with one, other:
        sender, reader = Channel(one, WireLimits()), Channel(other, WireLimits())

        def send_both() -> None:
            for number in range(2):
                sender.send({"n": number}, blobs)

        thread = threading.Thread(target=send_both)
        thread.start()
        assert [reader.receive() for _ in range(2)] == [({"n": number}, blobs) for number in range(2)]
        thread.join()
