"""A brain as it was at one generation: every read that the doors make. No writes here, no SQL either.

A view is one short read transaction on one connection; use it inside its `with` block and on one thread.
Every row that is read is checked against its CRC; a mismatch is `RecordCorruptError` naming the record.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.records import (
    Commit,
    CountRow,
    Direction,
    Edge,
    Entity,
    PendingContent,
    Relation,
    RelationPage,
    RelationQuery,
    Revision,
    Space,
)

if TYPE_CHECKING:
    from engine.index import IndexView


class View:
    """The brain at `generation`. Made by `Store.view`, never by hand."""

    generation: int

    @property
    def at_ms(self) -> int:
        """The instant of the generation, ms since 1970."""
        raise NotImplementedError

    @property
    def index(self) -> "IndexView":
        """The derived indexes at the same generation; the first use in the life of a store loads them."""
        raise NotImplementedError

    # -- entities

    def entity(self, entity_id: str) -> Entity | None:
        """The entity of this id, or None when there is none at this generation. Ids are compared as bytes."""
        raise NotImplementedError

    def entities(self, ids: Sequence[str]) -> dict[str, Entity]:
        """The entities of these ids; an id that is unknown at this generation is absent. Duplicates collapse."""
        raise NotImplementedError

    def entities_at(self, iids: Sequence[int]) -> dict[int, Entity]:
        """The entities of these iids that are alive at this generation."""
        raise NotImplementedError

    def versions(self, vers: Sequence[int]) -> list[Entity]:
        """The versions of these numbers, in the given order, alive or not.

        For numbers that an index gave: one without a row is `RecordCorruptError`, never a shorter list.
        """
        raise NotImplementedError

    def scan(self, after_iid: int = 0, limit: int = 256) -> list[Entity]:
        """The next entities in insertion order; continue after the last one's iid. At most `limit` rows."""
        raise NotImplementedError

    def last_revision(self, entity_id: str) -> int:
        """The `_rev` of the newest version of this id that history keeps, removed ones too; 0 when there is none."""
        raise NotImplementedError

    # -- contents

    def text(self, cid: int) -> str | None:
        """The searchable text of a content."""
        raise NotImplementedError

    def vector(self, cid: int) -> bytes | None:
        """The vector of a content (little-endian float32), or None while it has none."""
        raise NotImplementedError

    def vectors(self, cids: Sequence[int]) -> dict[int, bytes]:
        """The vectors of these contents; those without one are absent."""
        raise NotImplementedError

    def spaces(self) -> list[Space]:
        """Every vector space known to the store."""
        raise NotImplementedError

    def pending_contents(self, limit: int, after_cid: int = 0) -> list[PendingContent]:
        """Current texts that still wait for their vector, cid ascending."""
        raise NotImplementedError

    def pending_count(self) -> int:
        """How many current texts still wait for their vector."""
        raise NotImplementedError

    # -- relations

    def relation(self, relation_id: str) -> Relation | None:
        """The relation of this id, or None when there is none at this generation."""
        raise NotImplementedError

    def relation_between(self, src: int, dst: int, type_: str, subtype: str | None) -> Relation | None:
        """The one relation from `src` to `dst` (iids) of this type and subtype; None matches no subtype."""
        raise NotImplementedError

    def relations(self, query: RelationQuery) -> RelationPage:
        """The relations that `query` selects, ordered by edge id ascending, cut from the whole incidence.

        A self loop counts once in an undirected incidence.
        """
        raise NotImplementedError

    def edges(self, frontier: Sequence[int], direction: Direction, types: Sequence[str] | None = None) -> list[Edge]:
        """The edges that leave (`out`), enter (`in`) or touch (`both`) the iids of `frontier`, by edge id.

        Answered from the adjacency indexes alone. Visibility is not looked at: callers drop internal types themselves.
        """
        raise NotImplementedError

    def scan_relations(self, after_rid: int = 0, limit: int = 256) -> list[Relation]:
        """The next relations in insertion order; continue after the last one's rid. At most `limit` rows."""
        raise NotImplementedError

    # -- counters

    def counts(self) -> list[CountRow]:
        """Every counter at this generation. Kept by each commit; for the past, cost grows with the changes since."""
        raise NotImplementedError

    # -- files

    def path(self, path: str) -> int | None:
        """The iid of the node at `path`, or None."""
        raise NotImplementedError

    def paths_under(self, directory: str, after: str = "", limit: int = 1_000) -> list[tuple[str, int]]:
        """(path, iid) of the nodes below `directory` at any depth, path order (bytes), after the path `after`.

        `directory` is absolute without a trailing slash, except the root `/`; it is not among the rows itself.
        """
        raise NotImplementedError

    def blob(self, sha256: str) -> bytes:
        """The bytes of a blob, checked against their hash (hex). A missing or differing one is `BlobCorruptError`."""
        raise NotImplementedError

    def blob_size(self, sha256: str) -> int | None:
        """The size in bytes of a blob, or None when the store has no such blob. Opens no file."""
        raise NotImplementedError

    # -- time

    def commit(self, generation: int, *, changes: bool = False) -> Commit | None:
        """The commit that made `generation`, checked against the hash chain; None for 0 and for unknown ones."""
        raise NotImplementedError

    def resolve(self, at_ms: int) -> int:
        """The last generation committed at or before this instant (ms since 1970), at most this view's own; 0 if none."""
        raise NotImplementedError

    def entity_history(self, entity_id: str, limit: int = 100, before: int | None = None) -> list[Revision]:
        """The revisions of an id, newest first, up to this view's generation and below generation `before`."""
        raise NotImplementedError

    def changes(self, after: int, limit: int = 100) -> list[Commit]:
        """At most `limit` commits above generation `after`, ascending, with their changes; none is split."""
        raise NotImplementedError

