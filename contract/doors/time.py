"""Doors of generations: where the brain stands, what changed, how it was, and how to go back."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Access, Door, Effect

Op = Literal["add", "update", "remove"]


class NowParams(t.Params, kw_only=True, frozen=True):
    """Parameters of now."""


class NowResult(t.Result, kw_only=True, frozen=True):
    """Where the brain stands."""

    generation: t.GenerationNow
    timestamp: Annotated[t.Timestamp, Meta(description="When that generation was committed, ms since 1970 UTC.")]


class GenerationParams(t.Params, kw_only=True, frozen=True):
    """Parameters of generation."""


class GenerationResult(t.Result, kw_only=True, frozen=True):
    """Where the brain stands."""

    generation: t.GenerationNow


class AsOfParams(t.Params, kw_only=True, frozen=True):
    """Parameters of asOf."""

    at: Annotated[t.AsOf, Meta(description="A generation, or an RFC 3339 instant.")]


class AsOfResult(t.Result, kw_only=True, frozen=True):
    """The generation that was current then."""

    generation: t.GenerationNow
    timestamp: Annotated[t.Timestamp, Meta(description="When it was committed, ms since 1970 UTC.")]
    pinned: Annotated[bool, Meta(description="Always false: reads name their `asOf` themselves.")]


class DiffParams(t.Params, kw_only=True, frozen=True):
    """Parameters of diff."""

    from_: Annotated[t.AsOf, Meta(description="The older generation or instant.")] = msgspec.field(name="from")
    to: Annotated[t.AsOf | None, Meta(description="The newer one; now when absent.")] = None
    detail: Annotated[bool, Meta(description="Also the fields before and after.")] = False


class DiffSide(t.Result, kw_only=True, frozen=True):
    """Ids that changed."""

    added: Annotated[list[str], Meta(description="Ids that came.")]
    updated: Annotated[list[str], Meta(description="Ids that changed.")]
    removed: Annotated[list[str], Meta(description="Ids that went.")]


class DiffCounts(t.Result, kw_only=True, frozen=True):
    """How many records of one kind changed."""

    added: Annotated[int, Meta(description="How many came.")]
    updated: Annotated[int, Meta(description="How many changed.")]
    removed: Annotated[int, Meta(description="How many went.")]


class DiffTotals(t.Result, kw_only=True, frozen=True):
    """How many records changed."""

    entities: Annotated[DiffCounts, Meta(description="Entities.")]
    relations: Annotated[DiffCounts, Meta(description="Relations.")]


class FieldChange(t.Result, kw_only=True, frozen=True):
    """One field that differs."""

    field: Annotated[str, Meta(description="The field; metadata keys as `metadata.key`.")]
    before: Annotated[Any, Meta(description="Its value at `from`; absent when it had none.")] = msgspec.UNSET
    after: Annotated[Any, Meta(description="Its value at `to`; absent when it has none.")] = msgspec.UNSET


class RecordDiff(t.Result, kw_only=True, frozen=True):
    """How one updated record differs."""

    kind: Annotated[Literal["entity", "relation"], Meta(description="What it is.")]
    id: Annotated[str, Meta(description="The record's id.")]
    changes: Annotated[list[FieldChange], Meta(description="Its fields that differ, by name.")]


class DiffResult(t.Result, kw_only=True, frozen=True):
    """What changed between two generations."""

    from_: Annotated[t.Generation, Meta(description="The older generation.")] = msgspec.field(name="from")
    to: Annotated[t.Generation, Meta(description="The newer generation.")]
    entities: Annotated[DiffSide, Meta(description="Entities that changed.")]
    relations: Annotated[DiffSide, Meta(description="Relations that changed.")]
    counts: Annotated[DiffTotals, Meta(description="How many of each.")]
    fields: Annotated[list[RecordDiff] | None, Meta(description="Updated records field by field, when asked for.")] = (
        None
    )


class HistoryParams(t.Params, kw_only=True, frozen=True):
    """Parameters of history."""

    id: Annotated[t.Id, Meta(description="The entity's id.")]
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.HISTORY_LIMIT_MAX,
            extra={"too_large": "QueryLimitError"},
            description="At most this many revisions.",
        ),
    ] = 100
    before: Annotated[t.Generation | None, Meta(description="Only revisions older than this generation.")] = None


class RevisionRow(t.Result, kw_only=True, frozen=True):
    """One revision of an entity."""

    rev: Annotated[t.Revision, Meta(description="The revision.")]
    generation: Annotated[t.Generation, Meta(description="The generation that made it.")]
    timestamp: Annotated[t.Timestamp, Meta(description="When, ms since 1970 UTC.")]
    op: Annotated[Op, Meta(description="What was done.")]
    principal: Annotated[str | None, Meta(description="Whose credential did it.")] = None
    meta: Annotated[t.JsonObject | None, Meta(description="What the writer noted with the commit.")] = None
    record: Annotated[t.Entity | None, Meta(description="The entity at that revision.")] = None


class HistoryResult(t.Result, kw_only=True, frozen=True):
    """The past of an entity, newest first."""

    id: Annotated[str, Meta(description="The entity's id.")]
    revisions: Annotated[list[RevisionRow], Meta(description="Newest first.")]


class ChangesParams(t.Params, kw_only=True, frozen=True):
    """Parameters of changes."""

    since: Annotated[
        t.Generation | None, Meta(description="Only what came after this generation; all that is kept when absent.")
    ] = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=limits.CHANGES_LIMIT_MAX, extra={"too_large": "QueryLimitError"})] | None,
        Meta(description="At most this many generations; 100 when absent, and no bound on an event stream."),
    ] = None
    types: Annotated[
        Annotated[list[str], Meta(max_length=limits.BATCH_ITEMS_MAX)] | None,
        Meta(description="Only records of these noun or verb types; generations without one are passed over."),
    ] = None
    follow: Annotated[bool, Meta(description="Keep the stream open for what comes; streams only.")] = False


class Change(t.Result, kw_only=True, frozen=True):
    """One record that changed."""

    kind: Annotated[Literal["entity", "relation"], Meta(description="What it is.")]
    op: Annotated[Op, Meta(description="What was done.")]
    id: Annotated[str, Meta(description="The record's id.")]
    type: Annotated[str, Meta(description="Its noun or verb type.")]
    subtype: Annotated[str | None, Meta(description="Its subtype.")] = None
    rev: Annotated[t.Revision | None, Meta(description="Its revision.")] = None


class ChangeSet(t.Result, kw_only=True, frozen=True):
    """One generation."""

    generation: Annotated[t.Generation, Meta(description="The generation.")]
    timestamp: Annotated[t.Timestamp, Meta(description="When, ms since 1970 UTC.")]
    principal: Annotated[str, Meta(description="Whose credential made it.")]
    changes: Annotated[list[Change], Meta(description="What changed.")]
    meta: Annotated[t.JsonObject | None, Meta(description="What the writer noted with it.")] = None


class ChangesResult(t.Result, kw_only=True, frozen=True):
    """Generations after a point, oldest first."""

    changes: Annotated[list[ChangeSet], Meta(description="Generations, oldest first.")]
    next: Annotated[t.Generation, Meta(description="The `since` of the next call.")]
    caught_up: Annotated[bool, Meta(description="Whether nothing is left.")]
    generation: t.GenerationNow


class UndoParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of undo: one generation, or all of a principal's since one."""

    generation: Annotated[t.Generation | None, Meta(description="Undo this generation.")] = None
    since: Annotated[t.Generation | None, Meta(description="Undo everything after this generation …")] = None
    principal: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None, Meta(description="… that this principal did.")
    ] = None

    def __post_init__(self) -> None:
        """Hold that exactly one way of naming the past is used."""
        by_principal = self.since is not None and self.principal is not None
        partial = (self.since is None) != (self.principal is None)
        if partial or (self.generation is not None) == by_principal:
            raise ValueError("Expected either `generation`, or `since` with `principal`")


