"""One export: its header, and its records one after the other, chunk by chunk, each chunk on a view of its own."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from zlib import crc32

import numpy as np

from contract.doors.exchange import ExportParams
from engine.doors.registry import CallContext, Document
from engine.exchange import portable
from engine.exchange.selection import SYSTEM, Selected, Selector
from engine.records import Entity, Relation, Space
from engine.rows.guards import refuse_system
from engine.sqlite.rows import VISIBILITY_NUMBERS, encode_doc

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

ROWS_PER_CHUNK: Final = 256
ROWS_WITH_VECTOR_PER_CHUNK: Final = 64
"""A vector is some 8 KiB of JSON: a chunk stays below a megabyte."""
BASE64_STEP: Final = 3 * 64 * 1024


class Export:
    """The records of `params` at `generation`. Made by a pass over the brain; iterating it makes another one."""

    def __init__(self, store: Store, generation: int, params: ExportParams, call: CallContext) -> None:
        if params.include_system:
            refuse_system("system", call)
        self.params = params
        self.generation = generation
        self._store = store
        self._call = call
        self.selected: Selected = Selector(store, generation, params, call).select()
        with store.view(generation) as view:
            self.space = _space(view, call) if params.include_vectors else None

    def header(self) -> Document:
        """The first line of a portable export: what it is, what it holds, where it came from."""
        selected = self.selected
        at = datetime.fromtimestamp(self._call.now_ms / 1000, UTC).isoformat(timespec="milliseconds")
        header: Document = {
            "format": portable.FORMAT,
            "version": portable.VERSION,
            "generation": self.generation,
            "exportedAt": at.replace("+00:00", "Z"),
            "counts": {
                "entities": len(selected.iids),
                "relations": selected.relations,
                "blobs": len(selected.blobs),
            },
            "vectors": self.params.include_vectors,
            "model": None if self.space is None else self.space.model,
        }
        if self.space is not None:
            header |= {"dimensions": self.space.dimensions, "space": self.space.hash}
        return header | ({"missing": selected.missing} if selected.missing else {})

    def entities(self) -> Iterator[list[Document]]:
        """The entities in id order, in chunks; with `includeVectors` each has the bytes of its vector as `vector`."""
        size = ROWS_WITH_VECTOR_PER_CHUNK if self.space is not None else ROWS_PER_CHUNK
        after = ""
        while True:
            self._call.check()
            with self._store.view(self.generation) as view:
                rows = view.entities_by_id(after, size)
                kept = [row for row in rows if row.iid in self.selected.iids]
                docs = self._with_vectors(view, kept) if self.space is not None else [row.doc for row in kept]
            if not rows:
                return
            after = rows[-1].id
            if docs:
                yield docs

    def relations(self) -> Iterator[list[Document]]:
        """The relations between the entities in id order, in chunks."""
        after = ""
        while self.selected.relations:
            self._call.check()
            with self._store.view(self.generation) as view:
                rows = view.relations_by_id(after, ROWS_PER_CHUNK)
            if not rows:
                return
            after = rows[-1].id
            docs = [row.doc for row in rows if self._holds(row)]
            if docs:
                yield docs

    def _holds(self, row: Relation) -> bool:
        visible = VISIBILITY_NUMBERS[row.doc.get("visibility", "public")] != SYSTEM or self.params.include_system
        return visible and self.selected.joins(row.src, row.dst)

    def blobs(self) -> Iterator[tuple[Document, bytes]]:
        """What is said of each content, and its bytes, verified; by hash."""
        for sha256, blob in sorted(self.selected.blobs.items()):
            self._call.check()
            with self._store.view(self.generation) as view:
                data = view.blob(sha256)
            yield {"sha256": sha256, "size": blob.size, "mediaType": blob.media_type}, data

    def _with_vectors(self, view: View, rows: list[Entity]) -> list[Document]:
        """Documents with the vector of the export's space. Passages are made again from their text, so they stay."""
        assert self.space is not None
        vectors = view.vector_rows([row.cid for row in rows if row.cid])
        docs = []
        for row in rows:
            found = vectors.get(row.cid)
            mine = found is not None and found.alone and found.space == self.space.space
            docs.append({**row.doc, "vector": found.data} if mine and found is not None else row.doc)
        return docs


def _space(view: View, call: CallContext) -> Space | None:
    """The space whose vectors are exported: the model's when the brain has it, else the newest."""
    spaces = view.spaces()
    info = call.embedder_info
    if info is not None:
        own = [space for space in spaces if (space.model, space.hash) == (info.model, info.space_hash)]
        spaces = own or spaces
    return max(spaces, key=lambda space: space.space, default=None)


def entity_json(doc: Document) -> bytes:
    """A record as JSON; the bytes of a vector as the numbers they are."""
    vector = doc.get("vector")
    if not isinstance(vector, bytes):
        return encode_doc(doc)
    bare = encode_doc({key: value for key, value in doc.items() if key != "vector"})
    numbers = encode_doc(np.frombuffer(vector, dtype="<f4").astype(np.float64).tolist())
    return b'%b,"vector":%b}' % (bare[:-1], numbers)


def blob_json(head: Document, data: bytes) -> Iterator[bytes]:
    """A content as JSON, in pieces: all of it at once would be held three times."""
    yield encode_doc(head)[:-1] + b',"base64":"'
    for start in range(0, len(data), BASE64_STEP):
        yield base64.b64encode(data[start : start + BASE64_STEP])
    yield b'"}'


def blob_line(head: Document, data: bytes) -> Iterator[bytes]:
    """The line of a content, in pieces."""
    yield b'{"b":'
    crc = 0
    for piece in blob_json(head, data):
        crc = crc32(piece, crc)
        yield piece
    yield portable.line_end(crc)
