"""Guards: a trial lost to CPython's own confusion when two pieces of code are parsed at once (python/cpython#106905)."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from rcb_agent.tasks.syntax import parse_quietly

TEXT = "\n".join(f"def f{n}(a, b=[1, (2, {{3: 4}})]):\n    return [a[{n}:b], lambda x: -x]" for n in range(60))


@contextmanager
def somebody_parses(times: int) -> Iterator[list[int]]:
    """Parse something in the middle of what this process parses, as another thread may; yield how often it was done."""
    done: list[int] = []

    def interfere(phase: str, _: dict[str, int]) -> None:
        if phase == "start" and len(done) < times:
            done.append(1)
            ast.parse("1")

    threshold = gc.get_threshold()
    gc.callbacks.append(interfere)
    gc.set_threshold(20)
    try:
        yield done
    finally:
        gc.callbacks.remove(interfere)
        gc.set_threshold(*threshold)


def test_what_others_parse_meanwhile_does_not_matter() -> None:
    """The tree is the same, however often it was tried; a mistake in the text is still one."""
    expected = ast.dump(ast.parse(TEXT))
    with somebody_parses(4) as done:
        assert ast.dump(parse_quietly(TEXT)) == expected
    assert len(done) == 4


def test_a_mistake_is_no_confusion() -> None:
    """Errors of the text come at once and as SyntaxError, for text and bytes."""
    for text in ("def f(:\n", b"def f(:\n", "x = '\0'", b"\xff\xfe"):
        try:
            parse_quietly(text)
        except SyntaxError:
            continue
        raise AssertionError(text)
