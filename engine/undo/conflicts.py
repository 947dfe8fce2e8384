"""The refusal of an undo that later work depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.refusals import Refusal

if TYPE_CHECKING:
    from engine.transaction import Transaction


def conflict(txn: Transaction, kind: str, name: str, generation: int, reason: str | None = None) -> Refusal:
    """`UndoConflictError`: the record in the way (`kind`: entity, relation or file) and the generation to look at.

    `reason` says what of the undo depends on it; by default that the record was changed again.
    """
    commit = txn.commit(generation)
    by = "" if commit is None else f" by {commit.principal}"
    why = reason or "it would be overwritten"
    return Refusal(
        "UndoConflictError",
        f'The {kind} "{name}" was changed in generation {generation}{by} and stands in the way: {why}.',
        cure=f"Undo generation {generation} first, or change the {kind} by hand.",
        details={
            "kind": kind,
            "id": name,
            "generation": generation,
            **({} if commit is None else {"principal": commit.principal}),
        },
    )
