"""What an undo would do: for each record that the commits touched, what it was before the first of them.

Only reads. A record that is already as it was needs nothing. One that commits outside the set changed later stands in
the way, unless those commits came to nothing (a change and its undo), and so does an edge that such a commit hung on an
entity that would vanish. Directories that were made on the
way to a file stay while somebody else's files are below them: writing those would have made them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from contract.limits import READ_CHUNK_ROWS_MAX, UNDO_RECORDS_MAX
from contract.refusals import Refusal
from engine.records import Document, Entity, Relation
from engine.rows.batches import chunks
from engine.rows.documents import same
from engine.rows.guards import CONTAINS_SUBTYPE, DIRECTORY_SUBTYPE, ROOT_SUBTYPE
from engine.sqlite.rows import ENTITY, PATH
from engine.undo.conflicts import conflict

if TYPE_CHECKING:
    from engine.sqlite.lives import Lives
    from engine.transaction import Transaction

_Record = TypeVar("_Record")
_STAMPS = ("_rev", "updatedAt")


@dataclass(slots=True)
class Plan:
    """The records to restore, by number. `ends`: what goes; `past`: what comes back, with the version it had.
    `places` are paths with the iids they name, and whether they come back."""

    commits: frozenset[int]
    entity_ends: dict[int, Entity] = field(default_factory=dict)
    entity_past: dict[int, tuple[Entity, Entity | None]] = field(default_factory=dict)
    relation_ends: dict[int, Relation] = field(default_factory=dict)
    relation_past: dict[int, tuple[Relation, Relation | None]] = field(default_factory=dict)
    places: dict[tuple[str, int], bool] = field(default_factory=dict)


def plan_undo(txn: Transaction, generations: list[int], check: Callable[[], None]) -> Plan:
    """The plan for these generations; `UndoConflictError` names the first record in the way."""
    lives = txn.lives()
    plan = Plan(frozenset(generations))
    firsts = _firsts(txn, lives, generations, check)
    for chunk in chunks(list(firsts.items()), READ_CHUNK_ROWS_MAX):
        check()
        read = _read(txn, lives, chunk)
        for (kind, key), first in chunk:
            if kind == ENTITY:
                _plan_entity(txn, lives, plan, key, first, read)
            elif kind != PATH:
                _plan_relation(txn, lives, plan, key, first, read)
    if any(kind == PATH for kind, _ in firsts):
        _plan_places(txn, lives, plan)
    _keep_directories(txn, plan)
    _refuse_hanging_edges(txn, lives, plan, check)
    _refuse_loose_ends(txn, lives, plan, check)
    return plan


@dataclass(slots=True)
class _Read:
    """What is known of some records at once: as they are, as they were, and the generations that touched them."""

    entities: dict[int, Entity] = field(default_factory=dict)
    entities_before: dict[int, Entity] = field(default_factory=dict)
    entity_steps: dict[int, list[int]] = field(default_factory=dict)
    relations: dict[int, Relation] = field(default_factory=dict)
    relations_before: dict[int, Relation] = field(default_factory=dict)
    relation_steps: dict[int, list[int]] = field(default_factory=dict)


def _read(txn: Transaction, lives: Lives, touched: Sequence[tuple[tuple[int, int], int]]) -> _Read:
    entities: dict[int, list[int]] = {}
    relations: dict[int, list[int]] = {}
    for (kind, key), first in touched:
        if kind != PATH:
            (entities if kind == ENTITY else relations).setdefault(first, []).append(key)
    read = _Read()
    read.entities = txn.entities_at([iid for iids in entities.values() for iid in iids])
    read.relations = lives.relations([rid for rids in relations.values() for rid in rids])
    for first, iids in entities.items():
        read.entities_before |= lives.entities(iids, first - 1)
        read.entity_steps |= lives.entity_steps_of(iids, first)
    for first, rids in relations.items():
        read.relations_before |= lives.relations(rids, first - 1)
        read.relation_steps |= lives.relation_steps_of(rids, first)
    return read


def _firsts(
    txn: Transaction, lives: Lives, generations: list[int], check: Callable[[], None]
) -> dict[tuple[int, int], int]:
    """(kind, key) -> the first generation of the set that touched the record, in the order of touching."""
    firsts: dict[tuple[int, int], int] = {}
    seen = 0
    for generation in generations:
        check()
        commit = txn.commit(generation)  # holds the rows of the log to the hash chain
        seen += 0 if commit is None else commit.change_count
        if seen > UNDO_RECORDS_MAX:
            raise Refusal(
                "QueryLimitError",
                f"The generations to undo changed more than {UNDO_RECORDS_MAX} records.",
                cure="Undo them in parts: a later `since` first, then an earlier one.",
                details={"max": UNDO_RECORDS_MAX},
            )
        for touched in lives.touched(generation):
            firsts.setdefault(touched, generation)
    return firsts


def _outside(plan: Plan, steps: list[int]) -> int | None:
    """The first of these generations that is not being undone."""
    return next((step for step in steps if step not in plan.commits), None)


def _in_the_way(
    plan: Plan,
    steps: list[int],
    state: Callable[[int | None], _Record | None],
    alike: Callable[[_Record, _Record], bool],
) -> int | None:
    """The first step of other commits that did something to a record: runs of them that came to nothing do not count.

    `state` gives the record at a generation, or now.
    """
    place = 0
    while place < len(steps):
        end = place
        while end < len(steps) and steps[end] not in plan.commits:
            end += 1
        if end > place:
            before = state(steps[place] - 1)
            after = state(steps[end] - 1 if end < len(steps) else None)
            known = before is not None and after is not None and alike(before, after)
            if not known and (before is not None or after is not None):
                return steps[place]
        place = end + 1
    return None


def _unstamped(doc: Document) -> Document:
    return {key: value for key, value in doc.items() if key not in _STAMPS}


def _plan_entity(txn: Transaction, lives: Lives, plan: Plan, iid: int, first: int, read: _Read) -> None:
    past, now = read.entities_before.get(iid), read.entities.get(iid)
    if (past is None and now is None) or (past is not None and now is not None and _is_as_it_was(txn, now, past)):
        return
    step = _in_the_way(
        plan,
        read.entity_steps[iid],
        lambda at: now if at is None else lives.entity(iid, at),
        lambda one, other: _is_as_it_was(txn, one, other),
    )
    if step is not None:
        raise conflict(txn, "entity", _name(past or now), step)
    if past is None:
        assert now is not None
        plan.entity_ends[iid] = now
    else:
        plan.entity_past[iid] = (past, now)


def _name(record: Entity | Relation | None) -> str:
    assert record is not None, "a record that was or is"
    return record.id


def _is_as_it_was(txn: Transaction, now: Entity, past: Entity) -> bool:
    if now.ver == past.ver:
        return True
    alike = now.cid == past.cid or txn.vector(now.cid) == txn.vector(past.cid)
    return alike and same(_unstamped(now.doc), _unstamped(past.doc))


def _is_same_edge(now: Relation, past: Relation) -> bool:
    return same(_unstamped(now.doc), _unstamped(past.doc))


def _plan_relation(txn: Transaction, lives: Lives, plan: Plan, rid: int, first: int, read: _Read) -> None:
    past, now = read.relations_before.get(rid), read.relations.get(rid)
    if past is None and now is None:
        return
    if past is not None and now is not None and _is_same_edge(now, past):
        return
    step = _in_the_way(plan, read.relation_steps[rid], lambda at: lives.relation(rid, at), _is_same_edge)
    if step is not None:
        raise conflict(txn, "relation", _name(past or now), step)
    if past is None:
        assert now is not None
        plan.relation_ends[rid] = now
    else:
        plan.relation_past[rid] = (past, now)


def _plan_places(txn: Transaction, lives: Lives, plan: Plan) -> None:
    for place, first in lives.places_of(plan.commits).items():
        past = lives.is_at(place, first - 1)
        if past == lives.is_at(place, None):
            continue
        step = _in_the_way(plan, lives.place_steps(place, first), _presence(lives, place), lambda one, other: True)
        if step is not None:
            raise conflict(txn, "file", place[0], step)
        plan.places[place] = past


def _presence(lives: Lives, place: tuple[str, int]) -> Callable[[int | None], bool | None]:
    """A place as a record: there, or None."""
    return lambda at: lives.is_at(place, at) or None


def _keep_directories(txn: Transaction, plan: Plan) -> None:
    """Takes directories out of what goes, from the bottom up, while something below them stays."""
    needed = {past.src for past, _ in plan.relation_past.values() if past.doc.get("subtype") == CONTAINS_SUBTYPE}
    waiting = [
        iid
        for iid, entity in plan.entity_ends.items()
        if entity.doc.get("subtype") in (DIRECTORY_SUBTYPE, ROOT_SUBTYPE)
        and (iid in needed or _has_children(txn, plan, iid))
    ]
    while waiting:
        iid = waiting.pop()
        entity = plan.entity_ends.pop(iid, None)
        if entity is None:
            continue
        plan.places.pop((entity.doc["metadata"]["path"], iid), None)
        for edge in txn.edges([iid], "in", ("contains",)):
            relation = plan.relation_ends.get(edge.rid)
            if relation is not None and relation.doc.get("subtype") == CONTAINS_SUBTYPE:
                del plan.relation_ends[edge.rid]
                waiting.append(edge.src)


def _has_children(txn: Transaction, plan: Plan, iid: int) -> bool:
    return any(
        edge.rid not in plan.relation_ends
        and (relation := txn.relation(edge.id)) is not None
        and relation.doc.get("subtype") == CONTAINS_SUBTYPE
        for edge in txn.edges([iid], "out", ("contains",))
    )


def _refuse_hanging_edges(txn: Transaction, lives: Lives, plan: Plan, check: Callable[[], None]) -> None:
    """Refuses while an edge that stays touches an entity that goes."""
    for iids in chunks(list(plan.entity_ends), READ_CHUNK_ROWS_MAX):
        check()
        for edge in txn.edges(iids, "both"):
            if edge.rid not in plan.relation_ends:
                entity = plan.entity_ends.get(edge.src) or plan.entity_ends[edge.dst]
                born = lives.relation_steps(edge.rid, 0)
                reason = f'it joins the entity "{entity.id}", which would vanish'
                raise conflict(txn, "relation", edge.id, _outside(plan, born) or born[-1], reason)


def _refuse_loose_ends(txn: Transaction, lives: Lives, plan: Plan, check: Callable[[], None]) -> None:
    """Refuses while an end of an edge that comes back is gone, or goes."""
    for edges in chunks([past for past, _ in plan.relation_past.values()], READ_CHUNK_ROWS_MAX):
        check()
        ends = [(past, iid) for past in edges for iid in (past.src, past.dst) if iid not in plan.entity_past]
        alive = txn.entities_at(list({iid for _, iid in ends if iid not in plan.entity_ends}))
        for past, iid in ends:
            if iid not in alive:
                raise _loose_end(txn, lives, plan, past, iid)


def _loose_end(txn: Transaction, lives: Lives, plan: Plan, past: Relation, iid: int) -> Refusal:
    step = _outside(plan, lives.entity_steps(iid, past.g0))
    if step is None:
        reason = "an end of it is not there before the generations to undo"
        return conflict(txn, "relation", past.id, past.g0, reason)
    gone = lives.entity(iid, past.g0)
    return conflict(txn, "entity", _name(gone), step, f'the relation "{past.id}" needs it')
