"""The values that pass from a format's reader to the import door."""

from __future__ import annotations

from collections.abc import Iterator
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
    the caller's rules. `line` is 1-based; for a JSON array it is the item's place. `place` is where its source finds
    it again, `size` its bytes there. `blob` marks the content of a file, whose fields are what is said of it.
    """

    line: int
    fields: dict[str, Any]
    relation: bool = False
    exact: bool = False
    place: int = 0
    size: int = 0
    blob: bool = False


@dataclass(slots=True)
class Parsed:
    """What a reader found: rows in order, what it could not read, and of a portable export the header and the file
    contents by hash. Never partial in silence."""

    rows: list[Row] = field(default_factory=list)
    failures: list[ImportFailure] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    header: dict[str, Any] | None = None
    warnings: list[RowWarning] = field(default_factory=list)

    def __iter__(self) -> Iterator[Row | ImportFailure]:
        """What could not be read, then the rows in order."""
        yield from self.failures
        yield from self.rows

    def row_at(self, row: Row) -> Row:
        """The row at a place."""
        return self.rows[row.place]

    def blob(self, sha256: str) -> bytes | None:
        """The content under a hash, not yet checked against it."""
        return self.blobs.get(sha256)
