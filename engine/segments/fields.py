"""The fields of a run of versions: one column a field, and the ids. Immutable; built from documents, merged from its
like.

A segment covers the versions `lo` to `hi` without a gap; row r is version lo + r. A version that is compacted away
is a row without fields. Which versions are alive at a generation is not known here: that is the version table's.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.filter import MISSING, NEGATIONS, JsonValue, ValueTest, fields_of, value_test
from engine.segments import columns, strings
from engine.segments.columns import Accumulator, Check, Column, Group
from engine.segments.orders import Order
from engine.segments.postings import Postings
from engine.segments.strings import StringTable

Mask = NDArray[np.bool_]
Arrays = Mapping[str, NDArray[Any]]

ORDERS_KEPT_MAX = 8
"""Orders remembered by a segment: 4 bytes a row each, made in milliseconds again."""


class FieldSegment:
    """Columns of the versions lo..hi. Safe to read from any thread."""

    KIND = "fields"

    def __init__(
        self, lo: int, hi: int, ids: StringTable, id_ranks: NDArray[np.uint32], made: Mapping[str, Column | _Slice]
    ) -> None:
        """`ids` and `id_ranks` have one entry a row; `made` holds columns, or what they are made of when asked."""
        self.lo = lo
        self.hi = hi
        self.ids = ids
        self.id_ranks = id_ranks
        self._made: dict[str, Column | _Slice] = dict(made)
        self._id_column: Column | None = None
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.hi - self.lo + 1

    @classmethod
    def build(cls, lo: int, hi: int, documents: Iterable[tuple[int, Mapping[str, Any]]]) -> FieldSegment:
        """From (version, document), ascending; versions of the range that are not given are rows without fields."""
        ids = [b""] * (hi - lo + 1)
        accumulators: dict[str, Accumulator] = {}
        for ver, document in documents:
            row = ver - lo
            ids[row] = str(document.get("id", "")).encode()
            for field, value in fields_of(document).items():
                if field == "id":
                    continue
                accumulator = accumulators.get(field)
                if accumulator is None:
                    accumulator = accumulators[field] = Accumulator()
                accumulator.add(row, value)
        table = StringTable.of(ids)
        made = {field: accumulator.column() for field, accumulator in accumulators.items()}
        return cls(lo, hi, table, _ranks(table), made)

    @classmethod
    def merge(cls, parts: Sequence[FieldSegment]) -> FieldSegment:
        """Joins neighbours, oldest first. Work in numpy: documents are not needed."""
        assert all(a.hi + 1 == b.lo for a, b in pairwise(parts)), "segments must be neighbours"
        shifts = [part.lo - parts[0].lo for part in parts]
        names = sorted({name for part in parts for name in part.fields()})
        made = {name: columns.merge([part.column(name) for part in parts], shifts) for name in names}
        ids = strings.concatenate([part.ids for part in parts])
        return cls(parts[0].lo, parts[-1].hi, ids, _ranks(ids), made)

    def fields(self) -> list[str]:
        """The names of the fields that some row has."""
        return list(self._made)

    def column(self, field: str) -> Column | None:
        """The column of a field, None when no row has it."""
        if field == "id":
            return self._made_of_ids()
        made = self._made.get(field)
        if made is None or isinstance(made, Column):
            return made
        column = _column_of(made)
        self._made[field] = column
        return column

    def _made_of_ids(self) -> Column:
        if self._id_column is None:
            order = np.empty(len(self), dtype=np.int64)
            order[self.id_ranks] = np.arange(len(self))
            starts = np.arange(len(self) + 1, dtype=np.int64)
            self._id_column = Column({"s": Group(self.ids.take(order), Postings(starts, order.astype(np.uint32)))})
        return self._id_column

    def holding(self, field: str, op: str, operand: JsonValue, check: Check) -> Mask:
        """Gives the mask of the rows for which one test of a filter holds; exactly `value_test` of each row's value.

        `check` is called now and then where values are evaluated one by one; what it raises goes through.
        """
        if op in NEGATIONS:
            return ~self.holding(field, NEGATIONS[op], operand, check)
        if op in ("exists", "missing"):
            present = self._present(field)
            return present if operand == (op == "exists") else ~present
        test = value_test(op, operand)
        mask = np.zeros(len(self), dtype=bool)
        column = self.column(field)
        if column is not None:
            for rows in column.having(op, operand, test, check):
                mask[rows] = True
        return self._with_missing(mask, column, test)

    def _with_missing(self, mask: Mask, column: Column | None, test: ValueTest) -> Mask:
        if not test(MISSING):
            return mask
        lacking = np.ones(len(self), dtype=bool)
        if column is not None:
            for rows in column.present():
                lacking[rows] = False
        return mask | lacking

    def _present(self, field: str) -> Mask:
        """The rows that have the field and a value other than null."""
        mask = np.zeros(len(self), dtype=bool)
        column = self.column(field)
        if column is not None:
            for rows in column.present():
                mask[rows] = True
            mask[column.null()] = False
        return mask

    def order(self, field: str) -> Order:
        """The order of the rows by a field."""
        with self._lock:
            known = self._orders.get(field)
            if known is not None:
                self._orders.move_to_end(field)
                return known
        order = Order(self.column(field), len(self))
        with self._lock:
            self._orders[field] = order
            while len(self._orders) > ORDERS_KEPT_MAX:
                self._orders.popitem(last=False)
        return order

    def arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The segment as plain values and named arrays, for a file."""
        arrays: dict[str, NDArray[Any]] = {"id.h": self.ids.heap, "id.o": self.ids.offsets, "id.r": self.id_ranks}
        names = self.fields()
        kinds = []
        for number, name in enumerate(names):
            column = self.column(name)
            assert column is not None
            kinds.append(list(column.groups))
            for kind, group in column.groups.items():
                arrays.update(_group_arrays(f"{number}.{kind}", group))
        return {"fields": names, "kinds": kinds}, arrays

    @classmethod
    def of_arrays(cls, lo: int, hi: int, info: Mapping[str, Any], arrays: Arrays) -> FieldSegment:
        """The segment that `arrays` gave. Columns are made when they are first asked for."""
        made = {name: _Slice(arrays, number, info["kinds"][number]) for number, name in enumerate(info["fields"])}
        return cls(lo, hi, StringTable(arrays["id.h"], arrays["id.o"]), arrays["id.r"], made)


