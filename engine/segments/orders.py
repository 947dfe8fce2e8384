"""Ordering by a field: what a value is ordered by, and the ranks of a segment's rows. Pure numpy, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from engine.filter import MISSING, JsonValue
from engine.segments.columns import VALUE_KINDS, Column, values_of
from engine.segments.strings import StringTable

OrderKey = tuple[int, JsonValue]
"""What a row is ordered by: class (0 numbers, 1 strings, 2 booleans), then the value."""


def order_key(value: JsonValue) -> OrderKey | None:
    """Gives what a value is ordered by, None when it has no place in an order (missing, null, an object, an empty
    list).

    Numbers come before strings before booleans. A list is ordered by its least member, in both directions.
    """
    if value is MISSING or value is None or isinstance(value, Mapping):
        return None
    if isinstance(value, (list, tuple)):
        keys = [key for item in value if not isinstance(item, (list, tuple)) and (key := order_key(item)) is not None]
        return min(keys, default=None)
    if isinstance(value, bool):
        return 2, value
    return (1, value) if isinstance(value, str) else (0, value)


LACKING: Final = -1
"""The rank of a row that has no place in an order."""


class Order:
    """The order of one field in one segment: `ranks[row]` ascends with the value and is -1 where there is none."""

    __slots__ = ("_keys", "_numbers", "_texts", "ranks")

    def __init__(self, column: Column | None, row_count: int) -> None:
        self.ranks = np.full(row_count, -1, dtype=np.int32)
        self._keys: list[OrderKey] | None = None
        self._numbers = np.empty(0, np.float64)
        self._texts = StringTable.of([])
        if column is None:
            return
        if "b" in column.groups or "j" in column.groups:
            self._rank_by_key(column)
        else:
            self._rank_by_kind(column)

    def _rank_by_kind(self, column: Column) -> None:
        base = 0
        for kind in ("n", "s", "c"):
            group = column.groups.get(kind)
            if group is None:
                continue
            self.ranks[group.postings.rows] = group.postings.key_of_row_entries() + base
            base += len(group)
            if isinstance(group.table, StringTable):
                self._texts = group.table
            elif kind == "n":
                self._numbers = group.table
        self.ranks[column.null()] = -1

    def _rank_by_key(self, column: Column) -> None:
        """The slow way, for lists and integers beyond float64: every distinct key is sorted in Python."""
        keyed = [
            (kind, index, order_key(value))
            for kind in VALUE_KINDS
            if kind in column.groups
            for index, value in enumerate(values_of(kind, column.groups[kind].table))
        ]
        keys = sorted({key for _, _, key in keyed if key is not None})
        rank_of = {key: rank for rank, key in enumerate(keys)}
        for kind, index, key in keyed:
            if key is not None:
                self.ranks[column.groups[kind].postings.of_key(index)] = rank_of[key]
        self._keys = keys

    def key_of(self, rank: int) -> OrderKey:
        """Gives the value that a rank stands for."""
        if self._keys is not None:
            return self._keys[rank]
        if rank < len(self._numbers):
            return 0, float(self._numbers[rank])
        rank -= len(self._numbers)
        if rank < len(self._texts):
            return 1, self._texts[rank].decode()
        return 2, bool(rank - len(self._texts))
