"""Rows of unit vectors, by space, in the order in which they arrived. Immutable; exact search by inner product.

A segment covers the vectors `lo` to `hi` (their arrival numbers). Vectors of two spaces lie apart and are never
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Ints = NDArray[np.int64]
Arrays = Mapping[str, NDArray[Any]]


def unit(rows: Matrix) -> Matrix:
    """Gives the rows scaled to unit length, float32; a row of zeros stays one, and nothing but finite numbers comes
    out.
    """
    wide = rows.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def unit_of_bytes(vectors: Sequence[bytes], dimensions: int) -> Matrix:
    """Gives float32 little-endian vectors as unit rows, rows x dimensions."""
    return unit(np.frombuffer(b"".join(vectors), dtype="<f4").reshape(len(vectors), dimensions))


class Block:
    """Vectors of one space: `cids[i]` is the content that row i belongs to."""

    __slots__ = ("cids", "rows")

    def __init__(self, cids: Ints, rows: Matrix) -> None:
        self.cids = cids
        self.rows = rows

    def __len__(self) -> int:
        return len(self.cids)

    def copy(self) -> Block:
        """The same rows in arrays of their own."""
        return Block(self.cids.copy(), self.rows.copy())


class VectorSegment:
    """The vectors lo..hi, by space. Safe to read from any thread."""

    KIND = "vectors"

    def __init__(self, lo: int, hi: int, blocks: Mapping[int, Block]) -> None:
        self.lo = lo
        self.hi = hi
        self.blocks = dict(blocks)

    def __len__(self) -> int:
        return self.hi - self.lo + 1

    @classmethod
    def build(cls, lo: int, hi: int, arrived: Iterable[tuple[int, int, bytes]]) -> VectorSegment:
        """From (content, space, float32 little-endian bytes) in the order of arrival."""
        by_space: dict[int, list[tuple[int, bytes]]] = {}
        for cid, space, vector in arrived:
            by_space.setdefault(space, []).append((cid, vector))
        blocks = {}
        for space, members in by_space.items():
            cids = np.array([cid for cid, _ in members], dtype=np.int64)
            blocks[space] = Block(cids, unit_of_bytes([vector for _, vector in members], len(members[0][1]) // 4))
        return cls(lo, hi, blocks)

    @classmethod
    def merge(cls, parts: Sequence[VectorSegment]) -> VectorSegment:
        """Joins neighbours, oldest first."""
        assert all(a.hi + 1 == b.lo for a, b in pairwise(parts)), "segments must be neighbours"
        blocks = {}
        for space in sorted({space for part in parts for space in part.blocks}):
            found = [part.blocks[space] for part in parts if space in part.blocks]
            blocks[space] = Block(np.concatenate([b.cids for b in found]), np.concatenate([b.rows for b in found]))
        return cls(parts[0].lo, parts[-1].hi, blocks)

    def arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The segment as plain values and named arrays, for a file."""
        arrays: dict[str, NDArray[Any]] = {}
        for space, block in self.blocks.items():
            arrays[f"{space}.cids"] = block.cids
            arrays[f"{space}.rows"] = block.rows
        return {"spaces": list(self.blocks)}, arrays

    @classmethod
    def of_arrays(cls, lo: int, hi: int, info: Mapping[str, Any], arrays: Arrays) -> VectorSegment:
        """The segment that `arrays` gave."""
        return cls(lo, hi, {space: Block(arrays[f"{space}.cids"], arrays[f"{space}.rows"]) for space in info["spaces"]})
