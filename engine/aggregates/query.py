"""Rows of an aggregate's answer from its groups: filtered, ordered, cut. The same code for the stored, the ad-hoc and
the historical form.

`where` sees the group key as a record's fields, `having` the metrics by name and `count`, both through the one
evaluator. Order: booleans, numbers, text by code point, lists and objects by their JSON text, nulls last both ways;
ties by the group key, ascending. Without `orderBy` rows come by group key. Metrics are read for the rows of the answer,
and for other groups only where `having` or `orderBy` needs them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from contract.limits import FIND_LIMIT_MAX, FIND_OFFSET_MAX, READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from contract.vocabulary import nearest
from contract.where import FIELD_ALIASES, STANDARD_FIELDS, AllOf, AnyOf, Node, Not, Test, parse
from engine.aggregates.definition import Definition, Metric
from engine.aggregates.exact import Number
from engine.aggregates.state import GroupRow
from engine.filter import Predicate, canonical, predicate

ROW_COUNT = "count"
"""The name of a group's number of records in `having` and `orderBy`, unless a metric has it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A checked query. `limit` None asks for all rows, which must then be FIND_LIMIT_MAX at most."""

    where: Predicate | None = None
    having: Predicate | None = None
    having_fields: frozenset[str] = frozenset()
    order_by: str | None = None
    descending: bool = False
    limit: int | None = None
    offset: int = 0


def parse_query(
    definition: Definition,
    *,
    where: Mapping[str, Any] | None = None,
    having: Mapping[str, Any] | None = None,
    order_by: str | None = None,
    order: Literal["asc", "desc"] = "asc",
    limit: int | None = None,
    offset: int = 0,
) -> Query:
    """Checks a query against its definition; `limit` and `offset` are already in their ranges.

    The filters refuse as everywhere. A name that is no group field (`where`), no metric (`having`) or neither
    (`orderBy`) is a ValidationError with the valid names: an unknown name must not read as an empty answer.
    """
    assert limit is None or 0 <= limit <= FIND_LIMIT_MAX, "the door checks the limit"
    assert 0 <= offset <= FIND_OFFSET_MAX, "the door checks the offset"
    where_tree = None if where is None else parse(where)
    having_tree = None if having is None else parse(having, ("having",))
    metrics = [metric.name for metric in definition.metrics]
    asked: frozenset[str] = frozenset()
    if where_tree is not None:
        for name in sorted(fields_in(where_tree)):
            if not any(_reaches(field, name) for field in definition.fields):
                raise _unknown("where", name, definition.fields)
    if having_tree is not None:
        asked = fields_in(having_tree)
        for name in sorted(asked):
            if name not in metrics and name != ROW_COUNT:
                raise _unknown("having", name, (*metrics, ROW_COUNT))
    if order_by is not None and order_by not in (*definition.fields, *metrics, ROW_COUNT):
        raise _unknown("orderBy", order_by, (*definition.fields, *metrics, ROW_COUNT))
    return Query(
        None if where_tree is None else predicate(where_tree),
        None if having_tree is None else predicate(having_tree),
        asked,
        order_by,
        order == "desc",
        limit,
        offset,
    )


def fields_in(tree: Node) -> frozenset[str]:
    """The names that a filter tests."""
    match tree:
        case AllOf(parts=parts) | AnyOf(parts=parts):
            return frozenset[str]().union(*(fields_in(part) for part in parts))
        case Not(part=part):
            return fields_in(part)
        case Test(field=field):
            return frozenset((field,))


def _plain(field: str) -> str:
    return FIELD_ALIASES.get(field, field)


def _reaches(field: str, name: str) -> bool:
    """Whether a filter's name is this group field, or a path into its value."""
    return _plain(name) == _plain(field) or name.startswith(field + ".")


def _unknown(part: str, name: str, valid: Iterable[str]) -> Refusal:
    names = list(dict.fromkeys(valid))
    close = nearest(name, names)
    return Refusal(
        "ValidationError",
        f'The aggregate has no "{name}" for `{part}`. It has {", ".join(names)}.',
        cure=f'Did you mean "{close[0]}"?' if close else f"Use one of the names in `{part}`.",
        details={"field": part, "value": name, "valid": names},
    )


