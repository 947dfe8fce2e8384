"""The doors of relations: relate relateMany updateRelation unrelate related."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.doors.relations import (
    NewRelation,
    RelatedParams,
    RelateManyParams,
    RelateParams,
    UnrelateParams,
    UpdateRelationParams,
)
from contract.limits import READ_CHUNK_ROWS_MAX
from engine.doors.registry import CallContext, Document, reads, writes
from engine.records import Relation, RelationQuery
from engine.rows.batches import each, written
from engine.rows.guards import visible
from engine.rows.relations import change_relation, end_of, relate_pair, remove_relation

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View


@writes("relate")
def relate(txn: Transaction, params: RelateParams, call: CallContext) -> Document:
    """Adds one edge, or answers the one that these ends, type and subtype have already (`existed`, `differs`)."""
    return relate_pair(txn, params, call)


@writes("relateMany")
def relate_many(txn: Transaction, params: RelateManyParams, call: CallContext) -> Document:
    """Adds many edges in one generation, or none of them. An edge that exists, or comes twice, is answered as it is."""

    def take(index: int, item: NewRelation) -> Document:
        return {"index": index, **relate_pair(txn, item, call)}

    receipts = each(params.relations, take)
    return {**written(txn, receipts), "ids": [receipt["id"] for receipt in receipts]}


@writes("updateRelation")
def update_relation(txn: Transaction, params: UpdateRelationParams, call: CallContext) -> Document:
    """Changes one edge; its id and ends stay, metadata merges as in update."""
    return change_relation(txn, params, call)


@writes("unrelate", frees=True)
def unrelate(txn: Transaction, params: UnrelateParams, call: CallContext) -> Document:
    """Removes one edge; an id that nothing has answers `removed: false`."""
    return remove_relation(txn, params.id)


@reads("related")
def related(view: View, params: RelatedParams, call: CallContext) -> Document:
    """The edges of an entity, by edge id ascending, cut from the whole ordered incidence (A-REL-02, A-REL-03).

    An end that is no entity is `EntityNotFoundError`: never an empty page for a mistyped id.
    """
    subtypes = _listed(params.subtype)
    query = RelationQuery(
        node=_iid(view, "node", params.node),
        source=_iid(view, "from", params.from_),
        target=_iid(view, "to", params.to),
        types=_listed(params.type),
        subtype=subtypes[0] if subtypes is not None and len(subtypes) == 1 else None,
        service=params.service,
        visibilities=visible(params, call),
        limit=params.limit,
        offset=params.offset,
    )
    if subtypes is None or len(subtypes) == 1:
        page = view.relations(query)
        rows, total = page.rows, page.total
    else:
        matches = _of_subtypes(view, query, frozenset(subtypes), call)
        rows, total = matches[params.offset : params.offset + params.limit], len(matches)
    return {"relations": [row.doc for row in rows], "total": total, "generation": view.generation}


def _of_subtypes(view: View, query: RelationQuery, subtypes: frozenset[str], call: CallContext) -> list[Relation]:
    """The whole incidence, chunk by chunk, narrowed to several subtypes: the index narrows to one at a time."""
    found: list[Relation] = []
    offset = 0
    while True:
        call.check()
        page = view.relations(_cut(query, offset))
        found += [row for row in page.rows if row.doc.get("subtype") in subtypes]
        offset += READ_CHUNK_ROWS_MAX
        if offset >= page.total:
            return found


def _cut(query: RelationQuery, offset: int) -> RelationQuery:
    return RelationQuery(
        node=query.node,
        source=query.source,
        target=query.target,
        types=query.types,
        service=query.service,
        visibilities=query.visibilities,
        limit=READ_CHUNK_ROWS_MAX,
        offset=offset,
    )


def _iid(view: View, name: str, entity_id: str | None) -> int | None:
    return None if entity_id is None else end_of(view, name, entity_id).iid


def _listed(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """One, several or any, as the store asks it."""
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)
