"""Doors that look for entities: by meaning, by words, by fields, by likeness, page by page, and how many there are."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect
from contract.doors.releases import STEP_3, later

_OVER = {"too_large": "QueryLimitError"}
_LIMIT = Meta(ge=1, le=limits.FIND_LIMIT_MAX, extra=_OVER, description="At most this many rows.")
_WHERE = Meta(
    description="Filter on metadata and standard fields: `{field: value}` or `{field: {operator: operand}}` with equals, "
    "notEquals, greaterThan, greaterEqual, lessThan, lessEqual, between, oneOf, noneOf, contains, excludes, hasAll, "
    "exists, missing, startsWith, endsWith, matches; combine with allOf, anyOf, not; dots reach nested fields."
)


class Connected(t.Part, kw_only=True, frozen=True):
    """Only entities that the graph connects to a start: within `depth` hops, each over a relation that is asked for."""

    from_: Annotated[t.Id | None, Meta(description="Reached from this entity.")] = msgspec.field(
        name="from", default=None
    )
    to: Annotated[t.Id | None, Meta(description="From which this entity is reached.")] = None
    via: Annotated[t.Verb | list[t.Verb] | None, Meta(description="Over relations of these types.")] = None
    type: Annotated[t.Verb | list[t.Verb] | None, Meta(description="The same as `via`.")] = None
    subtype: Annotated[t.Subtype | None, Meta(description="Over relations of this subtype.")] = None
    depth: Annotated[int, Meta(ge=1, le=limits.TRAVERSE_DEPTH_MAX, description="At most this many hops.")] = 1
    direction: Annotated[t.Direction, Meta(description="Which way relations are followed.")] = "both"

    def __post_init__(self) -> None:
        """Hold that there is a start, and one list of types."""
        if self.from_ is None and self.to is None:
            raise ValueError("Expected `from` or `to`")
        if self.via is not None and self.type is not None:
            raise ValueError("Expected either `via` or `type`: they are the same")


class Near(t.Part, kw_only=True, frozen=True):
    """Only entities whose meaning is near another one's, that one left out; nearest first when nothing else ranks."""

    id: Annotated[t.Id, Meta(description="The other entity.")]
    threshold: Annotated[t.Unit | None, Meta(description="Least cosine similarity; 0 when absent.")] = None


class FusionWeights(t.Part, kw_only=True, frozen=True):
    """How much each leg counts; not all zero."""

    text: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Weight of the text leg.")] = None
    vector: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Weight of the meaning leg.")] = None
    graph: Annotated[Annotated[float, Meta(ge=0)] | None, Meta(description="Weight of the graph leg.")] = None


class Fusion(t.Part, kw_only=True, frozen=True):
    """How the legs' rankings become one."""

    strategy: Annotated[Literal["rrf", "weighted", "adaptive"], Meta(description="The rule of fusion.")] = "adaptive"
    weights: Annotated[FusionWeights | None, Meta(description="How much each leg counts.")] = None


class PassageChoice(t.Part, kw_only=True, frozen=True):
    """Which spans of text to return."""

    max: Annotated[int, Meta(ge=1, le=20, description="At most this many a row.")] = 3
    size: Annotated[int, Meta(ge=20, le=2000, description="About this many characters each.")] = 300


ExactChoice = Annotated[bool, Meta(description="Compare every vector, even where an index could answer sooner.")]
Approximate = Annotated[
    bool, Meta(description="Whether an index of vectors may have left out rows; never with `exact`.")
]


class FindFilters(t.Params, kw_only=True, frozen=True):
    """What narrows a search down, whatever it looks for."""

    type: Annotated[t.Noun | list[t.Noun] | None, Meta(description="Only these noun types.")] = None
    subtype: Annotated[t.Subtype | list[t.Subtype] | None, Meta(description="Only these subtypes.")] = None
    where: Annotated[t.WhereFilter | None, _WHERE] = None
    service: Annotated[t.Service | None, Meta(description="Only entities of this service label.")] = None
    exclude_vfs: Annotated[bool, Meta(description="Leave files out.")] = msgspec.field(name="excludeVFS", default=False)


