"""T's conversation with C: requests, callbacks, and the state both sides share.

Strictly one request and one answer, with callbacks of C nested inside. One broken rule or one late answer ends the
session for good: every further use raises, and the reason outlives whatever a test makes of the exception. This file
also runs inside sandboxes: standard library only.
"""

import functools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic  # by name: a grade may count the module's clocks
from typing import Any

from rcb_agent.scoring import jax_arrays, random_state, tensors
from rcb_agent.scoring.form import CHANGED, LIVE, Again, Trace
from rcb_agent.scoring.jax_arrays import encode_jax
from rcb_agent.scoring.plain import encode_exact, encode_plain
from rcb_agent.scoring.random_state import StateSender
from rcb_agent.scoring.trusted_declared import KeptValues, encode_declared
from rcb_agent.scoring.trusted_errors import RAISABLE, MirroredExceptions, RemoteError
from rcb_agent.scoring.trusted_in_place import copy_back
from rcb_agent.scoring.trusted_tensors import Incoming, Outgoing, TrustedTensors
from rcb_agent.scoring.values import Decoder, Encoder, Node, expect
from rcb_agent.scoring.wire import Channel, OverLimit, PeerGone, PeerSlow, WireError

_NAMED_HOMES = (
    "math",
    "cmath",
    "operator",
    "builtins",
    "numpy",
    "torch",
    "torch.nn.functional",
    "jax.numpy",
    "jax.nn",
    "jax",
)
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Bounds of one session: seconds of one call, of all, and of C's start; requests, callbacks, objects alive on either
    side. Bytes are the channel's to count, tensors and graphs those of ``trusted_tensors``."""

    call_seconds: float
    total_seconds: float
    start_seconds: float = 15.0
    calls: int = 100_000
    callbacks: int = 20_000
    handles: int = 50_000


