"""Guards: a capture that grows with the output, or that keeps other bytes than it says."""

from hypothesis import given
from hypothesis import strategies as st

from rcb_agent.environments.capture import CHUNK, Capture


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_head_tail_and_the_number_dropped(chunks: list[bytes], limit: int) -> None:
    """Whatever the chunks: short output is whole, long output is head, count and tail."""
    capture = Capture(limit)
    for chunk in chunks:
        capture.add(chunk)
    whole = b"".join(chunks)
    kept, dropped = capture.result()
    if len(whole) <= limit:
        assert (kept, dropped) == (whole, 0)
        return
    half = limit // 2
    tail = whole[len(whole) - half :]
    assert dropped == len(whole) - 2 * half
    assert kept == whole[:half] + b"\n[... %d bytes dropped ...]\n" % dropped + tail


def test_memory_does_not_grow() -> None:
    """16 MiB through a capture of 1,000 bytes leave little more than a chunk."""
    capture = Capture(1000)
    for _ in range(256):
        capture.add(b"x" * CHUNK)
        assert len(capture.head) + len(capture.tail) < 3 * CHUNK
