"""The write side of a view: what a door may change inside one job. It sees its own changes.

A job that raises leaves nothing; a job that changes a row makes exactly one generation; one that only adds derived
data (a vector for an old text, a segment, a blob) makes none.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

import apsw

from contract.refusals import Refusal
from engine.aggregates import tables
from engine.aggregates.definition import Definition
from engine.blobs import INLINE_BYTES_MAX
from engine.disk import refusal_of
from engine.records import KEEP, Commit, Content, CountRow, Document, Entity, Keep, Passage, Relation, SegmentRow
from engine.sqlite import bulk, files, recounting, respacing
from engine.sqlite.lives import Lives
from engine.sqlite.recorder import Recorder
from engine.sqlite.rows import ADD, REMOVE, UPDATE, encode_doc
from engine.sqlite.scope import LIVE, Scope
from engine.sqlite.source import segment_crc
from engine.view import View, ViewContext

T = TypeVar("T")

if TYPE_CHECKING:
    from engine.index_view import IndexView


class Transaction(View):
    """One job of a group commit. Handed to `WriteJob.apply`, never made by hand, dead after it returned.

    `generation` is the one the job makes if it changes something; `principal` comes from the credential; `now_ms` is
    the instant of the commit. Reads see the newest state, earlier jobs of the group included. `index` is at the last
    published generation: rows that `unpublished` lists are not in it.
    """

    def __init__(self, recorder: Recorder, context: ViewContext, published: int, principal: str, at_us: int) -> None:
        super().__init__(Scope(recorder.connection, LIVE, True), recorder.generation, context)
        self.principal = principal
        self.now_ms = at_us // 1_000
        self.commit_meta: Document | None = None
        self.abandoned = False
        self._recorder = recorder
        self._published = published

    @property
    def _scope(self) -> Scope:
        self._recorder.settle()
        return self._pinned

    @property
    def at_ms(self) -> int:
        """The instant of the commit to be, ms since 1970."""
        return self.now_ms

    @property
    def index(self) -> "IndexView":
        """The derived indexes at the last published generation; they do not know this group's changes."""
        return self._context.index_view(self._published)

    @property
    def changed(self) -> bool:
        """True once the job has changed a row: it will make a generation."""
        return self._recorder.changed

    @property
    def hints(self) -> dict[str, object]:
        """What jobs remember for later jobs of this open store. A job that is taken back takes nothing back here."""
        return self._context.hints

    def abandon(self) -> None:
        """Keep nothing of what the job does, and answer as if it had been kept: a dry run."""
        self.abandoned = True

    def set_meta(self, meta: Document | None) -> None:
        """Keep a JSON object with the commit."""
        self.commit_meta = meta

    def unpublished(self) -> list[Entity]:
        """Entities alive now that this group added or changed, which `index` does not know yet."""
        recorder = self._recorder
        iids = {iid: None for _, iid, _, _, _ in recorder.versions}
        return list(self.entities_at(list(iids)).values())

    def ended_versions(self) -> frozenset[int]:
        """Versions that this group ended, which `index` still takes for alive."""
        return frozenset(ver for ver, _ in self._recorder.deaths)

    def space(self, model: str, dimensions: int, model_hash: str) -> int:
        """The number of a vector space, made when it is new. Makes no generation."""
        scope = self._scope
        sql = "SELECT space FROM space WHERE model=? AND dims=? AND hash=?"
        row = scope.row(sql, (model, dimensions, model_hash))
        if row is None:
            self._recorder.touch()
            insert = "INSERT INTO space(model,dims,hash) VALUES(?,?,?) RETURNING space"
            row = scope.row(insert, (model, dimensions, model_hash))
        assert row is not None
        return int(row[0])

    # -- the log, which finished jobs of the group are written to late

    def counts(self) -> list[CountRow]:
        """See `View.counts`; a job's own changes are counted when it ends."""
        self._recorder.settle_log()
        return super().counts()

    def commit(self, generation: int, *, changes: bool = False) -> Commit | None:
        """See `View.commit`."""
        self._recorder.settle_log()
        return super().commit(generation, changes=changes)

    def changes(self, after: int, limit: int = 100, changes_max: int | None = None) -> list[Commit]:
        """See `View.changes`."""
        self._recorder.settle_log()
        return super().changes(after, limit, changes_max)

    def resolve(self, at_ms: int) -> int:
        """See `View.resolve`."""
        self._recorder.settle_log()
        return super().resolve(at_ms)

    # -- entities

    def add_entity(self, doc: Document, content: Content | None) -> Entity:
        """Add an entity. `doc` is the whole public document: `id`, `type`, `_rev`, `createdAt`, `updatedAt` included.

        A taken id is `EntityExistsError`.
        """
        recorder = self._recorder
        recorder.numbers.iid += 1
        iid = recorder.numbers.iid
        return recorder.add_entity(iid, recorder.add_content(iid, content, doc), doc, ADD)

    def add_entities(self, items: Iterable[tuple[Document, Content | None]]) -> list[Entity]:
        """`add_entity` for many: ids are looked up at once, rows go in by prepared statements."""
        return [self.add_entity(doc, content) for doc, content in items]

    def replace_entity(self, entity: Entity, doc: Document, content: Content | Keep | None = KEEP) -> Entity:
        """Give the entity a new version. The old one stays readable at older generations. `id` must not change."""
        recorder = self._recorder
        assert doc["id"] == entity.id, "an entity keeps its id"
        cid = entity.cid
        if content is not KEEP:
            recorder.drop_contents([cid])
            cid = recorder.add_content(entity.iid, content, doc)
        return recorder.replace_entity(entity, cid, doc)

    def remove_entity(self, entity: Entity) -> int:
        """End the entity and every relation that touches it; how many relations went. Paths are the caller's."""
        return self.remove_entities([entity])

    def remove_entities(self, entities: Sequence[Entity]) -> int:
        """`remove_entity` for many different ones, by a few statements; how many relations went."""
        touching = [edge.rid for edge in self.edges([entity.iid for entity in entities], "both")]
        if touching:
            relations = self.relations_at(touching)
            assert len(relations) == len(touching), "every edge is a relation"
            self._recorder.remove_relations(list(relations.values()))
        self._recorder.drop_contents(entity.cid for entity in entities)
        self._recorder.remove_entities(entities)
        return len(touching)

    # -- relations

    def add_relation(self, doc: Document, src: int, dst: int) -> tuple[Relation, bool]:
        """Add a relation between two live iids: (relation, True), or the one that is there already and False.

        One relation exists for each (src, dst, type, subtype). `doc` holds `id`, `type`, `from`, `to` and the rest.
        """
        existing = self.relation_between(src, dst, doc["type"], doc.get("subtype"))
        if existing is not None:
            return existing, False
        self._recorder.numbers.rid += 1
        return self._recorder.add_relation(self._recorder.numbers.rid, src, dst, doc, ADD), True

    def relations_of_keys(self, keys: Sequence[bulk.EdgeKey]) -> dict[bulk.EdgeKey, Relation]:
        """The relations that have these keys (src iid, type number, dst iid, subtype); keys without one are absent."""
        return bulk.current_relations(self._scope, keys)

    def taken_relation_ids(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids relations have."""
        return bulk.taken_relation_ids(self._scope, ids)

    def add_new_relations(self, items: Iterable[tuple[Document, int, int]]) -> None:
        """`add_relation` for many whose keys and ids the caller has looked up in this job: (document, src, dst)."""
        for doc, src, dst in items:
            self._recorder.numbers.rid += 1
            self._recorder.add_relation(self._recorder.numbers.rid, src, dst, doc, ADD)

    def replace_relation(self, relation: Relation, doc: Document) -> Relation:
        """Give the relation a new version; its id and ends stay. A taken type and subtype: `ValidationError`."""
        assert doc["id"] == relation.id, "a relation keeps its id"
        other = self.relation_between(relation.src, relation.dst, doc["type"], doc.get("subtype"))
        if other is not None and other.rid != relation.rid:
            message = f"Another relation ({other.id}) of type {doc['type']!r} joins the same two entities."
            raise Refusal("ValidationError", message, cure="Change that one, or use another subtype.")
        self._recorder.close_relations([relation])
        return self._recorder.add_relation(relation.rid, relation.src, relation.dst, doc, UPDATE)

    def remove_relation(self, relation: Relation) -> None:
        """End the relation."""
        self._recorder.remove_relations([relation])

    def remove_relations(self, relations: Sequence[Relation]) -> None:
        """`remove_relation` for many different ones, by a few statements."""
        self._recorder.remove_relations(relations)

    # -- the past brought back

    def then(self, generation: int) -> View:
        """The brain as it was at a generation before this one."""
        self._recorder.settle_log()
        return View(Scope(self._scope.connection, generation, False), generation, self._context)

    def lives(self) -> Lives:
        """How records came to be what they are, the finished jobs of this group included."""
        self._recorder.settle_log()
        return Lives(self._scope)

    def restore_entities(self, items: Sequence[tuple[Entity, Entity | None, Document]]) -> None:
        """Give entities new versions with the contents of old ones: (old, the current one if any, new document).

        Their iids stay, those of removed entities too: edges and insertion order hold, and no vector is made anew.
        """
        recorder = self._recorder
        recorder.drop_contents(now.cid for past, now, _ in items if now is not None and now.cid != past.cid)
        recorder.close_entities([now for _, now, _ in items if now is not None])
        for past, now, doc in items:
            recorder.add_entity(past.iid, past.cid, doc, ADD if now is None else UPDATE)
        recorder.revive_contents(past.cid for past, _, _ in items)

    def restore_relations(self, items: Sequence[tuple[Relation, Relation | None, Document]]) -> None:
        """Give relations new versions under their old rids: (old, the current one if any, new document). The caller
        sees to it that no other relations have their ends, types and subtypes."""
        recorder = self._recorder
        recorder.close_relations([now for _, now, _ in items if now is not None])
        for past, now, doc in items:
            recorder.add_relation(past.rid, past.src, past.dst, doc, ADD if now is None else UPDATE)

    # -- files

    def put_blob(self, data: bytes) -> str:
        """Keep bytes under their sha256 (hex), which is returned. Durable before the commit; makes no generation."""
        digest = sha256(data).hexdigest()
        scope = self._scope
        row = scope.row("SELECT inline IS NOT NULL FROM blob WHERE hash=?", (bytes.fromhex(digest),))
        inline = len(data) <= INLINE_BYTES_MAX
        if not inline:
            try:
                self._context.blobs.write(digest, data)
            except OSError as error:
                raise refusal_of(error, "write a blob") from error
        self._recorder.touch()
        if row is None:
            values = (bytes.fromhex(digest), len(data), data if inline else None)
            scope.connection.execute("INSERT INTO blob(hash,size,inline) VALUES(?,?,?)", values)
        else:
            self.keep_orphan(digest)
        if row is not None and inline:  # the same bytes again: heals a row whose bytes were damaged
            scope.connection.execute(
                "UPDATE blob SET inline=? WHERE hash=? AND inline<>?", (data, bytes.fromhex(digest), data)
            )
        return digest

    def adopt_blob(self, digest: str, size: int) -> None:
        """Keep a blob whose file is durable already, as `BlobWriter.finish` leaves it."""
        try:
            found = self._context.blobs.disk.size_bytes(self._context.blobs.path_of(digest))
        except (OSError, ValueError) as error:
            raise self._context.blobs.damaged(digest, str(error)) from error
        if found != size:
            raise self._context.blobs.damaged(digest, "its file went before it was committed")
        if self.blob_size(digest) is None:
            self._recorder.touch()
            insert = "INSERT INTO blob(hash,size,inline) VALUES(?,?,NULL)"
            self._scope.connection.execute(insert, (bytes.fromhex(digest), size))
        else:
            self.keep_orphan(digest)

    def drop_blob(self, digest: str, grace_s: float) -> int | None:
        """Forget a blob that no file of now or of the kept past has had for `grace_s`, and let its file's age begin;
        its size in bytes. Makes no generation.

        None for one that is needed, or unknown, or not out of use for so long: then that time begins now at the latest.
        """
        size = self.blob_size(digest)
        if size is None or files.is_referenced(self._scope, digest):
            return None
        scope, key = self._scope, bytes.fromhex(digest)
        row = scope.row("SELECT at_us FROM orphan WHERE hash=?", (key,))
        since_ms = self.now_ms if row is None else row[0] // 1_000
        if self.now_ms - since_ms < grace_s * 1_000:
            if row is None:
                self._recorder.touch()
                scope.connection.execute("INSERT INTO orphan VALUES(?,?)", (key, since_ms * 1_000))
            return None
        blobs = self._context.blobs
        try:
            blobs.disk.touch(blobs.path_of(digest), self.now_ms / 1_000)
        except OSError as error:
            raise refusal_of(error, "touch a blob") from error
        self._recorder.touch()
        scope.connection.execute("DELETE FROM blob WHERE hash=?", (key,))
        scope.connection.execute("DELETE FROM orphan WHERE hash=?", (key,))
        return size

    def keep_orphan(self, digest: str) -> None:
        """The blob is needed again, or was just brought again: its time out of use is over."""
        self._recorder.touch()
        self._scope.connection.execute("DELETE FROM orphan WHERE hash=?", (bytes.fromhex(digest),))

    def drop_blob_file(self, digest: str, grace_s: float) -> int | None:
        """Remove the file of a blob that has no row, and had none for `grace_s`; its size in bytes, None otherwise."""
        blobs = self._context.blobs
        path = blobs.path_of(digest)
        age_s = blobs.disk.age_s(path, self.now_ms / 1_000)
        if age_s is None or age_s < grace_s or self.blob_size(digest) is not None:
            return None
        try:
            size = blobs.disk.size_bytes(path)
            return size if blobs.disk.remove(path) else None
        except OSError as error:
            raise refusal_of(error, "remove a blob") from error

    def set_path(self, path: str, iid: int) -> None:
        """Let `path` name the entity `iid`; what it named before stays readable in the past."""
        before = self.path(path)
        if before != iid:
            self._recorder.end_path(path)
            self._recorder.start_path(path, iid)

    def drop_path(self, path: str) -> None:
        """Let `path` name nothing."""
        before = self.path(path)
        if before is not None:
            self._recorder.end_path(path)
            self._recorder.log_path(path, before, REMOVE)

    # -- definitions

    def definitions(self, kind: str) -> dict[str, Document]:
        """See `View.definitions`; not to be changed by the caller."""
        return self._recorder.definitions(kind)

    def define(self, kind: str, name: str, doc: Document | None) -> bool:
        """Keep a definition, or end it (None); False, and nothing is written, when it is so already."""
        return self._recorder.define(kind, name, doc)

    def keep_aggregate(self, definition: Definition) -> None:
        """Keep the groups of an aggregate from now on, filled in steps (`fill_aggregates`)."""
        self._recorder.aggregates.define(definition, self.generation)

    def drop_aggregate(self, name: str) -> None:
        """Keep the groups of this aggregate no longer."""
        self._recorder.aggregates.remove(name)

    # -- derived data, no generation

    def forget(self, step: Callable[[apsw.Connection], T]) -> T:
        """Run one step of a compaction (`engine.sqlite.forgetting`) on the writing connection."""
        self._recorder.settle()
        self._recorder.touch()
        return step(self._scope.connection)

    def fill_aggregates(self, rows_max: int) -> bool:
        """One step of filling aggregates or of removing rows of dropped ones; False when nothing was left to do."""
        return self._recorder.aggregates.step(self._current_rows, rows_max)

    def _current_rows(self, after_iid: int, limit: int) -> list[tuple[int, Document]]:
        return [(entity.iid, entity.doc) for entity in self.scan(after_iid, limit)]

    def attach_vectors(self, vectors: Sequence[tuple[int, int, bytes | Sequence[Passage]]]) -> int:
        """Add (cid, space, float32 bytes or passages) to contents that wait for them; how many were taken.

        A content that already has a vector of that space, or that does not exist, is passed over.
        """
        widths = {space.space: 4 * space.dimensions for space in self.spaces()}
        for _, space, given in vectors:
            for vector in [given] if isinstance(given, bytes) else [passage.vector for passage in given]:
                if len(vector) != widths.get(space):
                    message = f"A vector of {len(vector) // 4} numbers is not of space {space}."
                    raise Refusal("VectorDimensionError", message)
        return sum(self._recorder.attach_vector(*each) for each in vectors)

    def respace(self, space: int, after_cid: int, limit: int) -> tuple[int | None, int]:
        """Let the next contents wait for a vector of this space that have one of another; see `respacing.mark`."""
        self._recorder.settle()
        self._recorder.touch()
        return respacing.mark(self._scope.connection, space, after_cid, limit)

    def recount(self) -> None:
        """Make the counters what the current rows say."""
        self._recorder.settle_log()
        self._recorder.touch()
        recounting.recount(self._scope.connection)

    def requeue_contents(self) -> None:
        """Let current texts without a vector wait for one."""
        self._recorder.touch()
        recounting.requeue(self._scope.connection)

    def reset_aggregates(self, names: Collection[str]) -> None:
        """Begin these aggregates anew; they are filled in steps."""
        self._recorder.touch()
        connection = self._scope.connection
        for stored in tables.load_definitions(connection):
            if stored.definition.name in names:
                tables.reset(connection, stored)

    def forget_segments(self, names: Sequence[str]) -> None:
        """Vouch no longer for these files; unknown names are passed over."""
        self._recorder.touch()
        self._scope.connection.executemany("DELETE FROM seg WHERE name=?", ((name,) for name in names))

    def register_segment(self, row: SegmentRow) -> None:
        """Vouch for a durable file under `seg/`, in place of one of the same name."""
        self._recorder.touch()
        connection = self._scope.connection
        info = encode_doc(dict(row.info))
        connection.execute(
            "INSERT OR REPLACE INTO seg VALUES(?,?,?,?,?,?,?,?)",
            (row.name, row.kind, row.lo, row.hi, row.generation, row.bytes, info, segment_crc(row, info)),
        )
