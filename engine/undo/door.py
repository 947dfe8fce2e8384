"""The door `undo`: which generations are meant, and the one commit that restores what was before them.

Restored records keep their numbers, so that insertion order, edges, texts and vectors come back with them; `_rev` goes
on upward. Definitions (aggregates, schema rules) are not records and stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.doors.time import UndoParams
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import Entity, Relation
from engine.rows.documents import ENTITY_KEYS, RELATION_KEYS, ordered
from engine.rows.guards import CONTAINS_SUBTYPE, FILE_SUBTYPE, is_vfs_row
from engine.undo.conflicts import conflict
from engine.undo.plan import Plan, plan_undo

if TYPE_CHECKING:
    from engine.transaction import Transaction


def undo_commits(txn: Transaction, params: UndoParams, call: CallContext) -> Document:
    """Restores what was before the generations that `params` names, and counts it; `changed: false` for nothing.

    Refuses `GenerationInFutureError`, `GenerationNotRetainedError`, `QueryLimitError`, `UndoConflictError`.
    """
    generations = _generations(txn, params)
    plan = plan_undo(txn, generations, call.check)
    undone = _carry_out(txn, plan)
    if not txn.changed:
        return {"undone": undone, "changed": False}
    named = {"generation": params.generation, "since": params.since, "principal": params.principal}
    txn.set_meta({"undo": {name: value for name, value in named.items() if value is not None}})
    return {"undone": undone}


def _generations(txn: Transaction, params: UndoParams) -> list[int]:
    lives = txn.lives()
    head, floor = txn.generation - 1, lives.floor()
    oldest = params.generation - 1 if params.generation is not None else params.since
    assert oldest is not None, "the contract holds that one of the two is given"
    newest = params.generation if params.generation is not None else oldest
    if newest > head:
        raise Refusal(
            "GenerationInFutureError",
            f"Generation {newest} lies ahead of the brain's head, {head}.",
            details={"generation": newest, "head": head},
        )
    if params.generation == 0:
        return []  # the brain as it was made: nobody's commit
    if oldest < floor or (params.generation is not None and txn.commit(params.generation) is None):
        raise Refusal(
            "GenerationNotRetainedError",
            f"An undo would need generation {oldest}; the history that is kept begins at {floor}.",
            details={"generation": oldest, "oldestKept": floor},
        )
    if params.generation is not None:
        return [params.generation]
    assert params.principal is not None, "the contract holds that `since` comes with a principal"
    return lives.generations_of(params.principal, oldest)


def _carry_out(txn: Transaction, plan: Plan) -> Document:
    """Writes the plan: what goes first, so that ids and paths are free for what comes back."""
    entities = [*plan.entity_ends.values(), *(past for past, _ in plan.entity_past.values())]
    edges = [*plan.relation_ends.values(), *(past for past, _ in plan.relation_past.values())]
    for (path, _), is_back in plan.places.items():
        if not is_back:
            txn.drop_path(path)
    for relation in plan.relation_ends.values():
        txn.remove_relation(relation)
    for entity in plan.entity_ends.values():
        txn.remove_entity(entity)
    for past, now in plan.entity_past.values():
        _restore_entity(txn, past, now)
    for before, current in plan.relation_past.values():
        _restore_relation(txn, before, current)
    for before, _ in plan.relation_past.values():
        twin = txn.lives().twin(before)
        if twin is not None:
            raise conflict(txn, "relation", twin.id, twin.g0, f'the relation "{before.id}" would be the same edge')
    for (path, iid), is_back in plan.places.items():
        if is_back:
            _restore_place(txn, path, iid)
    return {
        "entities": sum(not is_vfs_row(entity.doc) for entity in entities),
        "relations": sum(edge.doc.get("subtype") != CONTAINS_SUBTYPE for edge in edges),
        "files": sum(entity.doc.get("subtype") == FILE_SUBTYPE for entity in entities),
    }


def _restore_entity(txn: Transaction, past: Entity, now: Entity | None) -> None:
    if now is None:
        other = txn.entity(past.id)
        if other is not None:
            born = txn.lives().entity_steps(other.iid, 0)[0]
            raise conflict(txn, "entity", past.id, born, "the id is taken anew")
    revision = txn.last_revision(past.id) if now is None else int(now.doc.get("_rev", 1))
    doc = ordered({**past.doc, "updatedAt": txn.now_ms, "_rev": revision + 1}, ENTITY_KEYS)
    txn.restore_entity(past, now, doc)


def _restore_place(txn: Transaction, path: str, iid: int) -> None:
    other = txn.path(path)
    if other is not None:
        born = txn.lives().place_steps((path, other), 0)[-1]
        raise conflict(txn, "file", path, born, "the path is taken anew")
    txn.set_path(path, iid)


def _restore_relation(txn: Transaction, past: Relation, now: Relation | None) -> None:
    if now is None:
        other = txn.relation(past.id)
        if other is not None:
            raise conflict(txn, "relation", past.id, other.g0, "the id is taken anew")
    revision = txn.lives().relation_revision(past.id)
    doc = ordered({**past.doc, "updatedAt": txn.now_ms, "_rev": revision + 1}, RELATION_KEYS)
    txn.restore_relation(past, now, doc)
