"""The doors that say where the brain stands and how much it holds: counts now generation."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from contract.doors.queries import CountsParams
from contract.doors.time import GenerationParams, NowParams
from contract.limits import COUNTS_PAST_ROWS_MAX, FIND_LIMIT_MAX, READ_CHUNK_ROWS_MAX, TRACKED_FIELDS_MAX
from contract.refusals import Refusal
from contract.vocabulary import nearest
from engine.aggregates.parsing import tracked_field
from engine.doors.aggregates import groups_of
from engine.doors.registry import CallContext, Document, Lane, reads
from engine.records import CountRow
from engine.sqlite.definitions import TRACKED_FIELD

if TYPE_CHECKING:
    from engine.view import View


@reads("now", lane=Lane.INLINE)
def now(view: View, params: NowParams, call: CallContext) -> Document:
    """The generation and the instant of its commit, ms."""
    return {"generation": view.generation, "timestamp": view.at_ms}


@reads("generation", lane=Lane.INLINE)
def generation(view: View, params: GenerationParams, call: CallContext) -> Document:
    """The generation."""
    return {"generation": view.generation}


@reads("counts", live=True)
def counts(view: View, params: CountsParams, call: CallContext) -> Document:
    """Public entities (files included) and relations, from the running totals of the generation.

    `by` leaves the other groupings empty; `type` narrows the entities and leaves the relations as they are.
    """
    cost = view.changes_after(COUNTS_PAST_ROWS_MAX + 1)
    if cost > COUNTS_PAST_ROWS_MAX:
        raise Refusal(
            "QueryLimitError",
            f"More than {COUNTS_PAST_ROWS_MAX} records changed since generation {view.generation}; counting back that "
            "far costs too much for one call.",
            cure="Count at a newer generation, or narrow the question to a `find` with `asOf`.",
            details={"generation": view.generation, "changesMax": COUNTS_PAST_ROWS_MAX},
        )
    public = [row for row in view.counts() if row.visibility == "public"]
    entities = [row for row in public if row.kind == "entity" and params.type in (None, row.type)]
    relations = [row for row in public if row.kind == "relation"]

    def shown(grouping: str) -> bool:
        return params.by in (None, grouping)

    answer: Document = {
        "entities": sum(row.count for row in entities),
        "relations": sum(row.count for row in relations),
        "byType": _totals(entities, lambda row: row.type) if shown("type") else {},
        "byRelationType": _totals(relations, lambda row: row.type) if shown("type") else {},
        "bySubtype": _by_subtype(entities) if shown("subtype") else {},
        "byRelationSubtype": _by_subtype(relations) if shown("subtype") else {},
        "generation": view.generation,
    }
    if params.by == "service":
        answer["byService"] = _totals(entities, lambda row: row.service)
    if params.field is not None:
        answer["byField"] = _by_field(view, params.field, params.type, call)
    return answer


def _by_field(view: View, field: str, type_: str | None, call: CallContext) -> Document:
    """Entities of each value of a tracked field; those without one, or with null, are in no count."""
    rule = view.definition(TRACKED_FIELD, field)
    if rule is None:
        names = list(view.definitions(TRACKED_FIELD))
        close = nearest(field, names)
        raise Refusal(
            "ValidationError",
            f'field: "{field}" is not tracked.',
            cure=f'Did you mean "{close[0]}"?' if close else "Track it with `schema.trackField`.",
            details={"path": "field", "value": field, "tracked": names[:TRACKED_FIELDS_MAX]},
        )
    per_type: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for held, group in enumerate(groups_of(view, tracked_field(field), call), 1):
        if held % READ_CHUNK_ROWS_MAX == 0:
            call.check()
        if held > FIND_LIMIT_MAX:
            raise Refusal(
                "QueryLimitError",
                f'The field "{field}" has more than {FIND_LIMIT_MAX} values.',
                cure="Define an aggregate grouped by the field, and query it in pages.",
                details={"max": FIND_LIMIT_MAX},
            )
        value, of_type = group.key[field], str(group.key["type"])
        if value is not None and type_ in (None, of_type):
            name = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            per_type[of_type if rule["perType"] else ""][name] += group.count
    ordered = {name: dict(sorted(per_type[name].items())) for name in sorted(per_type)}
    return ordered if rule["perType"] else ordered.get("", {})


def _totals(rows: Iterable[CountRow], key: Callable[[CountRow], str | None]) -> dict[str, int]:
    """Counts by key, sorted; rows without one are left out."""
    found: dict[str, int] = defaultdict(int)
    for row in rows:
        name = key(row)
        if name is not None:
            found[name] += row.count
    return {name: found[name] for name in sorted(found) if found[name]}


def _by_subtype(rows: Iterable[CountRow]) -> dict[str, dict[str, int]]:
    grouped: dict[str, list[CountRow]] = defaultdict(list)
    for row in rows:
        grouped[row.type].append(row)
    totals = {name: _totals(grouped[name], lambda row: row.subtype) for name in sorted(grouped)}
    return {name: inner for name, inner in totals.items() if inner}
