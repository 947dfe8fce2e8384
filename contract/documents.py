"""What a document may hold, asked quickly for a yes or no, and slowly for the place and reason of a fault."""

import math
from typing import Any, NamedTuple

from contract.limits import NESTING_DEPTH_MAX
from contract.vector import Vector

PathStep = str | int

INT_MIN = -(2**63)
INT_MAX = 2**64 - 1
_SCALARS = frozenset({bool, type(None), Vector})
_CONTAINERS = frozenset({dict, list})


class Fault(NamedTuple):
    """Where a document breaks the rules, and how (`reason` continues the sentence "the value at …")."""

    path: tuple[PathStep, ...]
    reason: str


def path_text(path: tuple[PathStep, ...]) -> str:
    """The path as refusals print it: `$` is the document, `.name` a member, `[0]` an item.

    >>> path_text(("items", 3, "id"))
    'items[3].id'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if len(step) <= 64 else step[:64] + "…"
            text += f".{name}" if text else name
    return text or "$"


def is_clean(value: object, depth: int = 0) -> bool:
    """Whether `value` and everything below it may stand in a document. One pass; lists of one type take a short cut."""
    kind = type(value)
    if kind is str:
        return _text_is_clean(value)  # type: ignore[arg-type]  # the type was just asked
    if kind is dict:
        if depth >= NESTING_DEPTH_MAX:
            return False
        for key, item in value.items():  # type: ignore[attr-defined]  # a dict by the line above
            if type(key) is not str or not _text_is_clean(key) or not is_clean(item, depth + 1):
                return False
        return True
    if kind is list:
        return depth < NESTING_DEPTH_MAX and _list_is_clean(value, depth + 1)  # type: ignore[arg-type]  # a list by the line above
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]  # a float by the line above
    if kind is int:
        return INT_MIN <= value <= INT_MAX  # type: ignore[operator]  # an int by the line above
    return kind in _SCALARS


def _list_is_clean(items: list[object], depth: int) -> bool:
    kinds = set(map(type, items))
    if kinds == {float}:
        # A sum is finite only when all parts are; an overflowing sum of finite parts is looked at again.
        return math.isfinite(sum(items)) or all(map(math.isfinite, items))  # type: ignore[arg-type]  # floats only
    if kinds == {int}:
        return min(items) >= INT_MIN and max(items) <= INT_MAX  # type: ignore[type-var,operator]  # ints only
    return all(is_clean(item, depth) for item in items)


def _text_is_clean(text: str) -> bool:
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def key_count(value: object) -> int:
    """How many members all objects of the document have together."""
    kind = type(value)
    if kind is dict:
        below = [item for item in value.values() if type(item) in _CONTAINERS]  # type: ignore[attr-defined]  # a dict
        return len(value) + sum(map(key_count, below))  # type: ignore[arg-type]  # a dict
    if kind is list and not _CONTAINERS.isdisjoint(map(type, value)):  # type: ignore[call-overload]  # a list
        return sum(map(key_count, value))  # type: ignore[call-overload]  # a list
    return 0


def colon_count(value: Any) -> int:  # noqa: ANN401 - any document
    """How many colons all text of the document has, keys included."""
    kind = type(value)
    if kind is str:
        return int(value.count(":"))
    if kind is dict:
        return "".join(value).count(":") + sum(map(colon_count, value.values()))
    if kind is list:
        # Joining costs a copy and saves a call for each item.
        return "".join(value).count(":") if set(map(type, value)) == {str} else sum(map(colon_count, value))
    return 0


def locate(document: object) -> Fault | None:
    """The first fault in document order, or None for a clean document. Slow; for the refusal's text only."""
    stack: list[tuple[tuple[PathStep, ...], object]] = [((), document)]
    while stack:
        path, value = stack.pop()
        if (reason := _reason(value, len(path))) is not None:
            return Fault(path, reason)
        if isinstance(value, dict):
            for key in value:
                if type(key) is not str:
                    return Fault(path, f"has a key that is no text, {key!r:.64}")
                if not _text_is_clean(key):
                    return Fault(
                        (*path, key.encode("utf-8", "replace").decode().replace("\0", "\\u0000")),
                        "has NUL or a lone surrogate in its key",
                    )
            stack.extend(((*path, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in reversed(list(enumerate(value))))
    return None


def _reason(value: object, depth: int) -> str | None:
    kind = type(value)
    if kind in _CONTAINERS:
        return f"nests deeper than {NESTING_DEPTH_MAX} levels" if depth >= NESTING_DEPTH_MAX else None
    if kind is str:
        assert isinstance(value, str)
        if "\0" in value:
            return "holds a NUL character"
        return None if _text_is_clean(value) else "holds a lone surrogate"
    if kind is float:
        assert isinstance(value, float)
        return None if math.isfinite(value) else f"is {value}, which no document can hold"
    if kind is int:
        assert isinstance(value, int)
        return None if INT_MIN <= value <= INT_MAX else f"is an integer outside -2^63..2^64-1: {str(value)[:64]}"
    return None if kind in _SCALARS else f"is a {kind.__name__}, which no document can hold"
