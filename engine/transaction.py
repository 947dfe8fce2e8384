"""The write side of a view: what a door may change inside one job. It sees its own changes.

A job that raises leaves nothing; a job that changes a row makes exactly one generation; one that only adds derived
data (a vector for an old text, a segment, a blob) makes none.
"""

from collections.abc import Iterable, Sequence

from engine.records import Content, Document, Entity, Keep, Relation, SegmentRow, KEEP
from engine.view import View


class Transaction(View):
    """One job of a group commit. Handed to `WriteJob.apply`, never made by hand, dead after it returned.

    Reads see the newest state, earlier jobs of the group included. `index` is at the last published generation: rows
    that `unpublished` lists are not in it.
    """

    principal: str
    now_ms: int

    # `generation` is the generation this job makes if it changes something.

    @property
    def changed(self) -> bool:
        """True once the job has changed a row: it will make a generation."""
        raise NotImplementedError

    def set_meta(self, meta: Document | None) -> None:
        """Keep a JSON object with the commit."""
        raise NotImplementedError

    def unpublished(self) -> list[Entity]:
        """Entities alive now that this group added or changed, which `index` does not know yet."""
        raise NotImplementedError

    def space(self, model: str, dimensions: int, model_hash: str) -> int:
        """The number of a vector space, made when it is new. Makes no generation."""
        raise NotImplementedError

    # -- entities

    def add_entity(self, doc: Document, content: Content | None) -> Entity:
        """Add an entity. `doc` is the whole public document: `id`, `type`, `_rev`, `createdAt`, `updatedAt` included.

        A taken id is `EntityExistsError`.
        """
        raise NotImplementedError

    def add_entities(self, items: Iterable[tuple[Document, Content | None]]) -> list[Entity]:
        """`add_entity` for many: ids are looked up at once, rows go in by prepared statements."""
        raise NotImplementedError

    def replace_entity(self, entity: Entity, doc: Document, content: Content | None | Keep = KEEP) -> Entity:
        """Give the entity a new version. The old one stays readable at older generations. `id` must not change."""
        raise NotImplementedError

    def remove_entity(self, entity: Entity) -> int:
        """End the entity and every relation that touches it; how many relations went. Paths are the caller's."""
        raise NotImplementedError

    # -- relations

    def add_relation(self, doc: Document, src: int, dst: int) -> tuple[Relation, bool]:
        """Add a relation between two live iids: (relation, True), or the one that is there already and False.

        One relation exists for each (src, dst, type, subtype). `doc` holds `id`, `type`, `from`, `to` and the rest.
        """
        raise NotImplementedError

    def replace_relation(self, relation: Relation, doc: Document) -> Relation:
        """Give the relation a new version; its id and ends stay. A type and subtype that are taken: `ValidationError`."""
        raise NotImplementedError

    def remove_relation(self, relation: Relation) -> None:
        """End the relation."""
        raise NotImplementedError

    # -- files

    def put_blob(self, data: bytes) -> str:
        """Keep bytes under their sha256 (hex), which is returned. Durable before the commit; makes no generation."""
        raise NotImplementedError

    def set_path(self, path: str, iid: int) -> None:
        """Let `path` name the entity `iid`; what it named before stays readable in the past."""
        raise NotImplementedError

    def drop_path(self, path: str) -> None:
        """Let `path` name nothing."""
        raise NotImplementedError

    # -- derived data, no generation

    def attach_vectors(self, vectors: Sequence[tuple[int, int, bytes]]) -> int:
        """Add (cid, space, float32 bytes) to contents that wait for them; how many were taken.

        A content that already has a vector of that space, or that does not exist, is passed over.
        """
        raise NotImplementedError

    def register_segment(self, row: SegmentRow, drop: Sequence[str] = ()) -> None:
        """Vouch for a durable file under `seg/` and forget those named in `drop`."""
        raise NotImplementedError