@dataclass(frozen=True, slots=True)
class Adapter:
    """What a paper declares of its tests (``tasks.base.GradingRules``), as far as the conversation needs it."""

    in_place: Mapping[str, list[int]] = field(default_factory=dict)
    shared: Sequence[str] = ()
    offers: Mapping[str, list[str]] = field(default_factory=dict)
    plain: Mapping[str, str] = field(default_factory=dict)
    by_value: Sequence[str] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    trusted: Sequence[str] = ()

    def offers_to(self, offered: Any, operation: str, name: str) -> bool:
        """Say whether C may do this to an object of the test: functions may be called, all else is declared by class."""
        declared = self.offers.get(type(offered).__name__, ())
        if operation == "call":
            return _may_be_called(offered) or "()" in declared
        return operation == "get" and name in declared and name.isidentifier() and not name.startswith("_")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; ``target`` is the handle it is about and ``label`` the path by which the test came to it.

    ``wanted`` says as what the gold's own value crossed ("values", "object", "" unknown), so that a named tuple in place
    of a tuple, or a class in place of a function, can cross as the same.
    """

    operation: str
    target: int = 0
    name: str = ""
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    wanted: str = ""


class Session:
    """Everything T knows of C. ``ended`` is (reason, message) once the session is over."""

    def __init__(self, channel: Channel, limits: SessionLimits, adapter: Adapter) -> None:
        self.trace = Trace()
        self.mirrors = MirroredExceptions()
        self.states = StateSender()
        self.ended: tuple[str, str] | None = None
        self.was_greeted = False
        self.import_failure = ""
        self.memory_error = False
        self.refused: set[str] = set()
        self.calls = 0
        self.make_proxy: Callable[[int, bool, str], Any] = _no_proxy
        self.on_update: Callable[[str, Any], None] | None = None
        self._channel = channel
        self._limits = limits
        self.adapter = self._adapter = adapter
        self.kept = KeptValues(adapter.trusted, None)
        self._call_seconds = limits.call_seconds
        self._end_time = monotonic() + limits.total_seconds
        self._lock = threading.RLock()
        self._proxies: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._released: set[int] = set()
        self._offered: dict[int, Any] = {}
        self._offered_numbers: dict[int, int] = {}
        self._offered_so_far = 0
        self._generator_states: dict[int, Node] = {}
        self._tensors = TrustedTensors()
        self._callbacks = 0
        self._callback_failure: AssertionError | None = None

    def greet(self) -> None:
        """Wait until C answers at all; only then the grade's clock starts. No candidate code has run by then."""
        self._call_seconds = self._limits.start_seconds
        self._end_time = monotonic() + self._limits.start_seconds
        self.ask(Request("hello"))
        self.was_greeted = True
        self._call_seconds = self._limits.call_seconds
        self._end_time = monotonic() + self._limits.total_seconds

    def ask(self, request: Request) -> Any:
        """Send a request and return the value of its answer, or raise what the candidate raised."""
        with self._lock:
            if self.ended is not None:
                raise RemoteError(f"the candidate's process is over: {self.ended[1]}")
            try:
                return self._ask(request)
            except WireError as error:
                self._end(error)
                raise RemoteError(f"the candidate's process is over: {error}") from None
            finally:
                self._raise_callback_failure()

    def end(self, reason: str, message: str) -> None:
        """End the session; the first reason stays."""
        self.ended = self.ended or (reason, message)

    @property
    def exchanged_bytes(self) -> int:
        """Bytes sent and received so far."""
        return self._channel.total

    def _end(self, error: WireError) -> None:
        reasons = {PeerGone: "candidate_exited", PeerSlow: "time_limit", OverLimit: "limit"}
        reason = reasons.get(type(error), "protocol")
        self.end(reason, str(error))

    def _ask(self, request: Request) -> Any:
        if self.calls >= self._limits.calls:
            raise OverLimit(f"more than {self._limits.calls} requests")
        self.calls += 1
        number = self.calls
        copied_back = self._adapter.in_place.get(request.label, []) if request.operation == "call" else []
        position, test = self.trace.position, self.trace.current
        live = request.operation != "backward" and self.trace.may(LIVE, position)
        inputs = self._send(request, number, copied_back, live=live)
        answer, blobs = self._wait(number)
        incoming = Incoming(request.label.rpartition(".")[2], may_be_live=live)
        decoder = Decoder(blobs, functools.partial(self._decode_other, request.label, incoming), Again)
        self._take_changes(answer, decoder, position)
        self._take_back(answer)
        if "e" in answer:
            raise self._remote_error(answer["e"])
        ask = functools.partial(self._ask_gradients, request.label, len(inputs))
        incoming.outputs = self._tensors.attach(answer, decoder, inputs, ask)
        value = decoder.decode(answer.get("r"))
        self._note_gradients()
        results = [decoder.decode(node) for node in expect(answer.get("w"), list)]
        if incoming.is_live and test == self.trace.current:
            self.trace.note_where(LIVE, position)
        if self._shares(request):
            self.trace.note_shared(request.label)
        if copied_back:
            self.trace.note_in_place(request.label, copied_back, results)
        if len(results) != len(copied_back):
            raise WireError("in-place results are missing")
        for index, result in zip(copied_back, results, strict=True):
            copy_back(request.arguments[index], result)
        return value

    def _shares(self, request: Request) -> bool:
        return request.operation == "call" and request.label in self._adapter.shared

    def _take_changes(self, frame: Node, decoder: Decoder, position: int) -> None:
        """Take over what C changed in shared tensors, at once where the gold code changed any, else when it next does."""
        if "shared" not in frame:
            return
        self.trace.note_where(CHANGED, position)
        taken = self._tensors.take(frame["shared"], decoder, at_once=self.trace.may(CHANGED, position))
        if self.on_update is not None:
            for name, value in taken:
                self.on_update(name, value)

    def _ask_gradients(self, label: str, own: int, graph: int, leaves: list[int], gradients: tuple[Any, ...]) -> Any:
        """Ask C for the gradients of a graph's inputs; the form of those for T's ``own`` is one more crossing.

        Which leaves of its own a candidate's graph has, and in which order, is its business; the numbers of those to which the
        test comes by a name are compared where values are.
        """
        plain = tuple(None if gradient is None else gradient.detach() for gradient in gradients)
        found = self.ask(Request("backward", graph, arguments=plain, label=f"{label}<gradient>"))
        if self.on_update is not None and type(found) is list:
            for number, gradient in zip(leaves, found[own:], strict=False):  # that there are enough is checked later
                self._tensors.note_gradient(number, gradient)
            self._note_gradients()
        self.trace.note(f"{label}<gradient>", found[:own] if type(found) is list else found)
        return found

    def _note_gradients(self) -> None:
        for name, gradient in self._tensors.take_gradients():
            if self.on_update is not None:
                self.on_update(name, gradient)

    def _send(self, request: Request, number: int, copied_back: list[int], *, live: bool) -> list[Any]:
        outgoing = Outgoing(self._shares(request), None if request.operation == "backward" else [])
        encoder = Encoder(functools.partial(self._encode_other, outgoing))
        try:
            head: Node = {
                "q": number,
                "op": request.operation,
                "o": request.target,
                "n": request.name,
                "a": [encoder.encode(argument) for argument in request.arguments],
                "k": [[key, encoder.encode(argument)] for key, argument in request.keywords.items()],
                "w": copied_back,
                "wanted": request.wanted,
                "live": live,
            }
        except WireError as error:  # the test's own value: nothing the candidate did
            raise RemoteError(f"the test's argument cannot cross: {error}") from None
        head["free"] = [self._released.pop() for _ in range(len(self._released))]  # objects may die meanwhile
        head["random"] = self.states.changes(encoder.blobs)
        self._tensors.begin(head, encoder.blobs)
        self._channel.deadline = min(monotonic() + self._call_seconds, self._end_time)
        self._channel.send(head, encoder.blobs)
        return outgoing.inputs or []

    def _wait(self, number: int) -> tuple[Node, list[bytes]]:
        while True:
            answer, blobs = self._channel.receive()
            if "c" in answer:
                self._call_back(answer, blobs)
            elif answer.get("q") == number and ("r" in answer or "e" in answer):
                return answer, blobs
            else:
                raise WireError("an answer nobody asked for")

    def _remote_error(self, description: Any) -> Exception:
        error = self.mirrors.rebuild(description)
        self.memory_error |= "MemoryError" in description["lineage"]
        return error

    # Callbacks: C calls what the test gave it as an argument.

    def _call_back(self, head: Node, blobs: list[bytes]) -> None:
        self._callbacks += 1
        if self._callbacks > self._limits.callbacks:
            raise OverLimit(f"more than {self._limits.callbacks} callbacks")
        encoder = Encoder(functools.partial(self._encode_other, Outgoing()))
        deadline = self._channel.deadline
        decoder = Decoder(blobs, functools.partial(self._decode_other, "callback", Incoming()), Again)
        try:
            self._take_changes(head, decoder, self.trace.position)
            result = self._called(head, decoder)
            answer: Node = {"cr": encoder.encode(result)}
        except WireError:
            raise
        except Exception as error:  # noqa: BLE001 (the test's own function may raise anything; C gets it by name)
            if isinstance(error, AssertionError):
                self._callback_failure = error
            encoder = Encoder(functools.partial(self._encode_other, Outgoing()))
            answer = {"ce": type(error).__name__ if type(error).__name__ in RAISABLE else "RuntimeError"}
            answer["m"] = str(error)[:300]
        answer["random"] = self.states.changes(encoder.blobs)
        self._tensors.begin(answer, encoder.blobs)
        self._channel.deadline = deadline
        self._channel.send(answer, encoder.blobs)

    def _called(self, head: Node, decoder: Decoder) -> Any:
        number, operation, name = expect(head["c"], int), expect(head.get("op"), str), expect(head.get("n"), str)
        if number not in self._offered:
            raise WireError("a callback to nothing")
        offered = self._offered[number]
        if not self._adapter.offers_to(offered, operation, name):
            self.refused.add(f"{type(offered).__name__}.{name[:60]}" if name else f"{type(offered).__name__}()")
            raise AttributeError(f"the test's object does not offer {name[:60] or 'a call'}")
        if operation == "get":
            return getattr(offered, name)
        arguments = [decoder.decode(node) for node in expect(head.get("a"), list)]
        keywords = {expect(key, str): decoder.decode(node) for key, node in expect(head.get("k"), list)}
        return offered(*arguments, **keywords)

    def _raise_callback_failure(self) -> None:
        """A test's assertion inside a callback counts even if the candidate swallowed it."""
        failure, self._callback_failure = self._callback_failure, None
        if failure is not None:
            raise failure

    # Values that are no plain values.

    def _encode_other(self, outgoing: Outgoing, encoder: Encoder, value: Any, depth: int) -> Node:
        if (number := getattr(type(value), "handle_of", _no_handle)(value)) is not None:
            return {"t": "handle", "i": number}
        if isinstance(value, Again):
            return encoder.items("iterator", value, depth)
        if isinstance(value, type) and issubclass(value, BaseException):
            number = self.mirrors.number(value)
            return {"t": "exception", "n": value.__name__} if number is None else {"t": "handle", "i": number}
        if (state := random_state.describe_generator(value)) is not None:
            return {"t": "generator", "i": self._offer(value), **self._unsent(value, state)}
        if (node := encode_declared(encoder, value, depth, self._adapter.plain, self._adapter.by_value)) is not None:
            return node
        if (home := _home_of(value)) is not None:
            return {"t": "function", "m": home, "n": value.__name__}
        if (node := self._tensors.write(encoder, value, outgoing) or encode_jax(encoder, value)) is not None:
            return node
        node = encode_exact(encoder, value, depth) or encode_plain(encoder, value, depth)
        return node or {"t": "outside", "i": self._offer(value), "n": _name_of(value)}

    def _unsent(self, generator: Any, described: Node) -> Node:
        """Leave out the state of a generator that C has: there it moves on, as it would in one process."""
        if self._generator_states.get(id(generator)) == described:
            return {**described, "state": None}
        self._generator_states[id(generator)] = described
        return described

    def _offer(self, value: Any) -> int:
        if id(value) not in self._offered_numbers:  # what was offered stays alive, so its id stays its own
            if len(self._offered) >= self._limits.handles:
                raise RemoteError("the test gave too many objects away")
            number = self._offered_numbers[id(value)] = self._offered_so_far
            self._offered[number] = value
            self._offered_so_far += 1
        return self._offered_numbers[id(value)]

    def _take_back(self, answer: Node) -> None:
        """Let go of what C says it no longer holds; a callback to it is one to nothing."""
        for number in expect(answer.get("gone", []), list):
            if (offered := self._offered.pop(expect(number, int), None)) is not None:
                self._offered_numbers.pop(id(offered))

    def _decode_other(self, label: str, incoming: Incoming, decoder: Decoder, tag: str, node: Node, depth: int) -> Any:
        if tag in ("shared", "output"):
            return self._tensors.read(decoder, node, incoming)
        if (build := tensors.BUILDERS.get(tag) or jax_arrays.BUILDERS.get(tag)) is not None:
            return build(decoder, node, depth)
        if tag == "handle":
            return self._proxy(expect(node["i"], int), expect(node["c"], bool), label)
        if tag == "exception":
            return self.mirrors.build(node)
        if tag == "outside" and label == "callback":  # T's own objects come back as callback arguments only
            number = expect(node["i"], int)
            if number in self._offered:
                return self._offered[number]
        raise WireError(f"a value of unknown kind {tag[:20]}")

    def _proxy(self, number: int, is_callable: bool, label: str) -> Any:  # noqa: FBT001 (one fact of a node)
        proxy = self._proxies.get(number)
        if proxy is None:
            if len(self._proxies) >= self._limits.handles:
                raise OverLimit(f"more than {self._limits.handles} objects of the candidate's")
            proxy = self._proxies[number] = self.make_proxy(number, is_callable, label)
            weakref.finalize(proxy, self._released.add, number).atexit = False
        self._released.discard(number)
        return proxy


def _may_be_called(offered: Any) -> bool:
    """Say whether C may call an object: functions, and methods of plain containers (``history.append``)."""
    if isinstance(offered, types.BuiltinMethodType):
        return type(offered.__self__) in (list, dict, set)
    return isinstance(offered, _FUNCTIONS)


def _name_of(value: Any) -> str:
    name = getattr(value, "__name__", "") if isinstance(value, _FUNCTIONS) else ""
    return name if type(name) is str else ""


def _no_handle(_: Any) -> None:
    return None


def _no_proxy(_: int, __: bool, ___: str) -> Any:  # noqa: FBT001 (stands in for make_proxy)
    raise WireError("no proxies here")


def _home_of(value: Any) -> str | None:
    """Return the module from which C can take the same function by name, if it is a well-known one."""
    if isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith(("numpy", "torch", "jax")):
        return None
    name = getattr(value, "__name__", None)
    for home in _NAMED_HOMES:
        if isinstance(name, str) and getattr(sys.modules.get(home), name, None) is value:
            return home
    return None
