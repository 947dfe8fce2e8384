"""What JSON kinds each parameter of a door takes, read from its struct.

Pure; transports use it to read text as what it stands for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import inspect

from contract.vector import Vector


class Kind(StrEnum):
    """The kinds of a JSON value, as a refusal names them."""

    TEXT = "string"
    ARRAY = "array"
    OBJECT = "object"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"


EVERY = frozenset(Kind)
TEXT_ONLY = frozenset({Kind.TEXT})


class Field(msgspec.Struct, frozen=True):
    """One parameter: the kinds it takes beside null, and whether it must be given."""

    kinds: frozenset[Kind]
    required: bool

    @property
    def structured(self) -> str | None:
        """`array` or `object` when the field takes that and no text, else None."""
        if Kind.TEXT in self.kinds:
            return None
        names = [kind.value for kind in (Kind.ARRAY, Kind.OBJECT) if kind in self.kinds]
        return " or ".join(names) or None


@functools.cache
def fields_of(params: type[msgspec.Struct]) -> Mapping[str, Field]:
    """Every parameter by its wire name."""
    info = inspect.type_info(params)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: Field(kinds_of(field.type) - {Kind.NULL}, field.required) for field in info.fields}


def kinds_of(kind: inspect.Type) -> frozenset[Kind]:
    """The JSON kinds that a type takes; a type that is not known here takes every kind."""
    if isinstance(kind, inspect.Metadata):
        return kinds_of(kind.type)
    if isinstance(kind, inspect.UnionType):
        return frozenset().union(*(kinds_of(member) for member in kind.types))
    if isinstance(kind, inspect.LiteralType | inspect.EnumType):
        values = kind.values if isinstance(kind, inspect.LiteralType) else [member.value for member in kind.cls]
        return frozenset(Kind.TEXT if isinstance(value, str) else Kind.NUMBER for value in values)
    if isinstance(kind, inspect.CustomType):
        return frozenset({Kind.ARRAY}) if kind.cls is Vector else EVERY
    for types, found in _SIMPLE:
        if isinstance(kind, types):
            return frozenset({found})
    return EVERY


_SIMPLE: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((inspect.StrType, inspect.BytesType, inspect.DateTimeType), Kind.TEXT),
    ((inspect.IntType, inspect.FloatType), Kind.NUMBER),
    ((inspect.BoolType,), Kind.BOOLEAN),
    ((inspect.NoneType,), Kind.NULL),
    ((inspect.ListType, inspect.VarTupleType, inspect.TupleType, inspect.SetType, inspect.FrozenSetType), Kind.ARRAY),
    ((inspect.DictType, inspect.StructType, inspect.TypedDictType), Kind.OBJECT),
)
