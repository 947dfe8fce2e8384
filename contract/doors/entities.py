"""Doors that add, read, change and remove entities, one at a time and in batches."""

from typing import Annotated, Any

from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect

_BATCH = {"too_long": "BatchTooLargeError"}
_ITEMS = Meta(min_length=1, max_length=limits.BATCH_ITEMS_MAX, extra=_BATCH)


class NewEntity(t.Part, kw_only=True, frozen=True):
    """An entity to be added."""

    data: Annotated[
        Any,
        Meta(
            description="The content. Text is found by its words and its meaning; other JSON is kept as it is.",
            extra={"check": "json"},
        ),
    ]
    type: Annotated[t.Noun, Meta(description="The noun type; `custom` when none fits.")]
    subtype: Annotated[t.Subtype | None, Meta(description="Your own finer label below the type.")] = None
    metadata: Annotated[t.Metadata | None, Meta(description="Your own fields; every one can be filtered on.")] = None
    id: Annotated[t.Id | None, Meta(description="The id to use; a UUID is made when absent.")] = None
    vector: Annotated[t.VectorField | None, Meta(description="The embedding, when you compute it yourself.")] = None
    confidence: Annotated[t.Unit | None, Meta(description="How sure you are of the type, 0 to 1.")] = None
    weight: Annotated[t.Unit | None, Meta(description="How much the entity matters, 0 to 1.")] = None
    service: Annotated[t.Service | None, Meta(description="Label of the service that writes.")] = None
    visibility: Annotated[
        t.Visibility | None, Meta(description="Who sees it in find, counts and related; `public` when absent.")
    ] = None
    created_by: Annotated[
        str | t.JsonObject | None, Meta(description="Who made it, in your own words.", extra={"check": "json"})
    ] = None


class AddParams(NewEntity, kw_only=True, frozen=True):
    """Parameters of add."""

    idempotency_key: t.IdempotencyKey = None

    if_absent: Annotated[
        bool, Meta(description="Answer the existing entity's id when the id is taken, and write nothing.")
    ] = False


class GetParams(t.Params, kw_only=True, frozen=True):
    """Parameters of get."""

    id: Annotated[t.Id, Meta(description="The entity's id.")]
    include_vectors: t.IncludeVectors = False
    as_of: t.AsOfChoice = None
    vector_encoding: t.VectorEncodingChoice = None


class BatchGetParams(t.Params, kw_only=True, frozen=True):
    """Parameters of batchGet."""

    ids: Annotated[
        list[t.Id],
        Meta(max_length=limits.BATCH_ITEMS_MAX, extra=_BATCH, description="The ids to read; duplicates count once."),
    ]
    include_vectors: t.IncludeVectors = False
    as_of: t.AsOfChoice = None
    vector_encoding: t.VectorEncodingChoice = None


class BatchGetResult(t.Result, kw_only=True, frozen=True):
    """The entities that exist, and the ids that do not."""

    found: Annotated[dict[str, t.Entity], Meta(description="Id to entity.")]
    missing: Annotated[list[str], Meta(description="Ids that no entity has, in request order.")]


class ChangedFields(t.Part, kw_only=True, frozen=True):
    """What to change of an entity; absent fields stay."""

    data: Annotated[Any, Meta(description="The new content; its vector is made again.", extra={"check": "json"})] = None
    type: Annotated[t.Noun | None, Meta(description="The new noun type.")] = None
    subtype: Annotated[t.Subtype | None, Meta(description="The new subtype.")] = None
    metadata: Annotated[t.Metadata | None, Meta(description="Fields to set; merged shallowly into the old ones.")] = (
        None
    )
    merge: Annotated[bool, Meta(description="False replaces all metadata instead of merging.")] = True
    unset: Annotated[
        Annotated[list[t.Text], Meta(max_length=limits.BATCH_ITEMS_MAX)] | None,
        Meta(description="Fields or metadata keys to clear."),
    ] = None
    vector: Annotated[t.VectorField | None, Meta(description="The new embedding, when you compute it yourself.")] = None
    confidence: Annotated[t.Unit | None, Meta(description="The new confidence, 0 to 1.")] = None
    weight: Annotated[t.Unit | None, Meta(description="The new weight, 0 to 1.")] = None
    service: Annotated[t.Service | None, Meta(description="The new service label.")] = None
    visibility: Annotated[t.Visibility | None, Meta(description="The new visibility.")] = None
    if_rev: Annotated[t.Revision | None, Meta(description="Refuse unless the entity is at this revision.")] = None


class UpdateParams(ChangedFields, kw_only=True, frozen=True):
    """Parameters of update."""

    idempotency_key: t.IdempotencyKey = None

    id: Annotated[t.Id, Meta(description="The entity's id.")]


class EntityChange(ChangedFields, kw_only=True, frozen=True):
    """One entity's change in a batch."""

    id: Annotated[t.Id, Meta(description="The entity's id.")]


class RemoveParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of remove."""

    id: Annotated[t.Id, Meta(description="The entity's id.")]
    if_rev: Annotated[t.Revision | None, Meta(description="Refuse unless the entity is at this revision.")] = None


class RemoveResult(t.Removed, kw_only=True, frozen=True):
    """Receipt of a removal and of the relations that went with it."""

    relations_removed: Annotated[int, Meta(description="Relations that ended with the entity.")]


class AddManyParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of addMany."""

    items: Annotated[list[NewEntity], _ITEMS, Meta(description="The entities; all are checked before any is written.")]
    if_absent: Annotated[bool, Meta(description="Skip items whose id is taken instead of refusing the batch.")] = False


class UpdateManyParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of updateMany."""

    updates: Annotated[
        list[EntityChange], _ITEMS, Meta(description="The changes; all are checked before any is written.")
    ]


class RemoveManyParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of removeMany."""

    ids: Annotated[
        Annotated[list[t.Id], Meta(max_length=limits.BATCH_ITEMS_MAX, extra=_BATCH)] | None,
        Meta(description="Ids to remove; duplicates count once."),
    ] = None
    type: Annotated[t.Noun | None, Meta(description="Remove entities of this type, as `find` would list them.")] = None
    where: Annotated[
        t.WhereFilter | None, Meta(description="Remove entities that match this filter, as `find` would list them.")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="With `type` or `where`: remove at most this many, oldest first; the answer says what is left."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Hold that ids and a selection are not mixed: which of the two was meant would be a guess."""
        if self.ids is not None and (self.type is not None or self.where is not None or self.limit is not None):
            raise ValueError("Expected either `ids`, or `type` and/or `where` (with `limit`)")


class RemoveManyResult(t.BatchResult, kw_only=True, frozen=True):
    """Receipt of a batch removal."""

    missing: Annotated[list[str], Meta(description="Of `ids`, those that no entity had.")]
    relations_removed: Annotated[int, Meta(description="Relations that ended with the entities.")]
    remaining: Annotated[int | None, Meta(description="Matches that `limit` left.")] = None


_ADD_REFUSALS = (
    "EntityExistsError",
    "UnknownNounTypeError",
    "ReservedFieldError",
    "VectorDimensionError",
    "EngineOwnedRecordError",
    "SubtypeRequiredError",
    "SubtypeVocabularyError",
    "FieldVocabularyError",
)
_UPDATE_REFUSALS = ("EntityNotFoundError", "RevisionConflictError", *_ADD_REFUSALS[1:])

DOORS = (
    Door(
        name="add",
        title="Add an entity",
        summary="Store one entity: content, type, your own fields, and a vector made from its text.",
        effect=Effect.WRITE,
        path="/entities",
        params=AddParams,
        result=t.WrittenEntity,
        refusals=_ADD_REFUSALS,
    ),
    Door(
        name="get",
        title="Get an entity",
        summary="Read one entity by its id.",
        effect=Effect.READ,
        method="GET",
        path="/entities/{id}",
        params=GetParams,
        result=t.Entity,
        refusals=("EntityNotFoundError", "GenerationNotRetainedError", "GenerationInFutureError", "RecordCorruptError"),
    ),
    Door(
        name="batchGet",
        title="Get many entities",
        summary="Read many entities by their ids; ids that do not exist are listed, not refused.",
        effect=Effect.READ,
        path="/entities/batch-get",
        params=BatchGetParams,
        result=BatchGetResult,
        refusals=("BatchTooLargeError", "GenerationNotRetainedError", "GenerationInFutureError", "RecordCorruptError"),
    ),
    Door(
        name="update",
        title="Update an entity",
        summary="Change fields of one entity; metadata is merged, absent fields stay.",
        effect=Effect.WRITE,
        method="PATCH",
        path="/entities/{id}",
        params=UpdateParams,
        result=t.WrittenEntity,
        refusals=_UPDATE_REFUSALS,
    ),
    Door(
        name="remove",
        title="Remove an entity",
        summary="Remove one entity and every relation it takes part in.",
        effect=Effect.DESTROY,
        method="DELETE",
        path="/entities/{id}",
        params=RemoveParams,
        result=RemoveResult,
        refusals=("RevisionConflictError", "EngineOwnedRecordError"),
    ),
    Door(
        name="addMany",
        title="Add many entities",
        summary="Store many entities in one commit; all of them or none.",
        effect=Effect.WRITE,
        path="/entities/batch",
        params=AddManyParams,
        result=t.BatchResult,
        refusals=(*_ADD_REFUSALS, "BatchTooLargeError"),
    ),
    Door(
        name="updateMany",
        title="Update many entities",
        summary="Change many entities in one commit; all of them or none.",
        effect=Effect.WRITE,
        method="PATCH",
        path="/entities/batch",
        params=UpdateManyParams,
        result=t.BatchResult,
        refusals=(*_UPDATE_REFUSALS, "BatchTooLargeError"),
    ),
    Door(
        name="removeMany",
        title="Remove many entities",
        summary="Remove the entities of these ids, or all that match a type and filter, in one commit.",
        effect=Effect.DESTROY,
        path="/entities/batch-remove",
        params=RemoveManyParams,
        result=RemoveManyResult,
        refusals=(
            "RemoveUnboundedError",
            "UnknownOperatorError",
            "FilterTypeError",
            "FieldNotQueryableError",
            "UnknownNounTypeError",
            "EngineOwnedRecordError",
            "BatchTooLargeError",
            "QueryLimitError",
        ),
    ),
)
