"""THE evaluator of `where`: what a filter means, decided once for scans, segments, library and server.

The syntax is `contract.where`'s; it has already refused unknown operators, operands of a wrong kind and too much depth.
Nothing here knows of an index. Segments call `value_test` on each distinct value of a field, which is why an indexed
answer cannot differ from a scanned one.

Rules worth knowing:

- A field is a standard field, or a path into `metadata`. A key spelled like the whole path wins; otherwise the path is
  read as a shorter key followed by a path below it, the shortest key first.
- `visibility` absent reads as "public", `_rev` absent as 1.
- Numbers compare as the numbers they are, integers and floats alike, exactly (9007199254740993 is not ...992). A
  boolean is never a number. Strings compare by code point. Nothing is coerced.
- A scalar operand of `equals`, `oneOf` also matches a list that has it as a member; a list or object operand means deep
  equality. Ordering and pattern operators look at the value itself, never into a list.
- Negations (`notEquals`, `noneOf`, `excludes`) are the exact complement of their positive, missing field included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

import re2

from contract.refusals import Refusal
from contract.where import STANDARD_FIELDS, AllOf, AnyOf, Node, Not, Pattern, Test

JsonValue: TypeAlias = Any
"""A decoded JSON value, or MISSING where it says so."""

Document = Mapping[str, JsonValue]
ValueTest = Callable[[JsonValue], bool]
Predicate = Callable[[Document], bool]


class Missing:
    """The type of `MISSING`: what a field that a document does not have reads as. Not null, which is a value."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

STANDARD_DEFAULTS: Final[Mapping[str, Any]] = {"visibility": "public", "_rev": 1}

_AUTHOR_PATH: Final = "createdBy."
"""`createdBy` is the one standard field that may be an object; paths below it are read there."""

NEGATIONS: Final[Mapping[str, str]] = {"notEquals": "equals", "noneOf": "oneOf", "excludes": "contains"}
"""Operators that are the complement of another."""

REGEX_MEMORY_BYTES = 2 * 1024 * 1024
"""Memory one compiled pattern may take; RE2 refuses to compile beyond it."""


def matches(tree: Node, document: Document) -> bool:
    """Tells whether a record satisfies a filter. `document` is the public entity document; its `metadata` may be
    absent.

    FilterTypeError when a `matches` pattern cannot be compiled. For many documents, use `predicate` once.
    """
    return predicate(tree)(document)


def predicate(tree: Node) -> Predicate:
    """Compiles a filter; the result is `matches` for that tree. Refuses as `matches` does, before any document is
    seen.
    """
    match tree:
        case AllOf(parts=parts):
            every = [predicate(part) for part in parts]
            return lambda document: all(test(document) for test in every)
        case AnyOf(parts=parts):
            some = [predicate(part) for part in parts]
            return lambda document: any(test(document) for test in some)
        case Not(part=part):
            inner = predicate(part)
            return lambda document: not inner(document)
        case Test(field=field, op=op, operand=operand):
            test_value = value_test(op, operand)
            return lambda document: test_value(field_value(document, field))
    raise AssertionError(f"not a filter tree: {tree!r}")


def field_value(document: Document, field: str) -> JsonValue:
    """Gives the value a filter sees under a field name, `MISSING` when the record has none."""
    if field in STANDARD_FIELDS:
        return document.get(field, STANDARD_DEFAULTS.get(field, MISSING))
    holder, path = document.get("metadata"), field
    if field.startswith(_AUTHOR_PATH):
        holder, path = document.get("createdBy"), field.removeprefix(_AUTHOR_PATH)
    return path_value(holder, path) if isinstance(holder, Mapping) else MISSING


def path_value(holder: Mapping[str, Any], path: str) -> JsonValue:
    """Gives the value under a dotted path by the one rule at the head of this module."""
    if path in holder:
        return holder[path]
    dot = path.find(".")
    while dot != -1:
        below = holder.get(path[:dot])
        if isinstance(below, Mapping):
            value = path_value(below, path[dot + 1 :])
            if value is not MISSING:
                return value
        dot = path.find(".", dot + 1)
    return MISSING


def fields_of(document: Document) -> dict[str, Any]:
    """Gives every field of a record with the value a filter sees: standard fields, and each path into its metadata, the
    paths of objects on the way included. `fields_of(d)[f]` is `field_value(d, f)`, and what it lacks is MISSING.
    """
    fields: dict[str, Any] = dict(STANDARD_DEFAULTS)
    fields.update((name, document[name]) for name in STANDARD_FIELDS if name in document)
    metadata, author = document.get("metadata"), document.get("createdBy")
    if isinstance(metadata, Mapping):
        _flatten(document, metadata, "", fields)
        for path in [path for path in fields if path.startswith(_AUTHOR_PATH)]:
            del fields[path]
    if isinstance(author, Mapping):
        _flatten(document, author, _AUTHOR_PATH, fields)
    return fields


def _flatten(document: Document, holder: Mapping[str, Any], prefix: str, fields: dict[str, Any]) -> None:
    for key, value in holder.items():
        path = prefix + key
        if path not in STANDARD_FIELDS:
            # Two spellings of one path are rare; the rule of `field_value` decides between them.
            fields[path] = field_value(document, path) if path in fields else value
        if isinstance(value, Mapping):
            _flatten(document, value, f"{path}.", fields)


