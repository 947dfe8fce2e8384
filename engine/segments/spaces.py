"""The vectors of one space while the brain is open: sealed blocks, a growing tail, and where each content's row is.

Rows are numbered in the order of arrival; sealing and merging keep the order, so a row's number never changes. A
content keeps the vectors of a space that came first, together: the passages of its text, or the one vector that it
has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.segments.vectors import Block, Ints, Matrix

FULL_SCAN_SHARE = 0.6
"""Share of the rows from which one product over everything costs no more than gathering (100,000 rows of 384: 50 %
gathered 8.5 ms, everything 17 to 20 ms, on one busy core).
"""

GATHER_ROWS_MAX = 256
"""Rows gathered at a time. The copy (0.4 MB at 384 wide) then stays in the processor's second cache: 10,000 rows take
1.3 ms in pieces of 256, 2.0 ms in pieces of 4,096, and 20,000 take 2.7 and 8.4.
"""

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, slots=True)
class SpaceRows:
    """The rows of one space at one moment: `row_of_cid` is a content's first row, `run_of_cid` how many follow one
    another from it. Both may know later rows, which are not part of it.
    """

    dimensions: int
    blocks: tuple[Block, ...]
    tail: Block
    row_of_cid: Ints
    run_of_cid: Ints

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(len(block) for block in self.blocks) + len(self.tail)

    def rows_of(self, cids: Ints) -> Ints:
        """Gives the row of each content, -1 where it has no vector in this space."""
        known = np.minimum(cids, len(self.row_of_cid) - 1)
        rows = np.where(known == cids, self.row_of_cid[known], -1)
        return np.where(rows < self.count, rows, -1)

    def nearest(self, query: Matrix, cids: Ints) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Gives the highest inner product of a unit vector with the rows of each content, float32, and which contents
        have any; 0 where there is none.
        """
        found = np.zeros(len(cids), dtype=np.float32)
        rows = self.rows_of(cids)
        known = rows >= 0
        firsts, runs = rows[known], self.run_of_cid[cids[known]]
        if len(firsts) == int(runs.sum()):
            found[known] = self.products(query, firsts)
            return found, known
        starts = np.cumsum(runs) - runs
        every = np.arange(int(runs.sum())) - np.repeat(starts - firsts, runs)
        found[known] = np.maximum.reduceat(self.products(query, every), starts)
        return found, known

    def row(self, row: int) -> Matrix:
        """The unit vector of a row."""
        for block in (*self.blocks, self.tail):
            if row < len(block):
                return np.asarray(block.rows[row])
            row -= len(block)
        raise IndexError("no such row")

    def products(self, query: Matrix, rows: Ints) -> NDArray[np.float32]:
        """Gives the inner product of a unit vector with each of these rows, float32, exactly over every one of them."""
        if len(rows) > FULL_SCAN_SHARE * self.count:
            everything = np.concatenate([block.rows @ query for block in (*self.blocks, self.tail)])
            return np.asarray(everything[rows], dtype=np.float32)
        products = np.empty(len(rows), dtype=np.float32)
        low = 0
        for block in (*self.blocks, self.tail):
            inside = np.flatnonzero((rows >= low) & (rows < low + len(block)))
            for start in range(0, len(inside), GATHER_ROWS_MAX):
                part = inside[start : start + GATHER_ROWS_MAX]
                products[part] = block.rows[rows[part] - low] @ query
            low += len(block)
        return products


class GrowingSpace:
    """The writer's side of one space. Calls are serialised by the caller."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._blocks: tuple[Block, ...] = ()
        self._sealed_count = 0
        self._cids = np.empty(0, np.int64)
        self._rows = np.empty((0, dimensions), np.float32)
        self._row_of_cid = np.full(1024, -1, dtype=np.int64)
        self._run_of_cid = np.zeros(1024, dtype=np.int64)
        self.tail_count = 0

    def add(self, cids: Sequence[int], rows: Matrix) -> None:
        """Takes unit vectors; those of one content follow one another."""
        start, end = self.tail_count, self.tail_count + len(cids)
        if end > len(self._cids):
            capacity = max(64, 2 * end)
            self._cids = _grown(self._cids, start, capacity)
            self._rows = _grown(self._rows, start, capacity)
        self._cids[start:end] = cids
        self._rows[start:end] = rows
        self._reserve(max(cids))
        for row, cid in enumerate(cids, self._sealed_count + start):
            if self._row_of_cid[cid] < 0:
                self._row_of_cid[cid], self._run_of_cid[cid] = row, 1
            elif self._row_of_cid[cid] + self._run_of_cid[cid] == row:
                self._run_of_cid[cid] += 1
        self.tail_count = end

    def load(self, block: Block) -> None:
        """Takes a sealed block that follows what is here; the tail must still be empty."""
        assert not self.tail_count, "blocks are loaded before anything arrives"
        if len(block):
            self._reserve(int(block.cids.max()))
            self._load_runs(block.cids)
        self._blocks += (block,)
        self._sealed_count += len(block)

    def _load_runs(self, cids: Ints) -> None:
        """Notes where the rows of a block belong, a run at a time; a run may begin in the block before."""
        starts = np.concatenate(([0], np.flatnonzero(np.diff(cids)) + 1))
        lengths = np.diff(np.concatenate((starts, [len(cids)])))
        owners, rows = cids[starts], starts + self._sealed_count
        first = int(owners[0])
        if self._row_of_cid[first] >= 0 and self._row_of_cid[first] + self._run_of_cid[first] == rows[0]:
            self._run_of_cid[first] += lengths[0]
        fresh = self._row_of_cid[owners] < 0
        # Backwards, so that of two runs of one content the first stays.
        self._row_of_cid[owners[fresh][::-1]] = rows[fresh][::-1]
        self._run_of_cid[owners[fresh][::-1]] = lengths[fresh][::-1]

    def seal(self, block: Block) -> None:
        """Replaces the first rows of the tail by the block that was made of them."""
        count = len(block)
        self._cids = self._cids[count:].copy()
        self._rows = self._rows[count:].copy()
        self.tail_count -= count
        self._blocks += (block,)
        self._sealed_count += count

    def replace(self, blocks: Sequence[Block]) -> None:
        """Puts merged blocks in the place of those that held the same rows."""
        assert sum(map(len, blocks)) == self._sealed_count, "a merge keeps every row"
        self._blocks = tuple(blocks)

    def snapshot(self) -> SpaceRows:
        """The rows as they are now."""
        tail = Block(self._cids[: self.tail_count], self._rows[: self.tail_count])
        return SpaceRows(self.dimensions, self._blocks, tail, self._row_of_cid, self._run_of_cid)

    def _reserve(self, cid: int) -> None:
        size = len(self._row_of_cid)
        if cid >= size:
            grown = np.full(max(2 * size, cid + 1), -1, dtype=np.int64)
            grown[:size] = self._row_of_cid
            runs = np.zeros(len(grown), dtype=np.int64)
            runs[:size] = self._run_of_cid
            self._row_of_cid, self._run_of_cid = grown, runs

    def footprint_bytes(self) -> int:
        """Bytes held in memory, mapped blocks left out."""
        return self._cids.nbytes + self._rows.nbytes + self._row_of_cid.nbytes + self._run_of_cid.nbytes


def _grown(array: NDArray[_Number], count: int, capacity: int) -> NDArray[_Number]:
    grown = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
    grown[:count] = array[:count]
    return grown
