"""Doors that relate entities to each other and read the relations of one."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect

_BATCH = {"too_long": "BatchTooLargeError"}


class NewRelation(t.Part, kw_only=True, frozen=True):
    """A relation to be made."""

    from_: Annotated[t.Id, Meta(description="Id of the entity the edge leaves.")] = msgspec.field(name="from")
    to: Annotated[t.Id, Meta(description="Id of the entity the edge enters.")]
    type: Annotated[t.Verb, Meta(description="The verb type; `relatedTo` when none fits.")]
    subtype: Annotated[t.Subtype | None, Meta(description="Your own finer label below the verb.")] = None
    data: Annotated[Any, Meta(description="Content of the relation itself.", extra={"check": "json"})] = None
    metadata: Annotated[t.Metadata | None, Meta(description="Your own fields.")] = None
    weight: Annotated[t.Unit | None, Meta(description="Strength, 0 to 1; 1 when absent.")] = None
    confidence: Annotated[t.Unit | None, Meta(description="How sure you are, 0 to 1.")] = None
    evidence: Annotated[
        t.JsonObject | None, Meta(description="Why the relation was detected.", extra={"check": "json"})
    ] = None
    bidirectional: Annotated[bool, Meta(description="Also make the same relation the other way round.")] = False
    service: Annotated[t.Service | None, Meta(description="Label of the service that writes.")] = None
    visibility: Annotated[
        t.Visibility | None, Meta(description="Who sees it in related and counts; `public` when absent.")
    ] = None


class RelateParams(NewRelation, kw_only=True, frozen=True):
    """Parameters of relate."""

    idempotency_key: t.IdempotencyKey = None

    if_absent: Annotated[
        bool, Meta(description="Accepted for symmetry with add: an existing relation is answered anyway.")
    ] = False


class RelateResult(t.Written, kw_only=True, frozen=True):
    """Receipt of a relation; the one that was there already when it existed."""

    existed: Annotated[bool | None, Meta(description="True when the same relation was there; nothing was written.")] = (
        None
    )
    differs: Annotated[
        list[str] | None, Meta(description="Fields in which the existing relation differs from the call.")
    ] = None
    reverse_id: Annotated[str | None, Meta(description="Id of the relation the other way round.")] = None


class RelationChange(t.Part, kw_only=True, frozen=True):
    """What to change of a relation; absent fields stay."""

    id: Annotated[t.Id, Meta(description="The relation's id.")]
    type: Annotated[t.Verb | None, Meta(description="The new verb type.")] = None
    subtype: Annotated[t.Subtype | None, Meta(description="The new subtype.")] = None
    weight: Annotated[t.Unit | None, Meta(description="The new strength, 0 to 1.")] = None
    confidence: Annotated[t.Unit | None, Meta(description="The new confidence, 0 to 1.")] = None
    data: Annotated[Any, Meta(description="The new content.", extra={"check": "json"})] = None
    metadata: Annotated[t.Metadata | None, Meta(description="Fields to set; merged shallowly into the old ones.")] = (
        None
    )
    merge: Annotated[bool, Meta(description="False replaces all metadata instead of merging.")] = True
    unset: Annotated[
        Annotated[list[t.Text], Meta(max_length=limits.BATCH_ITEMS_MAX)] | None,
        Meta(description="Fields or metadata keys to clear."),
    ] = None
    evidence: Annotated[t.JsonObject | None, Meta(description="The new evidence, whole.", extra={"check": "json"})] = (
        None
    )
    service: Annotated[t.Service | None, Meta(description="The new service label.")] = None
    visibility: Annotated[t.Visibility | None, Meta(description="The new visibility.")] = None
    if_rev: Annotated[t.Revision | None, Meta(description="Refuse unless the relation is at this revision.")] = None


class UpdateRelationParams(RelationChange, kw_only=True, frozen=True):
    """Parameters of updateRelation."""

    idempotency_key: t.IdempotencyKey = None


class UnrelateParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of unrelate."""

    id: Annotated[t.Id, Meta(description="The relation's id.")]


class RelateManyParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of relateMany."""

    relations: Annotated[
        list[NewRelation],
        Meta(
            min_length=1,
            max_length=limits.BATCH_ITEMS_MAX,
            extra=_BATCH,
            description="The relations; all are checked before any is written.",
        ),
    ]


class RelationItem(t.BatchItem, kw_only=True, frozen=True):
    """One relation of a batch."""

    differs: Annotated[
        list[str] | None, Meta(description="Fields in which the existing relation differs from the item.")
    ] = None
    reverse_id: Annotated[str | None, Meta(description="Id of the relation the other way round.")] = None


class RelateManyResult(t.Result, kw_only=True, frozen=True):
    """Receipt of many relations."""

    successful: Annotated[list[RelationItem], Meta(description="Every item, in request order.")]
    failed: Annotated[list[t.JsonObject], Meta(description="Always empty; a batch is all or nothing.")]
    generation: t.GenerationNow
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None
    ids: Annotated[list[str], Meta(description="The relations' ids, in request order.")]


class RelatedParams(t.Params, kw_only=True, frozen=True):
    """Parameters of related: `node`, or `from` and `to`."""

    node: Annotated[t.Id | None, Meta(description="Relations that touch this entity, in either direction.")] = None
    from_: Annotated[t.Id | None, Meta(description="Relations that leave this entity.")] = msgspec.field(
        name="from", default=None
    )
    to: Annotated[t.Id | None, Meta(description="Relations that enter this entity.")] = None
    type: Annotated[t.Verb | list[t.Verb] | None, Meta(description="Only these verb types.")] = None
    subtype: Annotated[t.Subtype | list[t.Subtype] | None, Meta(description="Only these subtypes.")] = None
    service: Annotated[t.Service | None, Meta(description="Only relations of this service label.")] = None
    visibility: Annotated[t.Visibility | None, Meta(description="Only this visibility; public when absent.")] = None
    include_internal: Annotated[bool, Meta(description="Also internal relations, such as folder containment.")] = False
    include_system: Annotated[bool, Meta(description="Also system relations; in-process only.")] = False
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.RELATED_LIMIT_MAX,
            extra={"too_large": "QueryLimitError"},
            description="At most this many relations.",
        ),
    ] = 100
    offset: Annotated[
        int,
        Meta(ge=0, le=limits.FIND_OFFSET_MAX, extra={"too_large": "QueryLimitError"}, description="Skip this many."),
    ] = 0
    as_of: t.AsOfChoice = None

    def __post_init__(self) -> None:
        """Hold the law that exactly one way of asking is used."""
        directed = self.from_ is not None or self.to is not None
        if (self.node is not None) == directed:
            raise ValueError("Expected either `node`, or `from` and/or `to`")


class RelatedResult(t.Result, kw_only=True, frozen=True):
    """Relations, by relation id ascending."""

    relations: Annotated[list[t.Relation], Meta(description="The relations, by id ascending.")]
    generation: t.GenerationNow
    total: Annotated[int | None, Meta(description="How many match in all.")] = None


_EDGE_REFUSALS = (
    "UnknownVerbTypeError",
    "ReservedFieldError",
    "EngineOwnedRecordError",
    "SubtypeRequiredError",
    "SubtypeVocabularyError",
)

DOORS = (
    Door(
        name="relate",
        title="Relate two entities",
        summary="Make one directed, typed relation between two entities; making it again answers the one that exists.",
        effect=Effect.WRITE,
        path="/relations",
        params=RelateParams,
        result=RelateResult,
        refusals=("EntityNotFoundError", *_EDGE_REFUSALS),
    ),
    Door(
        name="updateRelation",
        title="Update a relation",
        summary="Change fields of one relation; its id and its ends stay.",
        effect=Effect.WRITE,
        method="PATCH",
        path="/relations/{id}",
        params=UpdateRelationParams,
        result=t.Written,
        refusals=("RelationNotFoundError", "RevisionConflictError", "EntityExistsError", *_EDGE_REFUSALS),
    ),
    Door(
        name="unrelate",
        title="Remove a relation",
        summary="Remove one relation by its id; the entities stay.",
        effect=Effect.DESTROY,
        method="DELETE",
        path="/relations/{id}",
        params=UnrelateParams,
        result=t.Removed,
        refusals=("EngineOwnedRecordError",),
    ),
    Door(
        name="relateMany",
        title="Relate many entities",
        summary="Make many relations in one commit; all of them or none.",
        effect=Effect.WRITE,
        path="/relations/batch",
        params=RelateManyParams,
        result=RelateManyResult,
        refusals=("EntityNotFoundError", "BatchTooLargeError", *_EDGE_REFUSALS),
    ),
    Door(
        name="related",
        title="Read relations",
        summary="List the relations of an entity: all that touch it (`node`), or those that leave (`from`) or enter (`to`) it.",
        effect=Effect.READ,
        params=RelatedParams,
        result=RelatedResult,
        refusals=(
            "EntityNotFoundError",
            "UnknownVerbTypeError",
            "AdjacencyStaleError",
            "QueryLimitError",
            "GenerationNotRetainedError",
            "GenerationInFutureError",
            "RecordCorruptError",
        ),
    ),
)
