"""Which records an export holds, at one generation: found in passes that keep one number an entity and no document.

No view is held between two chunks: the generation is pinned by its number, and a commit beside the export goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pyroaring import BitMap64

from contract import where
from contract.doors.exchange import ExportParams
from contract.limits import READ_CHUNK_ROWS_MAX
from engine.doors.registry import CallContext
from engine.filter import predicate
from engine.records import Entity
from engine.rows.guards import FILE_SUBTYPE, VFS_PREFIX
from engine.sqlite.rows import VISIBILITY_NUMBERS

if TYPE_CHECKING:
    from engine.store import Store
    from engine.view import View

FRONTIER_CHUNK: Final = 256
SYSTEM: Final = VISIBILITY_NUMBERS["system"]


class Blob(NamedTuple):
    """A file's content in the export."""

    size: int
    media_type: str


@dataclass(slots=True)
class Selected:
    """The entities by iid, how many relations lie between them, the contents of their files by hash, and the asked ids
    that the brain does not have."""

    iids: BitMap64 = field(default_factory=BitMap64)
    relations: int = 0
    blobs: dict[str, Blob] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def joins(self, src: int, dst: int) -> bool:
        """Whether a relation between these iids has both of its ends in the export."""
        return src in self.iids and dst in self.iids


class Selector:
    """Makes the selection of one export."""

    def __init__(self, store: Store, generation: int, params: ExportParams, call: CallContext) -> None:
        self._store = store
        self._generation = generation
        self._params = params
        self._call = call
        self._found = Selected()

    def select(self) -> Selected:
        """Runs the passes: the entities, their neighbourhood when `depth` asks for it, then relations and contents."""
        params = self._params
        filtered = params.where is not None or params.type is not None
        if params.ids is not None:
            self._by_ids(params.ids, filtered)
        elif filtered:
            self._by_filter()
        else:
            self._everything()
        if params.depth:
            self._neighbourhood(params.depth)
        if params.include_vfs and params.include_content and (filtered or params.ids is not None):
            self._contents_of(self._found.iids)
        self._count_relations()
        return self._found

    def _everything(self) -> None:
        after, files = 0, []
        while True:
            self._call.check()
            with self._store.view(self._generation) as view:
                rows = view.entity_traits(after)
            if not rows:
                break
            after = rows[-1].iid
            kept = [row for row in rows if self._may(row.subtype, row.visibility)]
            self._found.iids.update(row.iid for row in kept)
            if self._params.include_content:
                files += [row.iid for row in kept if row.subtype == FILE_SUBTYPE]
        self._contents_of(files)

    def _by_filter(self) -> None:
        test = predicate(self._tree())
        after = 0
        while True:
            self._call.check()
            with self._store.view(self._generation) as view:
                rows = view.scan(after, READ_CHUNK_ROWS_MAX)
            if not rows:
                break
            after = rows[-1].iid
            self._found.iids.update(row.iid for row in rows if self._may_entity(row) and test(row.doc))

    def _by_ids(self, ids: list[str], filtered: bool) -> None:
        test = predicate(self._tree()) if filtered else None
        with self._store.view(self._generation) as view:
            rows = view.entities(ids)
        allowed = {key: row for key, row in rows.items() if self._may_entity(row)}
        self._found.missing = [key for key in dict.fromkeys(ids) if key not in allowed]
        self._found.iids.update(row.iid for row in allowed.values() if test is None or test(row.doc))

    def _tree(self) -> where.Node:
        parts: list[where.Node] = []
        nouns = self._params.type
        if nouns is not None:
            parts.append(where.Test("type", "oneOf", tuple([nouns] if isinstance(nouns, str) else nouns)))
        if self._params.where is not None:
            parts.append(where.parse(self._params.where))
        return where.AllOf(tuple(parts))

    def _may(self, subtype: str | None, visibility: int) -> bool:
        if visibility == SYSTEM and not self._params.include_system:
            return False
        return self._params.include_vfs or not (subtype or "").startswith(VFS_PREFIX)

    def _may_entity(self, entity: Entity) -> bool:
        doc = entity.doc
        return self._may(doc.get("subtype"), VISIBILITY_NUMBERS[doc.get("visibility", "public")])

    def _neighbourhood(self, depth: int) -> None:
        frontier = BitMap64(self._found.iids)
        for _ in range(depth):
            reached = BitMap64()
            with self._store.view(self._generation) as view:
                for chunk in chunks(frontier, FRONTIER_CHUNK):
                    self._call.check()
                    for edge in view.edges(chunk, "both"):
                        reached.update((edge.src, edge.dst))
                reached -= self._found.iids
                frontier = BitMap64(self._allowed(view, reached))
            if not frontier:
                return
            self._found.iids |= frontier

    def _allowed(self, view: View, iids: Iterable[int]) -> Iterator[int]:
        for chunk in chunks(iids, READ_CHUNK_ROWS_MAX):
            self._call.check()
            yield from (iid for iid, entity in view.entities_at(chunk).items() if self._may_entity(entity))

    def _contents_of(self, iids: Iterable[int]) -> None:
        for chunk in chunks(iids, READ_CHUNK_ROWS_MAX):
            self._call.check()
            with self._store.view(self._generation) as view:
                rows = view.entities_at(chunk)
            for row in sorted(rows.values(), key=lambda entity: entity.id.encode()):
                if row.doc.get("subtype") == FILE_SUBTYPE:
                    metadata = row.doc["metadata"]
                    blob = Blob(metadata["size"], metadata["mimeType"])
                    held = self._found.blobs.setdefault(metadata["sha256"], blob)
                    # One content under two types: the export must not depend on the order of insertion.
                    if blob.media_type < held.media_type:
                        self._found.blobs[metadata["sha256"]] = blob

    def _count_relations(self) -> None:
        after = 0
        while True:
            self._call.check()
            with self._store.view(self._generation) as view:
                rows = view.relation_ends(after)
            if not rows:
                return
            after = rows[-1].rid
            self._found.relations += sum(
                self._found.joins(row.src, row.dst) and (row.visibility != SYSTEM or self._params.include_system)
                for row in rows
            )


def chunks(numbers: Iterable[int], size: int) -> Iterator[list[int]]:
    """`numbers` in lists of at most `size`."""
    chunk: list[int] = []
    for number in numbers:
        chunk.append(number)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
