"""The derived index at one moment, as values: segments that are sealed, tails that are not, and how one becomes the
other.

A state is immutable. The writer makes the next one after every commit, the indexer when it has sealed or merged; a
reader takes the reference once and needs no lock. Tails share one growing list: a reader looks at its own count only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.records import Document, SegmentRow
from engine.segments.fields import FieldSegment
from engine.segments.spaces import SpaceRows
from engine.segments.text import TextSegment
from engine.segments.vectors import VectorSegment
from engine.tokens import document_terms
from engine.versions import Versions

Item = TypeVar("Item")
Segment = TypeVar("Segment", FieldSegment, TextSegment, VectorSegment)


class TextEntry:
    """A content's text that is in no segment yet. Cut into terms when first asked for: never on the writer's thread."""

    __slots__ = ("_terms", "cid", "text")

    def __init__(self, cid: int, text: str | None) -> None:
        self.cid = cid
        self.text = text
        self._terms: Sequence[str] | None = None

    def terms(self) -> Sequence[str]:
        """The terms of the text, none when there is no text. Two threads may do the same work; the result is one."""
        if self._terms is None:
            self._terms = document_terms(self.text) if self.text is not None else ()
        return self._terms


@dataclass(frozen=True, slots=True)
class Tail(Generic[Item]):
    """Items of the numbers lo..hi that no segment covers yet: the first `count` of a list that only grows."""

    items: list[Item]
    count: int
    lo: int
    hi: int

    @classmethod
    def empty(cls, after: int) -> Tail[Item]:
        """The tail behind a number."""
        return cls([], 0, after + 1, after)

    def grown(self, items: Sequence[Item], hi: int) -> Tail[Item]:
        """With more items, up to the number `hi`. Only the newest tail may grow."""
        assert len(self.items) == self.count, "only the newest tail grows"
        self.items.extend(items)
        return Tail(self.items, len(self.items), self.lo, max(hi, self.hi))

    def without(self, count: int, hi: int) -> Tail[Item]:
        """Without its first items, which cover the numbers up to `hi`."""
        rest = self.items[count : self.count]
        return Tail(rest, len(rest), hi + 1, self.hi)

    def read(self) -> list[Item]:
        """The items, copied."""
        return self.items[: self.count]


@dataclass(frozen=True, slots=True)
class Held(Generic[Segment]):
    """A segment in memory, or mapped from the file that `row` registers."""

    segment: Segment
    row: SegmentRow | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything a reader needs. `vector_hi` is the number of the last vector; those after the segments are in
    `spaces`.
    """

    generation: int
    versions: Versions
    fields: tuple[Held[FieldSegment], ...]
    texts: tuple[Held[TextSegment], ...]
    vectors: tuple[Held[VectorSegment], ...]
    documents: Tail[tuple[int, Document]]
    entries: Tail[TextEntry]
    vector_hi: int
    spaces: Mapping[int, SpaceRows]
    has_text: NDArray[np.bool_]

    @property
    def vector_lo(self) -> int:
        """The number of the first vector that no segment covers."""
        return self.vectors[-1].segment.hi + 1 if self.vectors else 1

    @property
    def segment_count(self) -> int:
        """How many segments there are of all kinds."""
        return len(self.fields) + len(self.texts) + len(self.vectors)


def next_lo(segments: Sequence[Held[Any]]) -> int:
    """Gives the first number that no segment covers."""
    return segments[-1].segment.hi + 1 if segments else 1
