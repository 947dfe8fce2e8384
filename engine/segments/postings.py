"""Posting lists as two arrays: the rows of key i are `rows[starts[i] : starts[i + 1]]`, ascending. Pure numpy, no
I/O.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.uint32]
Ints = NDArray[np.int64]


class Postings:
    """Rows by key. Rows are uint32 places within one segment."""

    __slots__ = ("rows", "starts")

    def __init__(self, starts: Ints, rows: Rows) -> None:
        self.starts = starts
        self.rows = rows

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Postings:
        """From one list of rows a key."""
        starts = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, lists), dtype=np.int64, count=len(lists)), out=starts[1:])
        flat = (row for rows in lists for row in rows)
        return cls(starts, np.fromiter(flat, dtype=np.uint32, count=int(starts[-1])))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def of_key(self, key: int) -> Rows:
        """The rows of one key, ascending."""
        return self.rows[self.starts[key] : self.starts[key + 1]]

    def of_range(self, low: int, high: int) -> Rows:
        """The rows of the keys low..high-1: ascending within a key only."""
        return self.rows[self.starts[low] : self.starts[max(low, high)]]

    def of_keys(self, keys: Ints) -> Rows:
        """The rows of these keys, one key after the other."""
        if not len(keys):
            return self.rows[:0]
        counts = self.starts[keys + 1] - self.starts[keys]
        ends = np.cumsum(counts)
        shift = np.repeat(self.starts[keys] - (ends - counts), counts)
        return self.rows[shift + np.arange(int(ends[-1]))]

    def key_of_row_entries(self) -> Ints:
        """The key of each entry of `rows`."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))


def merge(
    parts: Sequence[Postings], places: Sequence[Ints], shifts: Sequence[int], key_count: int
) -> tuple[Postings, Ints]:
    """Joins postings whose keys were renumbered (`places`) and whose rows move up by `shifts` (ascending).

    Also gives the order in which the entries of all parts, laid end to end, were taken: for columns beside `rows`.
    """
    keys = np.concatenate([np.repeat(place, np.diff(part.starts)) for part, place in zip(parts, places, strict=True)])
    rows = np.concatenate([part.rows + np.uint32(shift) for part, shift in zip(parts, shifts, strict=True)])
    # Stable: the parts come in the order of their rows, so the rows of one key stay ascending.
    order = np.argsort(keys, kind="stable")
    starts = np.zeros(key_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=key_count), out=starts[1:])
    return Postings(starts, rows[order].astype(np.uint32, copy=False)), order
