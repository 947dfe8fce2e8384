"""What an index is loaded from: one read transaction over the rows it covers, and the table of segments."""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.port import Applied, VectorRow, VersionRow
from engine.records import SegmentRow, Space, Watermarks
from engine.sqlite import entities, log
from engine.sqlite.rows import corrupt, decode_object, entity_of, small_crc, unpack_marks
from engine.sqlite.scope import Scope

Publish = Callable[[Sequence[SegmentRow], Sequence[str]], None]

_VERSIONS: Final = entities.CURRENT + "WHERE ver>?1 UNION ALL " + entities.CLOSED + "WHERE ver>?1 ORDER BY 2"


def segment_crc(row: SegmentRow, info: bytes) -> int:
    """The checksum of a row of `seg`."""
    return small_crc((row.lo, row.hi, row.generation, row.bytes), f"{row.name}\0{row.kind}\0".encode() + info)


def segments(scope: Scope) -> list[SegmentRow]:
    """The registered segments, by name, checked."""
    rows: list[SegmentRow] = []
    for name, kind, lo, hi, generation, size, info, crc in scope.rows(
        "SELECT name,kind,lo,hi,generation,bytes,info,crc FROM seg ORDER BY name"
    ):
        bare = SegmentRow(name, kind, lo, hi, generation, size, {})
        try:
            intact = segment_crc(bare, info) == crc
        except (TypeError, struct.error):  # a damaged header gives a column another type
            intact = False
        if not intact:
            raise corrupt("segment row", name)
        rows.append(SegmentRow(name, kind, lo, hi, generation, size, decode_object(info)))
    return rows


def watermarks(scope: Scope) -> Watermarks:
    """The last numbers given out. A backfill makes vectors without a commit row, so their last is looked up too."""
    row = scope.row("SELECT marks FROM commits ORDER BY gen DESC LIMIT 1")
    marks = Watermarks() if row is None else unpack_marks(row[0])
    last = scope.row("SELECT max(vid) FROM vec")
    vid = max(marks.vid, (last and last[0]) or 0)
    return Watermarks(marks.iid, marks.ver, marks.cid, vid, marks.rid)


def is_newer(applied: Applied, generation: int, marks: Watermarks) -> bool:
    """True when a snapshot at `generation` with `marks` does not hold this commit: each moves one of the two on."""
    return applied.generation > generation or applied.marks.vid > marks.vid


class SnapshotSource:
    """An `engine.port.IndexSource` over an open read transaction at its newest generation."""

    def __init__(self, scope: Scope, segment_dir: Path, publish: Publish | None) -> None:
        self._scope = scope
        self._publish = publish
        self._segment_dir = segment_dir
        self._generation = log.head(scope)
        self._marks = watermarks(scope)

    @property
    def generation(self) -> int:
        """See `IndexSource.generation`."""
        return self._generation

    @property
    def marks(self) -> Watermarks:
        """See `IndexSource.marks`."""
        return self._marks

    @property
    def segment_dir(self) -> Path:
        """See `IndexSource.segment_dir`."""
        return self._segment_dir

    @property
    def publishable(self) -> bool:
        """See `IndexSource.publishable`."""
        return self._publish is not None

    def spaces(self) -> list[Space]:
        """See `IndexSource.spaces`."""
        return entities.spaces(self._scope)

    def seg_rows(self) -> list[SegmentRow]:
        """See `IndexSource.seg_rows`."""
        return segments(self._scope)

    def versions_after(self, ver: int) -> Iterator[VersionRow]:
        """See `IndexSource.versions_after`."""
        for row in self._scope.each(_VERSIONS, (ver,)):
            entity = entity_of(row)
            yield VersionRow(entity.ver, entity.iid, entity.cid, entity.g0, entity.g1, entity.doc)

    def deaths_after(self, generation: int) -> Iterator[tuple[int, int]]:
        """See `IndexSource.deaths_after`."""
        yield from self._scope.each("SELECT ver,g1 FROM ent_old WHERE g1>?", (generation,))

    @property
    def floor(self) -> int:
        """See `IndexSource.floor`."""
        return log.floor(self._scope)

    def current_versions(self) -> Iterator[int]:
        """See `IndexSource.current_versions`."""
        for (ver,) in self._scope.each("SELECT ver FROM ent"):
            yield ver

    def contents_after(self, cid: int) -> Iterator[tuple[int, str | None]]:
        """See `IndexSource.contents_after`."""
        sql = "SELECT cid,iid,src,vid,crc,text FROM content WHERE cid>? ORDER BY cid"
        for row in self._scope.each(sql, (cid,)):
            yield row[0], entities.text_of_content(self._scope, row)

    def vectors_after(self, vid: int) -> Iterator[VectorRow]:
        """See `IndexSource.vectors_after`."""
        sql = "SELECT vid,cid,space,crc,v FROM vec WHERE vid>? ORDER BY vid"
        for row in self._scope.each(sql, (vid,)):
            yield VectorRow(row[0], row[1], row[2], entities.vector_of_row(row, row[1]))

    def publish(self, add: Sequence[SegmentRow], drop: Sequence[str] = ()) -> None:
        """See `IndexSource.publish`."""
        assert self._publish is not None, "a frozen attach publishes nothing"
        self._publish(add, drop)
