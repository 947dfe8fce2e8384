"""An export as bytes, piece by piece: the portable lines, one JSON document, a CSV table, GraphML."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engine.exchange import portable
from engine.exchange.columns import columns_of
from engine.exchange.csvtable import csv_pieces
from engine.exchange.export import Export, blob_json, blob_line, entity_json
from engine.exchange.graphml import graphml_pieces
from engine.sqlite.rows import encode_doc


class Written(NamedTuple):
    """A format: the media type of its bytes, and how they are made."""

    media_type: str
    pieces: Callable[[Export], Iterator[bytes]]


def portable_pieces(export: Export) -> Iterator[bytes]:
    """The lines of a portable export; the last one vouches for all others."""
    digest = hashlib.sha256()
    for piece in _portable_body(export):
        digest.update(piece)
        yield piece
    yield portable.trailer(digest.hexdigest())


def _portable_body(export: Export) -> Iterator[bytes]:
    yield encode_doc(export.header()) + b"\n"
    for docs in export.entities():
        yield b"".join(portable.line("e", entity_json(doc)) for doc in docs)
    for docs in export.relations():
        yield b"".join(portable.line("r", encode_doc(doc)) for doc in docs)
    for head, data in export.blobs():
        yield from blob_line(head, data)


def json_pieces(export: Export) -> Iterator[bytes]:
    """One document `{header, entities, relations, blobs}`, a record a line."""
    yield b'{"header":' + encode_doc(export.header()) + b',\n"entities":['
    yield from _listed(entity_json(doc) for docs in export.entities() for doc in docs)
    yield b'],\n"relations":['
    yield from _listed(encode_doc(doc) for docs in export.relations() for doc in docs)
    yield b'],\n"blobs":['
    comma = b"\n"
    for head, data in export.blobs():
        yield comma
        yield from blob_json(head, data)
        comma = b",\n"
    yield b"]}\n"


def _listed(items: Iterator[bytes]) -> Iterator[bytes]:
    comma = b"\n"
    for item in items:
        yield comma + item
        comma = b",\n"


FORMATS: Final[dict[str, Written]] = {
    "portable": Written("application/jsonl", portable_pieces),
    "json": Written("application/json", json_pieces),
    "csv": Written("text/csv; charset=utf-8; header=present", lambda export: csv_pieces(export, columns_of(export))),
    "graphml": Written("application/xml; charset=utf-8", lambda export: graphml_pieces(export, columns_of(export))),
}
