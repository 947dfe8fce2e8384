"""The write statements of one group commit: rows, their closed past, the log and the counters.

Rows that nothing reads back at once are held and written with prepared statements, many at a time; every read of the
transaction writes them first (`settle`). Numbers given out by a job that is rolled back are given out again.
"""

from typing import Any, Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine.chain import commit_hash
from engine.records import FOREVER, NO_CONTENT, Content, Document, Entity, Relation, Watermarks
from engine.sqlite.files import path_crc
from engine.sqlite.rows import (
    ADD,
    ENTITY,
    PATH,
    RELATION,
    REMOVE,
    UPDATE,
    Traits,
    change_digest,
    encode_doc,
    old_crc,
    pack_marks,
    removal_digest,
    row_crc,
    slot,
    small_crc,
    traits_of_entity,
    traits_of_relation,
)

_INSERT: Final = {
    "ent": "INSERT INTO ent VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    "content": "INSERT INTO content VALUES(?,?,?,?,?,?,?)",
    "vec": "INSERT INTO vec VALUES(?,?,?,?,?)",
    "rel": "INSERT INTO rel VALUES(?,?,?,?,?,?,?,?,?,?,?)",
}
_CLOSE_ENTITY: Final = (
    "INSERT INTO ent_old SELECT ver,iid,cid,g0,?1,id,type,sub,vis,service,?2,doc FROM ent WHERE iid=?3"
)
_CLOSE_RELATION: Final = (
    "INSERT INTO rel_old SELECT NULL,rid,src,dst,type,sub,g0,?1,id,vis,service,?2,doc FROM rel WHERE rid=?3"
)
_COUNT: Final = """INSERT INTO rollup VALUES(?,?,?,?,?,?)
    ON CONFLICT(kind, type, sub, vis, service) DO UPDATE SET n=n+excluded.n"""


class Numbers(msgspec.Struct):
    """The last number given out of each kind, counting up."""

    iid: int
    ver: int
    cid: int
    vid: int
    rid: int

    def frozen(self) -> Watermarks:
        """The same numbers as a value."""
        return Watermarks(self.iid, self.ver, self.cid, self.vid, self.rid)


