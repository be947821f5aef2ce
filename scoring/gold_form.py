"""Which forms agree with the gold's, and what is kept of the gold's forms.

Where the gold has a float, any real number agrees but NaN and the infinities; in the place of an array of fractions one of a dtype of
ints does not. Where the gold has an int or bool, a number of exactly that value does, be it a float or a bool.
Everything else is equal, inside containers as well. A long form is kept as its skeleton, in which ints and strings are
left open, and a hash of them in order; the seen form's are hashed where the skeleton leaves them open. Only a skeleton that is long itself is replaced by a strict hash.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rcb_agent.scoring.form import INFINITE, NAN, Crossings, Entries, Names, hash_form, hash_text, join_runs, settle

Taken = list[list[str]]

_SHORT, _LONG, _EXCERPT = 400, 20_000, 160


def stable_part(first: Entries, second: Entries) -> dict[str, Crossings | None]:
    """Return what two runs of the same code have in common; None stands where they differ.

    What differs (an id, a time, the order of a set) depends on the run and says nothing about a candidate.
    """
    return {test: _stable_entries(first.get(test), second.get(test)) for test in {**first, **second}}


def _stable_entries(first: Crossings | None, second: Crossings | None) -> Crossings | None:
    if not first or not second or [label for label, _ in first] != [label for label, _ in second]:
        return None
    pairs = zip(first, second, strict=True)
    return [[label, _stable_form(form, other)] for (label, form), (_, other) in pairs]


def _stable_form(text: str | None, other: str | None) -> str | None:
    if text is None or other is None:
        return None
    form = settle(json.loads(text))
    return json.dumps(_shorten(form)) if form == settle(json.loads(other)) else None


def first_difference(gold: Entries, seen: Entries) -> str:
    """Say where a trace leaves the gold's, or return ""."""
    for test in [*gold, *(test for test in seen if test not in gold)]:
        expected, actual = gold.get(test, []), seen.get(test) or []
        difference = "" if expected is None else _difference(expected, actual)
        if difference:
            return f"{test}: {difference}" if test else difference
    return ""


def _difference(expected: Crossings, actual: Crossings) -> str:
    for (label, form), (other_label, other_form) in zip(expected, actual, strict=False):
        if label != other_label:
            return f"{other_label} was used where the gold code's {label} was"
        if not agrees(form, other_form):
            return f"{label} gave {str(other_form)[:_EXCERPT]}, the gold code {str(form)[:_EXCERPT]}"
    if len(expected) != len(actual):
        return f"{len(actual)} values were exchanged, {len(expected)} with the gold code"
    return ""


def stable_names(first: Mapping[str, Taken], second: Mapping[str, Taken]) -> Names:
    """Return the names that the gold's star imports took, by module, with the form of each where it is stable."""
    kept: dict[str, dict[str, str | None]] = {}
    for module, taken in [*first.items(), *second.items()]:
        names = kept.setdefault(module, {})
        for name, text in taken:
            known = names.get(name, text)
            names[name] = None if known is None else _stable_form(text, known)
    return kept


def first_changed_name(gold: Names, seen: Mapping[str, Taken]) -> str:
    """Say which name of a star import has another form than the gold's, or return ""; a name may be missing."""
    for module, taken in seen.items():
        for name, text in taken:
            expected = gold.get(module, {}).get(name)
            if not agrees(expected, text):
                return f"{module}.{name} is {text[:_EXCERPT]}, with the gold code {str(expected)[:_EXCERPT]}"
    return ""


def agrees(gold: str | None, seen: str | None) -> bool:
    """Say whether a form agrees with the gold's, both as text; with None, anything does."""
    if gold is None or gold == seen:
        return True
    return seen is not None and _agree(json.loads(gold), json.loads(seen), [])


def _agree(gold: Any, seen: Any, exact: list[Any]) -> bool:
    """Compare two forms; values that the gold's leaves open are collected."""
    if gold == seen:
        return True
    if type(gold) is int:
        return bool(gold == _integral(seen))
    if type(gold) is not dict:
        return False
    for tag, rule in _RULES.items():
        if tag in gold:
            return bool(rule(gold, seen, exact))
    return False


