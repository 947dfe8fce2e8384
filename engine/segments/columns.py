"""One field of a segment: its distinct values by kind, each with the rows that have it. Pure numpy, no I/O.

Values are split by kind so that each kind can be sorted and searched as what it is:

    n  numbers that a float64 holds exactly      s  strings          c  false, true, null
    b  integers beyond 2^53 that it does not     j  lists and objects, as canonical JSON

and the scalar members of lists a second time as `en`, `es`, `eb`, `ec`, which answers membership without opening lists.
Any operator that has no shortcut is asked of every distinct value: the evaluator decides, the column only remembers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from contract.limits import READ_CHUNK_ROWS_MAX
from engine.filter import JsonValue, ValueTest, canonical, is_number
from engine.segments import postings, strings
from engine.segments.postings import Postings, Rows
from engine.segments.strings import StringTable

Numbers = NDArray[np.float64]
Ints = NDArray[np.int64]
Table = Numbers | StringTable
Check = Callable[[], None]

KINDS: Final[tuple[str, ...]] = ("n", "s", "b", "j", "c", "en", "es", "eb", "ec")
VALUE_KINDS: Final = ("n", "s", "b", "j", "c")
CONSTANTS: Final = (False, True, None)
_CONSTANT_NUMBERS: Final = np.arange(len(CONSTANTS), dtype=np.float64)


class Group:
    """The distinct values of one kind, ascending, with their rows."""

    __slots__ = ("postings", "table")

    def __init__(self, table: Table, listed: Postings) -> None:
        self.table = table
        self.postings = listed

    def __len__(self) -> int:
        return len(self.postings)


def kind_and_key(value: JsonValue) -> tuple[str, JsonValue]:
    """Gives the kind of a JSON value and its key inside that kind (see the head of this module)."""
    if isinstance(value, str):
        return "s", value
    if value is None or isinstance(value, bool):
        return "c", CONSTANTS.index(value) if value is None else int(value)
    if isinstance(value, float):
        return "n", value + 0.0  # -0.0 and 0.0 are one number
    if isinstance(value, int):
        return ("n", float(value)) if int(float(value)) == value else ("b", str(value))
    return "j", canonical(value)


class Accumulator:
    """Collects the values of one field, row by row, ascending."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, dict[Any, list[int]]] = {}

    def add(self, row: int, value: JsonValue) -> None:
        """Takes the value that a row has."""
        kind, key = kind_and_key(value)
        self._post(kind, key, row)
        if kind == "j" and isinstance(value, (list, tuple)):
            members = {kind_and_key(item) for item in value if not isinstance(item, (list, tuple, Mapping))}
            for kind, key in members:
                self._post(f"e{kind}", key, row)

    def _post(self, kind: str, key: JsonValue, row: int) -> None:
        self._groups.setdefault(kind, {}).setdefault(key, []).append(row)

    def column(self) -> Column:
        """The finished column."""
        groups = {}
        for kind, rows_by_key in self._groups.items():
            if kind[-1] in "sbj":
                encoded = {key.encode(): rows for key, rows in rows_by_key.items()}
                keys = sorted(encoded)
                groups[kind] = Group(StringTable.of(keys), Postings.of([encoded[key] for key in keys]))
            elif kind[-1] == "c":
                lists = [rows_by_key.get(key, []) for key in range(len(CONSTANTS))]
                groups[kind] = Group(_CONSTANT_NUMBERS, Postings.of(lists))
            else:
                numbers = sorted(rows_by_key)
                lists = [rows_by_key[number] for number in numbers]
                groups[kind] = Group(np.array(numbers, dtype=np.float64), Postings.of(lists))
        return Column(groups)


