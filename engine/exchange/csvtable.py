"""An export as one CSV table with a header: entities first, then relations, which have `from` and `to`.

A cell is the text of a value; an object, a list, a null, and a value of a key that holds several kinds is JSON. The
importer reads such a table back: a row with `from` and `to` is a relation. What a table cannot say (vectors, file
contents, that a number was `1.0`) stays behind: `portable` is the format that loses nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.doors.registry import Document
from engine.exchange.columns import ENTITY_FIELDS, RELATION_FIELDS, Columns
from engine.exchange.export import Export
from engine.sqlite.rows import encode_doc

FIELDS: Final = tuple(dict.fromkeys((*ENTITY_FIELDS[:3], "from", "to", *ENTITY_FIELDS[3:], *RELATION_FIELDS)))
METADATA_PREFIX: Final = "metadata."


def csv_pieces(export: Export, columns: Columns) -> Iterator[bytes]:
    """The table, a piece for each chunk of rows."""
    keys = columns.keys()
    lowered = {name.lower() for name in FIELDS}
    headers = [METADATA_PREFIX + key if _needs_prefix(key, lowered) else key for key in keys]
    yield _written([[*FIELDS, *headers]])
    for docs in export.entities():
        yield _written(_row(doc, keys, columns.entities) for doc in docs)
    for docs in export.relations():
        yield _written(_row(doc, keys, columns.relations) for doc in docs)


def _needs_prefix(key: str, lowered: set[str]) -> bool:
    """A key that a reader would take for a field, or would not see as it is."""
    return key.lower() in lowered or key.startswith(METADATA_PREFIX) or key != key.strip()


def _row(doc: Document, keys: list[str], kinds: Mapping[str, str]) -> list[str]:
    metadata = doc.get("metadata", {})
    cells = [_cell(doc[name], json=not isinstance(doc[name], str)) if name in doc else "" for name in FIELDS]
    cells += [_cell(metadata[key], json=kinds.get(key) == "json") if key in metadata else "" for key in keys]
    return cells


def _cell(value: Any, *, json: bool) -> str:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, str) and not json else encode_doc(value).decode()


def _written(rows: Any) -> bytes:  # noqa: ANN401 - rows of text
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
