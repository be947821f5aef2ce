"""Parses other people's code without running it and without their warnings on our standard error."""

import ast
import threading
import warnings

_ONE_AT_A_TIME = threading.Lock()  # catch_warnings changes state of the whole process


def parse_quietly(text: str) -> ast.Module:
    """Return the syntax tree. Raises SyntaxError (also for null bytes)."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except ValueError as error:
            raise SyntaxError(str(error)) from None
