"""Stored documents as values: their fixed order of keys, and how an update changes one. Pure; no store, no clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from contract.refusals import Refusal
from engine.doors.registry import Document

ENTITY_KEYS = (
    "id",
    "type",
    "subtype",
    "data",
    "metadata",
    "confidence",
    "weight",
    "service",
    "visibility",
    "createdAt",
    "updatedAt",
    "createdBy",
    "_rev",
)
RELATION_KEYS = (
    "id",
    "from",
    "to",
    "type",
    "subtype",
    "data",
    "metadata",
    "weight",
    "confidence",
    "evidence",
    "service",
    "visibility",
    "createdAt",
    "updatedAt",
    "_rev",
)
# What `unset` may take away from an entity beside metadata keys: everything that a stored record can be without.
UNSETTABLE = frozenset({"subtype", "data", "confidence", "weight", "service", "createdBy", "vector"})
_KEPT = (frozenset(ENTITY_KEYS) | {"noun"}) - UNSETTABLE
# The same of a relation; its weight is always there.
RELATION_UNSETTABLE = frozenset({"subtype", "data", "confidence", "evidence", "service"})
_RELATION_KEPT = (frozenset(RELATION_KEYS) | {"verb", "vector", "createdBy"}) - RELATION_UNSETTABLE


def ordered(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Document:
    """`fields` in the order of `keys`, without those that are None: an absent field is never stored as null."""
    assert fields.keys() <= set(keys), fields.keys() - set(keys)
    return {key: fields[key] for key in keys if fields.get(key) is not None}


def same(left: object, right: object) -> bool:
    """True when two JSON values are one: `1` is not `1.0` and not `true`; the order of an object's keys is nothing."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return repr(left) == repr(right)
    return left == right


def merged_metadata(
    old: Mapping[str, Any], given: Mapping[str, Any] | None, *, merge: bool, unset: Collection[str]
) -> Document:
    """The metadata after an update: merged one level deep, or replaced; then without the keys in `unset`.

    A null that the caller gave is stored as null. `unset` and `given` never name the same key (`checked_unset`).
    """
    found = {**old, **(given or {})} if merge or given is None else dict(given)
    return {key: value for key, value in found.items() if key not in unset}


def checked_unset(
    unset: Collection[str], fields: Collection[str], metadata: Mapping[str, Any] | None, *, relation: bool = False
) -> None:
    """Refuses an `unset` of what a record cannot be without, or of what the same call sets (`fields`, wire names)."""
    kept, unsettable = (_RELATION_KEPT, RELATION_UNSETTABLE) if relation else (_KEPT, UNSETTABLE)
    for key in unset:
        if key in kept:
            raise Refusal(
                "ValidationError",
                f'unset: the field "{key}" cannot be cleared.',
                cure=f"Clear a metadata key or one of {', '.join(sorted(unsettable))}.",
                details={"path": "unset", "value": key},
            )
        if key in fields or key in (metadata or {}):
            raise Refusal(
                "ValidationError",
                f'unset: "{key[:256]}" is set by the same call.',
                cure="Name it in one place: in `unset`, or with its new value.",
                details={"path": "unset", "value": key[:256]},
            )


def text_of_data(data: object) -> str | None:
    """What of `data` is searched and embedded: text that is not blank."""
    return data if isinstance(data, str) and data.strip() else None
