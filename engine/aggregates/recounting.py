"""The kept groups of an aggregate held against the records: exact, group by group and value by value."""

from __future__ import annotations

from collections.abc import Iterable

from engine.aggregates.definition import Definition
from engine.aggregates.grouping import Document
from engine.aggregates.state import GroupRow, Sums, recompute, rows_of


def differing(definition: Definition, kept: Iterable[GroupRow], documents: Iterable[Document]) -> list[str]:
    """The keys of groups that the records do not make, that are lacking, or that hold other numbers.

    One pass over the records. `QueryLimitError` for more groups and values than one call may hold in memory.
    """
    truth = {_name(row): row for row in rows_of(recompute(definition, documents))}
    wrong = []
    for row in kept:
        counted = truth.pop(_name(row), None)
        if counted is None or not _equal(row, counted):
            wrong.append(_name(row))
    return [*wrong, *truth]


def _name(row: GroupRow) -> str:
    return ", ".join(f"{field}={value!r}" for field, value in row.key.items())


def _equal(kept: GroupRow, counted: GroupRow) -> bool:
    if kept.count != counted.count or list(map(_numbers, kept.sums)) != list(map(_numbers, counted.sums)):
        return False
    for one, other in zip(kept.bags, counted.bags, strict=True):
        if one is not None and other is not None and list(one.items()) != list(other.items()):
            return False
    return True


def _numbers(sums: Sums | None) -> tuple[object, ...] | None:
    return None if sums is None else (sums.count, sums.floats, sums.total.fraction(), sums.squares.fraction())
