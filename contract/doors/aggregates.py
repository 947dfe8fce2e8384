"""Doors of running aggregates over entities."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Any, Literal

from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect
from contract.doors.releases import STEP_3, later


class AggregateSource(t.Part, kw_only=True, frozen=True):
    """Which entities take part."""

    type: Annotated[t.Noun | None, Meta(description="Only this noun type.")] = None
    types: Annotated[list[t.Noun] | None, Meta(description="Only these noun types.")] = None
    subtype: Annotated[t.Subtype | None, Meta(description="Only this subtype.")] = None
    where: Annotated[t.WhereFilter | None, Meta(description="Only entities that match this filter.")] = None
    service: Annotated[t.Service | None, Meta(description="Only this service label.")] = None


class SecondsWindow(t.Part, kw_only=True, frozen=True):
    """A time window of any length."""

    seconds: Annotated[int, Meta(ge=1, description="Length in seconds.")]


class GroupField(t.Part, kw_only=True, frozen=True):
    """A field to group by, cut into time windows or taken apart."""

    field: Annotated[str, Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX, description="The field.")]
    window: Annotated[
        Literal["hour", "day", "week", "month", "quarter", "year"] | SecondsWindow | None,
        Meta(description="Group instants by this window, UTC."),
    ] = None
    unnest: Annotated[bool, Meta(description="Count an entity once for each element of its list.")] = False


class Metric(t.Part, kw_only=True, frozen=True):
    """One number of each group."""

    op: Annotated[
        Literal["sum", "count", "avg", "min", "max", "stddev", "variance", "distinctCount", "percentile"],
        Meta(description="What is computed; stddev and variance are of the sample."),
    ]
    field: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX)] | None,
        Meta(description="Of which field; count needs none."),
    ] = None
    p: Annotated[t.Unit | None, Meta(description="Which percentile, 0 to 1.")] = None


class Materialize(t.Part, kw_only=True, frozen=True):
    """How groups become entities of their own."""

    debounce_ms: Annotated[int, Meta(ge=0, description="Wait this long for more changes, ms.")] = 1000
    track_sources: Annotated[bool, Meta(description="Keep the ids that went into each group.")] = False


class DefineAggregateParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of defineAggregate."""

    name: Annotated[t.Name, Meta(description="The aggregate's name.")]
    source: Annotated[AggregateSource | None, Meta(description="Which entities take part; all when absent.")] = None
    group_by: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX)] | GroupField],
        Meta(max_length=limits.AGGREGATE_GROUP_FIELDS_MAX, description="The fields that make a group, at least one."),
    ]
    metrics: Annotated[
        dict[str, Metric], Meta(max_length=limits.AGGREGATE_METRICS_MAX, description="Name to metric, at least one.")
    ]
    materialize: Annotated[bool | Materialize, Meta(description="Whether groups become entities.")] = False


class AggregateNameResult(t.Result, kw_only=True, frozen=True):
    """The aggregate's name."""

    name: Annotated[str, Meta(description="The aggregate's name.")]
    generation: t.GenerationNow
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None


class RemoveAggregateParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of removeAggregate."""

    name: Annotated[t.Name, Meta(description="The aggregate's name.")]


class AggregateParams(t.Params, kw_only=True, frozen=True):
    """Parameters of aggregate."""

    name: Annotated[t.Name, Meta(description="The aggregate's name.")]
    where: Annotated[t.WhereFilter | None, Meta(description="Filter on the groups' keys.")] = None
    having: Annotated[t.WhereFilter | None, Meta(description="Filter on the metrics.")] = None
    order_by: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX)] | None,
        Meta(description="Order by this key or metric."),
    ] = None
    order: Annotated[t.Order, Meta(description="Direction of `orderBy`.")] = "asc"
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.FIND_LIMIT_MAX,
            extra={"too_large": "QueryLimitError"},
            description="At most this many groups.",
        ),
    ] = 100
    offset: Annotated[
        int,
        Meta(ge=0, le=limits.FIND_OFFSET_MAX, extra={"too_large": "QueryLimitError"}, description="Skip this many."),
    ] = 0
    as_of: t.AsOfChoice = None


class AggregateRow(t.Result, kw_only=True, frozen=True):
    """One group."""

    group_key: Annotated[dict[str, Any], Meta(description="Field to value; null for entities without it.")]
    metrics: Annotated[dict[str, Any], Meta(description="Metric name to number.")]
    count: Annotated[int, Meta(description="Entities in the group.")]


class AggregateResult(t.Result, kw_only=True, frozen=True):
    """The groups of an aggregate."""

    rows: Annotated[list[AggregateRow], Meta(description="The groups.")]
    generation: t.GenerationNow


_FILTER_REFUSALS = ("UnknownOperatorError", "FilterTypeError", "FieldNotQueryableError")

DOORS = (
    Door(
        name="defineAggregate",
        title="Define an aggregate",
        summary="Define sums, counts and other metrics over groups of entities; they are kept up to date with every write.",
        effect=Effect.WRITE,
        path="/aggregates",
        params=DefineAggregateParams,
        result=AggregateNameResult,
        refusals=("AggregateDefinitionError", "UnknownNounTypeError", *_FILTER_REFUSALS),
        later=later(STEP_3, "materialize"),
    ),
    Door(
        name="removeAggregate",
        title="Remove an aggregate",
        summary="Remove an aggregate's definition and its numbers; the entities stay.",
        effect=Effect.DESTROY,
        method="DELETE",
        path="/aggregates/{name}",
        params=RemoveAggregateParams,
        result=AggregateNameResult,
        refusals=("AggregateNotFoundError",),
    ),
    Door(
        name="aggregate",
        title="Query an aggregate",
        summary="Read the groups of a defined aggregate, filtered and ordered.",
        effect=Effect.READ,
        path="/aggregates/{name}/query",
        params=AggregateParams,
        result=AggregateResult,
        refusals=(
            "AggregateNotFoundError",
            "QueryLimitError",
            "GenerationNotRetainedError",
            "GenerationInFutureError",
            "RecordCorruptError",
            *_FILTER_REFUSALS,
        ),
    ),
)