class Column:
    """The values of one field in one segment. Rows given out are uint32; those of several keys come unsorted."""

    __slots__ = ("groups",)

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self.groups = groups

    def present(self) -> list[Rows]:
        """The rows that have the field at all, null included, in pieces that do not overlap."""
        return [self.groups[kind].postings.rows for kind in VALUE_KINDS if kind in self.groups]

    def null(self) -> Rows:
        """The rows whose value is null."""
        return self._of_key("c", CONSTANTS.index(None))

    def having(self, op: str, operand: JsonValue, test: ValueTest, check: Check) -> list[Rows]:
        """Gives the rows whose value passes, in pieces that may overlap. Rows without the field are the caller's part.

        `test` is the operator's own test; it is asked of each distinct value where no shortcut is known, and `check`
        is called at least every 256 of them.
        """
        shortcut = _SHORTCUTS.get(op)
        found = shortcut(self, operand) if shortcut is not None else None
        return self.passing(test, check, _KINDS_OF.get(op, VALUE_KINDS)) if found is None else found

    def passing(self, test: ValueTest, check: Check, kinds: Sequence[str] = VALUE_KINDS) -> list[Rows]:
        """The rows of every distinct value of these kinds that passes a test."""
        pieces = []
        for kind in kinds:
            group = self.groups.get(kind)
            if group is None:
                continue
            keys = []
            for index, value in enumerate(values_of(kind, group.table)):
                if index % READ_CHUNK_ROWS_MAX == 0:
                    check()
                if test(value):
                    keys.append(index)
            pieces.append(group.postings.of_keys(np.asarray(keys, dtype=np.int64)))
        return pieces

    def _of_key(self, kind: str, key: JsonValue) -> Rows:
        """The rows of one key, none when the kind or the key is absent."""
        group = self.groups.get(kind)
        index = -1 if group is None else _index_of(kind, group.table, key)
        return np.empty(0, np.uint32) if group is None or index < 0 else group.postings.of_key(index)

    def equal(self, operand: JsonValue) -> list[Rows]:
        """The rows whose value is the operand, or is a list that has the scalar operand as a member."""
        kind, key = kind_and_key(operand)
        pieces = [self._of_key(kind, key)]
        if kind != "j":
            pieces.append(self._of_key(f"e{kind}", key))
        return pieces

    def one_of(self, operand: Sequence[Any]) -> list[Rows]:
        """The union of `equal` over a list."""
        return [rows for item in operand for rows in self.equal(item)]

    def ordered(self, op: str, operand: JsonValue) -> list[Rows]:
        """The rows on one side of a bound: numbers for a number, strings for a string."""
        if isinstance(operand, str):
            return self._ordered_strings(op, operand.encode())
        pieces = []
        if "n" in self.groups:
            group = self.groups["n"]
            assert isinstance(group.table, np.ndarray)
            pieces.append(group.postings.of_range(*number_range(op, operand, group.table)))
        if "b" in self.groups:
            pieces.append(self._big_where(lambda number: _COMPARE[op](number, operand)))
        return pieces

    def _ordered_strings(self, op: str, bound: bytes) -> list[Rows]:
        group = self.groups.get("s")
        if group is None:
            return []
        assert isinstance(group.table, StringTable)
        cut = group.table.bisect(bound, after=op in ("greaterThan", "lessEqual"))
        low, high = (cut, len(group)) if op.startswith("greater") else (0, cut)
        return [group.postings.of_range(low, high)]

    def _big_where(self, test: Callable[[int], bool]) -> Rows:
        group = self.groups["b"]
        keys = [index for index, number in enumerate(values_of("b", group.table)) if test(number)]
        return group.postings.of_keys(np.asarray(keys, dtype=np.int64))

    def between(self, operand: Sequence[Any]) -> list[Rows] | None:
        """The rows within two bounds, both included. None when the bounds differ in kind, or there are big integers."""
        low, high = operand
        group = self.groups.get("s" if isinstance(low, str) else "n")
        if isinstance(low, str) != isinstance(high, str) or (is_number(low) and "b" in self.groups):
            return None
        if group is None:
            return []
        if isinstance(group.table, StringTable):
            start, end = group.table.bisect(low.encode()), group.table.bisect(high.encode(), after=True)
        else:
            start = number_range("greaterEqual", low, group.table)[0]
            end = number_range("lessEqual", high, group.table)[1]
        return [group.postings.of_range(start, max(start, end))]

    def contains(self, operand: JsonValue) -> list[Rows] | None:
        """The rows whose list has the member, or whose string has the substring. None when the operand is no scalar."""
        kind, key = kind_and_key(operand)
        if kind == "j":
            return None
        pieces = [self._of_key(f"e{kind}", key)]
        if kind == "s" and "s" in self.groups:
            pieces.append(self._string_keys(lambda table: table.containing(key.encode())))
        return pieces

    def has_all(self, operand: Sequence[Any]) -> list[Rows] | None:
        """The rows whose list has every member. None when there is none to look up, or one is no scalar."""
        keys = [kind_and_key(item) for item in operand]
        if not keys or any(kind == "j" for kind, _ in keys):
            return None
        found = sorted((self._of_key(f"e{kind}", key) for kind, key in set(keys)), key=len)
        rows = found[0]
        for other in found[1:]:
            rows = np.intersect1d(rows, other, assume_unique=True)
        return [rows]

    def starts_with(self, operand: str) -> list[Rows]:
        """The rows whose string has the prefix."""
        group = self.groups.get("s")
        if group is None:
            return []
        assert isinstance(group.table, StringTable)
        return [group.postings.of_range(*group.table.prefixed(operand.encode()))]

    def ends_with(self, operand: str) -> list[Rows]:
        """The rows whose string has the suffix."""
        return (
            [self._string_keys(lambda table: table.containing(operand.encode() + b"\0"))] if "s" in self.groups else []
        )

    def _string_keys(self, pick: Callable[[StringTable], Ints]) -> Rows:
        group = self.groups["s"]
        assert isinstance(group.table, StringTable)
        return group.postings.of_keys(pick(group.table))


