"""The seam between truth and what is derived from it, and between the engine and a storage backend.

A store hands committed rows to the derived indexes in two ways: `IndexSource` once, when an index is loaded, and
`Applied` after every commit from then on. Both speak in the dense numbers of `records.py`. No I/O here.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from engine.records import Document, SegmentRow, Space, Watermarks


class VersionRow(msgspec.Struct, frozen=True, gc=False):
    """One version of an entity as an index needs it; alive at p when g0 <= p < g1."""

    ver: int
    iid: int
    cid: int
    g0: int
    g1: int
    doc: Document


class VectorRow(msgspec.Struct, frozen=True, gc=False):
    """One stored vector (little-endian float32) of one content. Numbered by `vid` in the order of arrival."""

    vid: int
    cid: int
    space: int
    vector: bytes


class Applied(msgspec.Struct, frozen=True):
    """What one durable group commit changed, in the order of the numbers. Given to the index before it is published.

    A version can be born and die in one group (it is in both lists), even in one generation (g1 == g0: never alive).
    `vectors` may belong to a content of any age: a backfill adds them without a new generation. `marks` are the store's
    watermarks after the commit.
    """

    generation: int
    versions: list[tuple[int, int, int, int, Document]]  # (ver, iid, cid, g0, doc)
    deaths: list[tuple[int, int]]  # (ver, g1)
    contents: list[tuple[int, str | None]]  # (cid, text)
    vectors: list[tuple[int, int, bytes]]  # (cid, space, float32 bytes)
    marks: Watermarks


class IndexSource(Protocol):
    """Everything an index is loaded from, read in one transaction at one generation; valid inside `Index.load` only.

    `publish`, `publishable` and `segment_dir` stay valid as long as the store is open.
    """

    @property
    def generation(self) -> int:
        """The generation that all rows below are read at."""
        ...

    @property
    def marks(self) -> Watermarks:
        """The last numbers given out; arrays sized by them hold every row."""
        ...

    @property
    def segment_dir(self) -> Path:
        """The folder of segment files."""
        ...

    @property
    def publishable(self) -> bool:
        """False in a frozen attach: segments then stay in memory and nothing may be written."""
        ...

    def spaces(self) -> list[Space]:
        """Every vector space known to the store."""
        ...

    def seg_rows(self) -> list[SegmentRow]:
        """The registered segments."""
        ...

    def versions_after(self, ver: int) -> Iterator[VersionRow]:
        """Versions numbered above `ver`, ascending. A missing number was compacted away: it is dead for good."""
        ...

    def deaths_after(self, generation: int) -> Iterator[tuple[int, int]]:
        """(ver, g1) of every version that ended after `generation`, whatever its number."""
        ...

    @property
    def floor(self) -> int:
        """The oldest generation that can be read; versions that ended up to it may be gone."""
        ...

    def current_versions(self) -> Iterator[int]:
        """The number of every current version, in any order: what is neither here nor in `deaths_after` is gone."""
        ...

    def contents_after(self, cid: int) -> Iterator[tuple[int, str | None]]:
        """(cid, text) of every content numbered above `cid`, ascending; None when it has no text."""
        ...

    def vectors_after(self, vid: int) -> Iterator[VectorRow]:
        """Vectors numbered above `vid`, ascending: those of new contents and those a backfill added to old ones."""
        ...

    def publish(self, add: Sequence[SegmentRow], drop: Sequence[str] = ()) -> None:
        """Register segment files that are already durable under `segment_dir`, and forget those named in `drop`.

        One small commit, no new generation; callable from any thread but not from inside `Index.apply`. Rows appear
        all together or not at all. Refuses like any write; a caller keeps its segments in memory then.
        """
        ...


class IndexViewPort(Protocol):
    """An index pinned at one generation. What it can do beyond that is the engine's own matter."""

    @property
    def generation(self) -> int:
        """The pinned generation."""
        ...


class IndexPort(Protocol):
    """What the store asks of a derived index."""

    def load(self, source: IndexSource) -> None:
        """Read registered segments and replay what is newer; called once, before anything else, on any thread."""
        ...

    def apply(self, applied: Applied) -> None:
        """Take one commit, on the writer's thread, before its generation is published. Must not fail."""
        ...

    def view(self, generation: int) -> Any:  # noqa: ANN401 - what an index view can do is the index's own matter
        """A view pinned at a generation that is published; callable from any thread while `apply` runs."""
        ...

    def close(self) -> None:
        """Stop background work and drop maps; called once, when no view is out."""
        ...

    def abandon(self) -> None:
        """Stop background work for good and write nothing: what it holds is not to be trusted. Views stay readable."""
        ...

    def footprint_bytes(self) -> int:
        """Resident bytes held by the index."""
        ...
