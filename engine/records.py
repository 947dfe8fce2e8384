"""The values that cross the storage layer: rows as the doors and the index see them. No I/O here.

Numbers that name things (all dense, ascending, never reused in the life of a store):
`iid` one entity; `ver` one version of an entity; `cid` one content (a text and its vector), kept by versions that
change neither; `vid` one stored vector; `rid` one relation. A row is alive at generation p when g0 <= p < g1.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

import msgspec

Document: TypeAlias = dict[str, Any]  # a decoded JSON document: the value types are the caller's

FOREVER: Final = 1 << 62
"""The `g1` of a row that is current."""

NO_CONTENT: Final = 0
"""The `cid` of an entity that has neither text nor vector."""


class Keep(Enum):
    """The type of `KEEP`."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
"""Given as the content of `replace_entity`: text and vector stay what they are, and so does the cid."""


class Entity(msgspec.Struct, frozen=True, gc=False):
    """One version of one entity. `doc` is its public document (camelCase, `_rev` included, no vector)."""

    iid: int
    ver: int
    cid: int
    g0: int
    g1: int
    id: str
    doc: Document


class Relation(msgspec.Struct, frozen=True, gc=False):
    """One version of one relation between the entities `src` and `dst` (iids); `doc` is its public document."""

    rid: int
    src: int
    dst: int
    g0: int
    g1: int
    id: str
    doc: Document


class Passage(msgspec.Struct, frozen=True, gc=False):
    """A stretch of a text, in code points, half-open, and its vector (little-endian float32)."""

    start: int
    end: int
    vector: bytes


class Content(msgspec.Struct, frozen=True, gc=False):
    """What an entity is found by: its searchable text and its vector (little-endian float32).

    `space` names the vector's space (`Transaction.space`) and must be given with a vector. `pending` says that the text
    waits for the model; a content with a vector is never pending. A text that is longer than the model reads at a time
    has `passages` (two or more, in their order) in the place of a vector. `given` marks a vector of the caller's own,
    which no model's replaces. Neither text nor vector: give None instead.
    """

    text: str | None
    vector: bytes | None = None
    space: int | None = None
    pending: bool = False
    passages: tuple[Passage, ...] = ()
    given: bool = False


class Space(msgspec.Struct, frozen=True):
    """A vector space: vectors of two spaces are never compared. `hash` is the hex digest of the model's files."""

    space: int
    model: str
    dimensions: int
    hash: str


class PendingContent(msgspec.Struct, frozen=True, gc=False):
    """A current text that still waits for its vector."""

    cid: int
    iid: int
    text: str


class RelationQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What `View.relations` selects. Give `node` (either end) or `source` and/or `target`: iids.

    `types` and `visibilities` of None mean any. `offset` and `limit` cut the whole incidence ordered by edge id.
    """

    node: int | None = None
    source: int | None = None
    target: int | None = None
    types: tuple[str, ...] | None = None
    subtype: str | None = None
    service: str | None = None
    visibilities: frozenset[str] | None = frozenset({"public"})
    limit: int = 100
    offset: int = 0


class RelationPage(msgspec.Struct, frozen=True):
    """A slice of an incidence, ordered by edge id ascending (as bytes), and how many edges it was cut from."""

    rows: list[Relation]
    total: int


class Edge(msgspec.Struct, frozen=True, gc=False):
    """One relation as the adjacency indexes hold it: no document was read."""

    rid: int
    src: int
    dst: int
    type: str
    id: str


Direction: TypeAlias = Literal["out", "in", "both"]


class Hop(msgspec.Struct, frozen=True, gc=False):
    """Which relations one step follows, and which way. None stands for any."""

    direction: Direction
    types: Sequence[str] | None = None
    subtype: str | None = None
    visibilities: frozenset[str] | None = None


class CountRow(msgspec.Struct, frozen=True, gc=False):
    """How many rows of one kind share type, subtype, visibility and service."""

    kind: Literal["entity", "relation"]
    type: str
    subtype: str | None
    visibility: str
    service: str | None
    count: int


Operation: TypeAlias = Literal["add", "update", "remove"]
ChangeKind: TypeAlias = Literal["entity", "relation", "path", "definition"]


class Change(msgspec.Struct, frozen=True, gc=False):
    """One row changed by a commit. `key` is the iid or rid, `ver` the entity version added (or, for a removal, ended).

    `id`, `type`, `subtype` and `rev` describe the row after the change (before it, for a removal); they are None for
    paths. Of a definition `type` is its kind and `id` its name.
    """

    kind: ChangeKind
    op: Operation
    key: int
    ver: int
    id: str | None
    type: str | None
    subtype: str | None
    rev: int | None


class Commit(msgspec.Struct, frozen=True):
    """One generation: when, by whom, through which door. `changes` is empty unless it was asked for."""

    generation: int
    at_us: int
    epoch: int
    principal: str
    door: str
    change_count: int
    meta: Document | None
    changes: list[Change] = []

    @property
    def at_ms(self) -> int:
        """The instant of the commit in ms since 1970."""
        return self.at_us // 1_000


class Revision(msgspec.Struct, frozen=True):
    """One step of an entity's life: the version it made, or for a removal the version it ended."""

    op: Operation
    generation: int
    entity: Entity


class SegmentRow(msgspec.Struct, frozen=True):
    """A derived file under `seg/` that the store vouches for. Files without a row are garbage.

    `kind` names the leg ("fields", "text", "vectors", ...); `lo` and `hi` are the first and last number covered (ver,
    cid or vid, as the kind defines); `generation` is the generation it was built at; `info` is the builder's own.
    """

    name: str
    kind: str
    lo: int
    hi: int
    generation: int
    bytes: int
    info: Mapping[str, Any]


class Watermarks(msgspec.Struct, frozen=True):
    """The last number given out of each kind; 0 before the first."""

    iid: int = 0
    ver: int = 0
    cid: int = 0
    vid: int = 0
    rid: int = 0
