"""The door `undo`: which generations are meant, and the one commit that restores what was before them.

Restored records keep their numbers, so that insertion order, edges, texts and vectors come back with them; `_rev` goes
on upward. Definitions (aggregates, schema rules) are not records and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from contract.doors.time import UndoParams
from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import Entity, Relation
from engine.rows.batches import chunks
from engine.rows.documents import ENTITY_KEYS, RELATION_KEYS, ordered
from engine.rows.guards import CONTAINS_SUBTYPE, FILE_SUBTYPE, is_vfs_row
from engine.undo.conflicts import conflict
from engine.undo.plan import Plan, plan_undo

if TYPE_CHECKING:
    from engine.transaction import Transaction

_Record = TypeVar("_Record")


def undo_commits(txn: Transaction, params: UndoParams, call: CallContext) -> Document:
    """Restores what was before the generations that `params` names, and counts it; `changed: false` for nothing.

    Refuses `GenerationInFutureError`, `GenerationNotRetainedError`, `QueryLimitError`, `UndoConflictError`.
    """
    generations = _generations(txn, params)
    plan = plan_undo(txn, generations, call.check)
    undone = _carry_out(txn, plan, call.check)
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


def _carry_out(txn: Transaction, plan: Plan, check: Callable[[], None]) -> Document:
    """Writes the plan: what goes first, so that ids and paths are free for what comes back."""
    entities = [*plan.entity_ends.values(), *(past for past, _ in plan.entity_past.values())]
    edges = [*plan.relation_ends.values(), *(past for past, _ in plan.relation_past.values())]
    for (path, _), is_back in plan.places.items():
        if not is_back:
            txn.drop_path(path)
    for gone in _steps(list(plan.relation_ends.values()), check):
        txn.remove_relations(gone)
    for ended in _steps(list(plan.entity_ends.values()), check):
        txn.remove_entities(ended)
    for back in _steps(list(plan.entity_past.values()), check):
        _restore_entities(txn, back)
    for joined in _steps(list(plan.relation_past.values()), check):
        _restore_relations(txn, joined)
    for rids in _steps(list(plan.relation_past), check):
        twins = txn.lives().twin(rids)
        if twins is not None:
            before, twin = twins
            raise conflict(txn, "relation", twin.id, twin.g0, f'the relation "{before.id}" would be the same edge')
    for (path, iid), is_back in plan.places.items():
        if is_back:
            _restore_place(txn, path, iid)
    return {
        "entities": sum(not is_vfs_row(entity.doc) for entity in entities),
        "relations": sum(edge.doc.get("subtype") != CONTAINS_SUBTYPE for edge in edges),
        "files": sum(entity.doc.get("subtype") == FILE_SUBTYPE for entity in entities),
    }


def _steps(records: list[_Record], check: Callable[[], None]) -> Iterator[Sequence[_Record]]:
    for chunk in chunks(records, READ_CHUNK_ROWS_MAX):
        check()
        yield chunk


def _restore_entities(txn: Transaction, records: Sequence[tuple[Entity, Entity | None]]) -> None:
    removed = [past.id for past, now in records if now is None]
    taken = txn.entities(removed)
    revisions = txn.last_revisions(removed)
    restored: list[tuple[Entity, Entity | None, Document]] = []
    for past, now in records:
        if now is None:
            if past.id in taken:
                born = txn.lives().entity_steps(taken[past.id].iid, 0)[0]
                raise conflict(txn, "entity", past.id, born, "the id is taken anew")
            taken[past.id] = past
        revision = revisions.get(past.id, 0) if now is None else int(now.doc.get("_rev", 1))
        doc = ordered({**past.doc, "updatedAt": txn.now_ms, "_rev": revision + 1}, ENTITY_KEYS)
        restored.append((past, now, doc))
    txn.restore_entities(restored)


def _restore_place(txn: Transaction, path: str, iid: int) -> None:
    other = txn.path(path)
    if other is not None:
        born = txn.lives().place_steps((path, other), 0)[-1]
        raise conflict(txn, "file", path, born, "the path is taken anew")
    txn.set_path(path, iid)


def _restore_relations(txn: Transaction, records: Sequence[tuple[Relation, Relation | None]]) -> None:
    removed = [past.id for past, now in records if now is None]
    taken = txn.taken_relation_ids(removed)
    revisions = txn.lives().last_relation_revisions(removed)
    restored: list[tuple[Relation, Relation | None, Document]] = []
    for past, now in records:
        if now is None:
            if past.id in taken:
                other = txn.relation(past.id)
                born = past.g0 if other is None else other.g0
                raise conflict(txn, "relation", past.id, born, "the id is taken anew")
            taken.add(past.id)
        revision = revisions.get(past.id, 0) if now is None else int(now.doc.get("_rev", 1))
        doc = ordered({**past.doc, "updatedAt": txn.now_ms, "_rev": revision + 1}, RELATION_KEYS)
        restored.append((past, now, doc))
    txn.restore_relations(restored)
