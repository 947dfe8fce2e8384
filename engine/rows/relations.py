"""What the writing doors do to relations, one at a time: shared by the single doors, the batches and the import."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from contract.doors.relations import NewRelation
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import Entity, Relation
from engine.rows.documents import RELATION_KEYS, ordered, same
from engine.rows.guards import CONTAINS_SUBTYPE, is_vfs_row, refuse_system, refuse_vfs_subtype

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

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
    if item.type == "contains" and is_vfs_row(source.doc) and is_vfs_row(target.doc):
        raise Refusal(
            "EngineOwnedRecordError",
            f'A "contains" edge from "{source.id}" to "{target.id}" would be one of the file tree.',
            cure="Containment follows the paths: use `vfs.writeFile`, or relate with another type.",
            details={"from": source.id, "to": target.id},
        )
    receipt = _relate_one(txn, item, call, source, target, kept)
    if item.bidirectional:
        reverse = _relate_one(txn, item, call, target, source, MappingProxyType({}))
        receipt["reverseId"] = reverse["id"]
        if "changed" in receipt and "changed" not in reverse:
            del receipt["changed"]
    return receipt


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
    relation, _ = txn.add_relation(doc, source.iid, target.iid)
    return {"id": relation.id, "_rev": relation.doc["_rev"]}


def _found(existing: Relation, item: NewRelation) -> Document:
    given = {wire: getattr(item, name) for name, wire in _COMPARED.items() if getattr(item, name) is not None}
    differs = [wire for wire, value in given.items() if not same(value, existing.doc.get(wire))]
    return {
        "id": existing.id,
        "_rev": existing.doc.get("_rev", 1),
        "existed": True,
        "differs": differs,
        "changed": False,
    }


def remove_relation(txn: Transaction, relation_id: str) -> Document:
    """Removes one relation, or says that there is none. Containment edges of the file tree are refused."""
    relation = txn.relation(relation_id)
    if relation is None:
        return {"removed": False}
    if relation.doc.get("subtype") == CONTAINS_SUBTYPE:
        raise Refusal(
            "EngineOwnedRecordError",
            f'The relation "{relation_id}" is a containment edge of the file tree.',
            cure="Remove the file with `vfs.unlink`, or the directory with `vfs.rmdir`.",
            details={"id": relation_id},
        )
    txn.remove_relation(relation)
    return {"removed": True}
