"""A brain as it was at one generation: every read that the doors make. No writes here, no SQL either.

A view is one short read transaction on one connection; use it inside its `with` block and on one thread.
Every row that is read is checked against its CRC; a mismatch is `RecordCorruptError` naming the record.
"""

import mmap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import apsw
import msgspec

from contract.refusals import Refusal
from engine.aggregates import tables
from engine.aggregates.state import GroupRow
from engine.aggregates.tables import Stored
from engine.blobs import BlobFolder, BlobReader, HeldBlob
from engine.records import (
    Commit,
    Content,
    CountRow,
    Direction,
    Document,
    Edge,
    Entity,
    Hop,
    Passage,
    PendingContent,
    Relation,
    RelationPage,
    RelationQuery,
    Revision,
    Space,
)
from engine.sqlite import bulk, definitions, entities, files, log, numbered, recounting, relations
from engine.sqlite.rows import ENTITY, VERB_NUMBERS
from engine.sqlite.scope import LIVE, Scope

if TYPE_CHECKING:
    from engine.index_view import IndexView


class ViewContext(msgspec.Struct, frozen=True):
    """What every view of one open store shares. `created_ms` is the instant of generation 0; `hints` is memory of the
    writer's thread, gone with the open store."""

    blobs: BlobFolder
    index_view: "Callable[[int], IndexView]"
    created_ms: int
    segment_map: Callable[[str], mmap.mmap]
    hints: dict[str, object] = {}