class FindParams(FindFilters, kw_only=True, frozen=True):
    """Parameters of find."""

    query: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.QUERY_CHARS_MAX)] | None,
        Meta(description="What to look for, in plain words."),
    ] = None
    vector: Annotated[t.VectorField | None, Meta(description="Look for this vector instead of the query's.")] = None
    visibility: Annotated[t.Visibility | None, Meta(description="Only this visibility; public when absent.")] = None
    include_internal: Annotated[bool, Meta(description="Also internal entities, such as folders.")] = False
    include_system: Annotated[bool, Meta(description="Also system entities; in-process only.")] = False
    search_mode: Annotated[t.SearchMode, Meta(description="`auto` uses words and meaning when both can be served.")] = (
        "auto"
    )
    exact: ExactChoice = False
    hybrid_alpha: Annotated[
        t.Unit | None, Meta(description="Balance of a hybrid search: 0 words only, 1 meaning only.")
    ] = None
    threshold: Annotated[t.Unit | None, Meta(description="Least cosine similarity of the meaning leg.")] = None
    limit: Annotated[int, _LIMIT] = 10
    offset: Annotated[int, Meta(ge=0, le=limits.FIND_OFFSET_MAX, extra=_OVER, description="Skip this many rows.")] = 0
    order_by: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.FIELD_PATH_CHARS_MAX)] | None,
        Meta(description="Order by this field instead of by score."),
    ] = None
    order: Annotated[t.Order, Meta(description="Direction of `orderBy`; rows without the field come last.")] = "asc"
    include_vectors: t.IncludeVectors = False
    as_of: t.AsOfChoice = None
    vector_encoding: t.VectorEncodingChoice = None
    connected: Annotated[Connected | None, Meta(description="Only entities that the graph connects to a start.")] = None
    near: Annotated[Near | None, Meta(description="Only entities near another one in meaning.")] = None
    fusion: Annotated[Fusion | None, Meta(description="How the rankings of the legs become one.")] = None
    cursor: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(description="Go on after an earlier page, with the same parameters; at the generation it was read at."),
    ] = None
    aggregate: Annotated[
        str | t.JsonObject | None,
        Meta(
            description="Answer groups of the matches instead of entities: an aggregate's name, or `{name}` or `{groupBy, "
            "metrics}`, with `where` on group keys; `orderBy` then names a group field or a metric.",
            extra={"check": "json"},
        ),
    ] = None
    having: Annotated[t.WhereFilter | None, Meta(description="Filter on the aggregate's metrics.")] = None
    purpose: Annotated[
        Literal["answer", "context", "dedupe", "browse"] | None,
        Meta(
            description="What the rows are for; fills in what is left out. `answer`: `passages`; `context`: `passages` of "
            "1,000 characters; `dedupe`: meaning alone, `threshold` 0.85; `browse`: the newest first."
        ),
    ] = None
    rerank: Annotated[bool, Meta(description="Rank the best rows again with a second model.")] = False
    passages: Annotated[
        bool | PassageChoice, Meta(description="Return the best spans of each text: offsets in code points.")
    ] = False
    explain: Annotated[bool, Meta(description="Return how each score came about, and what was run.")] = False

    def __post_init__(self) -> None:
        """Hold what must be true between the ways of searching."""
        if self.search_mode == "vector" and self.vector is None:
            raise ValueError("Expected `vector` with searchMode `vector`")
        if self.search_mode in ("semantic", "text") and self.query is None:
            raise ValueError(f"Expected `query` with searchMode `{self.search_mode}`")
        if self.search_mode == "hybrid" and self.query is None:
            raise ValueError("Expected `query` with searchMode `hybrid`")
        if self.search_mode == "graph" and (
            self.connected is None or self.query is not None or self.vector is not None
        ):
            raise ValueError("Expected `connected`, and neither `query` nor `vector`, with searchMode `graph`")
        if self.having is not None and self.aggregate is None:
            raise ValueError("Expected `aggregate` beside `having`, which filters its metrics")
        if self.aggregate is not None and (self.passages is not False or self.explain or self.include_vectors):
            raise ValueError(
                "Expected none of `passages`, `explain`, `includeVectors` beside `aggregate`: rows are groups"
            )
        if self.passages is not False and self.query is None and self.vector is None:
            raise ValueError("Expected `query` or `vector` beside `passages`: spans are the best ones for it")
        if self.threshold is not None and (self.search_mode == "text" or (self.query is None and self.vector is None)):
            raise ValueError("Expected `query` or `vector` and a searchMode with meaning beside `threshold`")


class FindResult(t.Result, kw_only=True, frozen=True):
    """Matches, best first, or in the order asked for."""

    rows: Annotated[list[t.FindRow], Meta(description="The matches.")]
    generation: t.GenerationNow
    legs: Annotated[t.Legs, Meta(description="Which ways of searching took part.")]
    cost: Annotated[t.Cost, Meta(description="What the answer cost.")]
    approximate: Approximate
    total: Annotated[int | None, Meta(description="How many match in all, when it is known.")] = None
    cursor: Annotated[
        str | None, Meta(description="Where the next page of the same ranking begins; absent on the last.")
    ] = None
    plan: Annotated[t.JsonObject | None, Meta(description="What was run, as `explain` tells it, when asked for.")] = (
        None
    )
    warnings: Annotated[list[str] | None, Meta(description="What the caller should know of this answer.")] = None


