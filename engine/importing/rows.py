"""The values that pass from a format's reader to the import door."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RowWarning:
    """Something a reader left out or took in a documented way; nothing failed. `line` is 1-based."""

    name: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """One row that was not imported: where it stands (1-based) and the refusal's name and message."""

    line: int
    name: str
    message: str
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One record to import: the fields of an entity (`relation` False) or of a relation, as the caller wrote them.

    `exact` marks a row of a portable export: it carries engine fields (`createdAt`, `_rev`), which are kept out of
    the caller's rules. `line` is 1-based; for a JSON array it is the item's place.
    """

    line: int
    fields: dict[str, Any]
    relation: bool = False
    exact: bool = False


@dataclass(slots=True)
class Parsed:
    """What a reader found: rows in order, and what it could not read. Never partial in silence."""

    rows: list[Row] = field(default_factory=list)
    failures: list[ImportFailure] = field(default_factory=list)
    warnings: list[RowWarning] = field(default_factory=list)
