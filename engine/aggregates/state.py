"""The state of one group, as exact sums and counted values: adding and removing records commutes and cancels out.

A `Tally` is also a delta: negative counts are fine until it is merged into a stored state. What the metrics are:

- sum: of the numbers; an int while every number is one (a float beyond 2^64), 0 without numbers
- count: records, or with a field those where it is present and not null
- avg, stddev, variance: floats; null without numbers, below two numbers for the last two (sample, n - 1)
- min, max: the number itself, int or float as it was stored; null without numbers
- percentile: linear interpolation at p * (n - 1) of the sorted numbers (Hyndman and Fan type 7, the default of R, NumPy
  and SQL's percentile_cont); a rank that falls on a number gives it as it is
- distinctCount: different values of any JSON type, null and missing left out; 1 and 1.0 are one value

Booleans, text and all else that is no number is ignored by metrics of numbers. Every result is rounded once from the
exact value, and null when no float can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from contract.limits import AGGREGATE_RECOMPUTE_ENTRIES_MAX
from contract.refusals import Refusal
from engine.aggregates.definition import Definition, Metric, Op, Slot, SlotKind
from engine.aggregates.exact import ZERO, Exact, Number, deviation, exact, mean, to_number, total, variance
from engine.aggregates.grouping import NOWHERE, Document, Join, Joined, Part, joiner
from engine.aggregates.keys import group_values, key_number


@dataclass(slots=True)
class Sums:
    """Exact moments of one field: how many values, how many of them floats, their sum and sum of squares."""

    count: int = 0
    floats: int = 0
    total: Exact = ZERO
    squares: Exact = ZERO

    def merge(self, other: Sums) -> None:
        """Adds a delta."""
        self.count += other.count
        self.floats += other.floats
        self.total = self.total.plus(other.total)
        self.squares = self.squares.plus(other.squares)

    @property
    def is_zero(self) -> bool:
        """True when nothing is in it, or all that went in came out again."""
        return not self.count and not self.floats and not self.total.units and not self.squares.units


class Bag(Protocol):
    """The counted values of one slot, wherever they are kept."""

    @property
    def count(self) -> int:
        """How many values, repeats included."""
        ...

    @property
    def distinct(self) -> int:
        """How many different values."""
        ...

    def items(self, *, descending: bool = False) -> Iterator[tuple[bytes, int]]:
        """(value, how often) in the order of the bytes. Read as far as needed and then dropped."""
        ...


@dataclass(slots=True)
class MemoryBag:
    """Counted values in a dictionary; an entry that falls to zero is gone."""

    counts: dict[bytes, int] = field(default_factory=dict)

    def change(self, value: bytes, times: int) -> int:
        """Counts a value up or down; gives by how many the entries grew (1, 0 or -1)."""
        held = self.counts.get(value, 0)
        if held + times:
            self.counts[value] = held + times
            return 0 if held else 1
        del self.counts[value]
        return -1

    @property
    def count(self) -> int:
        """How many values, repeats included."""
        return sum(self.counts.values())

    @property
    def distinct(self) -> int:
        """How many different values."""
        return len(self.counts)

    def items(self, *, descending: bool = False) -> Iterator[tuple[bytes, int]]:
        """(value, how often) in the order of the bytes."""
        return iter(sorted(self.counts.items(), reverse=descending))


class Tally:
    """One group: how many records, and one `Sums` or `MemoryBag` a slot."""

    __slots__ = ("bags", "count", "sums")

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.count = 0
        self.sums: tuple[Sums | None, ...] = tuple(None if slot.is_bag else Sums() for slot in slots)
        self.bags: tuple[MemoryBag | None, ...] = tuple(MemoryBag() if slot.is_bag else None for slot in slots)

    def change(self, slots: tuple[Slot, ...], parts: tuple[Part, ...], times: int) -> int:
        """Adds a record's contribution (`times` 1) or takes it away (-1). Gives by how many entries the bags grew."""
        self.count += times
        grown = 0
        for slot, part, sums, bag in zip(slots, parts, self.sums, self.bags, strict=True):
            if part is None:
                continue
            if bag is not None:
                assert isinstance(part, bytes)
                grown += bag.change(part, times)
            else:
                assert sums is not None
                assert not isinstance(part, bytes)
                _change_sums(sums, slot.kind, part, times)
        return grown

    @property
    def is_zero(self) -> bool:
        """True when the group holds nothing, or as a delta changes nothing."""
        return (
            not self.count
            and all(sums is None or sums.is_zero for sums in self.sums)
            and all(bag is None or not bag.counts for bag in self.bags)
        )


def _change_sums(sums: Sums, kind: SlotKind, part: Number, times: int) -> None:
    sums.count += times
    if kind is SlotKind.COUNT:
        return
    if isinstance(part, float):
        sums.floats += times
    value = exact(part)
    sums.total = sums.total.plus(value.times(times))
    if kind is SlotKind.SQUARES:
        sums.squares = sums.squares.plus(value.square().times(times))


