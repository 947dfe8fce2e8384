"""The doors of entities: add get batchGet update remove addMany updateMany removeMany."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.doors.entities import (
    AddManyParams,
    AddParams,
    BatchGetParams,
    EntityChange,
    GetParams,
    NewEntity,
    RemoveManyParams,
    RemoveParams,
    UpdateManyParams,
    UpdateParams,
)
from contract.limits import READ_CHUNK_ROWS_MAX, REMOVE_MATCHES_MAX
from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.registry import CallContext, Document, Lane, reads, writes
from engine.records import Entity
from engine.rows.batches import chunks, each, written
from engine.rows.entities import (
    Prepared,
    add_receipt,
    change_entity,
    prepare_add,
    refuse_removing_vfs_row,
    remove_one,
    required,
    texts_of_change,
    texts_of_item,
)
from engine.rows.selection import selected, selection

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View


def _texts_of_batch(params: AddManyParams) -> Sequence[str]:
    return [text for item in params.items for text in texts_of_item(item)]


@writes("add", texts=texts_of_item)
def add(txn: Transaction, params: AddParams, call: CallContext) -> Document:
    """Adds one entity. Refuses a taken id unless `ifAbsent`, a vector of another width, and what the engine owns."""
    existing = None if params.id is None else txn.entity(params.id)
    prepared = prepare_add(txn, params, call, existing, if_absent=params.if_absent)
    if prepared.existing is None:
        txn.add_entity(prepared.doc, prepared.content)
    return add_receipt(txn, prepared, call)


@reads("get", lane=Lane.INLINE)
def get(view: View, params: GetParams, call: CallContext) -> Document:
    """The entity of an id at the view's generation; `EntityNotFoundError` when there is none."""
    entity = required(view, params.id)
    answer = public(view, entity, vectors=params.include_vectors)
    if not params.include_vectors:
        call.on_tag(f"{entity.g0}-{entity.doc.get('_rev', 1)}")
    elif "vector" in answer:  # one that is still to come changes the answer and not the record
        call.on_tag(f"{entity.g0}-{entity.doc.get('_rev', 1)}-v")
    return answer


@reads("batchGet")
def batch_get(view: View, params: BatchGetParams, call: CallContext) -> Document:
    """The entities of many ids, in request order without repeats, and the ids that nothing has."""
    ids = list(dict.fromkeys(params.ids))
    found = view.entities(ids)
    vectors = view.vectors([entity.cid for entity in found.values()]) if params.include_vectors else {}
    documents: Document = {}
    for entity_id in ids:
        entity = found.get(entity_id)
        if entity is not None:
            documents[entity_id] = with_vector(entity.doc, vectors.get(entity.cid))
    return {"found": documents, "missing": [entity_id for entity_id in ids if entity_id not in found]}


@writes("update", texts=texts_of_change)
def update(txn: Transaction, params: UpdateParams, call: CallContext) -> Document:
    """Changes one entity: metadata merges one level deep, `unset` clears, what is so already is `changed: false`."""
    return change_entity(txn, params, call)


@writes("remove", frees=True)
def remove(txn: Transaction, params: RemoveParams, call: CallContext) -> Document:
    """Removes one entity and its relations; an id that nothing has answers `removed: false`."""
    return remove_one(txn, params.id, params.if_rev)


@writes("addMany", texts=_texts_of_batch)
def add_many(txn: Transaction, params: AddManyParams, call: CallContext) -> Document:
    """Adds many entities in one generation, or none of them. An id may stand in the list once."""
    taken = txn.entities([item.id for item in params.items if item.id is not None])
    seen: set[str] = set()

    def prepare(index: int, item: NewEntity) -> Prepared:
        if item.id in seen:
            raise Refusal(
                "EntityExistsError",
                f'The id "{item.id}" stands twice in the batch.',
                cure="Give every item an id of its own.",
                details={"id": item.id},
            )
        if item.id is not None:
            seen.add(item.id)
        existing = None if item.id is None else taken.get(item.id)
        return prepare_add(txn, item, call, existing, if_absent=params.if_absent)

    prepared = each(params.items, prepare)
    txn.add_entities([(one.doc, one.content) for one in prepared if one.existing is None])
    return written(txn, [{"index": index, **add_receipt(txn, one, call)} for index, one in enumerate(prepared)])


def _texts_of_changes(params: UpdateManyParams) -> Sequence[str]:
    return [text for item in params.updates for text in texts_of_change(item)]


@writes("updateMany", texts=_texts_of_changes)
def update_many(txn: Transaction, params: UpdateManyParams, call: CallContext) -> Document:
    """Changes many entities in one generation, or none of them. Two changes of one entity are made in their order."""

    def take(index: int, item: EntityChange) -> Document:
        return {"index": index, **change_entity(txn, item, call)}

    return written(txn, each(params.updates, take))


@writes("removeMany", frees=True)
def remove_many(txn: Transaction, params: RemoveManyParams, call: CallContext) -> Document:
    """Removes the entities of these ids, or all that a type and a filter select, in one generation.

    `RemoveUnboundedError` without a selector: an empty filter selects everything, and is none either.
    """
    if params.ids is not None:
        places: dict[str, int] = {}
        for place, entity_id in enumerate(params.ids):
            places.setdefault(entity_id, place)
        found = txn.entities(list(places))
        missing = [entity_id for entity_id in places if entity_id not in found]
        return {
            **_removed(txn, [(places[entity_id], found[entity_id]) for entity_id in found], call),
            "missing": missing,
        }
    if params.type is None and not params.where:
        raise Refusal("RemoveUnboundedError", "removeMany was called without `ids`, `type` or `where`.")
    chosen = selected(txn, selection(params.type, params.where), call)
    count = len(chosen) if params.limit is None else min(params.limit, len(chosen))
    if count > REMOVE_MATCHES_MAX:
        raise Refusal(
            "QueryLimitError",
            f"{count} entities match; one call removes {REMOVE_MATCHES_MAX} at most.",
            cure=f"Give `limit` {REMOVE_MATCHES_MAX} and repeat the call until `remaining` is 0.",
            details={"matches": count, "max": REMOVE_MATCHES_MAX},
        )
    answer = {**_removed(txn, list(enumerate(chosen.entities(count))), call), "missing": []}
    return answer if params.limit is None else answer | {"remaining": len(chosen) - count}


def _removed(txn: Transaction, entities: list[tuple[int, Entity]], call: CallContext) -> Document:
    """Removes these, each at its place in the request, and says so item by item."""

    def take(_: int, placed: tuple[int, Entity]) -> Document:
        place, entity = placed
        refuse_removing_vfs_row(entity)
        return {"index": place, "id": entity.id, "_rev": entity.doc.get("_rev", 1)}

    receipts = each(entities, take)
    edges = 0
    for chunk in chunks(entities, READ_CHUNK_ROWS_MAX):
        call.check()
        edges += txn.remove_entities([entity for _, entity in chunk])
    return {**written(txn, receipts), "relationsRemoved": edges}


def public(view: View, entity: Entity, *, vectors: bool) -> Document:
    """The document of an entity as a door answers it; its vector joins it when asked for and known."""
    return with_vector(entity.doc, view.vector(entity.cid) if vectors else None)


def with_vector(doc: Document, vector: bytes | None) -> Document:
    """`doc` with its vector, when there is one to add."""
    return doc if vector is None else {**doc, "vector": Vector(vector)}
