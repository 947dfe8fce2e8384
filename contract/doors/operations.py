"""Doors of a brain's mechanics, for its operator."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Literal

from msgspec import Meta

from contract import types as t
from contract.door import Access, Door, Effect

CheckStatus = Literal["pass", "warn", "fail"]


class HealthParams(t.Params, kw_only=True, frozen=True):
    """Parameters of health."""


class HealthCheck(t.Result, kw_only=True, frozen=True):
    """One thing that was looked at."""

    name: Annotated[str, Meta(description="What was looked at.")]
    status: Annotated[CheckStatus, Meta(description="How it is.")]
    detail: Annotated[str, Meta(description="What was seen.")]
    cure: Annotated[str | None, Meta(description="What to do about it.")] = None


class HealthResult(t.Result, kw_only=True, frozen=True):
    """How a brain is."""

    overall: Annotated[CheckStatus, Meta(description="The worst of the checks.")]
    checks: Annotated[list[HealthCheck], Meta(description="The checks.")]


class DiagnosticsParams(t.Params, kw_only=True, frozen=True):
    """Parameters of diagnostics."""


class DiagnosticsResult(t.Result, kw_only=True, frozen=True):
    """What a brain is made of."""

    version: Annotated[str, Meta(description="The product's version.")]
    storage: Annotated[t.JsonObject, Meta(description="Backend, path, sizes.")]
    providers: Annotated[t.JsonObject, Meta(description="Embedding model and where it was found.")]
    indexes: Annotated[t.JsonObject, Meta(description="Segments and tails of every index.")]
    memory: Annotated[t.JsonObject, Meta(description="What the brain holds in memory, bytes.")]
    lease: Annotated[t.JsonObject, Meta(description="The writer lease as this fleet sees it.")]
    generation: t.GenerationNow
    language_provider: Annotated[
        t.JsonObject, Meta(description="The language provider, or the line that configures one.")
    ]


class StatsParams(t.Params, kw_only=True, frozen=True):
    """Parameters of stats."""


class StatsResult(t.Result, kw_only=True, frozen=True):
    """What a brain holds."""

    entity_count: Annotated[int, Meta(description="Entities of every visibility.")]
    entities_by_type: Annotated[dict[str, int], Meta(description="Entities of each noun type.")]
    relation_count: Annotated[int, Meta(description="Relations of every visibility.")]
    relations_by_type: Annotated[dict[str, int], Meta(description="Relations of each verb type.")]
    field_registry: Annotated[t.JsonObject, Meta(description="Metadata fields and how often each occurs.")]
    index_health: Annotated[t.JsonObject, Meta(description="Up to which generation each index stands.")]
    storage: Annotated[t.JsonObject, Meta(description="Backend and sizes in bytes.")]
    writer_lock: Annotated[t.JsonObject, Meta(description="The writer lease as this fleet sees it.")]
    version: Annotated[str, Meta(description="The product's version.")]


class RepairParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of repair."""

    checks: Annotated[
        Annotated[list[str], Meta(max_length=64)] | None,
        Meta(description="Only these checks: segments, index-parity, counters, aggregates, embedding-backfill."),
    ] = None
    dry_run: Annotated[bool, Meta(description="Only say what would be done.")] = True


class RepairAction(t.Result, kw_only=True, frozen=True):
    """One thing that was, or would be, mended."""

    what: Annotated[str, Meta(description="What is mended.")]
    before: Annotated[str, Meta(description="As it was.")]
    after: Annotated[str, Meta(description="As it shall be.")]


class RepairResult(t.Result, kw_only=True, frozen=True):
    """What was, or would be, mended."""

    actions: Annotated[list[RepairAction], Meta(description="The actions.")]
    applied: Annotated[bool, Meta(description="Whether they were done.")]


class SnapshotParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of snapshot."""

    name: Annotated[t.Name, Meta(description="The snapshot's name.")]


class SnapshotResult(t.Result, kw_only=True, frozen=True):
    """A snapshot: a complete store."""

    path: Annotated[str, Meta(description="Where it is.")]
    generation: Annotated[t.Generation, Meta(description="The generation it holds.")]
    files: Annotated[int, Meta(description="Files in it.")]
    bytes: Annotated[int, Meta(description="Bytes in it.")]


class RestoreParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of restore."""

    name: Annotated[t.Name, Meta(description="The snapshot's name.")]
    confirm: Annotated[bool, Meta(description="Must be true.")] = False


