"""What a hidden test sees in place of the candidate's modules and objects.

Explicit uses (attribute, call, item, len, iteration, copies, ``with``, isinstance) become requests. Every implicit
operation raises: a proxy is equal to nothing, true of nothing, no number and no array, so that no operator of the
candidate can answer for a value. This file also runs inside sandboxes: standard library only.
"""

import functools
import importlib.abc
import importlib.util
import types
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from rcb_agent.scoring.form import Names, Trace, form_of, kind_of
from rcb_agent.scoring.trusted_declared import find_trusted
from rcb_agent.scoring.trusted_errors import RemoteError
from rcb_agent.scoring.trusted_session import Request, Session

_PLAIN_DUNDERS = ("__name__", "__qualname__")


class Proxy:
    """An object of the candidate. ``handle_of`` is how T itself recognises one."""

    __slots__ = ("__weakref__", "_label", "_made_with", "_number", "_owner", "_session")

    def __init__(self, session: Session, number: int, label: str) -> None:
        object.__setattr__(self, "_session", session)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_label", label)
        object.__setattr__(self, "_made_with", None)  # what is not there would be asked of the candidate
        object.__setattr__(self, "_owner", None)

    def handle_of(self) -> int:
        """Return the candidate's number of this object."""
        return self._number  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _PLAIN_DUNDERS:
            raise AttributeError(name)
        label = _join(self._label, name)
        if f"{label}()" in self._session.adapter.weights:
            return functools.partial(_give_weights, self, f"{label}()")
        value = _ask(self, "get", label, name=name)
        if isinstance(value, CallableProxy) and value is not self:
            _keep_owner(value, self)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "set", _join(self._label, name), name=name, arguments=(value,))

    def __delattr__(self, name: str) -> None:
        _ask(self, "delete", _join(self._label, name), name=name)

    def __len__(self) -> int:
        length: int = _ask(self, "length", f"{self._label}.len")
        if type(length) is not int or length < 0:
            raise RemoteError("the candidate's object has no length")
        return length

    def __iter__(self) -> Iterator[Any]:
        items = _ask(self, "iterate", f"{self._label}[]")
        if type(items) is not list:
            raise RemoteError("the candidate's object cannot be iterated")
        return iter(items)

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "item", f"{self._label}[]", arguments=(key,))

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "set_item", f"{self._label}[]", arguments=(key, value))

    def __copy__(self) -> Any:
        return _ask(self, "copy", self._label)

    def __deepcopy__(self, _: dict[int, Any]) -> Any:
        return _ask(self, "deepcopy", self._label)

    def __enter__(self) -> Any:
        return _ask(self, "enter", self._label)

    def __exit__(self, *_: object) -> None:
        _ask(self, "leave", self._label)

    def __instancecheck__(self, value: Any) -> bool:
        if not isinstance(value, Proxy):
            return False
        answer = _ask(self, "is_instance", f"{self._label}.isinstance", arguments=(value,))
        return answer is True

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        raise RemoteError("a test cannot derive a class from the candidate's")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "<candidate object>"

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return "<candidate object>"


class CallableProxy(Proxy):
    """A function, class, bound method or other callable of the candidate."""

    __slots__ = ()

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it in C."""
        value = _ask(self, "call", f"{self._label}()", arguments=arguments, keywords=keywords)
        if isinstance(value, Proxy) and self._session.adapter.weights and value._made_with is None:  # noqa: SLF001
            object.__setattr__(
                value, "_made_with", (arguments, keywords)
            )  # a later call may answer with the same object
        return value


def _keep_owner(method: CallableProxy, owner: Proxy) -> None:
    """Let an object live as long as what was got of it: ``Net().to(device)`` is the object that ``Net()`` made, by its label."""
    if method._owner is None:  # noqa: SLF001 (the functions of this file are part of the class)
        object.__setattr__(method, "_owner", owner)


def _refuse(*_: Any, **__: Any) -> Any:
    raise RemoteError("the test used an object of the candidate where it needs a plain value")


_IMPLICIT = (
    "eq ne lt le gt ge bool contains int float complex index round trunc floor ceil neg pos abs invert bytes fspath "
    "add radd iadd sub rsub isub mul rmul imul matmul rmatmul imatmul truediv rtruediv itruediv floordiv rfloordiv "
    "ifloordiv mod rmod imod divmod rdivmod pow rpow ipow lshift rlshift rshift rrshift and rand iand or ror ior xor "
    "rxor ixor array array_ufunc array_function torch_function next reversed subclasscheck reduce reduce_ex"
)
for _name in _IMPLICIT.split():
    setattr(Proxy, f"__{_name}__", _refuse)


def _ask(proxy: Proxy, operation: str, label: str, **parts: Any) -> Any:
    session: Session = proxy._session  # noqa: SLF001 (the functions of this file are part of the class)
    trace = session.trace
    try:
        value = _ask_untraced(proxy, operation, label, wanted=trace.wanted(label), **parts)
    except Exception:
        trace.note_error(label)
        raise
    test, place = trace.current, trace.position
    trace.note(label, value)
    return session.kept.settle(test, place, label, value)


def _ask_untraced(proxy: Proxy, operation: str, label: str, **parts: Any) -> Any:
    session: Session = proxy._session  # noqa: SLF001
    return session.ask(Request(operation, proxy._number, label=label, **parts))  # noqa: SLF001


def _give_weights(proxy: Proxy, label: str) -> Any:
    """Return the weights of a reference that is made here as the candidate's object was, and give them to that object.

    The trace says that it was so: where a candidate's object goes by another label, the form differs.
    """
    session: Session = proxy._session  # noqa: SLF001
    if proxy._made_with is None:  # noqa: SLF001
        raise RemoteError("the test takes weights of an object that it did not make by a call")
    arguments, keywords = proxy._made_with  # noqa: SLF001
    weights = find_trusted(session.adapter.weights[label])(*arguments, **keywords).state_dict()
    load = _ask_untraced(proxy, "get", label, name="load_state_dict")
    if not isinstance(load, Proxy):
        raise RemoteError("the candidate's object takes no weights")
    _ask_untraced(load, "call", label, arguments=(dict(weights),))
    session.trace.note_weights(label)
    return weights


def _join(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name


class StarImports:
    """What ``from module import *`` plants in a test: the names of the gold's own run and no others.

    A candidate that could add names would replace the test's ``all`` or its reference. What it has beside the gold's
    is left out in silence, because helpers are honest; the forms of what is taken are kept for the judge. ``allowed``
    None means the gold's run.
    """

    def __init__(self, trace: Trace, allowed: Names | None) -> None:
        self.taken: dict[str, list[list[str]]] = {}
        self._trace = trace
        self._allowed = allowed

    def admit(self, module: str, offered: Any) -> set[str]:
        """Return which of the names that a module offers may be taken."""
        if type(offered) is not list or not all(type(name) is str for name in offered):
            raise RemoteError("the candidate's module has no names")
        return set(offered) if self._allowed is None else set(offered) & set(self._allowed.get(module, ()))

    def wanted(self, module: str, name: str) -> str:
        """Say as what the gold's name crossed."""
        return kind_of((self._allowed or {}).get(module, {}).get(name))

    def note(self, module: str, name: str, value: Any) -> None:
        """Keep the form of what was taken."""
        self.taken.setdefault(module, []).append([name, self._trace.write(form_of(value))])
        self._trace.on_entry(f"from {module} import {name}", f"{module}.{name}", value)


