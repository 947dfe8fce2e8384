"""What grows while an index is open: columns by version, vectors by space, and which contents have a text.

No lock of its own: the index serialises whoever changes it, and readers take snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.segments.spaces import GrowingSpace, SpaceRows
from engine.segments.vectors import unit_of_bytes
from engine.versions import VersionTable


class Growing:
    """The growing parts. `has_text[cid]` is read by views that may hold an older, shorter array."""

    def __init__(self) -> None:
        self.table = VersionTable()
        self.spaces: dict[int, GrowingSpace] = {}
        self.has_text: NDArray[np.bool_] = np.zeros(1024, dtype=bool)

    def space(self, number: int, dimensions: int) -> GrowingSpace:
        """The space of a number, made when it is new."""
        if number not in self.spaces:
            self.spaces[number] = GrowingSpace(dimensions)
        return self.spaces[number]

    def space_rows(self) -> dict[int, SpaceRows]:
        """Every space as it is now."""
        return {number: rows.snapshot() for number, rows in self.spaces.items()}

    def add_vectors(self, arrived: Sequence[tuple[int, int, bytes]]) -> set[int]:
        """Takes (cid, space, float32 bytes) in the order of arrival; gives the spaces that grew."""
        by_space: dict[int, list[tuple[int, bytes]]] = {}
        for cid, space, vector in arrived:
            by_space.setdefault(space, []).append((cid, vector))
        for space, rows in by_space.items():
            dimensions = len(rows[0][1]) // 4
            unit_rows = unit_of_bytes([vector for _, vector in rows], dimensions)
            self.space(space, dimensions).add([cid for cid, _ in rows], unit_rows)
        return set(by_space)

    def mark_texts(self, cid: int, present: NDArray[np.bool_]) -> None:
        """Says of the contents from `cid` on whether each has a text."""
        end = cid + len(present)
        if end > len(self.has_text):
            grown = np.zeros(2 * end, dtype=bool)
            grown[: len(self.has_text)] = self.has_text
            self.has_text = grown
        self.has_text[cid:end] = present

    def footprint_bytes(self) -> int:
        """Bytes held in memory, mapped vectors left out."""
        return self.table.footprint_bytes() + sum(space.footprint_bytes() for space in self.spaces.values())
