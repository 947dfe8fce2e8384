"""A store of rows in memory that feeds an index the way a real one does: source, commits, files registered by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contract import where
from engine.filter import matches
from engine.index import Index
from engine.port import Applied, VectorRow, VersionRow
from engine.records import FOREVER, SegmentRow, Space, Watermarks


class RowStore:
    """Entities by id with their history; every method below is one commit. It is its own `IndexSource`."""

    def __init__(self, folder: Path, *, publishable: bool = True) -> None:
        self.segment_dir = folder
        self.publishable = publishable
        self.generation = 0
        self.marks = Watermarks()
        self.rows: list[VersionRow] = []
        self.texts: list[tuple[int, str | None]] = []
        self.vectors: list[VectorRow] = []
        self.segments: dict[str, SegmentRow] = {}
        self.current: dict[str, int] = {}  # id -> place in rows
        self.index: Index | None = None
        self.known_spaces = [Space(1, "test", 4, "t")]

    # -- IndexSource

    def spaces(self) -> list[Space]:
        return self.known_spaces

    def seg_rows(self) -> list[SegmentRow]:
        return list(self.segments.values())

    def versions_after(self, ver: int) -> Iterator[VersionRow]:
        return iter([row for row in self.rows if row.ver > ver])

    def deaths_after(self, generation: int) -> Iterator[tuple[int, int]]:
        return iter([(row.ver, row.g1) for row in self.rows if generation < row.g1 < FOREVER])

    @property
    def floor(self) -> int:
        return 0

    def current_versions(self) -> Iterator[int]:
        return iter([row.ver for row in self.rows if row.g1 == FOREVER])

    def contents_after(self, cid: int) -> Iterator[tuple[int, str | None]]:
        return iter([text for text in self.texts if text[0] > cid])

    def vectors_after(self, vid: int) -> Iterator[VectorRow]:
        return iter([row for row in self.vectors if row.vid > vid])

    def publish(self, add: Sequence[SegmentRow], drop: Sequence[str] = ()) -> None:
        for name in drop:
            self.segments.pop(name, None)
        self.segments.update((row.name, row) for row in add)

    # -- commits

    def open(self, *, background: bool = False) -> Index:
        """A fresh index over the rows and files that there are."""
        self.index = Index(background=background)
        self.index.load(self)
        return self.index

    def put(
        self, doc: Mapping[str, Any], text: str | None = None, vector: Sequence[float] | None = None, space: int = 1
    ) -> None:
        """Adds an entity, or gives it a new version (and a new content when a text or vector is given)."""
        self.commit([("put", dict(doc), text, vector, space)])

    def remove(self, entity_id: str) -> None:
        """Ends an entity."""
        self.commit([("remove", entity_id)])

    def commit(self, changes: Sequence[tuple[Any, ...]]) -> None:
        """Several changes as one generation."""
        self.generation += 1
        before = self.marks
        deaths: list[tuple[int, int]] = []
        for change in changes:
            if change[0] == "remove":
                deaths.append(self._end(self.current.pop(change[1])))
            else:
                self._put(*change[1:], deaths=deaths)
        applied = Applied(
            generation=self.generation,
            versions=[(r.ver, r.iid, r.cid, r.g0, r.doc) for r in self.rows if r.ver > before.ver],
            deaths=deaths,
            contents=[text for text in self.texts if text[0] > before.cid],
            vectors=[(row.cid, row.space, row.vector) for row in self.vectors if row.vid > before.vid],
            marks=self.marks,
        )
        if self.index is not None:
            self.index.apply(applied)

    def attach_vector(self, entity_id: str, vector: Sequence[float], space: int = 1) -> None:
        """A backfill: no generation."""
        before = self.marks
        self._vector(self.rows[self.current[entity_id]].cid, vector, space)
        arrived = [(row.cid, row.space, row.vector) for row in self.vectors if row.vid > before.vid]
        if self.index is not None:
            self.index.apply(Applied(self.generation, [], [], [], arrived, self.marks))

    def _put(
        self,
        doc: dict[str, Any],
        text: str | None,
        vector: Sequence[float] | None,
        space: int,
        deaths: list[tuple[int, int]],
    ) -> None:
        old = self.current.get(doc["id"])
        marks = self.marks
        iid, cid = marks.iid + 1, 0
        if old is not None:
            iid, cid = self.rows[old].iid, self.rows[old].cid
            deaths.append(self._end(old))
        fresh = text is not None or vector is not None
        if fresh:
            cid = marks.cid + 1
            self.texts.append((cid, text))
        self.marks = Watermarks(max(iid, marks.iid), marks.ver + 1, marks.cid + fresh, marks.vid, 0)
        if vector is not None:
            self._vector(cid, vector, space)
        self.rows.append(VersionRow(self.marks.ver, iid, cid, self.generation, FOREVER, doc))
        self.current[doc["id"]] = len(self.rows) - 1

    def _vector(self, cid: int, vector: Sequence[float], space: int) -> None:
        marks = self.marks
        self.marks = Watermarks(marks.iid, marks.ver, marks.cid, marks.vid + 1, 0)
        self.vectors.append(VectorRow(self.marks.vid, cid, space, np.asarray(vector, dtype="<f4").tobytes()))

    def _end(self, place: int) -> tuple[int, int]:
        row = self.rows[place]
        self.rows[place] = VersionRow(row.ver, row.iid, row.cid, row.g0, self.generation, row.doc)
        return row.ver, self.generation

    # -- the oracle

    def alive(self, generation: int) -> list[VersionRow]:
        """The rows alive at a generation, by scan."""
        return [row for row in self.rows if row.g0 <= generation < row.g1]

    def scan(self, tree: where.Node, generation: int) -> list[int]:
        """The versions that a filter selects, by evaluating every row."""
        return [
            row.ver
            for row in self.alive(generation)
            if row.doc.get("visibility", "public") == "public" and matches(tree, row.doc)
        ]


STATES: dict[str, Callable[[RowStore], Index]] = {}
"""Ways to have the same rows in an index: as they came, in segments in memory, in files of a reopened store."""


def _state(name: str) -> Callable[[Callable[[RowStore], Index]], Callable[[RowStore], Index]]:
    def keep(make: Callable[[RowStore], Index]) -> Callable[[RowStore], Index]:
        STATES[name] = make
        return make

    return keep


@_state("tail")
def in_the_tail(store: RowStore) -> Index:
    assert store.index is not None
    return store.index


@_state("memory")
def in_memory(store: RowStore) -> Index:
    assert store.index is not None
    store.index._seal(1)
    assert not store.index._state.documents.count
    return store.index


@_state("files")
def in_files(store: RowStore) -> Index:
    assert store.index is not None
    store.index.close()
    index = store.open()
    assert all(held.row is not None for held in index._state.fields)
    assert not index._state.documents.count
    return index


def document(entity_id: str, metadata: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A public entity document as the store keeps it."""
    doc = {"id": entity_id, "type": "thing", "metadata": dict(metadata or {}), "_rev": 1, **fields}
    return json.loads(json.dumps(doc))