_COMPARE: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "greaterThan": lambda value, bound: bool(value > bound),
    "greaterEqual": lambda value, bound: bool(value >= bound),
    "lessThan": lambda value, bound: bool(value < bound),
    "lessEqual": lambda value, bound: bool(value <= bound),
}

_KINDS_OF: Final[Mapping[str, Sequence[str]]] = {"hasAll": ("j",), "matches": ("s",)}
"""Kinds outside which an operator never holds: the others need not be asked."""

_SHORTCUTS: Final[Mapping[str, Callable[[Column, Any], list[Rows] | None]]] = {
    "equals": Column.equal,
    "oneOf": Column.one_of,
    "contains": Column.contains,
    "hasAll": Column.has_all,
    "startsWith": Column.starts_with,
    "endsWith": Column.ends_with,
    "between": Column.between,
    "greaterThan": lambda column, operand: column.ordered("greaterThan", operand),
    "greaterEqual": lambda column, operand: column.ordered("greaterEqual", operand),
    "lessThan": lambda column, operand: column.ordered("lessThan", operand),
    "lessEqual": lambda column, operand: column.ordered("lessEqual", operand),
}


def _index_of(kind: str, table: Table, key: JsonValue) -> int:
    if isinstance(table, StringTable):
        return table.find(key.encode())
    if kind[-1] == "c":
        return int(key)
    index = int(np.searchsorted(table, key))
    return index if index < len(table) and table[index] == key else -1


def values_of(kind: str, table: Table) -> Iterator[JsonValue]:
    """Gives the distinct values of a kind as the evaluator knows them, in key order."""
    if not isinstance(table, StringTable):
        return iter(CONSTANTS if kind[-1] == "c" else table.tolist())
    if kind[-1] == "s":
        return (text.decode() for text in table)
    return (int(text) if kind[-1] == "b" else json.loads(text) for text in table)


def number_range(op: str, bound: float, numbers: Numbers) -> tuple[int, int]:
    """Gives the half-open range of ascending float64 keys on one side of a bound, exactly.

    A bound that no float64 holds lies between two of them: the nearest one is on a known side of it, and equality
    cannot happen.
    """
    nearest = float(bound)
    after = op in ("greaterThan", "lessEqual")
    if nearest != bound:
        after = nearest < bound
    cut = int(np.searchsorted(numbers, nearest, side="right" if after else "left"))
    return (cut, len(numbers)) if op.startswith("greater") else (0, cut)


def merge(columns: Sequence[Column | None], shifts: Sequence[int]) -> Column:
    """Joins the columns of one field from segments whose rows move up by `shifts`; None where a segment lacks the
    field.
    """
    groups = {}
    for kind in KINDS:
        parts = [
            (column.groups[kind], shift)
            for column, shift in zip(columns, shifts, strict=True)
            if column is not None and kind in column.groups
        ]
        if parts:
            table, places = _merge_tables([group.table for group, _ in parts])
            listed = [group.postings for group, _ in parts]
            moved, _ = postings.merge(listed, places, [shift for _, shift in parts], len(table))
            groups[kind] = Group(table, moved)
    return Column(groups)


def _merge_tables(tables: Sequence[Table]) -> tuple[Table, list[Ints]]:
    texts = [table for table in tables if isinstance(table, StringTable)]
    if texts:
        return strings.merge(texts)
    numbers = [table for table in tables if not isinstance(table, StringTable)]
    union, inverse = np.unique(np.concatenate(numbers), return_inverse=True)
    return union, np.split(inverse.astype(np.int64), np.cumsum([len(table) for table in numbers])[:-1])