class _Slice:
    """The arrays of one field of a file, none of them touched yet."""

    __slots__ = ("_arrays", "_number", "kinds")

    def __init__(self, arrays: Arrays, number: int, kinds: Sequence[str]) -> None:
        self._arrays = arrays
        self._number = number
        self.kinds = kinds

    def array(self, name: str) -> NDArray[Any]:
        """The array of this field with the given name inside it."""
        return self._arrays[f"{self._number}.{name}"]


def _ranks(ids: StringTable) -> NDArray[np.uint32]:
    """The place of each row when rows are sorted by id."""
    ranks = np.empty(len(ids), dtype=np.uint32)
    ranks[ids.order()] = np.arange(len(ids), dtype=np.uint32)
    return ranks


def _group_arrays(prefix: str, group: Group) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {f"{prefix}.s": group.postings.starts, f"{prefix}.r": group.postings.rows}
    if isinstance(group.table, StringTable):
        return {**arrays, f"{prefix}.h": group.table.heap, f"{prefix}.o": group.table.offsets}
    return {**arrays, f"{prefix}.n": group.table}


def _column_of(stored: _Slice) -> Column:
    groups = {}
    for kind in stored.kinds:
        text = kind[-1] in "sbj"
        table = StringTable(stored.array(f"{kind}.h"), stored.array(f"{kind}.o")) if text else stored.array(f"{kind}.n")
        groups[kind] = Group(table, Postings(stored.array(f"{kind}.s"), stored.array(f"{kind}.r")))
    return Column(groups)
