"""Turns what a model wrote as a call's arguments into checked values.

The text is data from outside: it may be no JSON, no object, cut off, enormous or full of lone surrogates. Nothing
here guesses: a call whose arguments do not fit is answered with an ArgumentsError, a line the model can act on.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_ARGUMENTS = 4 << 20
"""Characters of one call's arguments that are parsed at all."""

_NAMES = {str: "a string", int: "an integer", list: "a list of strings"}
_SCHEMAS: Mapping[type, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    list: {"type": "array", "items": {"type": "string"}},
}


class ArgumentsError(Exception):
    """The arguments do not fit; ``str(error)`` is the answer for the model."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool; ``kind`` is str, int or list (of strings)."""

    name: str
    kind: type
    description: str
    required: bool = True


def describe_parameters(parameters: Sequence[Parameter]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {one.name: {**_SCHEMAS[one.kind], "description": one.description} for one in parameters},
        "required": [one.name for one in parameters if one.required],
        "additionalProperties": False,
    }


def parse_object(text: str) -> dict[str, Any]:
    """Parse the raw arguments of a call; anything but a JSON object raises."""
    if len(text) > MAX_ARGUMENTS:
        raise ArgumentsError(f"the arguments have {len(text):,} characters; at most {MAX_ARGUMENTS:,} are accepted")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise ArgumentsError(f"the arguments are not valid JSON ({reason}); send the call again, complete") from None
    if not isinstance(value, dict):
        raise ArgumentsError(f"the arguments must be a JSON object, not {_kind_of(value)}")
    return value


def check_arguments(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values, optional ones that are absent or null left out."""
    known = {one.name: one for one in parameters}
    surplus = [clean(name)[:60] for name in given if name not in known]
    if surplus:
        accepted = ", ".join(known) or "none"
        raise ArgumentsError(f"unknown argument {', '.join(sorted(surplus)[:5])}; accepted: {accepted}")
    missing = [one.name for one in parameters if one.required and given.get(one.name) is None]
    if missing:
        raise ArgumentsError(f"missing argument: {', '.join(missing)}")
    return {name: _check_value(known[name], value) for name, value in given.items() if value is not None}


def _check_value(parameter: Parameter, value: Any) -> Any:
    fits = isinstance(value, parameter.kind) and not isinstance(value, bool)
    if fits and parameter.kind is list:
        fits = all(isinstance(item, str) for item in value)
    if not fits:
        raise ArgumentsError(f"{parameter.name} must be {_NAMES[parameter.kind]}, not {_kind_of(value)}")
    return value


def _kind_of(value: Any) -> str:
    names = {str: "a string", bool: "a boolean", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), "a number")


def clean(text: str) -> str:
    """Return ``text`` with lone surrogates written out as escapes, so that it can be encoded and sent."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def printable(name: str) -> str:
    r"""Return a file name as strict JSON can hold it: bytes that are not UTF-8 become ``\xNN``."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def cap(text: str, limit: int) -> str:
    """Return at most ``limit`` characters: head and tail, the amount dropped named between them."""
    if len(text) <= limit:
        return text
    room = max(0, limit - 60) // 2
    return f"{text[:room]}\n[... {len(text) - 2 * room:,} characters dropped ...]\n{text[len(text) - room :]}"
