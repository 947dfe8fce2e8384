"""When segments are merged: a pure decision over their sizes, oldest first.

Sizes fall into levels, each eight times the one below. A row of eight neighbours of one level or lower becomes one
segment of the next, so a row is rewritten once a level: at a million rows about four times, with at most seven
segments a level.
"""

from __future__ import annotations

from collections.abc import Sequence

FANOUT = 8
LEVEL_ROWS = 1024
"""Rows up to which a segment is of level 0."""

MERGED_ROWS_MAX = 524_288
"""No merge makes a larger segment: a merge holds its result in memory, and 0.8 GB of vectors is enough of that."""


def level(size: int) -> int:
    """Gives the level of a segment of so many rows."""
    rows, at = LEVEL_ROWS, 0
    while size > rows:
        rows, at = rows * FANOUT, at + 1
    return at


def due(sizes: Sequence[int]) -> slice | None:
    """Gives the neighbours to merge next, the lowest level first; None when nothing is due."""
    levels = [level(size) for size in sizes]
    for at in sorted(set(levels)):
        end = len(sizes)
        while end > 0:
            start = end
            while start > 0 and levels[start - 1] <= at:
                start -= 1
            while end - start >= FANOUT and _too_large(sizes[start:end]):
                start += 1
            if end - start >= FANOUT:
                return slice(start, end)
            end = start - 1
    return None


def _too_large(sizes: Sequence[int]) -> bool:
    """Whether the oldest of these would be rewritten for too little, or the result would be larger than any may be."""
    return sizes[0] > sum(sizes[1:]) or sum(sizes) > MERGED_ROWS_MAX
