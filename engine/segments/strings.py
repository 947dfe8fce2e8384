"""Tables of strings as two arrays: UTF-8 bytes end to end, and where each string begins. Pure numpy, no I/O.

Byte order of UTF-8 is code point order, so a sorted table answers ranges and prefixes by bisection. Every string is
followed by a NUL, which no stored text may contain: substrings are searched in the bytes as they lie.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

PREFIX_BYTES = 64
"""Strings are sorted by this many leading bytes in numpy (which lets other threads run); only longer equals in
Python.
"""

GATHER_STRINGS_MAX = 65_536
"""Strings copied in one numpy step: an index of eight bytes a byte is made for each."""


class StringTable:
    """`offsets` has one entry a string and one more; string i is `heap[offsets[i] : offsets[i + 1] - 1]`."""

    __slots__ = ("_view", "heap", "offsets")

    def __init__(self, heap: Bytes, offsets: NDArray[np.int64]) -> None:
        self.heap = heap
        self.offsets = offsets
        self._view = np.ascontiguousarray(heap).data if len(heap) else memoryview(b"")

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> StringTable:
        """The table of these strings, in this order."""
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        offsets = np.zeros(len(strings) + 1, dtype=np.int64)
        np.cumsum(lengths + 1, out=offsets[1:])
        heap = np.frombuffer(b"\0".join([*strings, b""]), dtype=np.uint8)
        return cls(heap, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return bytes(self._view[self.offsets[index] : self.offsets[index + 1] - 1])

    def __iter__(self) -> Iterator[bytes]:
        bounds = self.offsets.tolist()
        for start, end in pairwise(bounds):
            yield bytes(self._view[start : end - 1])

    def bisect(self, key: bytes, *, after: bool = False) -> int:
        """Gives the first index whose string is >= `key` (> `key` with `after`) in a sorted table."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            here = self[middle]
            if here < key or (after and here == key):
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, key: bytes) -> int:
        """Gives the index of a string in a sorted table, -1 when it is not there."""
        index = self.bisect(key)
        return index if index < len(self) and self[index] == key else -1

    def prefixed(self, prefix: bytes) -> tuple[int, int]:
        """Gives the half-open range of strings with a prefix, in a sorted table."""
        low = self.bisect(prefix)
        # 0xFF is in no UTF-8 text, so this is above every string with the prefix.
        return low, self.bisect(prefix + b"\xff")

    def containing(self, needle: bytes) -> Ints:
        """Gives the indexes of the strings that contain `needle`, ascending. A needle ending in NUL means "ends
        with".
        """
        if not needle or not len(self):
            return np.arange(len(self), dtype=np.int64)
        found = [hit.start() for hit in re.finditer(re.escape(needle), self._view)]
        places = np.searchsorted(self.offsets, np.asarray(found, dtype=np.int64), side="right") - 1
        return np.unique(places)

    def take(self, indexes: Ints) -> StringTable:
        """The table of the strings at these indexes, in that order."""
        lengths = self.offsets[indexes + 1] - self.offsets[indexes]
        offsets = np.zeros(len(indexes) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        heap = np.empty(int(offsets[-1]), dtype=np.uint8)
        for low in range(0, len(indexes), GATHER_STRINGS_MAX):
            high = min(low + GATHER_STRINGS_MAX, len(indexes))
            start, end = int(offsets[low]), int(offsets[high])
            shift = self.offsets[indexes[low:high]] - offsets[low:high]
            heap[start:end] = self.heap[np.repeat(shift, lengths[low:high]) + np.arange(start, end)]
        return StringTable(heap, offsets)

    def order(self) -> Ints:
        """Gives the indexes in ascending order of their strings; equal strings keep their order."""
        prefixes = self._prefixes()
        order = np.argsort(prefixes, kind="stable").astype(np.int64)
        lengths = self.offsets[1:] - self.offsets[:-1] - 1
        if not (lengths > PREFIX_BYTES).any():
            return order
        ordered = prefixes[order]
        same = np.concatenate(([False], ordered[1:] == ordered[:-1]))
        starts = np.flatnonzero(~same)
        ends = np.append(starts[1:], len(order))
        for low, high in zip(starts.tolist(), ends.tolist(), strict=True):
            if high - low > 1:
                order[low:high] = sorted(order[low:high].tolist(), key=self.__getitem__)
        return order

    def _prefixes(self) -> NDArray[np.bytes_]:
        lengths = np.minimum(self.offsets[1:] - self.offsets[:-1] - 1, PREFIX_BYTES)
        width = int(lengths.max(initial=1)) or 1
        columns = np.arange(width)
        padded = np.zeros((len(self), width), dtype=np.uint8)
        for low in range(0, len(self), GATHER_STRINGS_MAX):
            part = slice(low, min(low + GATHER_STRINGS_MAX, len(self)))
            inside = columns < lengths[part, None]
            padded[part][inside] = self.heap[(self.offsets[:-1][part, None] + columns)[inside]]
        return padded.view(f"S{width}").ravel()


def concatenate(tables: Sequence[StringTable]) -> StringTable:
    """The strings of all tables, one table after the other."""
    shifts = np.cumsum([0, *(len(table.heap) for table in tables)])
    offsets = [table.offsets[:-1] + shift for table, shift in zip(tables, shifts.tolist(), strict=False)]
    heaps = [table.heap for table in tables]
    return StringTable(
        np.concatenate(heaps) if heaps else np.empty(0, np.uint8),
        np.concatenate([*offsets, shifts[-1:]]).astype(np.int64),
    )


def merge(tables: Sequence[StringTable]) -> tuple[StringTable, list[Ints]]:
    """The sorted union of sorted tables, and for each table where its strings went."""
    everything = concatenate(tables)
    if not len(everything):
        return everything, [np.empty(0, np.int64) for _ in tables]
    order = everything.order()
    first = np.ones(len(order), dtype=bool)
    first[1:] = ~_equal_neighbours(everything, order)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(first) - 1
    cuts = np.cumsum([len(table) for table in tables])[:-1]
    return everything.take(order[first]), np.split(place, cuts)


def _equal_neighbours(table: StringTable, order: Ints) -> NDArray[np.bool_]:
    """Whether each string of the order, from the second on, equals the one before it."""
    starts = table.offsets[:-1][order]
    lengths = table.offsets[1:][order] - starts
    prefixes = table._prefixes()[order]
    equal: NDArray[np.bool_] = (lengths[1:] == lengths[:-1]) & (prefixes[1:] == prefixes[:-1])
    for index in np.flatnonzero(equal & (lengths[1:] > PREFIX_BYTES + 1)).tolist():
        equal[index] = table[int(order[index])] == table[int(order[index + 1])]
    return equal
