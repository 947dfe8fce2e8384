"""The doors that change many things as one: transact clear undo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.doors.time import UndoParams
from contract.doors.transact import ClearParams, TransactParams
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document, writes
from engine.rows.clearing import clear_all
from engine.rows.operations import Op, perform, texts_of_op
from engine.rows.references import References
from engine.undo.door import undo_commits

if TYPE_CHECKING:
    from engine.transaction import Transaction


def _texts_of_transaction(params: TransactParams) -> Sequence[str]:
    return [text for op in params.ops for text in texts_of_op(op)]


@writes("transact", texts=_texts_of_transaction)
def transact(txn: Transaction, params: TransactParams, call: CallContext) -> Document:
    """Does the operations in order, as one generation or not at all; a refusal names the operation (`opIndex`).

    `GenerationConflictError` when the brain is not at `ifAtGeneration`. Each operation sees those before it.
    """
    head = txn.generation - 1
    if params.if_at_generation is not None and params.if_at_generation != head:
        raise Refusal(
            "GenerationConflictError",
            f"The brain is at generation {head}, not at {params.if_at_generation}.",
            details={"expected": params.if_at_generation, "actual": head},
        )
    references = References()
    results = [_done(txn, index, op, references, call) for index, op in enumerate(params.ops)]
    answer: Document = {"timestamp": txn.now_ms, "results": results, "ids": references.ids}
    if txn.changed:
        txn.set_meta(params.meta)
        return answer
    return answer | {"timestamp": txn.then(head).at_ms, "changed": False}


def _done(txn: Transaction, index: int, op: Op, references: References, call: CallContext) -> Document:
    call.check()
    temp_id = getattr(op, "temp_id", None)
    try:
        if temp_id is not None:
            references.refuse_known(temp_id)
        receipt = perform(txn, references.resolved(op), call)
    except Refusal as refusal:
        kind = op.__struct_config__.tag
        raise Refusal(
            refusal.name,
            f"Operation {index} ({kind}): {refusal.message} Nothing of the transaction was written.",
            cure=refusal.cure,
            details={**(refusal.details or {}), "opIndex": index},
        ) from refusal
    if temp_id is not None:
        references.name(temp_id, receipt["id"])
    return receipt


@writes("clear", frees=True)
def clear(txn: Transaction, params: ClearParams, call: CallContext) -> Document:
    """Removes every entity, relation and file as one generation. Definitions and history stay."""
    if not params.confirm:
        raise Refusal("ConfirmationRequiredError", "clear removes everything in the brain, and was not confirmed.")
    removed = clear_all(txn, call)
    return {"removed": removed, **({} if txn.changed else {"changed": False})}


@writes("undo")
def undo(txn: Transaction, params: UndoParams, call: CallContext) -> Document:
    """Takes back one generation, or what a principal did since one, as a new generation; see `engine.undo`."""
    return undo_commits(txn, params, call)
