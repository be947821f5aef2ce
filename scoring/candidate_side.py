"""The candidate's side of a split grade: imports the candidate's files and answers requests. Trusts nothing, proves nothing.

Everything sent from here is a claim, because the candidate's code shares this process: no rule depends on it. The
program runs inside a sandbox of its own and holds no test, no reference and no expected value.
"""

import builtins
import contextlib
import copy
import functools
import importlib
import itertools
import os
import socket
import sys
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rcb_agent.scoring import candidate_declared, counted_clock, jax_arrays, random_state, salt, tensors
from rcb_agent.scoring.candidate_tensors import CandidateTensors, Crossing
from rcb_agent.scoring.jax_arrays import encode_jax
from rcb_agent.scoring.plain import BUILDERS, encode_plain, is_class
from rcb_agent.scoring.values import MAX_NODES, Decoder, Encoder, Node
from rcb_agent.scoring.wire import Channel, OverLimit, WireError, WireLimits

CHANNEL = 3


counted_clock.remember_loaded()
prepare = counted_clock.find_clocks
"""Called in a process that others are forked from, once it has loaded its packages."""


def main(settings: dict[str, Any]) -> None:
    """Serve requests on the channel until the trusted side closes it; then end, whatever threads are left."""
    sys.path.insert(0, str(Path.cwd()))
    counted_clock.install(settings["clock"])
    random_state.start_at_fixed_state(salt.salted(random_state.START_SEED, settings["salt"])).install()
    salt.install(settings["salt"])
    exec(compile(settings["prelude"], "<prelude>", "exec"), {"__name__": "prelude"})  # noqa: S102 (the paper's own)
    end = socket.socket(fileno=CHANNEL)
    try:
        limits = WireLimits(**settings["limits"])  # of all bytes the trusted side is the one to speak
        Server(Channel(end, replace(limits, total_bytes=2 * limits.total_bytes))).serve()
    except WireError:
        pass  # the trusted side is done
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class Handles:
    """Objects that live here and are known to the trusted side by number."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0

    def __getitem__(self, number: int) -> Any:
        return self._objects[number]

    def number(self, value: Any) -> int:
        """Return the number of an object, which stays alive until it is released."""
        if id(value) not in self._numbers:
            self._next += 1
            self._numbers[id(value)] = self._next
            self._objects[self._next] = value
        return self._numbers[id(value)]

    def find(self, value: Any) -> int | None:
        """Return the number of an object that is already known."""
        return self._numbers.get(id(value))

    def release(self, numbers: list[int]) -> None:
        """Forget objects that the trusted side no longer holds."""
        for number in numbers:
            self._numbers.pop(id(self._objects.pop(number, None)), None)


class Outside:
    """An object of the trusted side. It can be called if the trusted side allows it; nothing else works."""

    def __init__(self, server: "Server", number: int, name: str) -> None:
        object.__setattr__(self, "_server", server)
        object.__setattr__(self, "_number", number)
        if name:
            object.__setattr__(self, "__name__", name)
            object.__setattr__(self, "__qualname__", name)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it in T."""
        return self._server.call_back(self._number, "call", "", arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what inspect and others probe for: nothing a test would offer
            raise AttributeError(name)
        return self._server.call_back(self._number, "get", name, (), {})


class Server:
    """Answers one request after the other; a callback of the candidate may hold requests of its own inside."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._handles = Handles()
        self._outside: weakref.WeakValueDictionary[int, Outside] = weakref.WeakValueDictionary()
        self._gone: set[int] = set()
        self._generators: dict[int, Any] = {}
        self._callback_lock = threading.RLock()
        self.tensors = CandidateTensors()

    def serve(self) -> None:
        """Answer until the channel closes."""
        while True:
            self._answer(*self._channel.receive())

    def call_back(self, number: int, operation: str, name: str, arguments: Any, keywords: Any) -> Any:
        """Ask the trusted side to call one of its objects; requests that arrive meanwhile are answered."""
        with self._callback_lock:
            encoder = Encoder(self._encode_other)
            head = {
                "c": number,
                "op": operation,
                "n": name,
                "a": [encoder.encode(argument) for argument in arguments],
                "k": [[key, encoder.encode(argument)] for key, argument in keywords.items()],
            }
            self.tensors.end(head, encoder, None)
            self._channel.send(head, encoder.blobs)
            while True:
                answer, blobs = self._channel.receive()
                if "cr" in answer or "ce" in answer:
                    break
                self._answer(answer, blobs)
        random_state.apply_changes(answer.get("random", {}), blobs)
        decoder = Decoder(blobs, self._decode_other)
        self.tensors.begin(answer, decoder)
        if "ce" in answer:
            raise getattr(builtins, answer["ce"], RuntimeError)(answer["m"])
        return decoder.decode(answer["cr"])

    def _answer(self, request: Node, blobs: list[bytes]) -> None:
        head, blobs = self._answered(request, blobs)
        head["gone"] = [self._gone.pop() for _ in range(len(self._gone))]  # objects may die meanwhile
        try:
            self._channel.send(head, blobs)
        except OverLimit as error:
            self._channel.send({"q": head["q"], "e": self._describe(error), "gone": head["gone"]})

    def _answered(self, request: Node, blobs: list[bytes]) -> tuple[Node, list[bytes]]:
        """Return the answer to a request, and its blobs."""
        wanted = request.get("wanted", "")
        crossing = Crossing(request["op"] in READS, may_be_live=request.get("live", False))
        encoder = Encoder(functools.partial(self._encode_other, crossing=crossing, only_values=wanted == "values"))
        head: Node = {"q": request["q"]}
        try:
            random_state.apply_changes(request.get("random", {}), blobs)
            self._handles.release(request.get("free", []))
            decoder = Decoder(blobs, functools.partial(self._decode_other, crossing=crossing))
            self.tensors.begin(request, decoder)
            arguments = [decoder.decode(node) for node in request.get("a", [])]
            keywords = {key: decoder.decode(node) for key, node in request.get("k", [])}
            result = OPERATIONS[request["op"]](self, request, arguments, keywords)
            as_object = wanted == "object" and is_class(result)
            head["r"] = self._handle(result) if as_object else encoder.encode(result)
            changed = [arguments[index] for index in request.get("w", []) if index < len(arguments)]
            head["w"] = [self._encode_copy(encoder, argument) for argument in changed]
            self.tensors.end(head, encoder, crossing)
        except BaseException as error:  # noqa: BLE001 (candidate code may raise anything; it must reach the test by name)
            encoder = Encoder(self._encode_other)
            head = {"q": request["q"], "e": self._describe(error)}
            with contextlib.suppress(Exception):  # what was raised may come from there
                self.tensors.end(head, encoder, None)
        return head, encoder.blobs

    def target(self, request: Node) -> Any:
        """Return the object a request is about."""
        return self._handles[request["o"]]

    def _describe(self, error: BaseException) -> Node:
        lineage: list[Any] = []
        for kind in type(error).__mro__[:24]:
            if (known := self._handles.find(kind)) is not None:
                lineage.append(known)
            elif getattr(builtins, kind.__name__, None) is kind:
                lineage.append(kind.__name__)
        try:
            only = error.args[0] if len(error.args) == 1 else None
            message = only if type(only) is str else str(error)
        except BaseException:  # noqa: BLE001 (the exception's own __str__ is candidate code too)
            message = ""
        return {"kind": type(error).__name__[:100], "lineage": lineage, "message": message[:1000]}

    def _encode_copy(self, encoder: Encoder, value: Any) -> Node:
        """Return the node of an argument that was changed in place: its values, whatever it is."""
        copies = Encoder(self._encode_other)
        copies.blobs = encoder.blobs
        return copies.encode(value)

    def _encode_other(
        self,
        encoder: Encoder,
        value: Any,
        depth: int,
        *,
        crossing: Crossing | None = None,
        only_values: bool = False,
    ) -> Node:
        if isinstance(value, Outside):
            return {"t": "outside", "i": value._number}  # noqa: SLF001 (our own stand-in)
        if isinstance(value, type) and issubclass(value, BaseException):
            return self._exception_class(value)
        plain = (
            self.tensors.write(encoder, value, crossing)
            or encode_jax(encoder, value)
            or encode_plain(encoder, value, depth, only_values=only_values)
        )
        return plain or self._handle(value)

    def _handle(self, value: Any) -> Node:
        return {"t": "handle", "i": self._handles.number(value), "c": callable(value)}

    def _exception_class(self, kind: type[BaseException]) -> Node:
        if getattr(builtins, kind.__name__, None) is kind:
            return {"t": "exception", "n": kind.__name__}
        bases = [self._exception_class(base) for base in kind.__bases__ if issubclass(base, BaseException)]
        return {"t": "exception", "n": kind.__name__, "i": self._handles.number(kind), "v": bases}

    def _decode_other(
        self, decoder: Decoder, tag: str, node: Node, depth: int, *, crossing: Crossing | None = None
    ) -> Any:
        if tag in ("tensor", "shared"):
            return self.tensors.read(decoder, node, crossing)
        if tag == "handle":
            return self._handles[node["i"]]
        if tag == "outside":
            return self._stand_in(node["i"], node.get("n", ""))
        if tag == "function":
            return getattr(importlib.import_module(node["m"]), node["n"])
        if (build := _BUILDERS.get(tag)) is not None:
            return build(decoder, node, depth)
        if tag == "generator":
            return self._generator(node)
        if tag == "exception":
            return getattr(builtins, node["n"])
        raise WireError(f"unknown value {tag}")

    def _stand_in(self, number: int, name: str) -> Outside:
        """Return the stand-in of an object of T; once nobody here has it, T is told."""
        stand_in = self._outside.get(number)
        if stand_in is None:
            stand_in = self._outside[number] = Outside(self, number, name)
            weakref.finalize(stand_in, self._gone.add, number).atexit = False
        self._gone.discard(number)
        return stand_in

    def _generator(self, node: Node) -> Any:
        if node["state"] is not None:
            known = self._generators.get(node["i"])
            self._generators[node["i"]] = random_state.build_generator(node["kind"], node["state"], known)
        return self._generators[node["i"]]


def _public_names(module: types.ModuleType) -> list[str]:
    public = [
        name for name, value in vars(module).items() if name[:1] != "_" and not isinstance(value, types.ModuleType)
    ]
    return list(getattr(module, "__all__", public))


def _call(server: Server, request: Node, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    return server.target(request)(*arguments, **keywords)


def _set_item(server: Server, request: Node, arguments: list[Any], _: dict[str, Any]) -> None:
    server.target(request)[arguments[0]] = arguments[1]


def _leave(server: Server, request: Node, _: list[Any], __: dict[str, Any]) -> None:
    server.target(request).__exit__(None, None, None)


def _on_target(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operation that applies a function to the target and the arguments."""

    @functools.wraps(function)
    def operation(server: Server, request: Node, arguments: list[Any], _: dict[str, Any]) -> Any:
        return function(server.target(request), *arguments)

    return operation


_BUILDERS = {**BUILDERS, **tensors.BUILDERS, **candidate_declared.BUILDERS, **jax_arrays.BUILDERS}
READS = ("get", "item", "iterate")

OPERATIONS: dict[str, Callable[[Server, Node, list[Any], dict[str, Any]], Any]] = {
    "hello": lambda _, __, ___, ____: None,
    "import": lambda _, request, __, ___: importlib.import_module(request["n"]),
    "names": lambda server, request, _, __: _public_names(server.target(request)),
    "get": lambda server, request, _, __: getattr(server.target(request), request["n"]),
    "set": lambda server, request, arguments, _: setattr(server.target(request), request["n"], arguments[0]),
    "delete": lambda server, request, _, __: delattr(server.target(request), request["n"]),
    "call": _call,
    "length": _on_target(len),
    "iterate": _on_target(lambda target: list(itertools.islice(iter(target), MAX_NODES))),
    "item": _on_target(lambda target, key: target[key]),
    "set_item": _set_item,
    "copy": _on_target(copy.copy),
    "deepcopy": _on_target(copy.deepcopy),
    "is_instance": _on_target(lambda target, value: isinstance(value, target)),
    "backward": lambda server, request, arguments, _: server.tensors.backward(request["o"], arguments),
    "enter": _on_target(lambda target: target.__enter__()),
    "leave": _leave,
}
