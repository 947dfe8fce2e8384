"""Reads of how records came to be what they are: which generations touched them. Nothing is decided here."""

from collections.abc import Iterator, Sequence

from engine.records import FOREVER, Entity, Relation
from engine.sqlite import entities, files, log, numbered, relations
from engine.sqlite.rows import ENTITY, PATH, RELATION, relation_of
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

    def entities(self, iids: Sequence[int], at: int) -> dict[int, Entity]:
        """`entity` of many; those that were not there are absent."""
        return numbered.entities_of(Scope(self._scope.connection, at, False), iids)

    def entity_steps_of(self, iids: Sequence[int], after: int) -> dict[int, list[int]]:
        """`entity_steps` of many."""
        return numbered.steps_of(self._scope, "entity", iids, after)

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

    def relations(self, rids: Sequence[int], at: int | None = None) -> dict[int, Relation]:
        """`relation` of many; those that were or are not there are absent."""
        scope = self._scope if at is None else Scope(self._scope.connection, at, False)
        return numbered.relations_of(scope, rids)

    def relation_steps_of(self, rids: Sequence[int], after: int) -> dict[int, list[int]]:
        """`relation_steps` of many."""
        return numbered.steps_of(self._scope, "relation", rids, after)

    def last_relation_revisions(self, ids: Sequence[str]) -> dict[str, int]:
        """The newest `_rev` that history keeps of each of these ids which no relation has now; others are absent."""
        return numbered.last_revisions(self._scope, ids, of="relation")

    def twin(self, rids: Sequence[int]) -> tuple[Relation, Relation] | None:
        """One of these current relations, and another with the same ends, type and subtype; None when each is alone."""
        pair = next(iter(numbered.twins(self._scope, rids)), None)
        if pair is None:
            return None
        found = numbered.relations_of(self._scope, pair)
        return found[pair[0]], found[pair[1]]

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
