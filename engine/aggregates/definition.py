"""What an aggregate is, checked once: which records take part, how they are grouped, what is measured.

A definition compiles to slots, the smallest state that all its metrics can be read from: sum, avg and stddev of one
field share one slot, its min, max and percentiles another. The hash covers what the state depends on, so a definition
that only reorders its metrics or changes `materialize` keeps its state, and any other change starts again.

Who feeds an aggregate, decided here and in `grouping.py`:

- Public records only, by the visibility law; `source.where` narrows and never widens.
- Files and other engine rows (subtype `vfs-*`) only when `source.subtype` names their subtype.
- Materialised results (measurement, `materialized-aggregate`) never: an aggregate that fed itself would not end.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from contract.where import Node
from engine.aggregates.windows import NAMED
from engine.filter import canonical

# Part of every hash: raise it when the stored form of a state changes, and every state is built anew.
STATE_FORMAT = 1

METRIC_NAME_CHARS_MAX = 64

TRACKED_PREFIX = "\x1ffield:"
"""Begins the name of the aggregate that counts a tracked field."""

MATERIALIZED_TYPE, MATERIALIZED_SUBTYPE = "measurement", "materialized-aggregate"
ENGINE_SUBTYPE_PREFIX = "vfs-"


class Op(enum.Enum):
    """The nine metrics. stddev and variance are of the sample (divided by n - 1)."""

    SUM = "sum"
    COUNT = "count"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    STDDEV = "stddev"
    VARIANCE = "variance"
    DISTINCT_COUNT = "distinctCount"
    PERCENTILE = "percentile"


class SlotKind(enum.Enum):
    """What a slot keeps of one field: how many values, their exact sums, or how often each value occurs."""

    COUNT = "count"
    SUM = "sum"
    SQUARES = "squares"
    NUMBERS = "numbers"
    IDENTITIES = "identities"


_BAG_KINDS = frozenset((SlotKind.NUMBERS.value, SlotKind.IDENTITIES.value))


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """One part of the state: a field and the name of a SlotKind (text, so that slots have an order)."""

    field: str
    kind_name: str

    @property
    def kind(self) -> SlotKind:
        """The kind as the closed set."""
        return SlotKind(self.kind_name)

    @property
    def is_bag(self) -> bool:
        """True for the two kinds that count single values."""
        return self.kind_name in _BAG_KINDS


@dataclass(frozen=True, slots=True)
class GroupField:
    """One column of the group key. `window` is a name of `windows.NAMED` or a bucket length in seconds."""

    field: str
    window: str | int | None = None
    unnest: bool = False

    def document(self) -> object:
        """The spelling of the definition document."""
        if self.window is not None:
            return {"field": self.field, "window": self.window if self.window in NAMED else {"seconds": self.window}}
        return {"field": self.field, "unnest": True} if self.unnest else self.field


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured value; `slot` is the index of its slot, -1 for the count of records. `p` as the decimal written."""

    name: str
    op: Op
    field: str | None = None
    p: float | None = None
    slot: int = -1

    @property
    def rank(self) -> Fraction:
        """`p` exactly as it was written: 0.95 is 95/100, not the float below it."""
        assert self.p is not None
        return Fraction(repr(self.p))

    def document(self) -> dict[str, object]:
        """The spelling of the definition document."""
        found: dict[str, object] = {"op": self.op.value}
        if self.field is not None:
            found["field"] = self.field
        if self.p is not None:
            found["p"] = self.p
        return found


@dataclass(frozen=True, slots=True)
class Source:
    """Which records take part: every given part must hold. `where` is the parsed filter, `filter` its document.

    `chosen` is for the ad-hoc form inside `find`: the caller's filters have already chosen the records, visibility
    and files included, so only the materialised rows stay out. `files` lets files take part without being named.
    """

    types: frozenset[str] | None = None
    subtypes: frozenset[str] | None = None
    service: str | None = None
    filter: Mapping[str, Any] | None = None
    where: Node | None = None
    chosen: bool = False
    files: bool = False

    def document(self) -> dict[str, object]:
        """The spelling of the definition document; sets in order."""
        found: dict[str, object] = {}
        if self.types is not None:
            found["types"] = sorted(self.types)
        if self.subtypes is not None:
            found["subtype"] = sorted(self.subtypes)
        if self.service is not None:
            found["service"] = self.service
        if self.filter is not None:
            found["where"] = self.filter
        if self.files:
            found["files"] = True
        return found


@dataclass(frozen=True, slots=True)
class Definition:
    """A checked aggregate. `name` is None in the ad-hoc form. Made by `parsing.parse_definition` alone."""

    name: str | None
    source: Source
    group_by: tuple[GroupField, ...]
    metrics: tuple[Metric, ...]
    slots: tuple[Slot, ...]
    materialize: object = None
    hash: str = field(default="", compare=False)

    def document(self) -> dict[str, object]:
        """The definition as a document that parses to an equal one."""
        found: dict[str, object] = {
            "source": self.source.document(),
            "groupBy": [column.document() for column in self.group_by],
            "metrics": {metric.name: metric.document() for metric in self.metrics},
        }
        if self.name is not None:
            found = {"name": self.name, **found}
        if self.materialize is not None:
            found["materialize"] = self.materialize
        return found

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of a group key, in order."""
        return tuple(column.field for column in self.group_by)


def hash_of(definition: Definition) -> str:
    """64 hex digits over all that the stored state depends on: source, grouping, slots and the state's format."""
    covered = {
        "format": STATE_FORMAT,
        "source": definition.source.document(),
        "groupBy": [column.document() for column in definition.group_by],
        "slots": [[slot.field, slot.kind_name] for slot in definition.slots],
    }
    return hashlib.sha256(canonical(covered).encode()).hexdigest()


_SLOT_OF: Mapping[Op, SlotKind] = {
    Op.COUNT: SlotKind.COUNT,
    Op.SUM: SlotKind.SUM,
    Op.AVG: SlotKind.SUM,
    Op.STDDEV: SlotKind.SQUARES,
    Op.VARIANCE: SlotKind.SQUARES,
    Op.MIN: SlotKind.NUMBERS,
    Op.MAX: SlotKind.NUMBERS,
    Op.PERCENTILE: SlotKind.NUMBERS,
    Op.DISTINCT_COUNT: SlotKind.IDENTITIES,
}


def compile_slots(metrics: tuple[Metric, ...]) -> tuple[tuple[Metric, ...], tuple[Slot, ...]]:
    """The metrics with their slots, and the slots in an order that does not depend on the metrics'.

    A field with squares needs no slot of sums beside it.
    """
    wanted = {(metric.field, _SLOT_OF[metric.op]) for metric in metrics if metric.field is not None}
    widened = {
        (name, SlotKind.SQUARES if kind is SlotKind.SUM and (name, SlotKind.SQUARES) in wanted else kind)
        for name, kind in wanted
    }
    slots = tuple(sorted(Slot(name, kind.value) for name, kind in widened if name is not None))
    index = {slot: number for number, slot in enumerate(slots)}

    def placed(metric: Metric) -> Metric:
        if metric.field is None:
            return metric
        kind = _SLOT_OF[metric.op]
        slot = index.get(Slot(metric.field, kind.value), index.get(Slot(metric.field, SlotKind.SQUARES.value)))
        assert slot is not None, "every metric over a field has a slot"
        return Metric(metric.name, metric.op, metric.field, metric.p, slot)

    return tuple(placed(metric) for metric in metrics), slots