class View:
    """The brain at `generation`. Made by `Store.view`, never by hand."""

    def __init__(self, scope: Scope, generation: int, context: ViewContext) -> None:
        self.generation = generation
        self._pinned = scope
        self._context = context

    @property
    def _scope(self) -> Scope:
        """Where reads go; a transaction writes what it still holds back first."""
        return self._pinned

    @property
    def is_live(self) -> bool:
        """True while the store's newest generation is the view's own: no later commit has to be taken back."""
        return self._pinned.live

    @property
    def at_ms(self) -> int:
        """The instant of the generation, ms since 1970."""
        if self.generation == 0:
            return self._context.created_ms
        row = self._scope.row("SELECT at_us FROM commits WHERE gen<=? ORDER BY gen DESC LIMIT 1", (self.generation,))
        return self._context.created_ms if row is None else int(row[0]) // 1_000

    @property
    def index(self) -> "IndexView":
        """The derived indexes at the same generation; the first use in the life of a store loads them."""
        return self._context.index_view(self.generation)

    def segment_names(self) -> list[str]:
        """The names of the registered segment files, damaged rows included."""
        return [str(row[0]) for row in self._scope.rows("SELECT name FROM seg ORDER BY name")]

    def segment_map(self, name: str) -> mmap.mmap:
        """The bytes of a registered segment file, mapped. Raises OSError and ValueError."""
        return self._context.segment_map(name)

    @property
    def connection(self) -> apsw.Connection:
        """The connection inside its read transaction, for `engine.sqlite.forgetting`; everybody else asks the view."""
        return self._scope.connection

    def meta(self, key: str) -> Any:  # noqa: ANN401 - each key has its own type
        """A value that the store keeps about itself; None when there is none."""
        return log.meta_value(self._scope, key)

    # -- entities

    def entity(self, entity_id: str) -> Entity | None:
        """The entity of this id, or None when there is none at this generation. Ids are compared as bytes."""
        return entities.by_id(self._scope, entity_id)

    def entities(self, ids: Sequence[str]) -> dict[str, Entity]:
        """The entities of these ids; an id that is unknown at this generation is absent. Duplicates collapse."""
        return bulk.entities_of_ids(self._scope, ids)

    def entities_at(self, iids: Sequence[int]) -> dict[int, Entity]:
        """The entities of these iids that are alive at this generation."""
        return numbered.entities_of(self._scope, iids)

    def versions(self, vers: Sequence[int]) -> list[Entity]:
        """The versions of these numbers, in the given order, alive or not.

        For numbers that an index gave: one without a row is `RecordCorruptError`, never a shorter list.
        """
        return numbered.versions(self._scope, vers)

    def has_version(self, ver: int) -> bool:
        """Whether a version has a row, current or closed, whole or not."""
        sql = "SELECT 1 FROM ent WHERE ver=?1 UNION ALL SELECT 1 FROM ent_old WHERE ver=?1"
        return self._scope.row(sql, (ver,)) is not None

    def was_made(self, ver: int) -> bool:
        """Whether some commit that is kept made this version. Walks the log: for versions that have no row."""
        return self._scope.row(f"SELECT 1 FROM change WHERE kind={ENTITY} AND ver=? LIMIT 1", (ver,)) is not None

    def scan(self, after_iid: int = 0, limit: int = 256) -> list[Entity]:
        """The next entities in insertion order; continue after the last one's iid. At most `limit` rows."""
        return entities.scan(self._scope, after_iid, limit)

    def last_revision(self, entity_id: str) -> int:
        """The `_rev` of the newest version of this id that history keeps, removed ones too; 0 when there is none."""
        return entities.last_revision(self._scope, entity_id)

    def last_revisions(self, ids: Sequence[str]) -> dict[str, int]:
        """`last_revision` of many ids that no entity has now; those that history does not know are absent."""
        return numbered.last_revisions(self._scope, ids, of="entity")

    def entities_by_id(self, after: str = "", limit: int = 256) -> list[Entity]:
        """The next entities in id order (bytes); continue after the last one's id. At most `limit` rows."""
        return bulk.entities_by_id(self._scope, after, limit)

    def entity_traits(self, after_iid: int = 0, limit: int = 4_096) -> list[bulk.EntityTrait]:
        """The next entities in insertion order without their documents, which are not read. At most `limit` rows."""
        return bulk.entity_traits(self._scope, after_iid, limit)

    # -- contents

    def text(self, cid: int) -> str | None:
        """The searchable text of a content."""
        return entities.text(self._scope, cid)

    def vector(self, cid: int) -> bytes | None:
        """The vector of a content (little-endian float32), of its first passage when it has several; or None."""
        return entities.vector(self._scope, cid)

    def passages(self, cid: int) -> list[Passage]:
        """The passages of a content with their vectors, in their order; none when it has one vector or waits."""
        return entities.passages(self._scope, cid)

    def content(self, cid: int) -> Content | None:
        """A content as it could be given to another entity: text, vector or passages with their space."""
        return entities.content(self._scope, cid)

    def vectors(self, cids: Sequence[int]) -> dict[int, bytes]:
        """The vectors of these contents; those without one are absent."""
        return {cid: row.data for cid, row in bulk.vectors_of(self._scope, cids).items()}

    def vector_rows(self, cids: Sequence[int]) -> dict[int, bulk.VectorRow]:
        """The vectors of these contents with the space of each; those without one are absent."""
        return bulk.vectors_of(self._scope, cids)

    def spaces(self) -> list[Space]:
        """Every vector space known to the store."""
        return entities.spaces(self._scope)

    def pending_contents(self, limit: int, after_cid: int = 0) -> list[PendingContent]:
        """Current texts that still wait for their vector, cid ascending."""
        return entities.pending(self._scope, limit, after_cid)

    def pending_count(self) -> int:
        """How many current texts still wait for their vector."""
        return entities.pending_count(self._scope)

    def forgotten_contents(self) -> list[int]:
        """Current contents that have a text and no vector, and wait for none: there should be none such."""
        return recounting.forgotten(self._scope.connection)

    # -- relations

    def relation(self, relation_id: str) -> Relation | None:
        """The relation of this id, or None when there is none at this generation."""
        return relations.by_id(self._scope, relation_id)

    def relations_at(self, rids: Sequence[int]) -> dict[int, Relation]:
        """The relations of these rids that are alive at this generation."""
        return numbered.relations_of(self._scope, rids)

    def relation_between(self, src: int, dst: int, type_: str, subtype: str | None) -> Relation | None:
        """The one relation from `src` to `dst` (iids) of this type and subtype; None matches no subtype."""
        return relations.between(self._scope, src, dst, VERB_NUMBERS[type_], subtype)

    def relations(self, query: RelationQuery) -> RelationPage:
        """The relations that `query` selects, ordered by edge id ascending, cut from the whole incidence.

        A self loop counts once in an undirected incidence.
        """
        return relations.page(self._scope, query)

    def edges(self, frontier: Sequence[int], direction: Direction, types: Sequence[str] | None = None) -> list[Edge]:
        """The edges that leave (`out`), enter (`in`) or touch (`both`) the iids of `frontier`, by edge id.

        Answered from the adjacency indexes alone, of every visibility.
        """
        return self.edges_of_hop(frontier, Hop(direction, types))

    def edges_of_hop(self, frontier: Sequence[int], hop: Hop) -> list[Edge]:
        """The edges that one step from the iids of `frontier` follows, by edge id."""
        return relations.edges(self._scope, frontier, hop)

    def far_ends(self, frontier: Sequence[int], hop: Hop) -> list[int]:
        """The iids that one step from `frontier` arrives at, once for each edge that leads there."""
        return relations.far_ends(self._scope, frontier, hop)

    def names(self, iids: Sequence[int], visibilities: frozenset[str]) -> dict[int, str]:
        """The ids of those of these iids that are alive and visible at this generation. No document is read."""
        return entities.names(self._scope, iids, visibilities)

    def scan_relations(self, after_rid: int = 0, limit: int = 256) -> list[Relation]:
        """The next relations in insertion order; continue after the last one's rid. At most `limit` rows."""
        return relations.scan(self._scope, after_rid, limit)

    def relations_by_id(self, after: str = "", limit: int = 256) -> list[Relation]:
        """The next relations in id order (bytes); continue after the last one's id. At most `limit` rows."""
        return bulk.relations_by_id(self._scope, after, limit)

    def relation_ends(self, after_rid: int = 0, limit: int = 4_096) -> list[bulk.RelationEnds]:
        """The ends of the next relations in insertion order, without their documents. At most `limit` rows."""
        return bulk.relation_ends(self._scope, after_rid, limit)

    def warm_edges(self) -> None:
        """Read the adjacency indexes once, so that the first traversal finds their pages in memory."""
        for index in ("rel_out", "rel_in"):
            self._scope.row(f"SELECT count(*), max(dst), max(src) FROM rel INDEXED BY {index}")

    # -- counters

    def counts(self) -> list[CountRow]:
        """Every counter at this generation. Kept by each commit; for the past, cost grows with the changes since."""
        return log.counts(self._scope)

    # -- definitions

    def definitions(self, kind: str) -> dict[str, Document]:
        """The definitions of a kind (`engine.sqlite.definitions`) in force at this generation, by name."""
        return definitions.alive(self._scope, kind)

    def definition(self, kind: str, name: str) -> Document | None:
        """One definition as it was at this generation; one that came later stands for the time before it, too."""
        return definitions.one(self._scope, kind, name)

    def kept_groups(self, name: str) -> Iterator[GroupRow] | None:
        """The groups of an aggregate as the commits keep them, by key; valid as long as the view.

        None when this generation is past or the aggregate is not filled yet: its rows have to be counted then.
        """
        scope = self._scope
        if not scope.live:
            return None
        stored: Stored | None = tables.load_definition(scope.connection, name)
        return tables.load_rows(scope.connection, stored) if stored is not None and stored.is_complete else None

    def has_aggregates(self) -> bool:
        """False in a store of format 1 that no writer has opened since."""
        return definitions.exist(self._scope)

    def is_filling(self) -> bool:
        """Whether an aggregate waits to be filled, or rows of a removed one wait to be taken away."""
        return definitions.exist(self._scope) and tables.is_filling(self._scope.connection)

    # -- files

    def path(self, path: str) -> int | None:
        """The iid of the node at `path`, or None."""
        return files.path(self._scope, path)

    def paths_under(self, directory: str, after: str = "", limit: int = 1_000) -> list[tuple[str, int]]:
        """(path, iid) of the nodes below `directory` at any depth, path order (bytes), after the path `after`.

        `directory` is absolute without a trailing slash, except the root `/`; it is not among the rows itself.
        """
        return files.paths_under(self._scope, directory, after, limit)

    def blob(self, sha256: str) -> bytes:
        """The bytes of a blob, checked against their hash (hex). A missing or differing one is `BlobCorruptError`."""
        return files.blob(self._scope, self._context.blobs, sha256)

    def open_blob(self, sha256: str) -> BlobReader | HeldBlob:
        """A blob to be read in pieces, which outlives this view; close it. A missing one is `BlobCorruptError`."""
        return files.open_blob(self._scope, self._context.blobs, sha256)

    def adopted_orphans(self, after: str, limit: int) -> tuple[str, list[str]]:
        """Of the next `limit` blobs, in the order of their hashes, that were found to be needed by nothing: the last
        one (`after` at the end), and those that a file has again."""
        found = [digest.hex() for digest in files.orphans(self._scope, bytes.fromhex(after), limit)]
        return (found[-1] if found else after), [one for one in found if files.is_referenced(self._scope, one)]

    def unreferenced_blobs(self, after: int, limit: int) -> tuple[int, list[str]]:
        """Of the next `limit` blobs in the order of arrival, after the number `after`: the last one's number (`after`
        at the end), and the hashes that no file of now or of the kept past has."""
        return files.unreferenced(self._scope, after, limit)

    def blob_size(self, sha256: str) -> int | None:
        """The size in bytes of a blob, or None when the store has no such blob. Opens no file."""
        return files.blob_size(self._scope, sha256)

    # -- time

    def commit(self, generation: int, *, changes: bool = False) -> Commit | None:
        """The commit that made `generation`, checked against the hash chain; None for 0 and for unknown ones."""
        return log.commit(self._scope, generation, changes)

    def resolve(self, at_ms: int) -> int:
        """The last generation committed at or before this instant (ms since 1970), up to this view's own; or 0.

        GenerationNotRetainedError for an instant whose history a restore replaced.
        """
        found = log.resolve(self._scope, at_ms)
        restored_at = log.restore_that_lost(self._scope, at_ms, found)
        if restored_at is not None:
            raise lost(f"The instant {at_ms} ms", self.floor, restored_at)
        return found

    def entity_history(self, entity_id: str, limit: int = 100, before: int | None = None) -> list[Revision]:
        """The revisions of an id, newest first, up to this view's generation and below generation `before`."""
        return entities.history(self._scope, entity_id, limit, before or LIVE)

    def changes(self, after: int, limit: int = 100, changes_max: int | None = None) -> list[Commit]:
        """At most `limit` commits above generation `after`, ascending, with their changes; none is split.

        `changes_max` bounds the changes of all of them together; the first commit is given whatever it has.
        """
        return log.changes(self._scope, after, limit, changes_max)

    def touched(self, after: int, limit: int) -> tuple[list[int], list[int]]:
        """The iids and the rids that commits above generation `after` touched, ascending; at most `limit` together."""
        pairs = log.touched(self._scope, after, limit)
        return [key for kind, key in pairs if kind == ENTITY], [key for kind, key in pairs if kind != ENTITY]

    def changes_after(self, limit: int) -> int:
        """How many row changes lie between this generation and the newest, counted up to `limit`: the cost of counting
        the past."""
        return 0 if self._scope.live else log.changes_after(self._scope, self.generation, limit)

    @property
    def floor(self) -> int:
        """The oldest generation that history keeps."""
        return log.floor(self._scope)

    def refuse_unkept(self, generation: int) -> None:
        """GenerationNotRetainedError when this generation is under the floor, or in a span that a restore let go."""
        refuse_unkept(self._scope, generation)

    def earlier(self, generation: int) -> "View":
        """The same brain in the same read transaction at an earlier generation; valid as long as this view.

        GenerationNotRetainedError under the floor, GenerationInFutureError above this view's own generation.
        """
        if generation > self.generation:
            raise in_future(generation, self.generation)
        self.refuse_unkept(generation)
        scope = self._scope
        live = scope.live and generation == self.generation
        return View(Scope(scope.connection, generation, live), generation, self._context)


