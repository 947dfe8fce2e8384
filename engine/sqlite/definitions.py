"""Definitions and rules as rows: aggregates, subtype rules, tracked fields, as they are and as they were."""

from typing import Final

from engine.records import FOREVER, Document
from engine.sqlite.rows import corrupt, decode_object, is_small_intact
from engine.sqlite.scope import Scope

AGGREGATE, SUBTYPE_RULE, TRACKED_FIELD = "aggregate", "subtype", "field"

COLUMNS: Final = "SELECT n,kind,name,g0,g1,doc,crc FROM definition "
_ALIVE: Final = COLUMNS + "WHERE kind=?1 AND g0<=?2 AND g1>?2 ORDER BY name"
_CURRENT: Final = COLUMNS + "WHERE kind=? AND name=? ORDER BY g0 DESC, n DESC LIMIT 1"


def address(kind: str, name: str, doc: bytes) -> bytes:
    """The bytes of a definition's row that its checksum covers beside its numbers."""
    return f"{kind}\0{name}\0".encode() + doc


def alive(scope: Scope, kind: str) -> dict[str, Document]:
    """See `View.definitions`."""
    if not exist(scope):
        return {}
    return {row[2]: document_of(row) for row in scope.rows(_ALIVE, (kind, scope.pin))}


def one(scope: Scope, kind: str, name: str) -> Document | None:
    """See `View.definition`."""
    if not exist(scope):
        return None
    found = scope.row(COLUMNS + "WHERE kind=?1 AND name=?2 AND g0<=?3 AND g1>?3", (kind, name, scope.pin))
    if found is None and not scope.live:
        found = scope.row(_CURRENT, (kind, name))
        found = found if found is not None and found[4] == FOREVER else None
    return None if found is None else document_of(found)


def named(scope: Scope, number: int) -> tuple[str, str] | None:
    """The kind and the name of a definition by its number."""
    row = scope.row(COLUMNS + "WHERE n=?", (number,))
    if row is None:
        return None
    document_of(row)
    return row[1], row[2]


def document_of(row: tuple[int, str, str, int, int, bytes, int]) -> Document:
    """The document of a row, checked."""
    number, kind, name, g0, g1, doc, crc = row
    try:
        intact = is_small_intact((number, g0, g1, 0), address(kind, name, doc), crc)
    except (TypeError, AttributeError):  # a damaged header gives a column another type
        intact = False
    if not intact:
        raise corrupt("definition", name, {"definition": number})
    return decode_object(doc)


def exist(scope: Scope) -> bool:
    """False in a store of format 1 that no writer has opened since: it is read as it is."""
    return scope.row("SELECT 1 FROM sqlite_schema WHERE name='definition'") is not None
