"""The models ``scripted/demo`` and ``scripted/file:PATH``: scripts that speak like a model, and are none.

``demo`` is a small state machine. Each reply follows from the conversation alone, from what it called and what the tools
returned, so the same conversation always gets the same reply; only at a temperature above 0, and without tools, its
answers to one prompt alternate, so that drafts differ. What it does per task stands
in ``data/demo.yaml``. It counts no tokens (``Usage`` is unknown: there is no tokenizer) and its cost is 0.0, which is
true: nothing is paid. Its results say nothing about any language model.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from rcb_agent.agents.base import Message, Model, Reply, Sampling, ToolCall
from rcb_agent.agents.demo import Script, next_move
from rcb_agent.errors import ModelError, UsageError

_PACKAGE = files("rcb_agent.agents")


def open_script(script: str) -> Model:
    """Return the scripted model of that name: ``demo`` or ``file:PATH``."""
    if script == "demo":
        return DemoModel()
    kind, colon, path = script.partition(":")
    if kind == "file" and colon and path:
        return FileModel(Path(path))
    raise UsageError(f"unknown script 'scripted/{script}'; known: scripted/demo, scripted/file:PATH")


class DemoModel:
    """Acts on what the tools returned, as ``data/demo.yaml`` says for the task."""

    name = "scripted/demo"
    _drawn = 0

    def scripts(self) -> Mapping[str, Script]:
        """Return the scripts by task id."""
        return load_scripts()

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Return the next reply; of ``sampling`` only whether the temperature is above 0 counts."""
        offered = {str(tool["function"]["name"]) for tool in tools}
        text, call = next_move(messages, offered, self.scripts(), self._draw(messages, sampling))
        ordinal = sum(1 for message in messages if message["role"] == "assistant") + 1
        calls = () if call is None else (ToolCall(f"scripted-{ordinal}", call.name, json.dumps(call.arguments)),)
        return Reply(text, calls, cost=0.0, finish="tool_calls" if calls else "stop", raw={"scripted": True})

    def _draw(self, messages: Sequence[Message], sampling: Sampling) -> int:
        """Count the answers to prompts that ask for code alone, in one trial; 1 where answers are not drawn."""
        if not sampling.temperature or len(messages) > 1 or "Wanted: a test file" in str(messages[0]["content"]):
            return 1
        self._drawn += 1
        return self._drawn


@lru_cache(maxsize=1)
def load_scripts() -> Mapping[str, Script]:
    """Return the scripts of ``data/demo.yaml`` by task id."""
    import yaml

    data = yaml.safe_load((_PACKAGE / "data" / "demo.yaml").read_text(encoding="utf-8"))
    return check_scripts(data)


def check_scripts(data: Any) -> Mapping[str, Script]:
    """Check the content of a demo file against its schema and return the scripts by task id."""
    _check_schema(data, "demo", "demo.yaml")
    return {task: Script(**fields) for task, fields in data["tasks"].items()}


def _check_schema(data: Any, schema: str, where: str) -> None:
    import jsonschema

    rules = json.loads((_PACKAGE / "schema" / f"{schema}.json").read_text(encoding="utf-8"))
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(rules).iter_errors(data))
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "top level"
        raise UsageError(f"{where}: {place}: {error.message[:300]}")


class FileModel:
    """Gives the replies of a JSON file, in order; each instance starts at the first.

    The file is a list of ``{"text": str, "tool_calls": [{"name": str, "arguments": object or raw text, "id": str}],
    "finish": str}``, checked against ``schema/replies.json``. A call after the last reply is a ModelError.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"scripted/file:{path}"
        self._replies = _read_replies(path)
        self._given = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Reply:
        """Return the next reply of the file."""
        del messages, tools, sampling
        if self._given >= len(self._replies):
            raise ModelError(f"{self.name} has no more replies after {self._given}")
        self._given += 1
        return _build_reply(self._replies[self._given - 1], self._given)


def _read_replies(path: Path) -> list[Mapping[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the scripted replies in {path} cannot be read: {error}") from error
    _check_schema(data, "replies", str(path))
    return list(data)


def _build_reply(entry: Mapping[str, Any], ordinal: int) -> Reply:
    calls = tuple(
        ToolCall(
            call.get("id", f"scripted-{ordinal}-{index}"),
            call["name"],
            call["arguments"] if isinstance(call["arguments"], str) else json.dumps(call["arguments"]),
        )
        for index, call in enumerate(entry.get("tool_calls", ()), 1)
    )
    finish = entry.get("finish", "tool_calls" if calls else "stop")
    return Reply(entry.get("text", ""), calls, cost=0.0, finish=finish, raw={"scripted": True})