def in_future(generation: int, head: int) -> Refusal:
    """The refusal of a generation that has not been made."""
    message = f"Generation {generation} lies ahead of the brain's head, {head}."
    return Refusal("GenerationInFutureError", message, details={"generation": generation, "head": head})


def not_retained(generation: int, floor: int) -> Refusal:
    """The refusal of a generation that history has let go."""
    message = f"Generation {generation} is older than the history that is kept, which begins at {floor}."
    return Refusal("GenerationNotRetainedError", message, details={"generation": generation, "oldestKept": floor})


def refuse_unkept(scope: Scope, generation: int) -> None:
    """See `View.refuse_unkept`; for generations up to the head."""
    floor = log.floor(scope)
    if generation < floor:
        raise not_retained(generation, floor)
    restored_at = log.restored_after(scope, generation) if generation > floor else None
    if restored_at is not None:
        raise lost(generation, floor, restored_at)


def lost(at: int | str, floor: int, restored_at: int) -> Refusal:
    """The refusal of a generation, or of an instant, that a restore replaced."""
    return Refusal(
        "GenerationNotRetainedError",
        f"{at} lies in the history that the restore of generation {restored_at} replaced.",
        cure=f"Read at {restored_at} or newer; the safety snapshot of that restore holds the old history.",
        details={"generation": at, "oldestKept": floor, "restoredAt": restored_at},
    )
