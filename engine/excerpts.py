"""The spans of a text that say best why it was found: by the words of the query and by the meaning of its passages.

Offsets are code points of the text, half-open. Pure but for numpy; what a text's passages mean is given.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from engine.records import Document
from engine.tokens import document_terms

ANCHORS_MAX: Final = 2_000
"""Places in one text that a span is tried around; a text with more hits has its best spans among the first ones."""

LEAD_SHARE: Final = 4
"""A span begins a quarter of its size before the hit that it is tried around, so that the hit has its context."""

PIECE_CHARS: Final = 40
"""A longer stretch without white space is cut: of an unspaced script, or no words at all."""

_STRETCH: Final = re.compile(r"\S+")
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Likeness:
    """How like the query the code points of one passage are, 0 to 1."""

    start: int
    end: int
    similarity: float


@dataclass(frozen=True, slots=True)
class _Text:
    """A text cut into pieces, and the terms of the query in each piece that has any."""

    text: str
    starts: list[int]
    ends: list[int]
    hits: list[tuple[int, str]]

    def span(self, piece: int, size: int) -> tuple[int, int]:
        """The span around a piece: whole pieces, at least one, about `size` code points."""
        begin = bisect_left(self.starts, self.starts[piece] - size // LEAD_SHARE)
        begin = min(begin, piece)
        end = max(bisect_right(self.ends, self.starts[begin] + size) - 1, piece)
        return self.starts[begin], min(self.ends[end], max(self.ends[piece], self.starts[begin] + size))


def excerpts(
    text: str, terms: Collection[str], likeness: Sequence[Likeness], *, size: int, count: int
) -> list[Document]:
    """The best spans of a text, at most `count` of about `size` code points, none overlapping another, best first.

    Each has `text`, `start`, `end` and `score`: the share of the query's terms in it, how like the query its passage
    is, or the mean of both where both are known.
    """
    cut = _cut(text, frozenset(terms))
    if not cut.starts:
        return []
    places = [place for place, _ in cut.hits][:ANCHORS_MAX]
    places += [bisect_left(cut.starts, part.start) for part in likeness[:ANCHORS_MAX]] or ([] if places else [0])
    spans = {cut.span(min(place, len(cut.starts) - 1), size) for place in places}
    scored = [(_score(cut, span, len(terms), likeness), span) for span in spans]
    chosen: list[tuple[float, tuple[int, int]]] = []
    for score, (start, end) in sorted(scored, key=lambda entry: (-entry[0], entry[1])):
        if len(chosen) == count:
            break
        if score > 0 and all(end <= other[0] or start >= other[1] for _, other in chosen):
            chosen.append((score, (start, end)))
    return [
        {"text": text[start:end], "start": start, "end": end, "score": round(score, 6)}
        for score, (start, end) in chosen
    ]


def _cut(text: str, terms: frozenset[str]) -> _Text:
    starts: list[int] = []
    ends: list[int] = []
    hits: list[tuple[int, str]] = []
    for found in _STRETCH.finditer(text):
        start = found.start()
        while start < found.end():
            end = _piece_end(text, start, found.end())
            if terms:
                hits += [(len(starts), term) for term in document_terms(text[start:end]) if term in terms]
            starts.append(start)
            ends.append(end)
            start = end
    return _Text(text, starts, ends, hits)


def _score(cut: _Text, span: tuple[int, int], terms_count: int, likeness: Sequence[Likeness]) -> float:
    parts = []
    if terms_count:
        first = bisect_left(cut.hits, bisect_left(cut.starts, span[0]), key=lambda hit: hit[0])
        last = bisect_left(cut.hits, bisect_left(cut.starts, span[1]), key=lambda hit: hit[0])
        parts.append(len({term for _, term in cut.hits[first:last]}) / terms_count)
    if likeness:
        middle = (span[0] + span[1]) // 2
        around = [part.similarity for part in likeness if part.start <= middle < part.end]
        parts.append(max(around, default=0.0))
    return sum(parts) / len(parts) if parts else 0.0


def _piece_end(text: str, start: int, end: int) -> int:
    """Where a piece that begins at `start` ends: never between a letter and its marks, or inside a joined emoji."""
    stop = min(start + PIECE_CHARS, end)
    while stop < end and (
        unicodedata.category(text[stop])[0] == "M" or text[stop] == _JOINER or text[stop - 1] == _JOINER
    ):
        stop += 1
    return stop