class Groups:
    """All groups of one definition in memory, changed record by record. `size` counts groups and counted values."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.tallies: dict[bytes, Tally] = {}
        self.size = 0
        self._join: Join = joiner(definition)

    def change(self, old: Document | None, new: Document | None) -> None:
        """A record that was `old` (None before its birth) is now `new` (None after its end)."""
        before = NOWHERE if old is None else self._join(old)
        after = NOWHERE if new is None else self._join(new)
        if not _same(before, after):
            self._count(before, -1)
            self._count(after, 1)

    def add(self, document: Document) -> None:
        """A new record."""
        self.change(None, document)

    def remove(self, document: Document) -> None:
        """A record that is no more; it must have been added in this form."""
        self.change(document, None)

    def clear(self) -> None:
        """Forgets every group."""
        self.tallies.clear()
        self.size = 0

    def _count(self, joined: Joined, times: int) -> None:
        slots = self.definition.slots
        for key in joined.keys:
            tally = self.tallies.get(key)
            if tally is None:
                tally = self.tallies[key] = Tally(slots)
                self.size += 1
            self.size += tally.change(slots, joined.parts, times)
            if tally.is_zero:
                del self.tallies[key]
                self.size -= 1


def _same(before: Joined, after: Joined) -> bool:
    """True when an update moves nothing. 1 and 1.0 differ here: the sum's type depends on which it was."""
    return before == after and all(type(a) is type(b) for a, b in zip(before.parts, after.parts, strict=True))


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group ready to be measured. `key` has the values by field name; `bags` may read from a store when asked."""

    key: Mapping[str, object]
    count: int
    sums: tuple[Sums | None, ...]
    bags: tuple[Bag | None, ...]

    def measure(self, metric: Metric) -> Number | None:
        """The metric of this group, as the head of this module says."""
        if metric.slot < 0:
            return self.count
        bag, sums = self.bags[metric.slot], self.sums[metric.slot]
        if bag is not None:
            return bag.distinct if metric.op is Op.DISTINCT_COUNT else _of_numbers(metric, bag)
        assert sums is not None
        return _of_sums(metric, sums)


def _of_sums(metric: Metric, sums: Sums) -> Number | None:
    match metric.op:
        case Op.COUNT:
            return sums.count
        case Op.SUM:
            return total(sums.total, integer=sums.floats == 0)
        case Op.AVG:
            return mean(sums.total, sums.count)
        case Op.VARIANCE:
            return variance(sums.total, sums.squares, sums.count)
    assert metric.op is Op.STDDEV
    return deviation(sums.total, sums.squares, sums.count)


def _of_numbers(metric: Metric, bag: Bag) -> Number | None:
    if bag.count == 0:
        return None
    if metric.op is not Op.PERCENTILE:
        value, _ = next(bag.items(descending=metric.op is Op.MAX))
        return key_number(value)
    rank = metric.rank * (bag.count - 1)
    lower, upper = _around(bag, int(rank))
    part = rank - int(rank)
    if part == 0 or lower == upper:
        return lower
    return to_number(Fraction(lower) * (1 - part) + Fraction(upper) * part, integer=False)


def _around(bag: Bag, index: int) -> tuple[Number, Number]:
    """The values at `index` and the next index of the sorted numbers; the last one twice at the end."""
    passed, lower = 0, None
    for value, times in bag.items():
        passed += times
        if lower is None and passed > index:
            lower = key_number(value)
        if lower is not None and passed > index + 1:
            return lower, key_number(value)
    assert lower is not None, "the index is below the count"
    return lower, lower


def rows_of(groups: Groups) -> Iterator[GroupRow]:
    """The rows of groups in memory, in the order of their key bytes, which is the order of the stored form."""
    fields = groups.definition.fields
    for key, tally in sorted(groups.tallies.items()):
        yield GroupRow(dict(zip(fields, group_values(key), strict=True)), tally.count, tally.sums, tally.bags)


def recompute(
    definition: Definition, documents: Iterable[Document], *, entries_max: int = AGGREGATE_RECOMPUTE_ENTRIES_MAX
) -> Groups:
    """The groups of these records and nothing else: the ad-hoc form, the past, and what the stored form must equal.

    One pass; memory grows with groups and counted values. QueryLimitError above `entries_max` of them.
    """
    groups = Groups(definition)
    for document in documents:
        groups.add(document)
        if groups.size > entries_max:
            raise Refusal(
                "QueryLimitError",
                f"The aggregate needs more than {entries_max} groups and values; one call may hold no more in memory.",
                cure="Group by a coarser field or window, narrow the source, or define it by name and ask at now.",
                details={"max": entries_max},
            )
    return groups
