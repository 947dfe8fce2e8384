"""Postings of words: which contents have a term, how often, and how long each content is. Immutable; Okapi BM25.

A segment covers the contents `lo` to `hi` without a gap; place r is content lo + r. Frequencies of terms and the
average length are asked as of a content number, so that a score does not depend on how contents are split into
segments, nor on what was added after the generation that is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.segments import postings, strings
from engine.segments.postings import Postings
from engine.segments.strings import StringTable

K1 = 1.2
B = 0.75
"""The customary constants of BM25 (Robertson and Zaragoza 2009): saturation of repeats, weight of a content's
length.
"""

Floats = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]
FREQUENCY_MAX = 65_535


def idf(content_count: int, having_count: int) -> float:
    """Gives the weight of a term that `having_count` of `content_count` contents have; always above 0."""
    return math.log1p((content_count - having_count + 0.5) / (having_count + 0.5))


def impact(frequencies: NDArray[Any], lengths: NDArray[Any], mean_length: float) -> Floats:
    """Gives BM25's share of one term a content, before its weight: float32, 0 to K1 + 1."""
    counts = frequencies.astype(np.float32)
    norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B / max(mean_length, 1e-9)) * lengths.astype(np.float32)
    return np.asarray(counts * np.float32(K1 + 1) / (counts + norms), dtype=np.float32)


class TextSegment:
    """Postings of the contents lo..hi. Safe to read from any thread."""

    KIND = "text"

    def __init__(
        self,
        lo: int,
        terms: StringTable,
        listed: Postings,
        frequencies: NDArray[np.uint16],
        lengths: NDArray[np.uint32],
        totals: tuple[int, int] | None = None,
    ) -> None:
        """`frequencies` lies beside `listed.rows`; `lengths` is in terms, 0 for a content without text; `totals` are
        (contents with text, terms) when they are known.
        """
        self.lo = lo
        self.hi = lo + len(lengths) - 1
        self.terms = terms
        self.listed = listed
        self.frequencies = frequencies
        self.lengths = lengths
        if totals is None:
            totals = int(np.count_nonzero(lengths)), int(lengths.sum(dtype=np.int64))
        self.text_count, self.term_total = totals

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def build(cls, lo: int, hi: int, contents: Iterable[tuple[int, Sequence[str]]]) -> TextSegment:
        """From (content, its terms), ascending; contents that are not given have no text."""
        lengths = np.zeros(hi - lo + 1, dtype=np.uint32)
        rows_by_term: dict[str, list[int]] = {}
        counts_by_term: dict[str, list[int]] = {}
        for cid, terms in contents:
            row = cid - lo
            lengths[row] = len(terms)
            for term, count in Counter(terms).items():
                rows_by_term.setdefault(term, []).append(row)
                counts_by_term.setdefault(term, []).append(min(count, FREQUENCY_MAX))
        ordered = sorted((term.encode(), term) for term in rows_by_term)
        listed = Postings.of([rows_by_term[term] for _, term in ordered])
        counts = (count for _, term in ordered for count in counts_by_term[term])
        frequencies = np.fromiter(counts, dtype=np.uint16, count=len(listed.rows))
        return cls(lo, StringTable.of([key for key, _ in ordered]), listed, frequencies, lengths)

    @classmethod
    def merge(cls, parts: Sequence[TextSegment]) -> TextSegment:
        """Joins neighbours, oldest first."""
        assert all(a.hi + 1 == b.lo for a, b in pairwise(parts)), "segments must be neighbours"
        terms, places = strings.merge([part.terms for part in parts])
        shifts = [part.lo - parts[0].lo for part in parts]
        listed, order = postings.merge([part.listed for part in parts], places, shifts, len(terms))
        frequencies = np.concatenate([part.frequencies for part in parts])[order]
        return cls(parts[0].lo, terms, listed, frequencies, np.concatenate([part.lengths for part in parts]))

    def totals(self, cid_max: int) -> tuple[int, int]:
        """Gives (contents with text, terms in them) among the contents up to `cid_max`."""
        if cid_max >= self.hi:
            return self.text_count, self.term_total
        lengths = self.lengths[: max(0, cid_max - self.lo + 1)]
        return int(np.count_nonzero(lengths)), int(lengths.sum(dtype=np.int64))

    def having(self, term: bytes, cid_max: int) -> tuple[NDArray[np.uint32], NDArray[np.uint16]]:
        """Gives the places and frequencies of the contents up to `cid_max` that have a term, ascending."""
        key = self.terms.find(term)
        if key < 0:
            return self.listed.rows[:0], self.frequencies[:0]
        start, end = int(self.listed.starts[key]), int(self.listed.starts[key + 1])
        if cid_max < self.hi:
            end = start + int(np.searchsorted(self.listed.rows[start:end], max(0, cid_max - self.lo + 1)))
        return self.listed.rows[start:end], self.frequencies[start:end]

    def arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The segment as plain values and named arrays, for a file."""
        return {"terms": self.term_total, "texts": self.text_count}, {
            "term.h": self.terms.heap,
            "term.o": self.terms.offsets,
            "starts": self.listed.starts,
            "rows": self.listed.rows,
            "frequencies": self.frequencies,
            "lengths": self.lengths,
        }

    @classmethod
    def of_arrays(cls, lo: int, hi: int, info: Mapping[str, Any], arrays: Arrays) -> TextSegment:
        """The segment that `arrays` gave."""
        terms = StringTable(arrays["term.h"], arrays["term.o"])
        listed = Postings(arrays["starts"], arrays["rows"])
        totals = info["texts"], info["terms"]
        segment = cls(lo, terms, listed, arrays["frequencies"], arrays["lengths"], totals)
        assert segment.hi == hi, "a text segment has one length a content"
        return segment
