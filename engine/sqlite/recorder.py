"""The write statements of one group commit: rows, their closed past, the log and the counters.

Rows that nothing reads back at once are held and written with prepared statements, many at a time; every read of the
transaction writes them first (`settle`). Numbers given out by a job that is rolled back are given out again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine.aggregates.keeping import Keeping
from engine.chain import commit_hash
from engine.records import FOREVER, NO_CONTENT, Content, Document, Entity, Relation, Watermarks
from engine.sqlite import definitions
from engine.sqlite.files import path_crc
from engine.sqlite.rows import (
    ADD,
    DEFINITION,
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
from engine.sqlite.scope import LIVE, Scope

_INSERT: Final = {
    "ent": "INSERT INTO ent VALUES(?,?,?,?,?,?,?,?,?,?,?)",
    "content": "INSERT INTO content VALUES(?,?,?,?,?,?,?)",
    "vec": "INSERT INTO vec VALUES(?,?,?,?,?)",
    "rel": "INSERT INTO rel VALUES(?,?,?,?,?,?,?,?,?,?,?)",
}
_LOG: Final = {
    "change": "INSERT INTO change VALUES(?,?,?,?,?,?,?)",
    "commits": "INSERT INTO commits VALUES(?,?,?,?,?,?,?,?,?)",
    "idem": "INSERT OR REPLACE INTO idem VALUES(?,?,?,?,?,?,?,?)",
}
_TAKEN: Final = {"ent": "SELECT 1 FROM ent WHERE id=?", "rel": "SELECT 1 FROM rel WHERE id=?"}
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


class Mark(msgspec.Struct, frozen=True):
    """Where a job began: the numbers given out, the lengths of the lists for the index and of the rows held."""

    numbers: Watermarks
    applied: tuple[int, int, int, int]
    held: dict[str, int]


Counts = dict[tuple[int, int, str, int, str], int]
"""A change of each counter, by (kind, type, subtype, visibility, service) as the key columns hold them."""


def _id_of(name: str, row: tuple[Any, ...]) -> str:
    identity: str = row[4] if name == "ent" else row[6]
    return identity


class JobCursor:
    """Statements of the job at hand: one that writes is preceded by the job's savepoint."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Iterable[tuple[Any, ...]]:
        """Run one statement."""
        if not sql.startswith("SELECT"):
            self._recorder.touch()
        return self._recorder.connection.execute(sql, tuple(params))


