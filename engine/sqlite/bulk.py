"""Reads of many rows at once: by lists of ids, and whole passes in id order. Every row is checked like a single one."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from engine.records import FOREVER, Entity, Relation
from engine.sqlite import entities, relations
from engine.sqlite.rows import VERB_NUMBERS, corrupt, entity_of, relation_of
from engine.sqlite.scope import Scope

IDS_PER_STATEMENT: Final = 250
"""Few distinct statements, so that SQLite's cache of prepared ones holds them."""

_BY_ID: Final = "WHERE id>?1 AND g0<=?2 "
_ALIVE: Final = "WHERE id>?1 AND g0<=?2 AND g1>?2 "


class EntityTrait(NamedTuple):
    """What a pass over all entities can know without reading a document."""

    iid: int
    subtype: str | None
    visibility: int


class RelationEnds(NamedTuple):
    """What a pass over all relations can know without reading a document."""

    rid: int
    src: int
    dst: int
    visibility: int


class VectorRow(NamedTuple):
    """The vector of a content, the space it belongs to, and whether the content has it alone (no passages)."""

    space: int
    data: bytes
    alone: bool


def _chunks(keys: Sequence[Any]) -> Iterator[tuple[tuple[Any, ...], str]]:
    for start in range(0, len(keys), IDS_PER_STATEMENT):
        chunk = tuple(keys[start : start + IDS_PER_STATEMENT])
        chunk += (chunk[-1],) * (IDS_PER_STATEMENT - len(chunk)) if len(keys) > IDS_PER_STATEMENT else ()
        yield chunk, "(" + ",".join("?" * len(chunk)) + ")"


def entities_of_ids(scope: Scope, ids: Sequence[str]) -> dict[str, Entity]:
    """The entities of these ids at the pin, in the order asked; unknown ones are absent."""
    found: dict[str, Entity] = {}
    unique = list(dict.fromkeys(ids))
    if not scope.live or len(unique) < 4:
        for entity_id in unique:
            entity = entities.by_id(scope, entity_id)
            if entity is not None:
                found[entity_id] = entity
        return found
    asked = frozenset(unique)
    for chunk, marks in _chunks(unique):
        for row in scope.each(entities.CURRENT + "WHERE id IN " + marks, chunk):
            entity = entity_of(row)
            if entity.id not in asked:
                raise corrupt("entity", entity.id, {"iid": entity.iid})
            found[entity.id] = entity
    return {entity_id: found[entity_id] for entity_id in unique if entity_id in found}


def entities_by_id(scope: Scope, after: str, limit: int) -> list[Entity]:
    """The next entities in id order."""
    if scope.live:
        sql = entities.CURRENT + "WHERE id>? ORDER BY id LIMIT ?"
        return list(map(entity_of, scope.rows(sql, (after, limit))))
    sql = entities.CURRENT + _BY_ID + "UNION ALL " + entities.CLOSED + _ALIVE + "ORDER BY 6 LIMIT ?3"
    return list(map(entity_of, scope.rows(sql, (after, scope.pin, limit))))


def relations_by_id(scope: Scope, after: str, limit: int) -> list[Relation]:
    """The next relations in id order."""
    if scope.live:
        sql = relations.CURRENT + "WHERE id>? ORDER BY id LIMIT ?"
        return list(map(relation_of, scope.rows(sql, (after, limit))))
    sql = relations.CURRENT + _BY_ID + "UNION ALL " + relations.CLOSED + _ALIVE + "ORDER BY 6 LIMIT ?3"
    return list(map(relation_of, scope.rows(sql, (after, scope.pin, limit))))


EdgeKey = tuple[int, int, int, str | None]
"""What makes a relation one: (src, type number, dst, subtype)."""

KEYS_PER_STATEMENT: Final = 200


def current_relations(scope: Scope, keys: Sequence[EdgeKey]) -> dict[EdgeKey, Relation]:
    """The current relations that have these keys; keys without one are absent. For a live scope."""
    found: dict[EdgeKey, Relation] = {}
    unique = list(dict.fromkeys(keys))
    columns = relations.CURRENT.split("FROM")[0].replace("SELECT ", "SELECT rel.").replace(",", ",rel.")
    columns = columns.replace("rel." + str(FOREVER), str(FOREVER))
    for start in range(0, len(unique), KEYS_PER_STATEMENT):
        chunk = unique[start : start + KEYS_PER_STATEMENT]
        sql = (
            f"WITH k(s,t,d,u) AS (VALUES {','.join(['(?,?,?,?)'] * len(chunk))}) {columns} "
            "FROM k CROSS JOIN rel ON rel.src=k.s AND rel.type=k.t AND rel.dst=k.d AND rel.sub IS k.u"
        )
        for row in scope.each(sql, tuple(value for key in chunk for value in key)):
            relation = relation_of(row)
            key = (relation.src, VERB_NUMBERS[relation.doc["type"]], relation.dst, relation.doc.get("subtype"))
            found[key] = relation
    return found


def taken_relation_ids(scope: Scope, ids: Sequence[str]) -> set[str]:
    """Which of these ids current relations have."""
    found: set[str] = set()
    for chunk, marks in _chunks(list(dict.fromkeys(ids))):
        found.update(row[0] for row in scope.each("SELECT id FROM rel WHERE id IN " + marks, chunk))
    return found


def entity_traits(scope: Scope, after_iid: int, limit: int) -> list[EntityTrait]:
    """The next entities in insertion order, without their documents."""
    sql = "SELECT iid,sub,vis FROM ent WHERE iid>?1 AND g0<=?2 "
    if not scope.live:
        sql += "UNION ALL SELECT iid,sub,vis FROM ent_old WHERE iid>?1 AND g0<=?2 AND g1>?2 "
    return [EntityTrait(*row) for row in scope.rows(sql + "ORDER BY 1 LIMIT ?3", (after_iid, scope.pin, limit))]


def relation_ends(scope: Scope, after_rid: int, limit: int) -> list[RelationEnds]:
    """The ends of the next relations in insertion order, without their documents."""
    sql = "SELECT rid,src,dst,vis FROM rel WHERE rid>?1 AND g0<=?2 "
    if not scope.live:
        sql += "UNION ALL SELECT rid,src,dst,vis FROM rel_old WHERE rid>?1 AND g0<=?2 AND g1>?2 "
    return [RelationEnds(*row) for row in scope.rows(sql + "ORDER BY 1 LIMIT ?3", (after_rid, scope.pin, limit))]


def vectors_of(scope: Scope, cids: Sequence[int]) -> dict[int, VectorRow]:
    """The vector of each content that has one; of a content with passages the first, marked as not alone."""
    found: dict[int, VectorRow] = {}
    for chunk, marks in _chunks(list(dict.fromkeys(cids))):
        sql = (
            "SELECT c.cid, c.vid,v.cid,v.space,v.crc,v.v, (SELECT n.cid FROM vec n WHERE n.vid=v.vid+1) "
            "FROM content c LEFT JOIN vec v ON v.vid=c.vid WHERE c.vid<>0 AND c.cid IN " + marks
        )
        for cid, vid, owner, space, crc, data, following in scope.each(sql, chunk):
            checked = entities.vector_of_row((vid, owner, space, crc, data), cid)
            found[cid] = VectorRow(space, checked, following != cid)
    return found