class ModuleProxy(types.ModuleType):
    """One of the candidate's modules. Its attributes are the candidate's, except those imports need."""

    def __init__(self, name: str, stars: StarImports) -> None:
        super().__init__(name)
        self.__dict__["_proxy"] = None
        self.__dict__["_stars"] = stars
        self.__dict__["_starred"] = set()

    def handle_of(self) -> int:
        """Return the candidate's number of the module."""
        number: int = self.__dict__["_proxy"].handle_of()
        return number

    def __getattr__(self, name: str) -> Any:
        proxy, starred = self.__dict__["_proxy"], self.__dict__["_starred"]
        if name == "__all__":  # "from module import *" takes names no test may look at: the trace has none of them
            starred.update(self.__dict__["_stars"].admit(self.__name__, _ask_untraced(proxy, "names", "")))
            return sorted(starred)
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if (path := proxy._session.adapter.plain.get(f"{self.__name__}.{name}")) is not None:  # noqa: SLF001
            starred.discard(name)
            return find_trusted(path)
        if name in starred:
            starred.remove(name)
            wanted = self.__dict__["_stars"].wanted(self.__name__, name)
            value = _ask_untraced(proxy, "get", name, name=name, wanted=wanted)
            self.__dict__["_stars"].note(self.__name__, name, value)
            return value
        return getattr(proxy, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):  # the import system's own attributes
            super().__setattr__(name, value)
        else:
            setattr(self.__dict__["_proxy"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_proxy"], name)


class CandidateModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules that live in C; everything else is T's own."""

    def __init__(self, session: Session, names: Sequence[str], stars: StarImports) -> None:
        self._session = session
        self._names = frozenset(names)
        self._stars = stars
        session.make_proxy = lambda number, is_callable, label: (CallableProxy if is_callable else Proxy)(
            session, number, label
        )

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec for a candidate's module, or for a package that exists only because of one."""
        if fullname in self._names:
            spec = ModuleSpec(fullname, self, is_package=True)  # T may hold other modules of the same package
            folder = Path.cwd().joinpath(*fullname.split("."))
            spec.submodule_search_locations = [str(folder)] if folder.is_dir() else []
            return spec
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return the stand-in of a candidate's module."""
        return ModuleProxy(spec.name, self._stars)

    def exec_module(self, module: types.ModuleType) -> None:
        """Import the module in C, now."""
        name = module.__name__
        try:
            proxy = self._session.ask(Request("import", name=name))
        except Exception as error:
            self._session.import_failure = self._session.import_failure or f"{name}: {type(error).__name__}: {error}"
            raise
        if not isinstance(proxy, Proxy):
            raise RemoteError("the candidate's process answered an import with a value")
        module.__dict__["_proxy"] = proxy


class MissingPackages(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages around a candidate's module (``src`` of ``src.model``) that T has no files for.

    Asked last, so that a package T does have files for is T's own.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._packages = {name.rsplit(".", count)[0] for name in names for count in range(1, name.count(".") + 1)}

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an empty package."""
        return ModuleSpec(fullname, self, is_package=True) if fullname in self._packages else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system make an ordinary module."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Leave the package empty."""