class TextTarget(t.Part, kw_only=True, frozen=True):
    """A text to compare with."""

    text: Annotated[t.Text, Meta(description="The text.")]


class SimilarParams(FindFilters, kw_only=True, frozen=True):
    """Parameters of similar: likeness to an entity, a vector or a text."""

    to: Annotated[
        t.Id | Annotated[list[float], Meta(min_length=1, max_length=limits.VECTOR_WIDTH_MAX)] | TextTarget,
        Meta(description="An entity's id, a vector, or `{text}`.", extra={"check": "vector"}),
    ]
    limit: Annotated[int, _LIMIT] = 10
    threshold: Annotated[t.Unit | None, Meta(description="Least cosine similarity.")] = None
    exact: ExactChoice = False
    include_vectors: t.IncludeVectors = False
    as_of: t.AsOfChoice = None
    vector_encoding: t.VectorEncodingChoice = None


class RowsResult(t.Result, kw_only=True, frozen=True):
    """Matches, nearest first."""

    rows: Annotated[list[t.FindRow], Meta(description="The matches.")]
    generation: t.GenerationNow
    approximate: Approximate


class PageParams(t.Params, kw_only=True, frozen=True):
    """Parameters of page."""

    kind: Annotated[Literal["entities", "relations"], Meta(description="What to read.")]
    type: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)] | None,
        Meta(description="Only this noun or verb type."),
    ] = None
    cursor: Annotated[
        Annotated[str, Meta(min_length=1, max_length=2048)] | None,
        Meta(description="Go on after an earlier page, with the same parameters; at the generation it was read at."),
    ] = None
    limit: Annotated[int, _LIMIT] = 100
    as_of: t.AsOfChoice = None


class PageResult(t.Result, kw_only=True, frozen=True):
    """One page of the records of one generation."""

    rows: Annotated[
        list[t.JsonObject], Meta(description="Public entities in the order of insertion, or relations by edge id.")
    ]
    generation: t.GenerationNow
    cursor: Annotated[str | None, Meta(description="Where the next page begins; absent on the last.")] = None


class ExplainClause(t.Result, kw_only=True, frozen=True):
    """One test of the filter, as it would be answered."""

    field: Annotated[str, Meta(description="The field, by its canonical name.")]
    operator: Annotated[str, Meta(description="The operator, by its canonical name.")]
    path: Annotated[
        Literal["column-store", "sparse-chunked", "scan", "none"],
        Meta(
            description="How rows are tested: `column-store` on distinct values, `sparse-chunked` on those and a tail row "
            "by row, `scan` row by row only, `none` when there is no row to test."
        ),
    ]
    estimate: Annotated[int, Meta(description="Visible rows for which this test alone holds.")]
    note: Annotated[str, Meta(description="What an author of the query should know.")]


class ExplainLeg(t.Result, kw_only=True, frozen=True):
    """One way of searching."""

    leg: Annotated[Literal["metadata", "text", "semantic", "graph"], Meta(description="Its name.")]
    served: Annotated[bool, Meta(description="Whether it would take part.")]
    reason: Annotated[str | None, Meta(description="Why not.")] = None
    pending: Annotated[int | None, Meta(description="Candidates whose text waits for its vector.")] = None
    space: Annotated[t.JsonObject | None, Meta(description="Model and width of the vectors it compares.")] = None


class ExplainOrder(t.Result, kw_only=True, frozen=True):
    """How rows would be ordered."""

    path: Annotated[
        Literal["relevance", "field", "relevance-then-field", "insertion"], Meta(description="What orders the rows.")
    ]
    field: Annotated[str | None, Meta(description="The field, when one orders them.")] = None
    direction: Annotated[t.Order | None, Meta(description="Its direction.")] = None


class ExplainResult(t.Result, kw_only=True, frozen=True):
    """How find would answer these parameters."""

    legs: Annotated[list[ExplainLeg], Meta(description="Ways of searching, and whether each is served.")]
    clauses: Annotated[list[ExplainClause], Meta(description="Each test of the filter.")]
    order: Annotated[ExplainOrder, Meta(description="How rows are ordered.")]
    candidates: Annotated[int, Meta(description="Rows for which the whole filter holds.")]
    generation: t.GenerationNow
    warnings: Annotated[list[str], Meta(description="What would make the query slow or its answer partial.")]


