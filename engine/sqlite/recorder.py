"""The write statements of a job: entities, contents, relations, paths and definitions, and their closed past."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from engine.records import FOREVER, NO_CONTENT, Content, Document, Entity, Passage, Relation
from engine.sqlite import definitions
from engine.sqlite.files import path_crc
from engine.sqlite.held import GroupRows
from engine.sqlite.rows import (
    ADD,
    DEFINITION,
    ENTITY,
    PATH,
    RELATION,
    REMOVE,
    UPDATE,
    change_digest,
    encode_doc,
    old_crc,
    removal_digest,
    row_crc,
    small_crc,
    traits_of_entity,
    traits_of_relation,
)
from engine.sqlite.scope import LIVE, Scope, listed

# Rows are closed by reading and inserting them, not by INSERT ... SELECT: that makes SQLite open a statement journal,
# and giving one back costs a walk over all pages the savepoint holds (0.6 ms a row in a job of 20,000).
_CURRENT_ENTITY: Final = "SELECT ver,iid,cid,g0,id,type,sub,vis,service,crc,doc FROM ent WHERE iid"
_CURRENT_RELATION: Final = "SELECT rid,src,dst,type,sub,g0,id,vis,service,crc,doc FROM rel WHERE rid"
_CLOSE_ENTITY: Final = "INSERT INTO ent_old VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"
_CLOSE_RELATION: Final = "INSERT INTO rel_old VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?)"
_ONE: Final = "=?"
_NOT_WAITING: Final = """UPDATE content SET state = CASE WHEN state=4 THEN 3 WHEN vid>0 THEN 2 ELSE 0 END
    WHERE cid=? AND state IN (1,4)"""
_LISTED: Final = " IN (SELECT value FROM json_each(?))"


class Recorder(GroupRows):
    """What a job may do to the rows of its group. Every change is noted for the log, the counters and the index."""

    # -- entities

    def add_entity(self, iid: int, cid: int, doc: Document, op: int) -> Entity:
        """A new current version of `iid` (a new one when `op` is ADD)."""
        if op == ADD:
            self._take_id("ent", doc["id"])
        self.numbers.ver += 1
        ver, generation, identity = self.numbers.ver, self.generation, doc["id"]
        data = encode_doc(doc)
        traits = traits_of_entity(doc)
        address = (iid, ver, cid, generation)
        type_, sub, visibility, service = traits
        crc = row_crc(address, identity, traits, data)
        self._held["ent"].append((iid, ver, cid, generation, identity, type_, sub, visibility, service, crc, data))
        self._changes.append((ENTITY, op, iid, ver, change_digest(address, identity, data)))
        self._count(ENTITY, traits, 1)
        self.versions.append((ver, iid, cid, generation, doc))
        self.aggregates.note(iid, None, doc)
        return Entity(iid, ver, cid, generation, FOREVER, identity, doc)

    def close_entities(self, entities: Sequence[Entity]) -> None:
        """Move the current rows of entities to the past."""
        generation = self.generation
        held: dict[int, tuple[Any, ...]] = {}
        for row in self._current(_CURRENT_ENTITY, [entity.iid for entity in entities]):
            held[row[1]] = row
        rows: list[tuple[Any, ...]] = []
        for entity in entities:
            assert entity.iid in held, f"entity {entity.id!r} is not current"
            ver, iid, cid, g0, identity, type_, sub, visibility, service, crc, doc = held.pop(entity.iid)
            assert ver == entity.ver, f"entity {entity.id!r} was read before a later change"
            closed = old_crc(crc, generation)
            rows.append((ver, iid, cid, g0, generation, identity, type_, sub, visibility, service, closed, doc))
            self._count(ENTITY, (type_, sub, visibility, service), -1)
            self.deaths.append((ver, generation))
        self.connection.executemany(_CLOSE_ENTITY, rows)
        self.connection.executemany("DELETE FROM ent WHERE iid=?", [(row[1],) for row in rows])
        for entity in entities:
            self.aggregates.note(entity.iid, entity.doc, None)

    def replace_entity(self, entity: Entity, cid: int, doc: Document) -> Entity:
        """Close the current version and add the next."""
        self.close_entities([entity])
        return self.add_entity(entity.iid, cid, doc, UPDATE)

    def remove_entities(self, entities: Sequence[Entity]) -> None:
        """Close the current versions for good."""
        self.close_entities(entities)
        self._changes.extend(
            (ENTITY, REMOVE, entity.iid, entity.ver, removal_digest(entity.iid, entity.ver)) for entity in entities
        )

    def _current(self, sql: str, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """The current rows of these numbers, before they are closed."""
        self.settle()
        self.touch()
        if len(numbers) == 1:
            return list(self.connection.execute(sql + _ONE, (numbers[0],)))
        return list(self.connection.execute(sql + _LISTED, (listed(numbers),)))

    # -- contents

    def add_content(self, iid: int, content: Content | None, doc: Document) -> int:
        """The cid of a new content; `NO_CONTENT` when there is neither text nor vector."""
        if content is None or (content.text is None and content.vector is None):
            return NO_CONTENT
        self.numbers.cid += 1
        cid = self.numbers.cid
        source = 0 if content.text is None else 1 if doc.get("data") == content.text else 2
        own = content.text if source == 2 else None
        vid = 0
        if content.vector is not None:
            assert content.space is not None, "a vector is given with its space"
            vid = self.add_vector(cid, content.space, content.vector)
        elif content.passages:
            assert content.space is not None, "passages are given with their space"
            vid = self.add_passages(cid, content.space, content.passages)
        state = (3 if content.given else 2) if vid else 1 if content.pending and content.text is not None else 0
        crc = small_crc((cid, iid, source, 0), (own or "").encode())
        self._held["content"].append((cid, iid, state, source, vid, crc, own))
        self.contents.append((cid, content.text))
        return cid

    def add_vector(self, cid: int, space: int, vector: bytes) -> int:
        """The vid of a new vector of `cid`."""
        self.numbers.vid += 1
        vid = self.numbers.vid
        self._held["vec"].append((vid, cid, space, small_crc((vid, cid, space, 0), vector), vector))
        self.vectors.append((cid, space, vector))
        return vid

    def add_passages(self, cid: int, space: int, passages: Sequence[Passage]) -> int:
        """The vid of the first of the vectors of `cid`, which follow one another; what belongs to one is one run."""
        first = self.numbers.vid + 1
        self.touch()
        for passage in passages:
            vid = self.add_vector(cid, space, passage.vector)
            crc = small_crc((vid, passage.start, passage.end, 0), b"")
            self.connection.execute("INSERT INTO passage VALUES(?,?,?,?)", (vid, passage.start, passage.end, crc))
        return first

    def drop_contents(self, cids: Iterable[int]) -> None:
        """These contents have no current version any more: nothing waits for their vectors."""
        self._each(_NOT_WAITING, cids)

    def revive_contents(self, cids: Iterable[int]) -> None:
        """These contents have a current version again: a text without a vector waits for one."""
        self._each("UPDATE content SET state=1 WHERE cid=? AND state=0 AND vid=0 AND src>0", cids)

    def _each(self, sql: str, cids: Iterable[int]) -> None:
        known = [(cid,) for cid in cids if cid != NO_CONTENT]
        if known:
            self.settle()
            self.touch()
            self.connection.executemany(sql, known)

    def attach_vector(self, cid: int, space: int, vectors: bytes | Sequence[Passage]) -> bool:
        """Give a content its vector or its passages of a space; False when it has one, or waits for none."""
        self.settle()
        sql = "SELECT c.state, v.space FROM content c LEFT JOIN vec v ON v.vid=c.vid WHERE c.cid=?"
        row = self.connection.execute(sql, (cid,)).fetchone()
        if row is None or row[0] in (0, 3) or row[1] == space:
            return False
        if isinstance(vectors, bytes):
            vid = self.add_vector(cid, space, vectors)
        else:
            vid = self.add_passages(cid, space, vectors)
        self.touch()
        if row[0] == 4:  # the caller's vector stays the one that the entity answers
            self.connection.execute("UPDATE content SET state=3 WHERE cid=?", (cid,))
        else:
            self.connection.execute("UPDATE content SET vid=?, state=2 WHERE cid=?", (vid, cid))
        return True

    # -- relations

    def add_relation(self, rid: int, src: int, dst: int, doc: Document, op: int) -> Relation:
        """A new current version of `rid` (a new one when `op` is ADD)."""
        generation, identity = self.generation, doc["id"]
        if op == ADD:
            self._take_id("rel", identity)
        data = encode_doc(doc)
        traits = traits_of_relation(doc)
        type_, sub, visibility, service = traits
        address = (rid, src, dst, generation)
        crc = row_crc(address, identity, traits, data)
        row = (rid, src, dst, type_, sub, generation, identity, visibility, service, crc, data)
        self._held["rel"].append(row)
        self._changes.append((RELATION, op, rid, 0, change_digest(address, identity, data)))
        self._count(RELATION, traits, 1)
        return Relation(rid, src, dst, generation, FOREVER, identity, doc)

    def close_relations(self, relations: Sequence[Relation]) -> None:
        """Move the current rows of relations to the past."""
        generation = self.generation
        held: dict[int, tuple[Any, ...]] = {}
        for row in self._current(_CURRENT_RELATION, [relation.rid for relation in relations]):
            held[row[0]] = row
        rows: list[tuple[Any, ...]] = []
        for relation in relations:
            assert relation.rid in held, f"relation {relation.id!r} is not current"
            rid, src, dst, type_, sub, g0, identity, visibility, service, crc, doc = held.pop(relation.rid)
            assert g0 == relation.g0, f"relation {relation.id!r} was read before a later change"
            closed = old_crc(crc, generation)
            rows.append((rid, src, dst, type_, sub, g0, generation, identity, visibility, service, closed, doc))
            self._count(RELATION, (type_, sub, visibility, service), -1)
        self.connection.executemany(_CLOSE_RELATION, rows)
        self.connection.executemany("DELETE FROM rel WHERE rid=?", [(row[0],) for row in rows])

    def remove_relations(self, relations: Sequence[Relation]) -> None:
        """Close the current versions for good."""
        self.close_relations(relations)
        self._changes.extend(
            (RELATION, REMOVE, relation.rid, 0, removal_digest(relation.rid, 0)) for relation in relations
        )

    # -- paths

    def end_path(self, path: str) -> bool:
        """Let a path name nothing from this generation on; False when it named nothing. One named and dropped in one
        generation was never visible: its row goes."""
        self.touch()
        sql = "SELECT g0,iid FROM vpath WHERE path=? AND g1=?"
        row = self.connection.execute(sql, (path, FOREVER)).fetchone()
        if row is None:
            return False
        g0, iid = row
        if g0 == self.generation:
            self.connection.execute("DELETE FROM vpath WHERE path=? AND g0=?", (path, g0))
        else:
            crc = path_crc(path, g0, self.generation, iid)
            self.connection.execute(
                "UPDATE vpath SET g1=?, crc=? WHERE path=? AND g0=?", (self.generation, crc, path, g0)
            )
        return True

    def start_path(self, path: str, iid: int) -> None:
        """Let a path that names nothing name `iid`."""
        generation = self.generation
        crc = path_crc(path, generation, FOREVER, iid)
        self.touch()
        self.connection.execute("INSERT INTO vpath VALUES(?,?,?,?,?)", (path, generation, FOREVER, iid, crc))
        self.log_path(path, iid, ADD)

    def log_path(self, path: str, iid: int, op: int) -> None:
        """Remember a change of a path."""
        digest = change_digest((iid, op, self.generation, 0), path, b"")
        self._changes.append((PATH, op, iid, 0, digest))

    # -- definitions

    def definitions(self, kind: str) -> dict[str, Document]:
        """The current definitions of a kind by name, read once a group."""
        held = self._definitions.get(kind)
        if held is None:
            held = definitions.alive(Scope(self.connection, LIVE, True), kind)
            self._definitions[kind] = held
        return held

    def define(self, kind: str, name: str, doc: Document | None) -> bool:
        """Keep a definition under its kind and name, or end it (None); False when it is so already."""
        sql = definitions.COLUMNS + "WHERE kind=? AND name=? AND g1=?"
        row = self.connection.execute(sql, (kind, name, FOREVER)).fetchone()
        data = None if doc is None else encode_doc(doc)
        held = None if row is None else encode_doc(definitions.document_of(row))
        if held == data:
            return False
        self._definitions.pop(kind, None)
        self.touch()
        if row is not None:
            self._end_definition(row)
        if data is None:
            assert row is not None
            self._changes.append((DEFINITION, REMOVE, row[0], 0, removal_digest(row[0], 0)))
            return True
        generation = self.generation
        insert = "INSERT INTO definition VALUES(NULL,?,?,?,?,?,0) RETURNING n"
        inserted = self.connection.execute(insert, (kind, name, generation, FOREVER, data)).fetchone()
        assert inserted is not None
        number = inserted[0]
        covered = definitions.address(kind, name, data)
        crc = small_crc((number, generation, FOREVER, 0), covered)
        self.connection.execute("UPDATE definition SET crc=? WHERE n=?", (crc, number))
        digest = change_digest((number, generation, 0, 0), f"{kind}\0{name}", data)
        self._changes.append((DEFINITION, ADD if row is None else UPDATE, number, 0, digest))
        return True

    def _end_definition(self, row: tuple[Any, ...]) -> None:
        number, kind, name, g0, _, data, _ = row
        crc = small_crc((number, g0, self.generation, 0), definitions.address(kind, name, data))
        self.connection.execute("UPDATE definition SET g1=?, crc=? WHERE n=?", (self.generation, crc, number))
