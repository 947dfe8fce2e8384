"""Segment files of one store: opened when the index is loaded, written and registered when the indexer has made one.

The store's rows say which files count; any other file is garbage. A file that is missing, cut short or not what its row
says is left out together with every later one of its kind, and the index replays those rows instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from contract.refusals import Refusal
from engine.disk import Disk
from engine.index_state import Held
from engine.port import IndexSource
from engine.records import SegmentRow
from engine.reserve import refuse_without_room
from engine.segments.fields import FieldSegment
from engine.segments.file import SegmentDamagedError, SegmentFile, decode, encode
from engine.segments.text import TextSegment
from engine.segments.vectors import VectorSegment

SUFFIX = ".seg"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class StoredFields:
    """A mapped segment of fields with the version columns that lie beside it."""

    held: Held[FieldSegment]
    versions: Arrays
    deaths: list[tuple[int, int]]
    generation: int


@dataclass(slots=True)
class Stored:
    """What the files gave: of each kind, neighbours from number 1 on."""

    fields: list[StoredFields] = field(default_factory=list)
    texts: list[Held[TextSegment]] = field(default_factory=list)
    vectors: list[Held[VectorSegment]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Files:
    """The segment folder of one store."""

    def __init__(self, disk: Disk, source: IndexSource) -> None:
        self._disk = disk
        self._source = source
        self._folder = source.segment_dir
        self._stale: list[str] = []

    @property
    def publishable(self) -> bool:
        """False in a frozen attach: nothing may be written."""
        return self._source.publishable

    def open_all(self) -> Stored:
        """Maps the registered files, each held against its checksums. Files that a killed writer left behind
        without registering them are removed, when this index may write.
        """
        stored = Stored()
        rows = sorted(self._source.seg_rows(), key=lambda row: (row.kind, row.lo))
        next_lo: dict[str, int] = {}
        for row in rows:
            if row.lo != next_lo.get(row.kind, 1):
                stored.faults.append(f"{row.name}: left out, a file before it is missing")
                self._stale.append(row.name)
                continue
            try:
                self._take(stored, row, self._verified(row))
            except (OSError, ValueError) as error:
                stored.faults.append(f"{row.name}: {error}")
                self._stale.append(row.name)
                continue
            next_lo[row.kind] = row.hi + 1
        if self.publishable:
            known = {row.name for row in rows}
            names = [name for name in self._disk.list_names(self._folder) if name not in known]
            self._remove([self._folder / name for name in names if name.endswith(SUFFIX)])
        return stored

    def _open(self, row: SegmentRow) -> SegmentFile:
        file = decode(memoryview(self._disk.map_readonly(self._folder / row.name)))
        if (file.kind, file.lo, file.hi) != (row.kind, row.lo, row.hi):
            raise SegmentDamagedError("the file is not the one that was registered")
        return file

    def _verified(self, row: SegmentRow) -> SegmentFile:
        """The file, read once from end to end: a flipped bit in an index would be a wrong answer that nothing names.
        0.4 s a GB that is in memory; a search over all vectors would read them anyway."""
        file = self._open(row)
        damaged = file.damaged()
        if damaged:
            raise SegmentDamagedError(f"its section {damaged[0]!r} is not what was written")
        return file

    def _take(self, stored: Stored, row: SegmentRow, file: SegmentFile) -> None:
        if row.kind == FieldSegment.KIND:
            fields = FieldSegment.of_arrays(file.lo, file.hi, file.info, file)
            versions = {name[2:]: file[name] for name in file if name.startswith("v.")}
            deaths = list(zip(file["d.ver"].tolist(), file["d.g1"].tolist(), strict=True))
            stored.fields.append(StoredFields(Held(fields, row), versions, deaths, row.generation))
        elif row.kind == TextSegment.KIND:
            stored.texts.append(Held(TextSegment.of_arrays(file.lo, file.hi, file.info, file), row))
        elif row.kind == VectorSegment.KIND:
            stored.vectors.append(Held(VectorSegment.of_arrays(file.lo, file.hi, file.info, file), row))

    def write(
        self, ready: Mapping[str, Held[Any]], versions: Arrays, generation: int, drop: Sequence[str]
    ) -> dict[str, Held[Any]]:
        """Writes segments to durable files, registers them in one commit, and gives them back mapped.

        OSError from the disk or a Refusal from the store: nothing is registered then, and the new files are garbage.
        """
        rows = {name: self._write_one(held.segment, versions, generation) for name, held in ready.items()}
        stale = [name for name in self._stale if name not in {row.name for row in rows.values()}]
        try:
            self._source.publish(list(rows.values()), [*drop, *stale])
        except Refusal:
            self.remove(list(rows.values()))  # nobody vouches for them, and the disk may need the room
            raise
        self._stale = []
        self._remove([self._folder / name for name in stale])
        stored = Stored()
        for row in rows.values():
            self._take(stored, row, self._open(row))
        mapped: dict[str, list[Held[Any]]] = {
            "fields": [part.held for part in stored.fields],
            "texts": list(stored.texts),
            "vectors": list(stored.vectors),
        }
        return {name: mapped[name][0] for name in rows}

    def _write_one(
        self, segment: FieldSegment | TextSegment | VectorSegment, versions: Arrays, generation: int
    ) -> SegmentRow:
        info, arrays = segment.arrays()
        if segment.KIND == FieldSegment.KIND:
            arrays.update(versions)
        pieces = encode(segment.KIND, segment.lo, segment.hi, generation, info, arrays)
        # Named by its header, which holds the checksum of everything: two files of one name are the same file.
        name = f"{segment.KIND}-{segment.lo:08x}-{segment.hi:08x}-{zlib.crc32(pieces[1]):08x}{SUFFIX}"
        refuse_without_room(self._folder, self._disk, sum(memoryview(piece).nbytes for piece in pieces))
        size = self._disk.write_atomic(self._folder / name, pieces)
        return SegmentRow(name, segment.KIND, segment.lo, segment.hi, generation, size, {})

    def remove(self, rows: Sequence[SegmentRow]) -> None:
        """Removes the files of rows that are registered no more. Maps of them stay readable."""
        self._remove([self._folder / row.name for row in rows])

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            self._disk.remove(path)

    def damaged(self) -> list[str]:
        """Reads every registered file; gives the names of those that are not what was written."""
        names = []
        for row in self._source.seg_rows():
            try:
                if self._open(row).damaged():
                    names.append(row.name)
            except (OSError, ValueError):
                names.append(row.name)
        return names
