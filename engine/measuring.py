"""`find` that answers groups: of a defined aggregate, or of one that the call brings, over what the find matches.

A row stands for a group: `groupKey`, `metrics` and `count`, and the shape that every row has, as a `measurement`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from contract.doors.queries import FindParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine import cursors
from engine.aggregates.definition import Definition
from engine.aggregates.parsing import parse_ad_hoc, parse_stored
from engine.aggregates.query import Query, parse_query, rows
from engine.aggregates.state import GroupRow, recompute, rows_of
from engine.doors.aggregates import definition_of, groups_of
from engine.doors.registry import CallContext, Document
from engine.filter import canonical
from engine.index_view import PUBLIC
from engine.legs import leg_reports, legs_of
from engine.narrowing import narrowing_of
from engine.plan import rank, scope_of, tree_of

if TYPE_CHECKING:
    from engine.view import View

GROUP_SUBTYPE: Final = "materialized-aggregate"
_DEFINING: Final = frozenset({"source", "groupBy", "metrics"})


def run_measured(view: View, params: FindParams, call: CallContext) -> Document:
    """The whole answer of a find with `aggregate`, in the shape of every find.

    AggregateNotFoundError, AggregateDefinitionError, ValidationError for names that the aggregate does not have,
    QueryLimitError for too many groups; and what `run_find` refuses.
    """
    skipped = params.offset
    if params.cursor is not None:
        view, skipped = cursors.resumed(view, call, "find", params, params.cursor)
    definition, query = measure_of(view, params, skipped)
    groups, candidates, legs, approximate = _groups(view, definition, params, call)
    found = rows(definition, groups, query, check=call.check)
    answer: Document = {
        "rows": [_row(definition, group) for group in found[: params.limit]],
        "generation": view.generation,
        "legs": legs,
        "approximate": approximate,
        "cost": {"segments": view.index.segment_count, "candidates": candidates, "rowsRead": candidates},
    }
    if len(found) > params.limit:
        answer["cursor"] = cursors.seal(view, call, "find", params, skipped + params.limit)
    return answer


def measure_of(view: View, params: FindParams, skipped: int) -> tuple[Definition, Query]:
    """The aggregate that a call names or brings, and what it asks of its groups: one more of them than a page has."""
    definition, where_groups = _asked(view, params)
    query = parse_query(
        definition,
        where=where_groups,
        having=params.having,
        order_by=params.order_by,
        order=params.order,
        limit=params.limit + 1,
        offset=skipped,
    )
    return definition, query


def _asked(view: View, params: FindParams) -> tuple[Definition, Mapping[str, Any] | None]:
    """The aggregate that a call names or brings, and its filter on group keys."""
    if isinstance(params.aggregate, str):
        return parse_stored(definition_of(view, params.aggregate)), None
    assert params.aggregate is not None, "a measured find has an aggregate"
    given = dict(params.aggregate)
    where_groups = given.pop("where", None)
    if where_groups is not None and not isinstance(where_groups, dict):
        raise Refusal("ValidationError", "aggregate.where: Expected a filter.", details={"path": "aggregate.where"})
    if "name" not in given:
        return parse_ad_hoc(given), where_groups
    name = given.pop("name")
    if given or not isinstance(name, str):
        raise Refusal(
            "ValidationError",
            "aggregate: Expected the `name` of a defined aggregate, or `groupBy` and `metrics`, and perhaps `where`.",
            details={"path": "aggregate", "valid": ["name", *sorted(_DEFINING), "where"]},
        )
    return parse_stored(definition_of(view, name)), where_groups


def _groups(
    view: View, definition: Definition, params: FindParams, call: CallContext
) -> tuple[Iterator[GroupRow], int, Document, bool]:
    """The groups, how many records they were counted from now, the legs that chose those, and whether these may have
    left out some."""
    legs = legs_of(view, params, call)
    scope, tree = scope_of(params, call), tree_of(params)
    narrowed = tree is not None or params.connected is not None or params.near is not None
    if definition.name is not None and not narrowed and not legs.ranked and scope == PUBLIC:
        return groups_of(view, definition, call), 0, leg_reports(legs, None), False
    index = view.index
    narrowing = narrowing_of(view, params, call)
    candidates = narrowing.of(index, index.candidates(tree, scope, call.check))
    ranking = rank(index, legs, narrowing, candidates, params, call)
    matches = ranking.vers

    def documents() -> Iterator[Document]:
        for start in range(0, len(matches), READ_CHUNK_ROWS_MAX):
            call.check()
            for entity in view.versions(matches[start : start + READ_CHUNK_ROWS_MAX].tolist()):
                yield entity.doc

    pending = None if legs.meaning is None else index.pending_count(legs.meaning.space, candidates)
    return rows_of(recompute(definition, documents())), len(matches), leg_reports(legs, pending), ranking.approximate


def _row(definition: Definition, group: Document) -> Document:
    """A group in the shape of every row."""
    identity = f"{definition.name or 'aggregate'}:{canonical(group['groupKey'])}"
    metadata = {"aggregate": definition.name, **group["groupKey"]}
    return {
        "id": identity,
        "score": 1.0,
        "type": "measurement",
        "subtype": GROUP_SUBTYPE,
        "metadata": metadata,
        "entity": {"id": identity, "type": "measurement", "subtype": GROUP_SUBTYPE, "metadata": metadata, "_rev": 1},
        **group,
    }
