"""What each operation of a transaction does, with its receipt: the work of the single doors, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, assert_never

from contract.doors.transact import (
    AddOp,
    AssertOp,
    RelateOp,
    RemoveOp,
    UnrelateOp,
    UpdateOp,
    UpdateRelationOp,
)
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.rows.entities import (
    add_receipt,
    change_entity,
    check_revision,
    prepare_add,
    remove_one,
    required,
    texts_of_change,
    texts_of_item,
)
from engine.rows.relations import change_relation, relate_pair, remove_relation
from engine.rows.selection import selected, selection

if TYPE_CHECKING:
    from engine.transaction import Transaction

Op: TypeAlias = AddOp | UpdateOp | RemoveOp | RelateOp | UpdateRelationOp | UnrelateOp | AssertOp


def texts_of_op(op: Op) -> Sequence[str]:
    """The text that an operation brings and that wants a vector."""
    if isinstance(op, AddOp):
        return texts_of_item(op)
    return texts_of_change(op) if isinstance(op, UpdateOp) else ()


def perform(txn: Transaction, op: Op, call: CallContext) -> Document:
    """Does one operation, whose references are resolved, and gives the receipt that its door would give."""
    match op:
        case AddOp():
            return _add(txn, op, call)
        case UpdateOp():
            return change_entity(txn, op, call)
        case RemoveOp():
            return remove_one(txn, op.id, op.if_rev)
        case RelateOp():
            return relate_pair(txn, op, call)
        case UpdateRelationOp():
            return change_relation(txn, op, call)
        case UnrelateOp():
            return remove_relation(txn, op.id)
        case AssertOp():
            return _assert(txn, op, call)
        case _:
            assert_never(op)


def _add(txn: Transaction, op: AddOp, call: CallContext) -> Document:
    existing = None if op.id is None else txn.entity(op.id)
    prepared = prepare_add(txn, op, call, existing, if_absent=op.if_absent)
    if prepared.existing is None:
        txn.add_entity(prepared.doc, prepared.content)
    return add_receipt(txn, prepared, call)


def _assert(txn: Transaction, op: AssertOp, call: CallContext) -> Document:
    if op.id is not None:
        entity = required(txn, op.id)
        check_revision(entity.doc, op.if_rev)
        return {"id": entity.id, "_rev": entity.doc.get("_rev", 1)}
    expected = 0 if op.expect == "none" else op.expect
    chosen = selected(txn, selection(None, op.where), call)
    if len(chosen) != expected:
        raise Refusal(
            "AssertionFailedError",
            f"{len(chosen)} entities match the filter, not {expected}.",
            details={
                "expected": expected,
                "actual": len(chosen),
                "ids": [entity.id for entity in chosen.entities(MATCHES_NAMED_MAX)],
            },
        )
    return {"matches": len(chosen)}


MATCHES_NAMED_MAX = 5
"""Ids that a failed assertion names."""