class Recorder:
    """One group's rows. `generation` is the generation of the job at hand; its lists become `Applied`.

    What a job adds is held, and dropped again when the job is refused. A savepoint is made only for a job that needs
    SQLite to take something back: everything held for earlier jobs is written before it.
    """

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
        self.answers: dict[tuple[str, str], tuple[Any, ...]] = {}
        self._held: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _INSERT}
        self._held_ids: dict[str, set[str]] = {"ent": set(), "rel": set()}
        self._log: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _LOG}
        self._counts: Counts = {}
        self._changes: list[tuple[int, int, int, int, bytes]] = []
        self._job_counts: Counts = {}
        self._mark = Mark(marks, (0, 0, 0, 0), dict.fromkeys(_INSERT, 0))
        self._has_savepoint = False
        self._definitions: dict[str, dict[str, Document]] = {}
        self.aggregates = Keeping(JobCursor(self))

    # -- the life of a job

    @property
    def changed(self) -> bool:
        """True once the job at hand has changed a row."""
        return bool(self._changes)

    @property
    def answered_at(self) -> int:
        """The generation that the job at hand makes, or the one before it while it has changed nothing."""
        return self.generation if self._changes else self.generation - 1

    @property
    def head(self) -> int:
        """The generation before the job at hand."""
        return self.generation - 1

    def begin(self) -> None:
        """Start a job that can be undone alone."""
        lengths = (len(self.versions), len(self.deaths), len(self.contents), len(self.vectors))
        held = {name: len(rows) for name, rows in self._held.items()}
        self._mark = Mark(self.numbers.frozen(), lengths, held)
        self._has_savepoint = False

    def undo(self) -> None:
        """Take back everything since `begin`, the numbers too."""
        if self._has_savepoint:
            self.connection.execute("ROLLBACK TO job; RELEASE job")
            self._has_savepoint = False
        mark = self._mark
        self.numbers = Numbers(mark.numbers.iid, mark.numbers.ver, mark.numbers.cid, mark.numbers.vid, mark.numbers.rid)
        lists: tuple[list[Any], ...] = (self.versions, self.deaths, self.contents, self.vectors)
        for rows, length in zip(lists, mark.applied, strict=True):
            del rows[length:]
        for name, rows in self._held.items():
            del rows[mark.held[name] :]
            if name in self._held_ids:
                self._held_ids[name] = {_id_of(name, row) for row in rows}
        self._changes.clear()
        self._job_counts.clear()
        self._definitions.clear()
        self.aggregates.forget()

    def measure(self) -> None:
        """Write what the job changed in aggregates; the last thing of a job that can fail."""
        self.aggregates.flush()

    def finish(self, at_us: int, principal: str, door: str, meta: bytes | None) -> None:
        """Keep the job, subject to the group's COMMIT: when it changed something, log it as one generation."""
        if self._has_savepoint:
            self.connection.execute("RELEASE job")
            self._has_savepoint = False
        if not self._changes:
            return
        generation, count = self.generation, len(self._changes)
        for group, number in self._job_counts.items():
            self._counts[group] = self._counts.get(group, 0) + number
        self._log["change"].extend(
            (generation, seq, kind, key, ver, op, digest)
            for seq, (kind, op, key, ver, digest) in enumerate(self._changes)
        )
        marks = pack_marks(self.numbers.frozen())
        texts = (principal.encode(), door.encode(), meta or b"", marks)
        self.head_hash = commit_hash(self.head_hash, (generation, at_us, self.epoch, count), texts, self._changes)
        row = (generation, at_us, self.epoch, principal, door, count, meta, marks, self.head_hash)
        self._log["commits"].append(row)
        self.generation += 1
        self._changes = []
        self._job_counts = {}

    def touch(self) -> None:
        """Called before any statement of a job that SQLite would have to take back."""
        if not self._has_savepoint:
            for name, rows in self._held.items():
                self._write_held(name, rows[: self._mark.held[name]])
                del rows[: self._mark.held[name]]
                self._mark.held[name] = 0
            self.settle_log()
            self.connection.execute("SAVEPOINT job")
            self._has_savepoint = True

    def settle(self) -> None:
        """Write the rows that are held, so that they can be read."""
        if any(len(rows) > self._mark.held[name] for name, rows in self._held.items()):
            self.touch()
        for name, rows in self._held.items():
            self._write_held(name, rows)
            rows.clear()
            self._mark.held[name] = 0

    def settle_log(self) -> None:
        """Write the log, the counters and the answers of the jobs that are finished."""
        if self._counts:
            rows = ((*group, number) for group, number in self._counts.items() if number)
            self.connection.executemany(_COUNT, rows)
            self._counts = {}
        for name, rows_held in self._log.items():
            if rows_held:
                self.connection.executemany(_LOG[name], rows_held)
                rows_held.clear()

    def remember(self, principal: str, key: str, row: tuple[Any, ...]) -> None:
        """Keep the answer of a job that has an idempotency key."""
        self.answers[principal, key] = row
        self._log["idem"].append((principal, key, *row))

    def _write_held(self, name: str, rows: list[tuple[Any, ...]]) -> None:
        if rows:
            self.connection.executemany(_INSERT[name], rows)
            if name in self._held_ids:
                self._held_ids[name].difference_update(_id_of(name, row) for row in rows)

    def _take_id(self, name: str, identity: str) -> None:
        """Refuse an id that is taken, by a stored row or by one that is held."""
        held = self._held_ids[name]
        if identity in held or self.connection.execute(_TAKEN[name], (identity,)).fetchone():
            kind = "entity" if name == "ent" else "relation"
            message = f"The {kind} id {identity!r} is taken."
            raise Refusal("EntityExistsError", message, details={"id": identity})
        held.add(identity)

    def _count(self, kind: int, traits: Traits, number: int) -> None:
        type_, sub, visibility, service = traits
        group = (kind, type_, slot(sub), visibility, slot(service))
        self._job_counts[group] = self._job_counts.get(group, 0) + number

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

    def close_entity(self, entity: Entity) -> None:
        """Move the current row of an entity to the past."""
        self.settle()
        self.touch()
        sql = "SELECT ver,crc,type,sub,vis,service FROM ent WHERE iid=?"
        row = self.connection.execute(sql, (entity.iid,)).fetchone()
        assert row is not None, f"entity {entity.id!r} is not current"
        assert row[0] == entity.ver, f"entity {entity.id!r} was read before a later change"
        ver, crc, *traits = row
        self.connection.execute(_CLOSE_ENTITY, (self.generation, old_crc(crc, self.generation), entity.iid))
        self.connection.execute("DELETE FROM ent WHERE iid=?", (entity.iid,))
        self._count(ENTITY, tuple(traits), -1)
        self.deaths.append((ver, self.generation))
        self.aggregates.note(entity.iid, entity.doc, None)

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
            self.touch()
            self.connection.execute("UPDATE content SET state=0 WHERE cid=? AND state=1", (cid,))

    def attach_vector(self, cid: int, space: int, vector: bytes) -> bool:
        """Give a content its vector of a space; False when it has one, or waits for none."""
        self.settle()
        sql = "SELECT c.state, v.space FROM content c LEFT JOIN vec v ON v.vid=c.vid WHERE c.cid=?"
        row = self.connection.execute(sql, (cid,)).fetchone()
        if row is None or row[0] == 0 or row[1] == space:
            return False
        vid = self.add_vector(cid, space, vector)
        self.touch()
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

    def close_relation(self, relation: Relation) -> None:
        """Move the current row of a relation to the past."""
        self.settle()
        self.touch()
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
