"""Which groups a record joins, and what it brings to each: pure functions of the definition and the record's document.

A record brings the same contribution to every group it joins: unnesting repeats the record, not its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from engine.aggregates.definition import (
    ENGINE_SUBTYPE_PREFIX,
    MATERIALIZED_SUBTYPE,
    MATERIALIZED_TYPE,
    Definition,
    GroupField,
    Slot,
    SlotKind,
    Source,
)
from engine.aggregates.exact import INTEGER_MAX, INTEGER_MIN, Number
from engine.aggregates.keys import group_key, number_key, value_identity
from engine.aggregates.windows import window_of
from engine.filter import MISSING, Predicate, field_value, is_number, predicate

Document: TypeAlias = Mapping[str, Any]

Part: TypeAlias = Number | bytes | None
"""What one slot takes from a record: a number to sum, the bytes of a value to count, 1 for a value that is there, or
None for nothing."""


class Joined(NamedTuple):
    """The groups of one record (distinct keys) and its contribution, one part a slot."""

    keys: tuple[bytes, ...]
    parts: tuple[Part, ...]


NOWHERE = Joined((), ())
"""What a record that takes no part joins; what an absent record joins."""

Join: TypeAlias = Callable[[Document], Joined]


def joiner(definition: Definition) -> Join:
    """The function from a record's public document to what it joins. Compile once, use for many records."""
    admits = admission(definition.source)
    readers = [_reader(slot) for slot in definition.slots]

    def join(document: Document) -> Joined:
        if not admits(document):
            return NOWHERE
        keys = _keys(definition.group_by, document)
        return Joined(keys, tuple(read(document) for read in readers)) if keys else NOWHERE

    return join


def admission(source: Source) -> Predicate:
    """The test of whether a record feeds the aggregate, by the three rules at the head of `definition.py`."""
    passes = (lambda _: True) if source.where is None else predicate(source.where)

    def admits(document: Document) -> bool:
        kind, subtype = document.get("type"), document.get("subtype")
        if source.types is not None and kind not in source.types:
            return False
        if source.subtypes is not None and subtype not in source.subtypes:
            return False
        if source.service is not None and document.get("service") != source.service:
            return False
        if subtype is not None and _is_the_engines(kind, subtype, source):
            return False
        if not source.chosen and document.get("visibility", "public") != "public":
            return False
        return passes(document)

    return admits


def _is_the_engines(kind: object, subtype: str, source: Source) -> bool:
    if subtype == MATERIALIZED_SUBTYPE and kind == MATERIALIZED_TYPE:
        return True
    named = source.subtypes is not None or source.chosen or source.files
    return subtype.startswith(ENGINE_SUBTYPE_PREFIX) and not named


def _keys(columns: tuple[GroupField, ...], document: Document) -> tuple[bytes, ...]:
    values: list[Any] = []
    unnested: tuple[int, list[Any]] | None = None
    for index, column in enumerate(columns):
        value = field_value(document, column.field)
        if column.unnest:
            if not isinstance(value, (list, tuple)) or not value:
                return ()
            unnested = (index, list(value))
        elif column.window is not None:
            value = window_of(column.window, value)
        elif value is MISSING:
            value = None
        values.append(value)
    if unnested is None:
        return (group_key(values),)
    index, elements = unnested
    # A dict keeps the first of equal elements, in their order: a repeated element joins its group once.
    return tuple({group_key([*values[:index], element, *values[index + 1 :]]): None for element in elements})


def _reader(slot: Slot) -> Callable[[Document], Part]:
    name = slot.field
    match slot.kind:
        case SlotKind.COUNT:
            return lambda document: 1 if _present(document, name) is not None else None
        case SlotKind.SUM | SlotKind.SQUARES:
            return lambda document: _number(document, name)
        case SlotKind.NUMBERS:

            def read(document: Document) -> Part:
                number = _number(document, name)
                return None if number is None else number_key(number)

            return read
        case SlotKind.IDENTITIES:

            def identify(document: Document) -> Part:
                value = _present(document, name)
                return None if value is None else value_identity(value)

            return identify


def _present(document: Document, name: str) -> object:
    value = field_value(document, name)
    return None if value is MISSING else value


def _number(document: Document, name: str) -> Number | None:
    value = field_value(document, name)
    if not is_number(value):
        return None
    assert isinstance(value, float) or INTEGER_MIN <= value <= INTEGER_MAX, (
        "a document holds integers of 65 bits at most"
    )
    number: Number = value
    return number