class Recorder:
    """One group's rows. `generation` is the generation of the job at hand; its lists become `Applied`."""

    def __init__(self, connection: apsw.Connection, marks: Watermarks, head: int, head_hash: bytes, epoch: int) -> None:
        self.connection = connection
        self.numbers = Numbers(marks.iid, marks.ver, marks.cid, marks.vid, marks.rid)
        self.generation = head + 1
        self.head_hash = head_hash
        self.epoch = epoch
        self.versions: list[tuple[int, int, int, int, Document]] = []
        self.deaths: list[tuple[int, int]] = []
        self.contents: list[tuple[int, str | None]] = []
        self.vectors: list[tuple[int, int, bytes]] = []
        self._held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INSERT}
        self._changes: list[tuple[int, int, int, int, bytes]] = []
        self._counts: dict[tuple[int, int, str, int, str], int] = {}
        self._savepoint: tuple[Any, ...] = ()

    # -- the life of a job

    @property
    def changed(self) -> bool:
        """True once the job at hand has changed a row."""
        return bool(self._changes)

    @property
    def head(self) -> int:
        """The generation before the job at hand."""
        return self.generation - 1

    def begin(self) -> None:
        """Start a job that can be undone alone."""
        self.connection.execute("SAVEPOINT job")
        lengths = (len(self.versions), len(self.deaths), len(self.contents), len(self.vectors))
        self._savepoint = (self.numbers.frozen(), lengths)

    def undo(self) -> None:
        """Take back everything since `begin`, the numbers too."""
        self.connection.execute("ROLLBACK TO job; RELEASE job")
        marks, lengths = self._savepoint
        self.numbers = Numbers(marks.iid, marks.ver, marks.cid, marks.vid, marks.rid)
        lists: tuple[list[Any], ...] = (self.versions, self.deaths, self.contents, self.vectors)
        for rows, length in zip(lists, lengths, strict=True):
            del rows[length:]
        self._drop_held()

    def _drop_held(self) -> None:
        for rows in self._held.values():
            rows.clear()
        self._changes.clear()
        self._counts.clear()

    def finish(self, at_us: int, principal: str, door: str, meta: Document | None) -> int:
        """End a job: write its log, counters and commit when it changed something. The generation it is answered at."""
        self.settle()
        if not self._changes:
            return self.head
        generation = self.generation
        self.connection.executemany(_COUNT, ((*group, number) for group, number in self._counts.items() if number))
        self.connection.executemany(
            "INSERT INTO change VALUES(?,?,?,?,?,?,?)",
            (
                (generation, seq, kind, key, ver, op, digest)
                for seq, (kind, op, key, ver, digest) in enumerate(self._changes)
            ),
        )
        meta_bytes = None if meta is None else encode_doc(meta)
        marks = pack_marks(self.numbers.frozen())
        count = len(self._changes)
        texts = (principal.encode(), door.encode(), meta_bytes or b"", marks)
        self.head_hash = commit_hash(self.head_hash, (generation, at_us, self.epoch, count), texts, self._changes)
        self.connection.execute(
            "INSERT INTO commits VALUES(?,?,?,?,?,?,?,?,?)",
            (generation, at_us, self.epoch, principal, door, count, meta_bytes, marks, self.head_hash),
        )
        self.generation += 1
        self._drop_held()
        return generation

    def release(self) -> None:
        """Keep the job, subject to the group's COMMIT."""
        self.connection.execute("RELEASE job")

    def settle(self) -> None:
        """Write the rows that are held."""
        for name, rows in self._held.items():
            if rows:
                self._write_held(name, rows)

    def _write_held(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        before = self.connection.total_changes()
        try:
            self.connection.executemany(_INSERT[name], rows)
        except apsw.ConstraintError:
            taken = rows[self.connection.total_changes() - before][4 if name == "ent" else 6]
            kind = "entity" if name == "ent" else "relation"
            raise Refusal("EntityExistsError", f"The {kind} id {taken!r} is taken.", details={"id": taken}) from None
        rows.clear()

    def _count(self, kind: int, traits: Traits, number: int) -> None:
        type_, sub, visibility, service = traits
        group = (kind, type_, slot(sub), visibility, slot(service))
        self._counts[group] = self._counts.get(group, 0) + number

    # -- entities

    def add_entity(self, iid: int, cid: int, doc: Document, op: int) -> Entity:
        """A new current version of `iid` (a new one when `op` is ADD)."""
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
        return Entity(iid, ver, cid, generation, FOREVER, identity, doc)

    def close_entity(self, entity: Entity) -> None:
        """Move the current row of an entity to the past."""
        self.settle()
        sql = "SELECT ver,crc,type,sub,vis,service FROM ent WHERE iid=?"
        row = self.connection.execute(sql, (entity.iid,)).fetchone()
        assert row is not None, f"entity {entity.id!r} is not current"
        assert row[0] == entity.ver, f"entity {entity.id!r} was read before a later change"
        ver, crc, *traits = row
        self.connection.execute(_CLOSE_ENTITY, (self.generation, old_crc(crc, self.generation), entity.iid))
        self.connection.execute("DELETE FROM ent WHERE iid=?", (entity.iid,))
        self._count(ENTITY, tuple(traits), -1)
        self.deaths.append((ver, self.generation))

    def replace_entity(self, entity: Entity, cid: int, doc: Document) -> Entity:
        """Close the current version and add the next."""
        self.close_entity(entity)
        return self.add_entity(entity.iid, cid, doc, UPDATE)

    def remove_entity(self, entity: Entity) -> None:
        """Close the current version for good."""
        self.close_entity(entity)
        self._changes.append((ENTITY, REMOVE, entity.iid, entity.ver, removal_digest(entity.iid, entity.ver)))

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
        state = 2 if vid else 1 if content.pending and content.text is not None else 0
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

    def drop_content(self, cid: int) -> None:
        """The content has no current version any more: nothing waits for its vector."""
        if cid != NO_CONTENT:
            self.settle()
            self.connection.execute("UPDATE content SET state=0 WHERE cid=? AND state=1", (cid,))

    def attach_vector(self, cid: int, space: int, vector: bytes) -> bool:
        """Give a content its vector of a space; False when it has one, or waits for none."""
        self.settle()
        sql = "SELECT c.state, v.space FROM content c LEFT JOIN vec v ON v.vid=c.vid WHERE c.cid=?"
        row = self.connection.execute(sql, (cid,)).fetchone()
        if row is None or row[0] == 0 or row[1] == space:
            return False
        vid = self.add_vector(cid, space, vector)
        self.connection.execute("UPDATE content SET vid=?, state=2 WHERE cid=?", (vid, cid))
        return True

    # -- relations

    def add_relation(self, rid: int, src: int, dst: int, doc: Document, op: int) -> Relation:
        """A new current version of `rid` (a new one when `op` is ADD)."""
        generation, identity = self.generation, doc["id"]
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

    def close_relation(self, relation: Relation) -> None:
        """Move the current row of a relation to the past."""
        self.settle()
        sql = "SELECT g0,crc,type,sub,vis,service FROM rel WHERE rid=?"
        row = self.connection.execute(sql, (relation.rid,)).fetchone()
        assert row is not None, f"relation {relation.id!r} is not current"
        assert row[0] == relation.g0, f"relation {relation.id!r} was read before a later change"
        self.connection.execute(_CLOSE_RELATION, (self.generation, old_crc(row[1], self.generation), relation.rid))
        self.connection.execute("DELETE FROM rel WHERE rid=?", (relation.rid,))
        self._count(RELATION, row[2:], -1)

    def remove_relation(self, relation: Relation) -> None:
        """Close the current version for good."""
        self.close_relation(relation)
        self._changes.append((RELATION, REMOVE, relation.rid, 0, removal_digest(relation.rid, 0)))

    # -- paths

    def end_path(self, path: str) -> bool:
        """Let a path name nothing from this generation on; False when it named nothing. One named and dropped in one
        generation was never visible: its row goes."""
        self.settle()
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
        self.connection.execute("INSERT INTO vpath VALUES(?,?,?,?,?)", (path, generation, FOREVER, iid, crc))
        self.log_path(path, iid, ADD)

    def log_path(self, path: str, iid: int, op: int) -> None:
        """Remember a change of a path."""
        digest = change_digest((iid, op, self.generation, 0), path, b"")
        self._changes.append((PATH, op, iid, 0, digest))
