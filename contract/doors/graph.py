"""Doors that walk the graph over more than one hop."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect

_DEPTH = Meta(ge=1, le=limits.TRAVERSE_DEPTH_MAX, description="At most this many hops.")
_LIMIT = Meta(
    ge=1, le=limits.TRAVERSE_LIMIT_MAX, extra={"too_large": "QueryLimitError"}, description="At most this many nodes."
)


class TraverseParams(t.Params, kw_only=True, frozen=True):
    """Parameters of traverse."""

    from_: Annotated[t.Id, Meta(description="Where to start.")] = msgspec.field(name="from")
    to: Annotated[t.Id | None, Meta(description="Where to arrive; required for `shortest`.")] = None
    via: Annotated[t.Verb | list[t.Verb] | None, Meta(description="Only over relations of these types.")] = None
    subtype: Annotated[t.Subtype | None, Meta(description="Only over relations of this subtype.")] = None
    direction: Annotated[t.Direction, Meta(description="Which way relations are followed.")] = "out"
    depth: Annotated[int, _DEPTH] = 3
    limit: Annotated[int, _LIMIT] = 100
    strategy: Annotated[
        Literal["bfs", "dfs", "shortest"],
        Meta(description="The nearest first, each below the one it was reached from, or one shortest path to `to`."),
    ] = "bfs"
    include_paths: Annotated[bool, Meta(description="Whether each node comes with the path to it.")] = False
    as_of: t.AsOfChoice = None

    def __post_init__(self) -> None:
        """Hold that a shortest path has an end, and that nothing else has one."""
        if self.strategy == "shortest" and self.to is None:
            raise ValueError("Expected `to` with strategy `shortest`")
        if self.strategy != "shortest" and self.to is not None:
            raise ValueError("Expected strategy `shortest` beside `to`")


class TraversedNode(t.Result, kw_only=True, frozen=True):
    """An entity that was reached."""

    id: Annotated[str, Meta(description="The entity's id.")]
    depth: Annotated[int, Meta(description="Hops from the start.")]
    path: Annotated[list[str] | None, Meta(description="Ids from the start to here, when asked for.")] = None


class TraverseResult(t.Result, kw_only=True, frozen=True):
    """What was reached, and over which relations."""

    nodes: Annotated[
        list[TraversedNode],
        Meta(
            description="Entities reached, without the start; for `shortest` those of the path, none if there is none."
        ),
    ]
    edges: Annotated[
        list[t.Relation],
        Meta(description="Relations followed between these and the start, by edge id; for `shortest` along the path."),
    ]
    truncated: Annotated[bool, Meta(description="Whether `limit` cut off nodes, or ten times as many relations.")]
    generation: t.GenerationNow


class NeighborsParams(t.Params, kw_only=True, frozen=True):
    """Parameters of neighbors."""

    id: Annotated[t.Id, Meta(description="The entity.")]
    direction: Annotated[t.Direction, Meta(description="Which way relations are followed.")] = "both"
    depth: Annotated[int, _DEPTH] = 1
    verb_type: Annotated[t.Verb | list[t.Verb] | None, Meta(description="Only over relations of these types.")] = None
    limit: Annotated[int, _LIMIT] = 100
    as_of: t.AsOfChoice = None


class NeighborsResult(t.Result, kw_only=True, frozen=True):
    """Ids of the neighbours."""

    ids: Annotated[list[str], Meta(description="Ids, nearest first, then by id.")]


_REFUSALS = (
    "EntityNotFoundError",
    "UnknownVerbTypeError",
    "GraphTraversalUnavailableError",
    "AdjacencyStaleError",
    "QueryLimitError",
    "GenerationNotRetainedError",
    "GenerationInFutureError",
    "RecordCorruptError",
)

DOORS = (
    Door(
        name="traverse",
        title="Walk the graph",
        summary="Walk the graph from an entity over several hops, or find a shortest path to another.",
        effect=Effect.READ,
        params=TraverseParams,
        result=TraverseResult,
        refusals=_REFUSALS,
    ),
    Door(
        name="neighbors",
        title="List neighbours",
        summary="List the ids of the entities around one entity.",
        effect=Effect.READ,
        params=NeighborsParams,
        result=NeighborsResult,
        refusals=_REFUSALS,
    ),
)
