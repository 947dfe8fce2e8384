"""A long text as passages that the model reads whole: where they begin and end, and their vectors.

A model reads so many word pieces and no more; what stands behind them would not be found. So a longer text is cut into
passages between words, each overlapping the one before it, and each has a vector of its own. Pure; a model is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from contract.limits import EMBED_PASSAGES_MAX
from engine.records import Passage, PendingContent

OVERLAP_TOKENS = 48
"""Word pieces that a passage shares with the one before it: a sentence or two, so that none is cut in every passage."""

INLINE_PASSAGES_MAX = 4
"""Passages of one text that a write waits for: about a quarter of a second of the model. Longer ones are backfilled."""
INLINE_CALL_PASSAGES_MAX = 8
"""The same of all long texts of one turn of the model, behind which every other caller waits."""

Span = tuple[int, int]


class Reads(Protocol):
    """What is asked of a model."""

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """Unit float32 vectors, one a text."""
        ...


@runtime_checkable
class Cuts(Protocol):
    """A model that knows how much of a text it reads at a time."""

    def spans(self, text: str) -> list[Span]:
        """The passages of a text in code points, half-open, in their order; one that is the whole text when it fits."""
        ...


@dataclass(frozen=True, slots=True)
class Units:
    """Texts as what a model embeds: each passage by its owner (a number of the caller's) and its place there."""

    owners: list[int] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, owner: int, text: str, spans: Sequence[Span]) -> None:
        """Takes the passages of one text."""
        self.owners.extend(owner for _ in spans)
        self.spans.extend(spans)
        self.texts.extend(text[start:end] for start, end in spans)

    def joined(self, vectors: Sequence[bytes]) -> dict[int, bytes | tuple[Passage, ...]]:
        """The vectors by owner: one vector, or the passages when there are several."""
        runs: dict[int, list[Passage]] = {}
        for owner, (start, end), vector in zip(self.owners, self.spans, vectors, strict=True):
            runs.setdefault(owner, []).append(Passage(start, end, vector))
        return {owner: run[0].vector if len(run) == 1 else tuple(run) for owner, run in runs.items()}


def spans_of(model: object, text: str) -> list[Span]:
    """The passages of a text for a model; the whole text for one that does not cut."""
    return model.spans(text) if isinstance(model, Cuts) else [(0, len(text))]


def cut(offsets: Sequence[Span], words: Sequence[int | None], size: int, room: int) -> list[Span]:
    """The passages of a text of `size` code points, from its word pieces: at most `room` pieces each.

    `offsets` are the code points of each piece and `words` the word that it belongs to. Passages begin and end between
    words and together hold every piece, up to EMBED_PASSAGES_MAX passages.
    """
    count = len(offsets)
    if count <= room:
        return [(0, size)]
    starts = [n for n in range(count) if n == 0 or words[n] is None or words[n] != words[n - 1]]
    before = [0] * (count + 1)  # the nearest start of a word at or before each piece
    for here, following in zip(starts, [*starts[1:], count + 1], strict=True):
        before[here:following] = [here] * (min(following, count + 1) - here)
    before[count] = count

    def end_of(begin: int) -> int:
        end = min(begin + room, count)
        return before[end] if before[end] > begin else end

    spans: list[Span] = []
    begin = 0
    while len(spans) < EMBED_PASSAGES_MAX:
        end = end_of(begin)
        last = end == count
        spans.append((0 if begin == 0 else offsets[begin][0], size if last else offsets[end - 1][1]))
        if last:
            break
        following = before[max(0, end - min(OVERLAP_TOKENS, room // 4))]
        begin = following if following > begin and end_of(following) > end else end
    return spans


def embed_stored(model: Reads, texts: Sequence[str]) -> tuple[dict[str, bytes], dict[str, tuple[Passage, ...]]]:
    """The vectors of texts that will be stored, by text: of short ones, and the passages of longer ones.

    A text of more than INLINE_PASSAGES_MAX passages, or one too many of them, is in neither: the backfill reads it.
    """
    units, passages_left = Units(), INLINE_CALL_PASSAGES_MAX
    for number, text in enumerate(texts):
        spans = spans_of(model, text)
        if len(spans) > 1:
            if len(spans) > min(INLINE_PASSAGES_MAX, passages_left):
                continue
            passages_left -= len(spans)
        units.add(number, text, spans)
    vectors: dict[str, bytes] = {}
    passages: dict[str, tuple[Passage, ...]] = {}
    for number, found in units.joined(model.embed(units.texts)).items():
        if isinstance(found, bytes):
            vectors[texts[number]] = found
        else:
            passages[texts[number]] = found
    return vectors, passages


def units_of(model: object, pending: Sequence[PendingContent], units_max: int) -> Units:
    """The passages of the first of these contents, by cid: as many whole texts as `units_max` holds, one at least."""
    units = Units()
    for content in pending:
        spans = spans_of(model, content.text)
        if units.owners and len(units.owners) + len(spans) > units_max:
            break
        units.add(content.cid, content.text, spans)
    return units