def identity(value: JsonValue) -> Hashable:
    """Gives a key that two JSON values share exactly when `equals` holds between them as whole values."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, (list, tuple, Mapping)):
        return (list, canonical(value))
    key: Hashable = value
    return key


def canonical(value: JsonValue) -> str:
    """Gives the one JSON text of a value: keys sorted, numbers that are equal spelled alike."""
    return json.dumps(_normal(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _normal(value: JsonValue) -> JsonValue:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2.0**65:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _normal(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(item) for item in value]
    return value


def value_test(op: str, operand: JsonValue) -> ValueTest:
    """Gives the test that one operator with one operand is, over a field's value or MISSING.

    `op` is a canonical operator name of `contract.where`. FilterTypeError when a pattern cannot be compiled.
    """
    if op in NEGATIONS:
        positive = value_test(NEGATIONS[op], operand)
        return lambda value: not positive(value)
    return _MAKERS[op](operand)


def is_number(value: JsonValue) -> bool:
    """Tells whether a JSON value is a number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: JsonValue) -> bool:
    return isinstance(value, (list, tuple))


def _equals(operand: JsonValue) -> ValueTest:
    if operand is None:
        return lambda value: value is None or value is MISSING or (_is_list(value) and None in value)
    return _one_of([operand])


def _one_of(operand: Sequence[Any]) -> ValueTest:
    wanted = frozenset(identity(item) for item in operand)
    scalars = frozenset(identity(item) for item in operand if not isinstance(item, (list, tuple, Mapping)))

    def test(value: JsonValue) -> bool:
        if value is MISSING:
            return False
        if identity(value) in wanted:
            return True
        return _is_list(value) and any(identity(item) in scalars for item in value)

    return test


def _ordered(operand: JsonValue, compare: Callable[[Any, Any], bool]) -> ValueTest:
    if isinstance(operand, str):
        return lambda value: isinstance(value, str) and compare(value, operand)
    return lambda value: is_number(value) and compare(value, operand)


def _between(operand: Sequence[Any]) -> ValueTest:
    low, high = operand
    at_least = _ordered(low, lambda value, bound: bool(value >= bound))
    at_most = _ordered(high, lambda value, bound: bool(value <= bound))
    return lambda value: at_least(value) and at_most(value)


def _contains(operand: JsonValue) -> ValueTest:
    wanted = identity(operand)

    def test(value: JsonValue) -> bool:
        if _is_list(value):
            return any(identity(item) == wanted for item in value)
        return isinstance(value, str) and isinstance(operand, str) and operand in value

    return test


def _has_all(operand: Sequence[Any]) -> ValueTest:
    wanted = frozenset(identity(item) for item in operand)
    return lambda value: _is_list(value) and wanted <= {identity(item) for item in value}


def _exists(operand: bool) -> ValueTest:
    return lambda value: (value is not MISSING and value is not None) == operand


def _matches(operand: Pattern) -> ValueTest:
    search = compile_pattern(operand).search
    return lambda value: isinstance(value, str) and search(value) is not None


_MAKERS: Final[Mapping[str, Callable[[Any], ValueTest]]] = {
    "equals": _equals,
    "greaterThan": lambda operand: _ordered(operand, lambda value, bound: bool(value > bound)),
    "greaterEqual": lambda operand: _ordered(operand, lambda value, bound: bool(value >= bound)),
    "lessThan": lambda operand: _ordered(operand, lambda value, bound: bool(value < bound)),
    "lessEqual": lambda operand: _ordered(operand, lambda value, bound: bool(value <= bound)),
    "between": _between,
    "oneOf": _one_of,
    "contains": _contains,
    "hasAll": _has_all,
    "exists": _exists,
    "missing": lambda operand: _exists(not operand),
    "startsWith": lambda operand: lambda value: isinstance(value, str) and value.startswith(operand),
    "endsWith": lambda operand: lambda value: isinstance(value, str) and value.endswith(operand),
    "matches": _matches,
}


@lru_cache(maxsize=256)
def compile_pattern(asked: Pattern) -> re2._Regexp:
    """Compiles RE2 syntax. Linear time whatever the pattern and the text.

    FilterTypeError for a pattern that RE2 cannot read or cannot hold in its memory bound; look-around and
    back-references are named, because other languages have them.
    """
    options = re2.Options()
    options.max_mem = REGEX_MEMORY_BYTES
    options.log_errors = False
    options.case_sensitive = not asked.ignore_case
    try:
        return re2.compile(asked.pattern, options)
    except re2.error as error:
        shown = asked.pattern if len(asked.pattern) <= 200 else f"{asked.pattern[:200]}…"
        told = f'The pattern "{shown}" of `matches` cannot be used: {_pattern_fault(error)}.'
        raise Refusal("FilterTypeError", told, cure="Write the pattern in RE2 syntax.") from error


def _pattern_fault(error: Exception) -> str:
    told = error.args[0] if error.args else ""
    text = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
    if any(sign in text for sign in ("(?=", "(?!", "(?<")):
        return f"look-around is not served ({text})"
    if "invalid escape sequence" in text and text[-1:].isdigit():
        return f"a back-reference is not served ({text})"
    return text or "it cannot be compiled"
