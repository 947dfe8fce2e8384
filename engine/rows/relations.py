"""What the writing doors do to relations, one at a time: shared by the single doors, the batches and the import."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from contract.doors.relations import NewRelation, RelationChange
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import Entity, Relation
from engine.rows.documents import RELATION_KEYS, checked_unset, merged_metadata, ordered, same
from engine.rows.entities import check_revision
from engine.rows.guards import CONTAINS_SUBTYPE, is_vfs_row, refuse_system, refuse_vfs_subtype
from engine.rows.rules import judge

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

# The parameters of a change that set a field of a relation: attribute -> wire name.
_CHANGED = {
    "type": "type",
    "subtype": "subtype",
    "data": "data",
    "weight": "weight",
    "confidence": "confidence",
    "evidence": "evidence",
    "service": "service",
    "visibility": "visibility",
}

# The parameters of a relation that an existing edge may differ in: attribute -> wire name.
_COMPARED = {
    "data": "data",
    "metadata": "metadata",
    "weight": "weight",
    "confidence": "confidence",
    "evidence": "evidence",
    "service": "service",
    "visibility": "visibility",
}


def relate_pair(
    txn: Transaction, item: NewRelation, call: CallContext, kept: Mapping[str, Any] = MappingProxyType({})
) -> Document:
    """Adds one relation (and its reverse, when `bidirectional`), or finds the one of these ends, type and subtype.

    The receipt of a found one has `existed: true` and `differs`, the given fields that the stored edge has otherwise.
    `EntityNotFoundError` names the missing end. `kept` holds what an exported record brings back: id, times, `_rev`.
    """
    refuse_vfs_subtype(item.subtype, "Containment follows the paths: use `vfs.writeFile`.")
    refuse_system(item.visibility, call)
    source, target = end_of(txn, "from", item.from_), end_of(txn, "to", item.to)
    refuse_containment(item.type, source, target)
    receipt = _relate_one(txn, item, call, source, target, kept)
    if item.bidirectional:
        reverse = _relate_one(txn, item, call, target, source, MappingProxyType({}))
        receipt["reverseId"] = reverse["id"]
        if "changed" in receipt and "changed" not in reverse:
            del receipt["changed"]
    return receipt


def refuse_containment(verb: str, source: Entity, target: Entity) -> None:
    """Refuses an edge between two rows of the file tree that would say that one contains the other."""
    if verb == "contains" and is_vfs_row(source.doc) and is_vfs_row(target.doc):
        raise Refusal(
            "EngineOwnedRecordError",
            f'A "contains" edge from "{source.id}" to "{target.id}" would be one of the file tree.',
            cure="Containment follows the paths: use `vfs.writeFile`, or relate with another type.",
            details={"from": source.id, "to": target.id},
        )


def end_of(view: View, name: str, entity_id: str) -> Entity:
    """The entity at one end of an edge; `EntityNotFoundError` names the parameter (`name`) and the id."""
    entity = view.entity(entity_id)
    if entity is None:
        raise Refusal(
            "EntityNotFoundError",
            f'{name}: the brain has no entity "{entity_id}".',
            cure="Add the entity first, or correct the id.",
            details={"endpoint": name, "id": entity_id},
        )
    return entity


def _relate_one(
    txn: Transaction, item: NewRelation, call: CallContext, source: Entity, target: Entity, kept: Mapping[str, Any]
) -> Document:
    existing = txn.relation_between(source.iid, target.iid, item.type, item.subtype)
    if existing is not None:
        return _found(existing, item)
    given_id = kept.get("id")
    if given_id is not None and txn.relation(given_id) is not None:
        raise Refusal(
            "EntityExistsError",
            f'The relation id "{given_id}" is taken by another edge.',
            cure="Leave `id` out, or use another one.",
            details={"id": given_id},
        )
    doc = ordered(
        {
            "id": given_id if given_id is not None else call.new_id(),
            "from": source.id,
            "to": target.id,
            "type": item.type,
            "subtype": item.subtype,
            "data": item.data,
            "metadata": item.metadata if item.metadata is not None else {},
            "weight": item.weight if item.weight is not None else 1.0,
            "confidence": item.confidence,
            "evidence": item.evidence,
            "service": item.service,
            "visibility": item.visibility or "public",
            "createdAt": txn.now_ms,
            "updatedAt": txn.now_ms,
            "_rev": 1,
            **kept,
        },
        RELATION_KEYS,
    )
    judge(txn, doc)
    relation, _ = txn.add_relation(doc, source.iid, target.iid)
    return {"id": relation.id, "_rev": relation.doc["_rev"]}


def differing(existing: Relation, item: NewRelation) -> list[str]:
    """The given fields that the stored edge has otherwise."""
    given = {wire: getattr(item, name) for name, wire in _COMPARED.items() if getattr(item, name) is not None}
    return [wire for wire, value in given.items() if not same(value, existing.doc.get(wire))]


def _found(existing: Relation, item: NewRelation) -> Document:
    return {
        "id": existing.id,
        "_rev": existing.doc.get("_rev", 1),
        "existed": True,
        "differs": differing(existing, item),
        "changed": False,
    }


def remove_relation(txn: Transaction, relation_id: str) -> Document:
    """Removes one relation, or says that there is none. Containment edges of the file tree are refused."""
    relation = txn.relation(relation_id)
    if relation is None:
        return {"removed": False}
    _refuse_tree_edge(relation, "Remove the file with `vfs.unlink`, or the directory with `vfs.rmdir`.")
    txn.remove_relation(relation)
    return {"removed": True}


def _refuse_tree_edge(relation: Relation, cure: str) -> None:
    if relation.doc.get("subtype") == CONTAINS_SUBTYPE:
        raise Refusal(
            "EngineOwnedRecordError",
            f'The relation "{relation.id}" is a containment edge of the file tree.',
            cure=cure,
            details={"id": relation.id},
        )


def change_relation(txn: Transaction, item: RelationChange, call: CallContext) -> Document:
    """Updates one relation, whose id and ends stay, and gives its receipt; `changed: false` when it is so already.

    `RelationNotFoundError`, `RevisionConflictError`; `EntityExistsError` names the relation that has the new type and
    subtype between the same ends.
    """
    relation = txn.relation(item.id)
    if relation is None:
        message = f'The brain has no relation "{item.id}".'
        raise Refusal("RelationNotFoundError", message, details={"id": item.id})
    check_revision(relation.doc, item.if_rev)
    _refuse_tree_edge(relation, "Containment follows the paths: use `vfs.rename`.")
    refuse_vfs_subtype(item.subtype, "Containment follows the paths: use `vfs.writeFile`.")
    refuse_system(item.visibility, call)
    wanted = _changed_document(relation, item)
    revision = int(relation.doc.get("_rev", 1))
    if same(wanted, relation.doc):
        return {"id": relation.id, "_rev": revision, "changed": False}
    judge(txn, wanted, relation.doc)
    if (wanted["type"], wanted.get("subtype")) != (relation.doc["type"], relation.doc.get("subtype")):
        _refuse_twin(txn, relation, wanted)
    wanted |= {"updatedAt": txn.now_ms, "_rev": revision + 1}
    txn.replace_relation(relation, ordered(wanted, RELATION_KEYS))
    return {"id": relation.id, "_rev": revision + 1}


def _changed_document(relation: Relation, item: RelationChange) -> Document:
    """The document wanted, still with the old `_rev` and time."""
    unset = frozenset(item.unset or ())
    fields = {wire: getattr(item, name) for name, wire in _CHANGED.items() if getattr(item, name) is not None}
    checked_unset(unset, fields, item.metadata, relation=True)
    wanted: Document = {key: value for key, value in {**relation.doc, **fields}.items() if key not in unset}
    wanted["metadata"] = merged_metadata(relation.doc.get("metadata", {}), item.metadata, merge=item.merge, unset=unset)
    return wanted


def _refuse_twin(txn: Transaction, relation: Relation, wanted: Document) -> None:
    """Refuses a new type and subtype that another edge between the same ends has, or that is the file tree's."""
    ends = txn.entities_at([relation.src, relation.dst])
    refuse_containment(wanted["type"], ends[relation.src], ends[relation.dst])
    twin = txn.relation_between(relation.src, relation.dst, wanted["type"], wanted.get("subtype"))
    if twin is not None and twin.rid != relation.rid:
        raise Refusal(
            "EntityExistsError",
            f'The relation "{twin.id}" joins the same two entities with type "{wanted["type"]}" and the same subtype.',
            cure="Change that relation, remove it first, or use another subtype.",
            details={"id": twin.id, "_rev": twin.doc.get("_rev", 1)},
        )
