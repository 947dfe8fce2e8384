"""What the writing doors do to entities, one at a time: shared by the single doors, the batches and the import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from contract.doors.entities import EntityChange, NewEntity, UpdateParams
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import KEEP, Content, Entity, Keep
from engine.rows.contents import content_of, embedding_state, unit_bytes
from engine.rows.documents import ENTITY_KEYS, checked_unset, merged_metadata, ordered, same, text_of_data
from engine.rows.guards import (
    is_vfs_row,
    refuse_replacing_vfs_metadata,
    refuse_system,
    refuse_vfs_change,
    refuse_vfs_row,
    refuse_vfs_subtype,
)
from engine.rows.rules import judge

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

# The parameters of an update that set a field of the row: attribute -> wire name.
_UPDATE_FIELDS = {
    "type": "type",
    "subtype": "subtype",
    "data": "data",
    "confidence": "confidence",
    "weight": "weight",
    "service": "service",
    "visibility": "visibility",
}


Change: TypeAlias = UpdateParams | EntityChange


class Prepared(NamedTuple):
    """An entity about to be added, or the one that `ifAbsent` found in its place."""

    doc: Document
    content: Content | None
    existing: Entity | None


def not_found(entity_id: str) -> Refusal:
    """The refusal for an id that the brain does not have at this generation."""
    return Refusal("EntityNotFoundError", f'The brain has no entity "{entity_id}".', details={"id": entity_id})


def required(view: View, entity_id: str) -> Entity:
    """The entity of this id; `EntityNotFoundError` when there is none."""
    entity = view.entity(entity_id)
    if entity is None:
        raise not_found(entity_id)
    return entity


def check_revision(doc: Document, expected: int | None) -> None:
    """Refuses `RevisionConflictError` when the caller saw another revision than the stored one."""
    actual = int(doc.get("_rev", 1))
    if expected is not None and expected != actual:
        raise Refusal(
            "RevisionConflictError",
            f'The record "{doc["id"]}" has revision {actual}, not {expected}.',
            details={"id": doc["id"], "expected": expected, "actual": actual},
        )


def texts_of_item(item: NewEntity) -> Sequence[str]:
    """The text of a new entity that wants a vector."""
    text = text_of_data(item.data)
    return [] if text is None or item.vector is not None else [text]


def texts_of_change(item: Change) -> Sequence[str]:
    """The text that a change brings and that wants a vector."""
    text = text_of_data(item.data)
    return [] if text is None or item.vector is not None else [text]


def prepare_add(
    txn: Transaction, item: NewEntity, call: CallContext, existing: Entity | None, *, if_absent: bool
) -> Prepared:
    """Everything about a new entity but the writing of it. `existing` has its id: `EntityExistsError`, or `ifAbsent`.

    An id that was removed continues its `_rev` while history knows it.
    """
    refuse_vfs_subtype(item.subtype, "Write files and directories with `vfs.writeFile`.")
    refuse_system(item.visibility, call)
    entity_id = item.id if item.id is not None else call.new_id()
    if existing is not None and not if_absent:
        raise Refusal(
            "EntityExistsError",
            f'The id "{entity_id}" is taken.',
            details={"id": entity_id, "_rev": existing.doc.get("_rev", 1)},
        )
    content = None if existing is not None else content_of(txn, call, text_of_data(item.data), item.vector)
    doc = {} if existing is not None else new_document(txn, entity_id, item, known=item.id is not None)
    if existing is None:
        judge(txn, doc)
    return Prepared(doc, content, existing)


def new_document(txn: Transaction, entity_id: str, item: NewEntity, *, known: bool) -> Document:
    """The document of a new entity; `known` says that the id may have had a life before."""
    return ordered(
        {
            "id": entity_id,
            "type": item.type,
            "subtype": item.subtype,
            "data": item.data,
            "metadata": item.metadata if item.metadata is not None else {},
            "confidence": item.confidence,
            "weight": item.weight,
            "service": item.service,
            "visibility": item.visibility or "public",
            "createdAt": txn.now_ms,
            "updatedAt": txn.now_ms,
            "createdBy": item.created_by,
            "_rev": (txn.last_revision(entity_id) if known else 0) + 1,
        },
        ENTITY_KEYS,
    )


def stored_state(view: View, entity: Entity, call: CallContext) -> str:
    """The embedding word for an entity that is stored already."""
    if view.vector(entity.cid) is not None:
        return "done"
    text = view.text(entity.cid)
    return embedding_state(None if text is None else Content(text, pending=True), call)


def add_receipt(txn: Transaction, prepared: Prepared, call: CallContext) -> Document:
    """The receipt of one prepared entity, written or found."""
    if prepared.existing is None:
        state = embedding_state(prepared.content, call)
        return {"id": prepared.doc["id"], "_rev": prepared.doc["_rev"], "embedding": state}
    doc = prepared.existing.doc
    state = stored_state(txn, prepared.existing, call)
    return {"id": doc["id"], "_rev": doc.get("_rev", 1), "embedding": state, "existed": True, "changed": False}


class Planned(NamedTuple):
    """A change as it would be made: the document wanted, without a new `_rev` and time, and the content."""

    entity: Entity
    wanted: Document
    content: Content | Keep | None
    differs: bool


def plan_change(txn: Transaction, entity: Entity, item: Change, call: CallContext) -> Planned:
    """What an update would make of its entity. Refuses what the update would refuse; writes nothing."""
    check_revision(entity.doc, item.if_rev)
    unset = frozenset(item.unset or ())
    fields = {wire: getattr(item, name) for name, wire in _UPDATE_FIELDS.items() if getattr(item, name) is not None}
    named = {*fields, *(["vector"] if item.vector is not None else [])}
    checked_unset(unset, named, item.metadata)
    _guard_change(entity, item, named, unset, call)
    wanted = {key: value for key, value in {**entity.doc, **fields}.items() if key not in unset}
    wanted["metadata"] = merged_metadata(entity.doc["metadata"], item.metadata, merge=item.merge, unset=unset)
    judge(txn, wanted, entity.doc)
    content = _changed_content(txn, entity, item, wanted, unset, call)
    return Planned(entity, wanted, content, content is not KEEP or not same(wanted, entity.doc))


def make_change(txn: Transaction, planned: Planned, call: CallContext) -> Document:
    """Writes a planned change, if it differs, and gives its receipt; `changed: false` when there is nothing to do."""
    entity, content = planned.entity, planned.content
    revision = int(entity.doc.get("_rev", 1))
    if not planned.differs:
        return {"id": entity.id, "_rev": revision, "embedding": stored_state(txn, entity, call), "changed": False}
    wanted = planned.wanted | {"updatedAt": txn.now_ms, "_rev": revision + 1}
    txn.replace_entity(entity, ordered(wanted, ENTITY_KEYS), content)
    state = stored_state(txn, entity, call) if isinstance(content, Keep) else embedding_state(content, call)
    return {"id": entity.id, "_rev": revision + 1, "embedding": state}


def change_entity(txn: Transaction, item: Change, call: CallContext) -> Document:
    """Updates one entity and gives its receipt; one that already is as asked is left alone with `changed: false`."""
    return make_change(txn, plan_change(txn, required(txn, item.id), item, call), call)


def _guard_change(entity: Entity, item: Change, named: set[str], unset: frozenset[str], call: CallContext) -> None:
    refuse_system(item.visibility, call)
    if is_vfs_row(entity.doc):
        refuse_vfs_change(entity.doc, named | (unset & frozenset(ENTITY_KEYS)), [*(item.metadata or {}), *unset])
        if not item.merge:
            refuse_replacing_vfs_metadata(entity.doc)
    elif item.subtype is not None:
        refuse_vfs_subtype(item.subtype, "Write files and directories with `vfs.writeFile`.")


def _changed_content(
    txn: Transaction,
    entity: Entity,
    item: Change,
    wanted: dict[str, Any],
    unset: frozenset[str],
    call: CallContext,
) -> Content | Keep | None:
    """The content after an update. New data drops a vector that a caller gave; the same data and vector keep theirs."""
    text_moves = not same(wanted.get("data"), entity.doc.get("data"))
    if item.vector is not None:
        stored = None if text_moves else txn.vector(entity.cid)
        if stored is not None and stored == unit_bytes(item.vector):
            return KEEP
    elif not text_moves and ("vector" not in unset or txn.vector(entity.cid) is None):
        return KEEP
    return content_of(txn, call, text_of_data(wanted.get("data")), item.vector)


def remove_one(txn: Transaction, entity_id: str, if_rev: int | None) -> Document:
    """Removes the entity of an id, and gives the receipt; `removed: false` for an id that nothing has."""
    entity = txn.entity(entity_id)
    if entity is None:
        return {"removed": False, "relationsRemoved": 0}
    check_revision(entity.doc, if_rev)
    refuse_removing_vfs_row(entity)
    return {"removed": True, "relationsRemoved": txn.remove_entity(entity)}


def refuse_removing_vfs_row(entity: Entity) -> None:
    """Refuses to remove a row of the file tree by itself."""
    refuse_vfs_row(entity.doc, "Remove a file with `vfs.unlink`, a directory with `vfs.rmdir`.")