class RestoreResult(t.Result, kw_only=True, frozen=True):
    """Receipt of a restore."""

    generation: t.GenerationNow
    restored_from: Annotated[t.Generation, Meta(description="The generation that the snapshot held.")]
    safety_snapshot: Annotated[
        str | None, Meta(description="The snapshot that was taken of what was there before; null when it was damaged.")
    ] = None


class WarmParams(t.Params, kw_only=True, frozen=True):
    """Parameters of warm."""

    parts: Annotated[
        list[Literal["metadata", "vectors", "graph", "model"]] | None,
        Meta(description="What to load; everything when absent."),
    ] = None


class WarmResult(t.Result, kw_only=True, frozen=True):
    """What was loaded."""

    ms: Annotated[float, Meta(description="How long it took, ms.")]
    parts: Annotated[list[str], Meta(description="What is loaded now.")]


class FlushParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of flush."""


class FlushResult(t.Result, kw_only=True, frozen=True):
    """Everything up to this generation is on the disk."""

    generation: t.GenerationNow


class ScrubParams(t.Params, kw_only=True, frozen=True):
    """Parameters of scrub."""

    deep: Annotated[bool, Meta(description="Also walk the database's own structure.")] = False
    max_ms: Annotated[
        Annotated[int, Meta(ge=1, le=300_000)] | None,
        Meta(description="Stop after about this long, ms; the next scrub goes on where this one ended."),
    ] = None


class ScrubResult(t.Result, kw_only=True, frozen=True):
    """What reading everything found."""

    complete: Annotated[bool, Meta(description="Whether everything has been read since the round began.")]
    checked: Annotated[
        dict[str, int], Meta(description="Things read in this round, by kind: entities, relations, blobs, commits, ...")
    ]
    damaged: Annotated[list[t.JsonObject], Meta(description="What is damaged: kind, name and what was seen.")]
    damaged_count: Annotated[int, Meta(description="How many damaged things there are; `damaged` lists the first.")]
    generation: t.GenerationNow


_SERVICE = Access.SERVICE

DOORS = (
    Door(name="health", title="Health of a brain", summary="Check a brain: indexes, writer lease, model, storage.", effect=Effect.READ, access=_SERVICE, method="GET", params=HealthParams, result=HealthResult),
    Door(name="diagnostics", title="Diagnostics of a brain", summary="Show what a brain is made of: storage, indexes, memory, providers.", effect=Effect.READ, access=_SERVICE, method="GET", params=DiagnosticsParams, result=DiagnosticsResult),
    Door(name="stats", title="Statistics of a brain", summary="Show what a brain holds: counts, fields, sizes.", effect=Effect.READ, access=_SERVICE, method="GET", params=StatsParams, result=StatsResult),
    Door(name="repair", title="Repair derived data", summary="Rebuild what is derived and does not agree with the records; a dry run unless told otherwise.", effect=Effect.WRITE, access=_SERVICE, params=RepairParams, result=RepairResult),
    Door(name="snapshot", title="Take a snapshot", summary="Keep a complete copy of the brain as it is now, under a name.", effect=Effect.WRITE, access=_SERVICE, params=SnapshotParams, result=SnapshotResult, refusals=("SnapshotTargetNotEmptyError", "BlobCorruptError", "RecordCorruptError")),
    Door(name="restore", title="Restore a snapshot", summary="Replace the brain's content with a snapshot's, as a new commit; a safety snapshot is taken first.", effect=Effect.DESTROY, access=_SERVICE, params=RestoreParams, result=RestoreResult, refusals=("ConfirmationRequiredError", "SnapshotNotFoundError")),
    Door(name="warm", title="Warm a brain", summary="Load indexes and model into memory ahead of the first question.", effect=Effect.READ, access=_SERVICE, params=WarmParams, result=WarmResult, refusals=("EmbeddingModelUnavailableError",)),
    Door(name="flush", title="Flush a brain", summary="Write everything that is still in memory to the disk.", effect=Effect.WRITE, access=_SERVICE, params=FlushParams, result=FlushResult),
    Door(name="scrub", title="Scrub a brain", summary="Read every record and check it against its checksum; nothing is changed.", effect=Effect.READ, access=_SERVICE, params=ScrubParams, result=ScrubResult),
)  # fmt: skip
