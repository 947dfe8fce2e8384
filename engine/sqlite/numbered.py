"""Reads of many records by their numbers, each a statement for a whole list. Every row is checked like a single one."""

from collections.abc import Sequence

from engine.records import Entity, Relation
from engine.sqlite import entities, relations
from engine.sqlite.rows import entity_of, relation_of
from engine.sqlite.scope import Scope, listed

_LISTED = "IN (SELECT value FROM json_each(?1))"


def entities_of(scope: Scope, iids: Sequence[int]) -> dict[int, Entity]:
    """The entities of these iids that are alive at the pin, in the order asked."""
    if len(iids) < 4:
        few = ((iid, entities.by_iid(scope, iid)) for iid in iids)
        return {iid: entity for iid, entity in few if entity is not None}
    rows = scope.each(entities.CURRENT + "WHERE iid " + _LISTED, (listed(iids),))
    found = {entity.iid: entity for entity in map(entity_of, rows)}
    if not scope.live:
        # As for one: intervals of a number never overlap, so the newest that began by the pin is the only candidate.
        late = [iid for iid in iids if iid not in found or found[iid].g0 > scope.pin]
        newest = (
            "WHERE ver IN (SELECT (SELECT o.ver FROM ent_old o WHERE o.iid=j.value AND o.g0<=?2 "
            "ORDER BY o.g0 DESC, o.ver DESC LIMIT 1) FROM json_each(?1) j)"
        )
        for entity in map(entity_of, scope.each(entities.CLOSED + newest, (listed(late), scope.pin))):
            found[entity.iid] = entity
    alive = ((iid, found[iid]) for iid in iids if iid in found)
    return {iid: entity for iid, entity in alive if entity.g0 <= scope.pin < entity.g1}


def versions(scope: Scope, vers: Sequence[int]) -> list[Entity]:
    """See `View.versions`."""
    if len(vers) < 4:
        return [entities.by_version(scope, ver) for ver in vers]
    found = {row[1]: row for row in scope.each(entities.CURRENT + "WHERE ver " + _LISTED, (listed(vers),))}
    closed = [ver for ver in vers if ver not in found]
    if closed:
        found |= {row[1]: row for row in scope.each(entities.CLOSED + "WHERE ver " + _LISTED, (listed(closed),))}
    return [entity_of(found[ver]) if ver in found else entities.by_version(scope, ver) for ver in vers]


def relations_of(scope: Scope, rids: Sequence[int]) -> dict[int, Relation]:
    """The relations of these rids that are alive at the pin, in the order asked."""
    if len(rids) < 4:
        few = ((rid, relations.by_rid(scope, rid)) for rid in rids)
        return {rid: relation for rid, relation in few if relation is not None}
    rows = scope.each(relations.CURRENT + "WHERE rid " + _LISTED, (listed(rids),))
    found = {relation.rid: relation for relation in map(relation_of, rows)}
    if not scope.live:
        late = [rid for rid in rids if rid not in found or found[rid].g0 > scope.pin]
        newest = (
            "WHERE rvid IN (SELECT (SELECT o.rvid FROM rel_old o WHERE o.rid=j.value AND o.g0<=?2 "
            "ORDER BY o.g0 DESC, o.rvid DESC LIMIT 1) FROM json_each(?1) j)"
        )
        for relation in map(relation_of, scope.each(relations.CLOSED + newest, (listed(late), scope.pin))):
            found[relation.rid] = relation
    alive = ((rid, found[rid]) for rid in rids if rid in found)
    return {rid: relation for rid, relation in alive if relation.g0 <= scope.pin < relation.g1}


def last_revisions(scope: Scope, ids: Sequence[str], *, of: str) -> dict[str, int]:
    """The `_rev` of the newest version of each of these ids, closed ones too; `of` is "entity" or "relation".

    For ids that no record has now; unknown ones are absent.
    """
    table, number = ("ent_old", "ver") if of == "entity" else ("rel_old", "rvid")
    closed = entities.CLOSED if of == "entity" else relations.CLOSED
    sql = closed + (
        f"WHERE {number} IN (SELECT (SELECT o.{number} FROM {table} o WHERE o.id=j.value AND o.g0<=?2 "
        f"ORDER BY o.g0 DESC, o.{number} DESC LIMIT 1) FROM json_each(?1) j)"
    )
    found: dict[str, int] = {}
    for row in scope.each(sql, (listed(ids), scope.pin)):
        record = entity_of(row) if of == "entity" else relation_of(row)
        found[record.id] = int(record.doc.get("_rev", 1))
    return found


def steps_of(scope: Scope, kind: str, numbers: Sequence[int], after: int) -> dict[int, list[int]]:
    """The generations above `after` that changed each of these records, ascending; `kind` is "entity" or "relation"."""
    table, column = ("ent", "iid") if kind == "entity" else ("rel", "rid")
    sql = (
        f"SELECT {column},g0 FROM {table} WHERE {column} {_LISTED} AND g0>?2"
        f" UNION SELECT {column},g0 FROM {table}_old WHERE {column} {_LISTED} AND g0>?2"
        f" UNION SELECT {column},g1 FROM {table}_old WHERE {column} {_LISTED} AND g1>?2 ORDER BY 1,2"
    )
    found: dict[int, list[int]] = {number: [] for number in numbers}
    for number, step in scope.each(sql, (listed(numbers), after)):
        found[number].append(step)
    return found


def twins(scope: Scope, rids: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of current relations with the same ends, type and subtype, the first of each pair out of these."""
    sql = (
        "SELECT a.rid,b.rid FROM json_each(?1) j CROSS JOIN rel a ON a.rid=j.value CROSS JOIN rel b "
        "ON b.src=a.src AND b.type=a.type AND b.dst=a.dst AND b.sub IS a.sub AND b.rid<>a.rid"
    )
    return [(one, other) for one, other in scope.each(sql, (listed(rids),))]
