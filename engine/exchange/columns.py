"""The columns that a flat format needs before its first row: which metadata keys there are, and of which kind.

One more pass over the records. A key whose values are of several kinds, or are objects or lists, is written as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from contract.refusals import Refusal
from engine.doors.registry import Document
from engine.exchange.export import Export

METADATA_KEYS_MAX: Final = 1000
"""As many columns as the table reader takes."""

ENTITY_FIELDS: Final = (
    *("id", "type", "subtype", "data", "confidence", "weight", "service", "visibility", "createdBy"),
    *("createdAt", "updatedAt", "_rev"),
)
RELATION_FIELDS: Final = (
    *("id", "from", "to", "type", "subtype", "data", "weight", "confidence", "evidence", "service", "visibility"),
    *("createdAt", "updatedAt", "_rev"),
)
ENGINE_FIELDS: Final = frozenset({"createdAt", "updatedAt", "_rev"})


@dataclass(slots=True)
class Columns:
    """The metadata keys of the exported records, sorted, with the kind of each: boolean, long, double, string, json."""

    entities: dict[str, str] = field(default_factory=dict)
    relations: dict[str, str] = field(default_factory=dict)

    def keys(self) -> list[str]:
        """Every key once."""
        return sorted({*self.entities, *self.relations})


def columns_of(export: Export) -> Columns:
    """The columns of an export. AnswerTooLargeError for more keys than a table has columns."""
    columns = Columns()
    _gather(export.entities(), columns.entities)
    _gather(export.relations(), columns.relations)
    if len(columns.keys()) > METADATA_KEYS_MAX:
        raise Refusal(
            "AnswerTooLargeError",
            f"The records have {len(columns.keys())} metadata keys; a table has {METADATA_KEYS_MAX} columns at most.",
            cure="Export with the format `portable` or `json`, or fewer records.",
            details={"keys": len(columns.keys()), "keysMax": METADATA_KEYS_MAX},
        )
    return columns


def _gather(chunks: Iterator[list[Document]], kinds: dict[str, str]) -> None:
    for docs in chunks:
        for doc in docs:
            for key, value in doc.get("metadata", {}).items():
                kind, known = kind_of(value), kinds.get(key)
                kinds[key] = kind if known is None or known == kind else "json"


def kind_of(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """The kind of a value; a null is JSON."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if -(2**63) <= value < 2**63 else "json"
    if isinstance(value, float):
        return "double"
    return "string" if isinstance(value, str) else "json"
