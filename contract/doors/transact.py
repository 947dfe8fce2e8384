"""Doors that change many things as one: a transaction, and the clearing of a brain."""

from typing import Annotated, Literal

from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect
from contract.doors.entities import EntityChange, NewEntity
from contract.doors.relations import NewRelation, RelationChange


class AddOp(NewEntity, tag_field="op", tag="add", kw_only=True, frozen=True):
    """Add an entity."""

    if_absent: Annotated[bool, Meta(description="Answer the existing entity when the id is taken.")] = False
    temp_id: Annotated[t.Name | None, Meta(description="A name by which later operations reach it, as `$name`.")] = None


class UpdateOp(EntityChange, tag_field="op", tag="update", kw_only=True, frozen=True):
    """Change an entity."""


class RemoveOp(t.Part, tag_field="op", tag="remove", kw_only=True, frozen=True):
    """Remove an entity."""

    id: Annotated[t.Id, Meta(description="The entity's id.")]
    if_rev: Annotated[t.Revision | None, Meta(description="Refuse unless the entity is at this revision.")] = None


class RelateOp(NewRelation, tag_field="op", tag="relate", kw_only=True, frozen=True):
    """Make a relation."""

    if_absent: Annotated[
        bool, Meta(description="Accepted for symmetry with add: an existing relation is answered anyway.")
    ] = False
    temp_id: Annotated[t.Name | None, Meta(description="A name by which later operations reach it, as `$name`.")] = None


class UpdateRelationOp(RelationChange, tag_field="op", tag="updateRelation", kw_only=True, frozen=True):
    """Change a relation."""


class UnrelateOp(t.Part, tag_field="op", tag="unrelate", kw_only=True, frozen=True):
    """Remove a relation."""

    id: Annotated[t.Id, Meta(description="The relation's id.")]


class AssertOp(t.Part, tag_field="op", tag="assert", kw_only=True, frozen=True):
    """Refuse the whole transaction unless something holds: a revision, or a number of matches."""

    id: Annotated[t.Id | None, Meta(description="The entity whose revision must be `ifRev`.")] = None
    if_rev: Annotated[t.Revision | None, Meta(description="The revision it must have.")] = None
    where: Annotated[t.WhereFilter | None, Meta(description="The filter whose matches are counted.")] = None
    expect: Annotated[
        Literal["none"] | Annotated[int, Meta(ge=0)] | None, Meta(description="How many entities must match.")
    ] = None

    def __post_init__(self) -> None:
        """Hold that exactly one of the two assertions is made, and made whole."""
        by_revision = self.id is not None and self.if_rev is not None
        by_count = self.where is not None and self.expect is not None
        given = (self.id, self.if_rev, self.where, self.expect)
        if by_revision == by_count or sum(one is not None for one in given) != 2:
            raise ValueError("Expected either `id` with `ifRev`, or `where` with `expect`")


class TransactParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of transact."""

    ops: Annotated[
        list[AddOp | UpdateOp | RemoveOp | RelateOp | UpdateRelationOp | UnrelateOp | AssertOp],
        Meta(
            min_length=1,
            max_length=limits.TRANSACT_OPS_MAX,
            extra={"too_long": "TransactTooLargeError"},
            description="The operations, in order.",
        ),
    ]
    meta: Annotated[t.JsonObject | None, Meta(description="A note kept with the commit.", extra={"check": "json"})] = (
        None
    )
    if_at_generation: Annotated[
        t.Generation | None, Meta(description="Refuse unless the brain is at this generation.")
    ] = None


class TransactResult(t.Result, kw_only=True, frozen=True):
    """Receipt of a transaction."""

    generation: t.GenerationNow
    timestamp: Annotated[t.Timestamp, Meta(description="When it was committed, ms since 1970 UTC.")]
    results: Annotated[list[t.JsonObject], Meta(description="One receipt an operation, in order.")]
    ids: Annotated[dict[str, str], Meta(description="The id behind each tempId.")]
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None


class ClearParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of clear."""

    confirm: Annotated[bool, Meta(description="Must be true.")] = False


class Cleared(t.Result, kw_only=True, frozen=True):
    """How much went. The file tree's rows are counted as files alone."""

    entities: Annotated[int, Meta(description="Entities.")]
    relations: Annotated[int, Meta(description="Relations.")]
    files: Annotated[int, Meta(description="Files.")]


class ClearResult(t.Result, kw_only=True, frozen=True):
    """Receipt of a clearing."""

    removed: Annotated[Cleared, Meta(description="What went.")]
    generation: t.GenerationNow
    changed: Annotated[bool | None, Meta(description="False when the brain was empty.")] = None


DOORS = (
    Door(
        name="transact",
        title="Run a transaction",
        summary="Run several writes as one commit: all of them or none, with references between them.",
        effect=Effect.DESTROY,
        params=TransactParams,
        result=TransactResult,
        refusals=(
            "GenerationConflictError",
            "RevisionConflictError",
            "EntityNotFoundError",
            "RelationNotFoundError",
            "EntityExistsError",
            "UnknownNounTypeError",
            "UnknownVerbTypeError",
            "ReservedFieldError",
            "VectorDimensionError",
            "EngineOwnedRecordError",
            "TransactTooLargeError",
            "AssertionFailedError",
            "UnknownOperatorError",
            "FilterTypeError",
            "FieldNotQueryableError",
            "SubtypeRequiredError",
            "SubtypeVocabularyError",
            "FieldVocabularyError",
        ),
    ),
    Door(
        name="clear",
        title="Clear a brain",
        summary="Remove every entity, relation and file of the brain; history keeps them until it is compacted.",
        effect=Effect.DESTROY,
        params=ClearParams,
        result=ClearResult,
        refusals=("ConfirmationRequiredError",),
    ),
)