class Undone(t.Result, kw_only=True, frozen=True):
    """How many records went back."""

    entities: Annotated[int, Meta(description="Entities.")]
    relations: Annotated[int, Meta(description="Relations.")]
    files: Annotated[int, Meta(description="Files.")]


class UndoResult(t.Result, kw_only=True, frozen=True):
    """Receipt of an undo."""

    generation: t.GenerationNow
    undone: Annotated[Undone, Meta(description="What went back.")]
    changed: Annotated[bool | None, Meta(description="False when there was nothing to take back.")] = None


class CompactParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of compact."""

    before: Annotated[t.AsOf, Meta(description="Forget history older than this generation or instant.")]
    dry_run: Annotated[bool, Meta(description="Only say what would be freed.")] = True


class CompactResult(t.Result, kw_only=True, frozen=True):
    """What was, or would be, forgotten."""

    floor: Annotated[t.Generation, Meta(description="The oldest generation that is kept.")]
    removed_versions: Annotated[int, Meta(description="Record versions forgotten.")]
    freed_bytes: Annotated[int, Meta(description="Bytes given back.")]


_TIME_REFUSALS = ("GenerationNotRetainedError", "GenerationInFutureError")

DOORS = (
    Door(
        name="now",
        title="Where the brain stands",
        summary="Read the brain's current generation and when it was committed.",
        effect=Effect.READ,
        method="GET",
        params=NowParams,
        result=NowResult,
    ),
    Door(
        name="generation",
        title="Current generation",
        summary="Read the brain's current generation number.",
        effect=Effect.READ,
        method="GET",
        params=GenerationParams,
        result=GenerationResult,
    ),
    Door(
        name="asOf",
        title="Resolve a point in time",
        summary="Resolve an instant or generation to the generation that was current then.",
        effect=Effect.READ,
        params=AsOfParams,
        result=AsOfResult,
        refusals=_TIME_REFUSALS,
    ),
    Door(
        name="diff",
        title="Compare two generations",
        summary="List the entities and relations that differ between two points in time.",
        effect=Effect.READ,
        params=DiffParams,
        result=DiffResult,
        refusals=(*_TIME_REFUSALS, "AnswerTooLargeError"),
    ),
    Door(
        name="history",
        title="History of an entity",
        summary="List the revisions of one entity, newest first, removals included.",
        effect=Effect.READ,
        method="GET",
        path="/entities/{id}/history",
        params=HistoryParams,
        result=HistoryResult,
        refusals=("EntityNotFoundError", "GenerationNotRetainedError", "QueryLimitError"),
    ),
    Door(
        name="changes",
        title="Change feed",
        summary="Read what was committed after a generation, in order; over HTTP also as an event stream.",
        effect=Effect.READ,
        method="GET",
        params=ChangesParams,
        result=ChangesResult,
        refusals=(*_TIME_REFUSALS, "QueryLimitError"),
    ),
    Door(
        name="undo",
        title="Undo",
        summary="Take back one generation, or all that one principal did since a generation, as a new commit.",
        effect=Effect.DESTROY,
        params=UndoParams,
        result=UndoResult,
        refusals=("UndoConflictError", "QueryLimitError", *_TIME_REFUSALS),
    ),
    Door(
        name="compact",
        title="Forget old history",
        summary="Forget record versions older than a point in time and give their space back.",
        effect=Effect.DESTROY,
        access=Access.SERVICE,
        params=CompactParams,
        result=CompactResult,
        refusals=_TIME_REFUSALS,
    ),
)
