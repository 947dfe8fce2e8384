"""The structs that several doors share. A field's description is its description on every surface."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract.vector import Vector
from contract.vocabulary import NounType, VerbType

JsonObject = dict[str, Any]


class Params(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Parameters of a door. An optional one is None when absent; null for it on the wire equals absent."""


class Part(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object inside parameters."""


class Result(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """An answer, or an object inside one. An optional field is absent, never null, when there is nothing to say."""


# The markers that contract.check reads from a field's Meta(extra=…).
_ID = {"check": "id"}
_VECTOR_SCHEMA = {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": limits.VECTOR_WIDTH_MAX}

Id = Annotated[str, Meta(min_length=1, max_length=limits.ID_BYTES_MAX, extra=_ID)]
Noun = Annotated[NounType, Meta(extra={"vocabulary": "noun"})]
Verb = Annotated[VerbType, Meta(extra={"vocabulary": "verb"})]
VectorField = Annotated[Vector, Meta(extra_json_schema=_VECTOR_SCHEMA)]
Metadata = Annotated[JsonObject, Meta(extra={"check": "metadata"})]
WhereFilter = Annotated[JsonObject, Meta(extra={"check": "where"})]
VfsPath = Annotated[str, Meta(min_length=1, max_length=limits.VFS_PATH_BYTES_MAX, extra={"check": "vfsPath"})]
Subtype = Annotated[str, Meta(min_length=1, max_length=limits.SUBTYPE_CHARS_MAX)]
Service = Annotated[str, Meta(min_length=1, max_length=limits.SERVICE_CHARS_MAX)]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Unit = Annotated[float, Meta(ge=0, le=1)]
Generation = Annotated[int, Meta(ge=0)]
Revision = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1, max_length=limits.TEXT_CHARS_MAX)]

Visibility = Literal["public", "internal", "system"]
Order = Literal["asc", "desc"]
Direction = Literal["in", "out", "both"]
SearchMode = Literal["auto", "text", "semantic", "vector", "hybrid", "graph"]
Encoding = Literal["utf-8", "base64"]
VectorEncodingName = Literal["list", "f32"]
Embedding = Literal["done", "pending", "none"]
AsOf = Generation | Annotated[str, Meta(min_length=1, max_length=64)]

IdempotencyKey = Annotated[
    Annotated[str, Meta(min_length=1, max_length=limits.IDEMPOTENCY_KEY_CHARS_MAX)] | None,
    Meta(description="Your name for this write; a repeat with the same key and body answers what the first call did."),
]
VectorEncodingChoice = Annotated[
    VectorEncodingName | None,
    Meta(description="Vectors in MessagePack answers: packed float32 (`f32`, the default) or a list; JSON ignores it."),
]
IncludeVectors = Annotated[bool, Meta(description="Whether entities come with their vector.")]
AsOfChoice = Annotated[
    AsOf | None,
    Meta(description="Read the brain as it was at this generation, or at this RFC 3339 instant, instead of now."),
]
GenerationNow = Annotated[
    Generation, Meta(description="The brain's generation after this call, or the one it was read at.")
]
Timestamp = Annotated[int, Meta(description="Milliseconds since 1970-01-01 UTC.")]
Instant = Annotated[str, Meta(description="RFC 3339 instant, UTC.")]
RevisionNow = Annotated[Revision, Meta(description="The record's revision: 1 when added, one more at every change.")]


class WriteParams(Params, kw_only=True, frozen=True):
    """Parameters of a door that may change something."""

    idempotency_key: IdempotencyKey = None


class Entity(Result, kw_only=True, frozen=True):
    """A noun of the brain: what was stored, and the fields the engine keeps with it."""

    id: Annotated[str, Meta(description="The entity's id.")]
    type: Annotated[Noun, Meta(description="The noun type.")]
    rev: RevisionNow = msgspec.field(name="_rev")
    metadata: Annotated[JsonObject, Meta(description="The caller's own fields.")]
    visibility: Annotated[Visibility, Meta(description="Who sees the entity in find, counts and related.")] = "public"
    subtype: Annotated[str | None, Meta(description="The caller's finer label below the type.")] = None
    data: Annotated[Any, Meta(description="The content: text is searchable, anything else is kept as it is.")] = None
    vector: Annotated[VectorField | None, Meta(description="The embedding, when asked for.")] = None
    confidence: Annotated[Unit | None, Meta(description="How sure the writer was of the type.")] = None
    weight: Annotated[Unit | None, Meta(description="How much the entity matters.")] = None
    service: Annotated[str | None, Meta(description="The label of the service that wrote it.")] = None
    created_at: Annotated[int | None, Meta(description="When it was added, ms since 1970 UTC.")] = None
    updated_at: Annotated[int | None, Meta(description="When it last changed, ms since 1970 UTC.")] = None
    created_by: Annotated[Any, Meta(description="Who made it, as the caller said.")] = None


class Relation(Result, kw_only=True, frozen=True):
    """A verb of the brain: a directed edge between two entities."""

    id: Annotated[str, Meta(description="The relation's id.")]
    from_: Annotated[str, Meta(description="Id of the entity the edge leaves.")] = msgspec.field(name="from")
    to: Annotated[str, Meta(description="Id of the entity the edge enters.")]
    type: Annotated[Verb, Meta(description="The verb type.")]
    rev: RevisionNow = msgspec.field(name="_rev")
    metadata: Annotated[JsonObject, Meta(description="The caller's own fields.")]
    weight: Annotated[Unit, Meta(description="Strength of the relation.")] = 1.0
    visibility: Annotated[Visibility, Meta(description="Who sees the relation in related and counts.")] = "public"
    subtype: Annotated[str | None, Meta(description="The caller's finer label below the verb.")] = None
    data: Annotated[Any, Meta(description="Content of the relation itself.")] = None
    confidence: Annotated[Unit | None, Meta(description="How sure the writer was.")] = None
    evidence: Annotated[JsonObject | None, Meta(description="Why the relation was detected.")] = None
    service: Annotated[str | None, Meta(description="The label of the service that wrote it.")] = None
    created_at: Annotated[int | None, Meta(description="When it was made, ms since 1970 UTC.")] = None
    updated_at: Annotated[int | None, Meta(description="When it last changed, ms since 1970 UTC.")] = None


class FindRow(Result, kw_only=True, frozen=True):
    """One match: the flat fields a list needs, and the whole entity."""

    id: Annotated[str, Meta(description="The entity's id.")]
    score: Annotated[float, Meta(description="Rank score after fusion; 1 without a query.")]
    type: Annotated[Noun, Meta(description="The noun type.")]
    metadata: Annotated[JsonObject, Meta(description="The caller's own fields.")]
    entity: Annotated[Entity, Meta(description="The whole entity.")]
    subtype: Annotated[str | None, Meta(description="The caller's finer label below the type.")] = None
    data: Annotated[Any, Meta(description="The entity's content.")] = None
    text_matches: Annotated[list[str] | None, Meta(description="Query terms found in the text.")] = None
    text_score: Annotated[float | None, Meta(description="Score of the text leg.")] = None
    semantic_score: Annotated[float | None, Meta(description="Cosine similarity, 0 to 1.")] = None
    match_source: Annotated[
        Literal["text", "semantic", "both"] | None, Meta(description="Which leg found the row.")
    ] = None
    explanation: Annotated[JsonObject | None, Meta(description="How the score came about, when asked for.")] = None
    passages: Annotated[list[JsonObject] | None, Meta(description="Best spans of the text, when asked for.")] = None
    group_key: Annotated[JsonObject | None, Meta(description="Of a group: its fields and their values.")] = None
    metrics: Annotated[JsonObject | None, Meta(description="Of a group: its numbers.")] = None
    count: Annotated[int | None, Meta(description="Of a group: how many records are in it.")] = None


class Leg(Result, kw_only=True, frozen=True):
    """Whether one way of searching took part in the answer."""

    served: Annotated[bool, Meta(description="Whether the leg took part.")]
    reason: Annotated[str | None, Meta(description="Why it did not.")] = None
    pending: Annotated[int | None, Meta(description="Rows whose vector is still being made.")] = None


class Legs(Result, kw_only=True, frozen=True):
    """The ways of searching, and which of them took part."""

    metadata: Annotated[Leg, Meta(description="Filters on fields.")]
    text: Annotated[Leg, Meta(description="Words of the query.")]
    semantic: Annotated[Leg, Meta(description="Meaning of the query.")]
    graph: Annotated[Leg, Meta(description="Relations.")]


class Cost(Result, kw_only=True, frozen=True):
    """What the answer cost to find."""

    segments: Annotated[int, Meta(description="Index segments visited.")]
    candidates: Annotated[int, Meta(description="Rows that the filter left to rank.")]
    rows_read: Annotated[int, Meta(description="Records read from the store.")]
    phantoms: Annotated[
        int | None, Meta(description="Hits of the index without a record, left out; `repair` builds it again.")
    ] = None


class BatchItem(Result, kw_only=True, frozen=True):
    """One written item of a batch."""

    index: Annotated[int, Meta(description="Place in the request, from 0.")]
    id: Annotated[str, Meta(description="The record's id.")]
    rev: RevisionNow = msgspec.field(name="_rev")
    embedding: Annotated[Embedding | None, Meta(description="Whether the entity's vector exists.")] = None
    existed: Annotated[bool | None, Meta(description="True when the record was there already.")] = None


class BatchResult(Result, kw_only=True, frozen=True):
    """A batch that was written whole; a batch with a faulty item is refused and writes nothing."""

    successful: Annotated[list[BatchItem], Meta(description="Every item, in request order.")]
    failed: Annotated[list[JsonObject], Meta(description="Always empty; a batch is all or nothing.")]
    generation: GenerationNow
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None


class Written(Result, kw_only=True, frozen=True):
    """Receipt of one written record."""

    id: Annotated[str, Meta(description="The record's id.")]
    rev: RevisionNow = msgspec.field(name="_rev")
    generation: GenerationNow
    changed: Annotated[
        bool | None, Meta(description="False when the record already was as asked; nothing was written.")
    ] = None


class WrittenEntity(Written, kw_only=True, frozen=True):
    """Receipt of one written entity."""

    embedding: Annotated[
        Embedding,
        Meta(description="`done`: found by meaning; `pending`: its vector is being made; `none`: no text or no model."),
    ]
    existed: Annotated[
        bool | None, Meta(description="True when `ifAbsent` found the id taken; nothing was written.")
    ] = None


class Removed(Result, kw_only=True, frozen=True):
    """Receipt of a removal."""

    removed: Annotated[bool, Meta(description="False when there was nothing to remove.")]
    generation: GenerationNow