def _agree_open(gold: Any, seen: Any, exact: list[Any]) -> bool:
    value = seen if gold["open"] == "str" else _integral(seen)
    exact.append(value)
    return type(value) is (str if gold["open"] == "str" else int)


def _agree_like(gold: Any, seen: Any, _: list[Any]) -> bool:
    exact: list[Any] = []
    return _agree(gold["like"], seen, exact) and gold["exact"] == hash_text(json.dumps(exact))


def _agree_inside(gold: Any, seen: Any, exact: list[Any]) -> bool:
    tag = next(iter(gold))
    return type(seen) is dict and tag in seen and _agree(gold[tag], seen[tag], exact)


def _agree_items(gold: Any, seen: Any, exact: list[Any]) -> bool:
    if type(seen) is not dict or "items" not in seen or _length(gold) != _length(seen):
        return False
    pairs = zip(_items(gold), _items(seen), strict=True)
    return all(_agree(item, other, exact) for item, other in pairs)


def _agree_float(gold: Any, seen: Any, _: list[Any]) -> bool:
    return type(seen) is int or (type(seen) is dict and "float" in seen and _agree_marks(gold, seen))


def _agree_marks(gold: Any, seen: Any) -> bool:
    """NaN, or an infinity, is wrong where the gold has none; where it has one, the test and the values say what is right."""
    return all(mark in gold or mark not in seen for mark in (NAN, INFINITE))


def _agree_array(gold: Any, seen: Any, _: list[Any]) -> bool:
    if type(seen) is not dict or "array" not in seen or seen["shape"] != gold["shape"]:
        return False
    is_complex = [form["array"] == "complex" for form in (gold, seen)]
    is_rounded = gold["array"] == "fraction" and seen["array"] == "int"
    return is_complex[0] == is_complex[1] and not is_rounded and _agree_marks(gold, seen)


def _agree_marked(gold: Any, seen: Any, _: list[Any]) -> bool:
    """Compare what is equal but for the marks of NaN and infinity."""
    forms = [form for form in (gold, seen) if type(form) is dict]
    plain = [{tag: part for tag, part in form.items() if tag not in (NAN, INFINITE)} for form in forms]
    return len(plain) == len((gold, seen)) and plain[0] == plain[1] and _agree_marks(gold, seen)


_RULES: Mapping[str, Callable[[Any, Any, list[Any]], Any]] = {
    "open": _agree_open,
    "like": _agree_like,
    "float": _agree_float,
    "array": _agree_array,
    "tensor": _agree_marked,
    "number": _agree_marked,
    "hash": lambda gold, seen, _: gold["hash"] == hash_form(seen),
    "items": _agree_items,
    "dict": _agree_inside,
    "set": _agree_inside,
}


def _integral(form: Any) -> Any:
    return form.get("float") if type(form) is dict else form if type(form) is int else None


def _length(form: Any) -> int:
    return sum(count for _, count in form["items"])


def _items(form: Any) -> Iterator[Any]:
    for item, count in form["items"]:
        for _ in range(count):
            yield item


def _shorten(form: Any) -> Any:
    """Return what is kept of a settled form."""
    if len(json.dumps(form)) <= _SHORT:
        return form
    exact: list[Any] = []
    skeleton = _skeleton(form, exact)
    if len(json.dumps(skeleton)) > _LONG:
        return {"hash": hash_form(form)}
    return {"like": skeleton, "exact": hash_text(json.dumps(exact))}


def _skeleton(form: Any, exact: list[Any]) -> Any:
    """Return a form with its ints and strings left open; they are collected in order."""
    if type(form) in (int, str):
        exact.append(form)
        return {"open": type(form).__name__}
    if type(form) is dict and "items" in form:
        return {"items": join_runs(_skeleton_runs(form, exact))}
    if type(form) is dict and ("dict" in form or "set" in form):
        return {tag: _skeleton(part, exact) for tag, part in form.items()}
    return form


def _skeleton_runs(form: Any, exact: list[Any]) -> Iterator[tuple[Any, int]]:
    for item, count in form["items"]:
        own: list[Any] = []
        skeleton = _skeleton(item, own)
        exact.extend(own * count)
        yield skeleton, count