class CountsParams(t.Params, kw_only=True, frozen=True):
    """Parameters of counts."""

    by: Annotated[Literal["type", "subtype", "service"] | None, Meta(description="Count by this field only.")] = None
    type: Annotated[t.Noun | None, Meta(description="Only entities of this type.")] = None
    field: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)] | None,
        Meta(description="Also count by this tracked field."),
    ] = None
    as_of: t.AsOfChoice = None


class CountsResult(t.Result, kw_only=True, frozen=True):
    """How many records there are, without looking at one."""

    entities: Annotated[int, Meta(description="Public entities, files included.")]
    relations: Annotated[int, Meta(description="Public relations.")]
    by_type: Annotated[dict[str, int], Meta(description="Entities of each noun type.")]
    by_relation_type: Annotated[dict[str, int], Meta(description="Relations of each verb type.")]
    by_subtype: Annotated[dict[str, dict[str, int]], Meta(description="Entities of each subtype, by type.")]
    by_relation_subtype: Annotated[dict[str, dict[str, int]], Meta(description="Relations of each subtype, by type.")]
    generation: t.GenerationNow
    by_service: Annotated[
        dict[str, int] | None, Meta(description="Entities of each service label, when asked for.")
    ] = None
    by_field: Annotated[
        dict[str, Any] | None,
        Meta(
            description="Entities of each value of the tracked field, by type first if it is tracked so. A value that is "
            "no text stands there as its JSON."
        ),
    ] = None


_FILTER_REFUSALS = (
    "UnknownNounTypeError",
    "UnknownOperatorError",
    "FilterTypeError",
    "FieldNotQueryableError",
    "FieldNotIndexedError",
    "QueryLimitError",
)
_MEANING_REFUSALS = ("VectorDimensionError", "EmbeddingModelUnavailableError", "SemanticLegUnavailableError")
_TIME_REFUSALS = ("GenerationNotRetainedError", "GenerationInFutureError")
_FIND_LATER = later(
    STEP_3,
    "rerank",
)

DOORS = (
    Door(
        name="find",
        title="Find entities",
        summary="Find entities by words and meaning (`query`), by vector, by type and by fields (`where`), best first.",
        effect=Effect.READ,
        params=FindParams,
        result=FindResult,
        refusals=(
            *_FILTER_REFUSALS,
            *_MEANING_REFUSALS,
            *_TIME_REFUSALS,
            "UnknownVerbTypeError",
            "EntityNotFoundError",
            "CursorInvalidError",
            "OrderByBudgetError",
            "RerankerUnavailableError",
            "AggregateNotFoundError",
            "AggregateDefinitionError",
            "RecordCorruptError",
            "AnswerTooLargeError",
        ),
        later=_FIND_LATER,
    ),
    Door(
        name="similar",
        title="Find similar entities",
        summary="Find the entities nearest in meaning to an entity, a vector or a text.",
        effect=Effect.READ,
        params=SimilarParams,
        result=RowsResult,
        refusals=(
            *_FILTER_REFUSALS,
            *_MEANING_REFUSALS,
            "EntityNotFoundError",
            "RecordCorruptError",
            "AnswerTooLargeError",
            *_TIME_REFUSALS,
        ),
    ),
    Door(
        name="page",
        title="Read all records in pages",
        summary="Read every entity (in the order of insertion) or relation (by edge id) of one generation, page by page.",
        effect=Effect.READ,
        params=PageParams,
        result=PageResult,
        refusals=(
            "CursorInvalidError",
            "UnknownNounTypeError",
            "UnknownVerbTypeError",
            "QueryLimitError",
            "RecordCorruptError",
            "AnswerTooLargeError",
            *_TIME_REFUSALS,
        ),
    ),
    Door(
        name="explain",
        title="Explain a find",
        summary="Show how find would answer: which indexes serve each clause, and what it would cost.",
        effect=Effect.READ,
        params=FindParams,
        result=ExplainResult,
        refusals=(
            *_FILTER_REFUSALS,
            *_MEANING_REFUSALS,
            *_TIME_REFUSALS,
            "UnknownVerbTypeError",
            "EntityNotFoundError",
            "CursorInvalidError",
            "AggregateNotFoundError",
            "AggregateDefinitionError",
        ),
        later=_FIND_LATER,
    ),
    Door(
        name="counts",
        title="Count records",
        summary="Count entities and relations by type and subtype, from running totals.",
        effect=Effect.READ,
        method="GET",
        params=CountsParams,
        result=CountsResult,
        refusals=("UnknownNounTypeError", "QueryLimitError", *_TIME_REFUSALS),
    ),
)
