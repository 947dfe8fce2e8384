"""The doors of entities: add get batchGet update remove addMany."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.doors.entities import (
    AddManyParams,
    AddParams,
    BatchGetParams,
    GetParams,
    NewEntity,
    RemoveParams,
    UpdateParams,
)
from contract.refusals import Refusal
from contract.vector import Vector
from engine.doors.registry import CallContext, Document, Lane, reads, writes
from engine.records import Entity
from engine.rows.batches import each
from engine.rows.entities import (
    Prepared,
    add_receipt,
    change_entity,
    check_revision,
    prepare_add,
    remove_entity,
    required,
    texts_of_change,
    texts_of_item,
)

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
    return public(view, required(view, params.id), vectors=params.include_vectors)


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
    entity = txn.entity(params.id)
    if entity is None:
        return {"removed": False, "relationsRemoved": 0}
    check_revision(entity.doc, params.if_rev)
    return {"removed": True, "relationsRemoved": remove_entity(txn, entity)}


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
    receipts = [{"index": index, **add_receipt(txn, one, call)} for index, one in enumerate(prepared)]
    changed = any(one.existing is None for one in prepared)
    for receipt in receipts:
        receipt.pop("changed", None)
    return {"successful": receipts, "failed": [], **({} if changed else {"changed": False})}


def public(view: View, entity: Entity, *, vectors: bool) -> Document:
    """The document of an entity as a door answers it; its vector joins it when asked for and known."""
    return with_vector(entity.doc, view.vector(entity.cid) if vectors else None)


def with_vector(doc: Document, vector: bytes | None) -> Document:
    """`doc` with its vector, when there is one to add."""
    return doc if vector is None else {**doc, "vector": Vector(vector)}
