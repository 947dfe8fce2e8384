"""Reads of how records came to be what they are: which generations touched them. Nothing is decided here."""

from collections.abc import Iterator

from engine.records import FOREVER, Entity, Relation
from engine.sqlite import entities, files, log, relations
from engine.sqlite.rows import ENTITY, PATH, RELATION, VERB_NUMBERS, relation_of
from engine.sqlite.scope import Scope

KINDS = (ENTITY, RELATION, PATH)


class Lives:
    """The past of records, read on a connection whose newest rows are current.

    Records are named by their numbers (iid, rid), which outlive a removal; paths by their text.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def floor(self) -> int:
        """The oldest generation that can be read."""
        return log.floor(self._scope)

    def generations_of(self, principal: str, after: int) -> list[int]:
        """The generations above `after` that a principal made, ascending."""
        sql = "SELECT gen FROM commits WHERE gen>? AND principal=? ORDER BY gen"
        return [int(row[0]) for row in self._scope.each(sql, (after, principal))]

    def touched(self, generation: int) -> Iterator[tuple[int, int]]:
        """(kind, key) of the entities, relations and paths that a generation changed, in their order. A path's key is
        the iid that it names."""
        sql = "SELECT kind,key FROM change WHERE gen=? AND kind IN (?,?,?) ORDER BY seq"
        yield from self._scope.each(sql, (generation, *KINDS))

    # -- entities

    def entity(self, iid: int, at: int) -> Entity | None:
        """The entity as it was at a generation."""
        return entities.by_iid(Scope(self._scope.connection, at, False), iid)

    def entity_steps(self, iid: int, after: int) -> list[int]:
        """The generations above `after` that changed an entity, ascending."""
        return self._steps("ent", "iid", iid, after)

    # -- relations

    def relation(self, rid: int, at: int | None = None) -> Relation | None:
        """The relation as it was at a generation, or as it is."""
        row = self._scope.row(relations.CURRENT + "WHERE rid=?", (rid,))
        relation = None if row is None else relation_of(row)
        if at is not None and (relation is None or relation.g0 > at):
            old = relations.CLOSED + "WHERE rid=? AND g0<=? ORDER BY g0 DESC, rvid DESC LIMIT 1"
            row = self._scope.row(old, (rid, at))
            relation = None if row is None else relation_of(row)
        return None if relation is None or (at is not None and relation.g1 <= at) else relation

    def relation_steps(self, rid: int, after: int) -> list[int]:
        """The generations above `after` that changed a relation, ascending."""
        return self._steps("rel", "rid", rid, after)

    def relation_revision(self, relation_id: str) -> int:
        """The `_rev` of the newest version of this relation id, removed ones too; 0 when there is none."""
        row = self._scope.row(relations.CURRENT + "WHERE id=?", (relation_id,)) or self._scope.row(
            relations.CLOSED + "WHERE id=? ORDER BY g0 DESC, rvid DESC LIMIT 1", (relation_id,)
        )
        return 0 if row is None else int(relation_of(row).doc.get("_rev", 1))

    def twin(self, relation: Relation) -> Relation | None:
        """Another current relation between the same ends with the same type and subtype."""
        where = "WHERE src=? AND type=? AND dst=? AND sub IS ? AND rid<>?"
        number = VERB_NUMBERS[relation.doc["type"]]
        values = (relation.src, number, relation.dst, relation.doc.get("subtype"), relation.rid)
        row = self._scope.row(relations.CURRENT + where, values)
        return None if row is None else relation_of(row)

    # -- paths

    def places_of(self, generations: frozenset[int]) -> dict[tuple[str, int], int]:
        """The places, each a path and the iid that it names, that these generations made or ended, and the first of
        them for each. Looks at every path of that time: they are kept by name."""
        low = min(generations)
        found: dict[tuple[str, int], int] = {}
        for path, iid, *steps in self._scope.each("SELECT path,iid,g0,g1 FROM vpath WHERE g0>=?1 OR g1>=?1", (low,)):
            for step in steps:
                if step in generations:
                    found[path, iid] = min(step, found.get((path, iid), step))
        return found

    def is_at(self, place: tuple[str, int], at: int | None) -> bool:
        """Whether a path named an iid at a generation, or names it."""
        path, iid = place
        scope = self._scope if at is None else Scope(self._scope.connection, at, False)
        return files.path(scope, path) == iid

    def place_steps(self, place: tuple[str, int], after: int) -> list[int]:
        """The generations above `after` that made or ended a place, ascending."""
        rows = self._scope.each("SELECT g0,g1 FROM vpath WHERE path=? AND iid=? AND g1>?", (*place, after))
        return sorted({step for row in rows for step in row if after < step < FOREVER})

    def _steps(self, table: str, column: str, key: int, after: int) -> list[int]:
        sql = (
            f"SELECT g0 FROM {table} WHERE {column}=?1 AND g0>?2"
            f" UNION SELECT g0 FROM {table}_old WHERE {column}=?1 AND g0>?2"
            f" UNION SELECT g1 FROM {table}_old WHERE {column}=?1 AND g1>?2 ORDER BY 1"
        )
        return [int(row[0]) for row in self._scope.each(sql, (key, after))]
