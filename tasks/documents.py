"""Reads YAML so that a mistake can be named by file, line and key, and checks it against a JSON Schema."""

import difflib
import json
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from rcb_agent.tasks.base import Fault

Position = tuple[str | int, ...]


class Document:
    """A parsed YAML file that remembers on which line each key stands."""

    def __init__(self, path: Path, shown: str, text: str) -> None:
        self.path, self.shown = path, shown
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.load(text, Loader=_TextLoader)  # noqa: S506 - a SafeLoader
        self.data: Any = data if node is not None else None
        self._lines: dict[Position, int] = dict(_walk(node, ())) if node is not None else {}

    def line(self, position: Position) -> int:
        """Return the 1-based line of a key, or of its nearest parent."""
        while position and position not in self._lines:
            position = position[:-1]
        return self._lines.get(position, 1)

    def fault(self, position: Position, message: str) -> Fault:
        """Make a fault that points at ``position``."""
        return Fault(self.shown, self.line(position), ".".join(str(part) for part in position), message)

    def violations(self, schema: str, data: Any = None, base: Position = ()) -> list[Fault]:
        """Check ``data`` (the whole document by default) against a shipped schema."""
        from jsonschema import Draft202012Validator

        validator = Draft202012Validator(json.loads((files("rcb_agent.tasks") / "schema" / schema).read_text("utf-8")))
        return self.explain(validator.iter_errors(self.data if base == () else data), base)

    def explain(self, errors: Iterable[Any], base: Position = ()) -> list[Fault]:
        """Return what jsonschema found wrong as faults that name line and key."""
        return [self.fault((*base, *_place(error)), _clip(_explain(error))) for error in errors]


def _place(error: Any) -> Position:
    """Return where an error is: an unknown key has a line of its own."""
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        return (*error.absolute_path, next(key for key in error.instance if key not in known))
    return tuple(error.absolute_path)


def _explain(error: Any) -> str:
    """Say what is wrong in words of the schema: which keys are known, what a text should look like."""
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = sorted(error.schema.get("properties", {}))
        strays = [key for key in error.instance if key not in known]
        return (
            " ".join(f"{key!r} is no key here{_nearest(key, known)};" for key in strays) + f" known: {', '.join(known)}"
        )
    if error.validator == "pattern" and "description" in error.schema:
        return f"{error.instance!r} is not {error.schema['description']}"
    if error.validator == "dependentRequired":
        key, needed = next(
            (key, name)
            for key, names in error.validator_value.items()
            for name in names
            if key in error.instance and name not in error.instance
        )
        about = error.schema["properties"][needed].get("description", "")
        return f"{key} needs {needed} beside it: {about}"
    return str(error.message)


def _nearest(key: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(str(key), known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _clip(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 400 else f"{line[:200]} ... {line[-190:]}"


class _TextLoader(yaml.SafeLoader):
    """Keeps dates as the text they are: they are facts to compare, not moments in time."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - the base class declares it so
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_document(path: Path, shown: str) -> Document | Fault:
    """Read a YAML file; a Fault says what keeps it from being read."""
    try:
        return Document(path, shown, path.read_text("utf-8"))
    except OSError as error:
        return Fault(shown, 0, "", f"cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        return Fault(shown, 0, "", f"is not UTF-8 (byte {error.start})")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        return Fault(shown, line, "", f"is not YAML: {error.problem}")
    except (yaml.YAMLError, RecursionError) as error:
        return Fault(shown, 0, "", f"is not YAML: {' '.join(str(error).split())[:200]}")


def _walk(node: yaml.Node, position: Position) -> Iterator[tuple[Position, int]]:
    yield position, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*position, key.value), key.start_mark.line + 1
            yield from (item for item in _walk(value, (*position, key.value)) if item[0] != (*position, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _walk(value, (*position, index))
