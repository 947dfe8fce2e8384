"""The derived index of one open brain: fed by every commit, pinned by every read, sealed and merged behind both.

`apply` only appends. An indexer thread, started when there is work and ended when there is none, turns tails into
segments, merges them, and writes runs of them to files that the store registers (`IndexSource.publish`). Whatever is
not sealed yet is evaluated row by row, so an answer is exact at every moment. A file that is lost or damaged is
built again from the rows of the store.

Locks: `_lock` guards the current state and the growing columns and is held for microseconds; `_work` lets one thread
seal and merge at a time. Nothing calls the store under `_lock`, because the writer holds the store when it comes to
`apply`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contract.refusals import Refusal
from engine.disk import Disk
from engine.index_columns import Growing
from engine.index_files import Files, Stored
from engine.index_state import Held, State, Tail, TextEntry, next_lo
from engine.index_view import IndexView
from engine.port import Applied, IndexSource
from engine.records import SegmentRow
from engine.segments import levels
from engine.segments.fields import FieldSegment
from engine.segments.spaces import GrowingSpace
from engine.segments.text import TextSegment
from engine.segments.vectors import VectorSegment
from engine.versions import AliveSets, flags_of

SEAL_ROWS_MIN: Final = 128
"""Rows in a tail from which it is sealed: so many cost a read about half a millisecond to evaluate one by one."""

SEAL_ROWS_MAX: Final = 4096
"""Rows sealed at a time, and rows in memory from which they are written to a file: a kill replays about so many."""


class Index:
    """The index of one store. `load` first, then `apply` on the writer's thread, `view` on any."""

    def __init__(self, disk: Disk | None = None, *, background: bool = True) -> None:
        """With `background` False nothing is sealed until `settle` or `flush` is called (tests, bulk work)."""
        self._disk = disk if disk is not None else Disk()
        self._background = background
        self._lock = threading.Lock()
        self._work = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._loaded = False
        self._columns = Growing()
        self._alive = AliveSets(self._columns.table)
        self._files: Files | None = None
        self._state = State(
            0, self._columns.table.snapshot(), (), (), (), Tail.empty(0), Tail.empty(0), 0, {}, self._columns.has_text
        )
        self.faults: list[str] = []

    # -- the store's side

    def load(self, source: IndexSource) -> None:
        """Maps the registered segments and takes every row that none of them covers. Opening costs nothing that grows
        with the mapped rows but the copy of 25 bytes a version; a row that is replayed costs about 0.1 ms.
        """
        self._files = Files(self._disk, source)
        stored = self._files.open_all()
        self.faults += stored.faults
        with self._lock:
            self._load_versions(source, stored)
            self._load_texts(source, stored)
            self._load_vectors(source, stored)
            marks = source.marks
            state = self._state
            self._state = replace(
                state,
                generation=source.generation,
                versions=self._columns.table.snapshot(),
                documents=state.documents.grown([], marks.ver),
                entries=state.entries.grown([], marks.cid),
                vector_hi=max(marks.vid, state.vector_hi),
                spaces=self._columns.space_rows(),
                has_text=self._columns.has_text,
            )
            self._loaded = True
        self._wake()

    def _load_versions(self, source: IndexSource, stored: Stored) -> None:
        self._columns.table.expect(source.marks.ver)
        held: tuple[Held[FieldSegment], ...] = ()
        for file in stored.fields:
            self._columns.table.extend(file.held.segment.lo, file.versions)
            held += (file.held,)
        generation = stored.fields[-1].generation if stored.fields else 0
        self._columns.table.start_log(generation)
        documents: list[tuple[int, dict[str, Any]]] = []
        lo = next_lo(held)
        for row in source.versions_after(lo - 1):
            self._columns.table.append(row.ver, row.iid, row.cid, row.g0, flags_of(row.doc), row.g1)
            documents.append((row.ver, row.doc))
            if len(documents) == SEAL_ROWS_MAX:
                held += (Held(FieldSegment.build(lo, row.ver, documents)),)
                lo, documents = row.ver + 1, []
        deaths = [death for file in stored.fields for death in file.deaths]
        self._columns.table.restore(deaths)
        known = list(source.deaths_after(generation))
        self._columns.table.kill([*self._forgotten(source, generation, known), *known])
        tail: Tail[tuple[int, dict[str, Any]]] = Tail.empty(lo - 1)
        self._state = replace(self._state, fields=held, documents=tail.grown(documents, self._columns.table.count))

    def _forgotten(
        self, source: IndexSource, generation: int, known: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Versions that ended after the newest file was written and whose rows a compaction took since, as deaths.

        When exactly they ended nobody knows any more; at or before the floor is all that can be asked.
        """
        if not 0 < generation < source.floor:
            return []
        alive = np.fromiter(source.current_versions(), dtype=np.int64)
        ended = np.array([ver for ver, _ in known], dtype=np.int64)
        gone = np.setdiff1d(self._columns.table.open_ended(), np.concatenate([alive, ended]))
        return [(int(ver), source.floor) for ver in gone]

    def _load_texts(self, source: IndexSource, stored: Stored) -> None:
        held = tuple(stored.texts)
        for part in held:
            self._columns.mark_texts(part.segment.lo, part.segment.lengths > 0)
        entries: list[TextEntry] = []
        lo = next_lo(held)
        for cid, text in source.contents_after(lo - 1):
            entries.append(TextEntry(cid, text))
            self._columns.mark_texts(cid, np.array([bool(text)]))
            if len(entries) == SEAL_ROWS_MAX:
                held += (Held(TextSegment.build(lo, cid, ((entry.cid, entry.terms()) for entry in entries))),)
                lo, entries = cid + 1, []
        tail: Tail[TextEntry] = Tail.empty(lo - 1)
        self._state = replace(
            self._state, texts=held, entries=tail.grown(entries, entries[-1].cid if entries else lo - 1)
        )

    def _load_vectors(self, source: IndexSource, stored: Stored) -> None:
        for space in source.spaces():
            self._columns.spaces[space.space] = GrowingSpace(space.dimensions)
        held = tuple(stored.vectors)
        for part in held:
            for number, block in part.segment.blocks.items():
                self._columns.space(number, block.rows.shape[1]).load(block)
        last = next_lo(held) - 1
        rows = source.vectors_after(last)
        while batch := list(islice(rows, SEAL_ROWS_MAX)):
            self._columns.add_vectors([(row.cid, row.space, row.vector) for row in batch])
            last = batch[-1].vid
        self._state = replace(self._state, vectors=held, vector_hi=last)

    def apply(self, applied: Applied) -> None:
        """Takes one commit: about 30 microseconds for a row with a vector. Called on the writer's thread before the
        commit is published.
        """
        with self._lock:
            for ver, iid, cid, g0, doc in applied.versions:
                self._columns.table.append(ver, iid, cid, g0, flags_of(doc))
            self._columns.table.kill(applied.deaths)
            for cid, text in applied.contents:
                self._columns.mark_texts(cid, np.array([bool(text)]))
            touched = self._columns.add_vectors(applied.vectors)
            state, marks = self._state, applied.marks
            self._state = replace(
                state,
                generation=applied.generation,
                versions=self._columns.table.snapshot(),
                documents=state.documents.grown([(ver, doc) for ver, _, _, _, doc in applied.versions], marks.ver),
                entries=state.entries.grown([TextEntry(cid, text) for cid, text in applied.contents], marks.cid),
                vector_hi=marks.vid,
                spaces={**state.spaces, **{space: self._columns.spaces[space].snapshot() for space in touched}},
                has_text=self._columns.has_text,
            )
        self._wake()

    def view(self, generation: int) -> IndexView:
        """Gives the index pinned at a published generation. Any thread; cost grows with what changed since the last
        one.
        """
        state = self._state
        return IndexView(state, generation, self._alive.at(state.versions, generation))

    def flush(self) -> None:
        """Seals and writes everything, so that the next load replays nothing. Does nothing in a frozen attach."""
        with self._work:
            self._seal(rows_min=1)
            self._write(rows_min=1)

    def settle(self) -> None:
        """Does the sealing, merging and writing that is due now, in this thread."""
        with self._work:
            self._seal(SEAL_ROWS_MIN)
            self._merge()
            self._write(SEAL_ROWS_MAX)

    def close(self) -> None:
        """Flushes, then stops the background work for good. A store that refuses to register leaves files
        unregistered.
        """
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join()
        if self._loaded:
            self.flush()

    def abandon(self) -> None:
        """Stops the background work and writes nothing: what is in memory is not to be trusted. Views stay readable."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def footprint_bytes(self) -> int:
        """Bytes held in memory: columns, tails and segments that are not mapped, the documents of the tail
        estimated.
        """
        state = self._state
        unmapped = [
            held.segment for part in (state.fields, state.texts, state.vectors) for held in part if held.row is None
        ]
        arrays = sum(array.nbytes for segment in unmapped for array in segment.arrays()[1].values())
        tails = 1024 * (state.documents.count + state.entries.count)
        return self._columns.footprint_bytes() + arrays + tails

    def health(self) -> dict[str, Any]:
        """Counts for `health` and `stats`: rows covered by files, by segments in memory, by tails; faults found."""
        state = self._state
        return {
            "versions": state.versions.count,
            "segments": {
                name: {"mapped": sum(h.row is not None for h in part), "memory": sum(h.row is None for h in part)}
                for name, part in (("fields", state.fields), ("text", state.texts), ("vectors", state.vectors))
            },
            "tail": {"fields": state.documents.count, "text": state.entries.count},
            "faults": list(self.faults),
        }

    # -- background work

    def _wake(self) -> None:
        """Starts the indexer thread when something is due and none runs."""
        state = self._state
        vectors = state.vector_hi - state.vector_lo + 1
        due = max(state.documents.count, state.entries.count) >= SEAL_ROWS_MIN or vectors >= SEAL_ROWS_MAX
        if due and self._background and not self._closed and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._run, name="indexer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            before = self._state
            self.settle()
            state = self._state
            if max(state.documents.count, state.entries.count) < SEAL_ROWS_MIN or state is before:
                return

    def _seal(self, rows_min: int) -> None:
        """Makes segments of the tails that have at least so many rows."""
        while self._state.documents.count >= rows_min and not self._stopping(rows_min):
            self._seal_fields()
        while self._state.entries.count >= rows_min and not self._stopping(rows_min):
            self._seal_texts()
        state = self._state
        if state.vector_hi >= state.vector_lo and (state.vector_hi - state.vector_lo >= SEAL_ROWS_MAX or rows_min == 1):
            self._seal_vectors()

    def _stopping(self, rows_min: int) -> bool:
        """A closing index leaves routine sealing to the flush that follows."""
        return self._closed and rows_min > 1

    def _seal_fields(self) -> None:
        tail = self._state.documents
        items = tail.items[: min(tail.count, SEAL_ROWS_MAX)]
        hi = tail.hi if len(items) == tail.count else items[-1][0]
        segment = FieldSegment.build(tail.lo, hi, items)
        with self._lock:
            state = self._state
            documents = state.documents.without(len(items), hi)
            self._state = replace(state, fields=(*state.fields, Held(segment)), documents=documents)

    def _seal_texts(self) -> None:
        tail = self._state.entries
        items = tail.items[: min(tail.count, SEAL_ROWS_MAX)]
        hi = tail.hi if len(items) == tail.count else items[-1].cid
        segment = TextSegment.build(tail.lo, hi, ((entry.cid, entry.terms()) for entry in items))
        with self._lock:
            state = self._state
            entries = state.entries.without(len(items), hi)
            self._state = replace(state, texts=(*state.texts, Held(segment)), entries=entries)

    def _seal_vectors(self) -> None:
        state = self._state
        tails = {number: rows.tail for number, rows in state.spaces.items() if len(rows.tail)}
        blocks = {number: tail.copy() for number, tail in tails.items()}
        segment = VectorSegment(state.vector_lo, state.vector_hi, blocks)
        with self._lock:
            for number, block in blocks.items():
                self._columns.spaces[number].seal(block)
            self._put_vectors((*self._state.vectors, Held(segment)))

    def _put_vectors(self, vectors: tuple[Held[VectorSegment], ...]) -> None:
        """The state with these vector segments; under _lock."""
        spaces = self._columns.space_rows()
        self._state = replace(self._state, vectors=vectors, spaces=spaces)

    def _merge(self) -> None:
        """Merges neighbours as the levels say: those in memory among themselves, files among themselves."""
        for kind in ("fields", "texts", "vectors"):
            for mapped in (False, True):
                while not self._closed and self._merge_once(kind, mapped):
                    pass

    def _merge_once(self, kind: str, mapped: bool) -> bool:
        parts: Sequence[Held[Any]] = getattr(self._state, kind)
        first = next((n for n, held in enumerate(parts) if held.row is None), len(parts))
        offset, zone = (0, parts[:first]) if mapped else (first, parts[first:])
        due = levels.due([len(held.segment) for held in zone])
        if due is None:
            return False
        old = zone[due]
        held = Held(type(old[0].segment).merge([part.segment for part in old]))
        if mapped:
            rows = [part.row for part in old if part.row is not None]
            # Not the generation of today: files stand in the order of their generations, and each records the deaths
            # among older versions since the file before it.
            generation = max(row.generation for row in rows)
            written = self._store({kind: held}, generation, drop=[row.name for row in rows])
            if written is None:
                return False
            held = written[kind]
        self._swap(kind, slice(offset + due.start, offset + due.stop), old, held)
        if mapped and self._files is not None:
            self._files.remove([part.row for part in old if part.row is not None])
        return True

    def _write(self, rows_min: int) -> None:
        """Joins the segments in memory of each kind that has at least so many rows, and writes them to files."""
        if self._files is None or not self._files.publishable:
            return
        ready: dict[str, Held[Any]] = {}
        places: dict[str, tuple[int, Sequence[Held[Any]]]] = {}
        for kind in ("fields", "texts", "vectors"):
            parts: Sequence[Held[Any]] = getattr(self._state, kind)
            first = next((n for n, held in enumerate(parts) if held.row is None), len(parts))
            memory = parts[first:]
            if memory and sum(len(held.segment) for held in memory) >= rows_min:
                segments = [held.segment for held in memory]
                ready[kind] = Held(segments[0] if len(segments) == 1 else type(segments[0]).merge(segments))
                places[kind] = first, memory
        written = self._store(ready, None, drop=[]) if ready else None
        for kind, held in (written or {}).items():
            first, old = places[kind]
            self._swap(kind, slice(first, first + len(old)), old, held)

    def _store(
        self, ready: Mapping[str, Held[Any]], generation: int | None, drop: Sequence[str]
    ) -> dict[str, Held[Any]] | None:
        """Writes and registers segments, as of now when no generation is given. None when the store or the disk
        refuses: they stay in memory then.
        """
        assert self._files is not None
        with self._lock:
            generation = self._state.generation if generation is None else generation
            columns = {kind: self._version_arrays(held) for kind, held in ready.items() if kind == "fields"}
        try:
            return self._files.write(ready, columns.get("fields", {}), generation, drop)
        except (OSError, Refusal) as error:
            self.faults = [*self.faults[-9:], f"segments stay in memory: {error}"]
            return None

    def _version_arrays(self, held: Held[FieldSegment]) -> dict[str, NDArray[Any]]:
        """The version columns of a segment, and every death of an older version since the last file; under _lock."""
        segment = held.segment
        rows = [part.row for part in self._state.fields if part.row is not None and part.segment.hi < segment.lo]
        arrays = {
            f"v.{name}": column for name, column in self._columns.table.column_slice(segment.lo, segment.hi).items()
        }
        vers, generations = self._columns.table.deaths_before(
            segment.lo, max((row.generation for row in rows if row), default=0)
        )
        return {**arrays, "d.ver": vers, "d.g1": generations}

    def _swap(self, kind: str, place: slice, old: Sequence[Held[Any]], held: Held[Any]) -> None:
        """Puts one segment in the place of several that hold the same rows."""
        with self._lock:
            parts: tuple[Held[Any], ...] = getattr(self._state, kind)
            assert list(parts[place]) == list(old), "only the indexer replaces segments"
            parts = (*parts[: place.start], held, *parts[place.stop :])
            if kind == "vectors":
                for number, rows in self._columns.spaces.items():
                    rows.replace([p.segment.blocks[number] for p in parts if number in p.segment.blocks])
                self._put_vectors(parts)
            else:
                named: dict[str, Any] = {kind: parts}
                self._state = replace(self._state, **named)

    # -- checks

    def verify(self) -> list[str]:
        """Reads every mapped file and gives the names of those whose bytes changed since they were written."""
        return [] if self._files is None else self._files.damaged()

    def mapped_arrays(self, kinds: Sequence[str]) -> list[NDArray[Any]]:
        """The arrays of the mapped segments of these kinds (`fields`, `texts`, `vectors`), for reading ahead."""
        state = self._state
        held = [h for kind in kinds for h in getattr(state, kind) if h.row is not None]
        return [array for part in held for array in part.segment.arrays()[1].values()]

    def registered(self) -> list[SegmentRow]:
        """The registered segments in use."""
        state = self._state
        return [h.row for part in (state.fields, state.texts, state.vectors) for h in part if h.row is not None]
