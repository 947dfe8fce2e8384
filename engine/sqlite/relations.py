"""Reads of relations: by id, by ends, and adjacency through the covering indexes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from contract.vocabulary import VERB_TYPES
from engine.records import FOREVER, Edge, Hop, Relation, RelationPage, RelationQuery
from engine.sqlite.rows import VERB_NUMBERS, VISIBILITY_NUMBERS, corrupt, member, relation_of
from engine.sqlite.scope import Scope, listed

_TAIL: Final = "id,type,sub,vis,service,crc,doc"
CURRENT: Final = f"SELECT rid,src,dst,g0,{FOREVER},{_TAIL} FROM rel "
CLOSED: Final = f"SELECT rid,src,dst,g0,g1,{_TAIL} FROM rel_old "


def by_id(scope: Scope, relation_id: str) -> Relation | None:
    """See `View.relation`."""
    row = scope.row(CURRENT + "WHERE id=?", (relation_id,))
    relation = None if row is None else relation_of(row)
    if not scope.live and (relation is None or relation.g0 > scope.pin):
        row = scope.row(CLOSED + "WHERE id=? AND g0<=? ORDER BY g0 DESC, rvid DESC LIMIT 1", (relation_id, scope.pin))
        relation = None if row is None else relation_of(row)
    if relation is None or relation.g1 <= scope.pin:
        return None
    if relation.id != relation_id:
        raise corrupt("relation", relation_id, {"found": relation.id})
    return relation


def by_rid(scope: Scope, rid: int) -> Relation | None:
    """The relation `rid` at this generation."""
    row = scope.row(CURRENT + "WHERE rid=?", (rid,))
    relation = None if row is None else relation_of(row)
    if not scope.live and (relation is None or relation.g0 > scope.pin):
        row = scope.row(CLOSED + "WHERE rid=? AND g0<=? ORDER BY g0 DESC, rvid DESC LIMIT 1", (rid, scope.pin))
        relation = None if row is None else relation_of(row)
    return None if relation is None or relation.g1 <= scope.pin else relation


def between(scope: Scope, src: int, dst: int, type_: int, subtype: str | None) -> Relation | None:
    """See `View.relation_between`."""
    where = "WHERE src=? AND type=? AND dst=? AND sub IS ? AND g0<=?"
    row = scope.row(CURRENT + where, (src, type_, dst, subtype, scope.pin))
    if row is None and not scope.live:
        row = scope.row(CLOSED + where + " AND g1>?", (src, type_, dst, subtype, scope.pin, scope.pin))
    return None if row is None else relation_of(row)


def scan(scope: Scope, after_rid: int, limit: int) -> list[Relation]:
    """See `View.scan_relations`."""
    sql = CURRENT + "WHERE rid>?1 AND g0<=?2 "
    if not scope.live:
        sql += "UNION ALL " + CLOSED + "WHERE rid>?1 AND g0<=?2 AND g1>?2 "
    return list(map(relation_of, scope.rows(sql + "ORDER BY 1 LIMIT ?3", (after_rid, scope.pin, limit))))


class _Clause(msgspec.Struct):
    """A growing WHERE clause and its parameters."""

    terms: list[str]
    parameters: list[Any]

    def add(self, term: str, *parameters: object) -> None:
        self.terms.append(term)
        self.parameters.extend(parameters)

    def add_in(self, column: str, values: Sequence[int]) -> None:
        self.add(f"{column} IN ({','.join('?' * len(values))})", *values)


def _filters(query: RelationQuery) -> _Clause:
    clause = _Clause([], [])
    if query.types is not None:
        clause.add_in("type", [VERB_NUMBERS[name] for name in query.types])
    if query.subtype is not None:
        clause.add("sub=?", query.subtype)
    if query.service is not None:
        clause.add("service=?", query.service)
    if query.visibilities is not None:
        clause.add_in("vis", sorted(VISIBILITY_NUMBERS[name] for name in query.visibilities))
    return clause


def _ends(query: RelationQuery) -> list[tuple[str, list[int]]]:
    """The selections whose union, without overlap, is the incidence asked for."""
    if query.node is not None:
        assert query.source is None, "a query names a node or ends, not both"
        assert query.target is None, "a query names a node or ends, not both"
        # A self loop is found by the first selection alone.
        return [("src=?", [query.node]), ("dst=? AND src<>?", [query.node, query.node])]
    ends = [(name, end) for name, end in (("src=?", query.source), ("dst=?", query.target)) if end is not None]
    assert ends, "a query names a node, a source or a target"
    return [(" AND ".join(name for name, _ in ends), [end for _, end in ends])]


def page(scope: Scope, query: RelationQuery) -> RelationPage:
    """See `View.relations`. Ordered and cut on the covering indexes; only the rows of the page are read."""
    filters = _filters(query)
    selections: list[str] = []
    parameters: list[Any] = []
    for ends, iids in _ends(query):
        where = " AND ".join([ends, *filters.terms])
        values = [*iids, *filters.parameters]
        if scope.live:
            selections.append(f"SELECT id, rid AS n, 0 AS old FROM rel WHERE {where}")
            parameters += values
        else:
            selections.append(f"SELECT id, rid AS n, 0 AS old FROM rel WHERE {where} AND g0<=?")
            selections.append(f"SELECT id, rvid AS n, 1 AS old FROM rel_old WHERE {where} AND g0<=? AND g1>?")
            parameters += [*values, scope.pin, *values, scope.pin, scope.pin]
    union = " UNION ALL ".join(selections)
    cut = (query.limit, query.offset)
    keys = scope.rows(f"SELECT n, old FROM ({union}) ORDER BY id LIMIT ? OFFSET ?", (*parameters, *cut))
    total = query.offset + len(keys)
    if len(keys) == query.limit or (query.offset and not keys):
        counted = scope.row(f"SELECT count(*) FROM ({union})", tuple(parameters))
        total = 0 if counted is None else int(counted[0])
    return RelationPage([_by_key(scope, key, bool(old)) for key, old in keys], total)


def _by_key(scope: Scope, key: int, old: bool) -> Relation:
    row = scope.row(CLOSED + "WHERE rvid=?" if old else CURRENT + "WHERE rid=?", (key,))
    if row is None:
        raise corrupt("relation", key, {"missing": "the row that the adjacency index names"})
    return relation_of(row)


_ENDS: Final = {"out": (("src", "dst"),), "in": (("dst", "src"),), "both": (("src", "dst"), ("dst", "src"))}


def _hop(scope: Scope, frontier: Sequence[int], fields: str, hop: Hop) -> Iterator[tuple[Any, ...]]:
    """What one step from the frontier finds: `fields` of each relation, `{far}` being the end that it arrives at."""
    parameters: list[Any] = [listed(frontier)]
    tests = []
    if hop.types is not None:
        tests.append(f"r.type IN ({','.join(str(VERB_NUMBERS[name]) for name in hop.types)})")
    if hop.visibilities is not None:
        tests.append(f"r.vis IN ({','.join(str(VISIBILITY_NUMBERS[name]) for name in sorted(hop.visibilities))})")
    if hop.subtype is not None:
        parameters.append(hop.subtype)
        tests.append(f"r.sub=?{len(parameters)}")
    current, closed = list(tests), list(tests)
    if not scope.live:
        parameters.append(scope.pin)
        current.append(f"r.g0<=?{len(parameters)}")
        closed += [f"r.g0<=?{len(parameters)}", f"r.g1>?{len(parameters)}"]
    for near, far in _ENDS[hop.direction]:
        source = f"SELECT {fields.format(far=far)} FROM json_each(?1) j CROSS JOIN {{}} r ON {{}}"
        sql = source.format("rel", " AND ".join([f"r.{near}=j.value", *current]))
        if not scope.live:
            sql += " UNION ALL " + source.format("rel_old", " AND ".join([f"r.{near}=j.value", *closed]))
        yield from scope.each(sql, tuple(parameters))


def edges(scope: Scope, frontier: Sequence[int], hop: Hop) -> list[Edge]:
    """See `View.edges`."""
    found: dict[int, Edge] = {}
    for rid, src, dst, type_, identity in _hop(scope, frontier, "r.rid, r.src, r.dst, r.type, r.id", hop):
        found[rid] = Edge(rid, src, dst, member(VERB_TYPES, type_), identity)
    return sorted(found.values(), key=lambda edge: edge.id)


def far_ends(scope: Scope, frontier: Sequence[int], hop: Hop) -> list[int]:
    """See `View.far_ends`."""
    return [row[0] for row in _hop(scope, frontier, "r.{far}", hop)]
