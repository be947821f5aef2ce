"""Guards: a container's output read wrongly where a record is cut, or taken on trust."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_agent.environments.attached import WORDS_BYTES, Records
from rcb_agent.environments.frames import FrameError

RECORDS = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12)


@given(records=RECORDS, cuts=st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_every_cut_gives_the_same_bytes(records: list[tuple[int, bytes]], cuts: list[int]) -> None:
    """Wherever the stream is cut, stdout is whole, stderr is no part of it, and nothing grows by decoding."""
    stream = b"".join(bytes([number, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for number, data in records)
    reader, found, at = Records(), b"", 0
    while at < len(stream):
        piece = stream[at : at + cuts[at % len(cuts)]]
        decoded = reader.decode(piece)
        assert len(decoded) <= len(piece)
        found, at = found + decoded, at + len(piece)
    assert found == b"".join(data for number, data in records if number == 1)


@pytest.mark.parametrize(
    "header", [b"\3\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\1", b"\1\0\1\0\0\0\0\1", b"\xff" * 8, b"HTTP/1.1"]
)
def test_what_is_no_record_is_an_error(header: bytes) -> None:
    """Another stream, something where zeros stand, or something else altogether."""
    with pytest.raises(FrameError):
        Records().decode(header)


def test_the_last_words_are_bounded() -> None:
    """Of stderr only the end is kept, and shown as one line."""
    reader = Records()
    for _ in range(100):
        reader.decode(b"\2\0\0\0" + (1000).to_bytes(4, "big") + b"x" * 999 + b"\n")
    reader.decode(b"\2\0\0\0\0\0\0\5no!\n\n")
    assert reader.last_words() == "no!"
    assert len(reader._words) <= WORDS_BYTES
    assert Records().last_words() == "no message"