class _Row:
    """A group whose metrics are measured when asked for, once."""

    __slots__ = ("_measured", "group")

    def __init__(self, group: GroupRow) -> None:
        self.group = group
        self._measured: dict[str, Number | None] = {}

    def metric(self, metric: Metric) -> Number | None:
        if metric.name not in self._measured:
            self._measured[metric.name] = self.group.measure(metric)
        return self._measured[metric.name]

    def document(self, definition: Definition) -> dict[str, Any]:
        metrics = {metric.name: self.metric(metric) for metric in definition.metrics}
        return {"groupKey": dict(self.group.key), "metrics": metrics, "count": self.group.count}


def rows(
    definition: Definition, groups: Iterable[GroupRow], query: Query, *, check: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """The rows `{groupKey, metrics, count}` of an answer. `check` is called between groups and may raise.

    Every group is looked at; memory holds offset + limit of them. QueryLimitError for more than FIND_LIMIT_MAX rows
    when no limit was given.
    """
    most = FIND_LIMIT_MAX + 1 if query.limit is None else query.limit
    passed = _passing(definition, groups, query, check)
    order = _order(definition, query)
    kept = heapq.nsmallest(query.offset + most, passed, key=order)[query.offset :]
    if query.limit is None and len(kept) > FIND_LIMIT_MAX:
        raise Refusal(
            "QueryLimitError",
            f"The aggregate has more than {FIND_LIMIT_MAX} rows for this query, and no `limit` was given.",
            cure="Give `limit` and `offset`, or narrow with `where` or `having`.",
            details={"max": FIND_LIMIT_MAX},
        )
    return [row.document(definition) for row in kept]


def _passing(
    definition: Definition, groups: Iterable[GroupRow], query: Query, check: Callable[[], None]
) -> Iterator[_Row]:
    by_name = {metric.name: metric for metric in definition.metrics}
    for index, group in enumerate(groups):
        if index % READ_CHUNK_ROWS_MAX == 0:
            check()
        if query.where is not None and not query.where(_as_record(group.key)):
            continue
        row = _Row(group)
        if query.having is not None:
            seen = {name: _named(row, name, by_name) for name in query.having_fields}
            if not query.having(_as_record(seen)):
                continue
        yield row


def _named(row: _Row, name: str, by_name: Mapping[str, Metric]) -> Number | None:
    return row.metric(by_name[name]) if name in by_name else row.group.count


def _as_record(values: Mapping[str, Any]) -> dict[str, Any]:
    """A record in which the evaluator finds each value under its own name."""
    record: dict[str, Any] = {"metadata": {}}
    for name, value in values.items():
        holder = record if _plain(name) in STANDARD_FIELDS else record["metadata"]
        holder[_plain(name)] = value
    return record


def _order(definition: Definition, query: Query) -> Callable[[_Row], Any]:
    by_name = {metric.name: metric for metric in definition.metrics}
    name, descending = query.order_by, query.descending

    def by_key(row: _Row) -> object:
        return _Tie(row)

    def by_value(row: _Row) -> object:
        assert name is not None
        value = row.group.key[name] if name in row.group.key else _named(row, name, by_name)
        ranked = rank(value)
        return (value is None, _Descending(ranked) if descending else ranked, by_key(row))

    def by_key_descending(row: _Row) -> object:
        return tuple((value is None, _Descending(rank(value))) for value in row.group.key.values())

    if name is not None:
        return by_value
    return by_key_descending if descending else by_key


def rank(value: object) -> tuple[int, Any]:
    """A key that orders JSON values of every type as the head of this module says."""
    match value:
        case None:
            return (4, 0)
        case bool():
            return (0, value)
        case int() | float():
            return (1, value)
        case str():
            return (2, value)
    return (3, canonical(value))


class _Tie:
    """The order of group keys as values, worked out when two rows meet."""

    __slots__ = ("_ranks", "_row")

    def __init__(self, row: _Row) -> None:
        self._row = row
        self._ranks: tuple[tuple[int, Any], ...] | None = None

    @property
    def ranks(self) -> tuple[tuple[int, Any], ...]:
        if self._ranks is None:
            self._ranks = tuple(rank(value) for value in self._row.group.key.values())
        return self._ranks

    def __lt__(self, other: _Tie) -> bool:
        return self.ranks < other.ranks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Tie) and self.ranks == other.ranks

    __hash__ = None  # type: ignore[assignment]  # an order, never a key


class _Descending:
    """Turns an order around."""

    __slots__ = ("ranked",)

    def __init__(self, ranked: tuple[int, Any]) -> None:
        self.ranked = ranked

    def __lt__(self, other: _Descending) -> bool:
        return self.ranked > other.ranked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and self.ranked == other.ranked

    __hash__ = None  # type: ignore[assignment]  # an order, never a key
