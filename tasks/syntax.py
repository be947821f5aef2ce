"""Parses other people's code without running it and without their warnings on our standard error."""

import ast
import threading
import time
import warnings

_ONE_AT_A_TIME = threading.Lock()  # catch_warnings changes state of the whole process
_TRIES = 20


def parse_quietly(text: str | bytes) -> ast.Module:
    """Return the syntax tree. Raises SyntaxError (also for null bytes)."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _parse(text)
        except ValueError as error:
            raise SyntaxError(str(error)) from None


def _parse(text: str | bytes) -> ast.Module:
    """Parse again where CPython has confused two threads: it counts the depth of a tree for the whole process, and libraries
    parse in other threads as well (python/cpython#106905). The text has no part in that."""
    for _ in range(_TRIES):
        try:
            return ast.parse(text)
        except SystemError:
            time.sleep(0)
    return ast.parse(text)
