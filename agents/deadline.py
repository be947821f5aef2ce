"""Bounds a call that cannot be interrupted: it goes on in a thread of its own, and its late result is dropped.

HTTP clients bound each read, not the whole answer: an endpoint that sends a byte a second would hold a trial for ever.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

_T = TypeVar("_T")


class Overdue(Exception):
    """The call did not come back in time."""


def call_within(seconds: float, function: Callable[[], _T]) -> _T:
    """Return what ``function`` returns or raise what it raises; Overdue after ``seconds`` (wall)."""
    future: Future[_T] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            future.set_exception(error)

    Thread(target=work, daemon=True, name="bounded-call").start()  # a daemon: it must not hold the process
    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        if future.done():  # its own, or it came in this very moment
            return future.result()
        raise Overdue(f"no whole answer within {seconds:g} s") from None
