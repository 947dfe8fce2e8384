"""Doors through which data comes in from other formats and leaves whole."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect
from contract.doors.releases import STEP_8, later


class ExportParams(t.Params, kw_only=True, frozen=True):
    """Parameters of export."""

    format: Annotated[
        Literal["portable", "json", "csv", "graphml"],
        Meta(description="What to write; `portable` can be imported again."),
    ] = "portable"
    where: Annotated[t.WhereFilter | None, Meta(description="Only entities that match this filter.")] = None
    type: Annotated[t.Noun | list[t.Noun] | None, Meta(description="Only these noun types.")] = None
    ids: Annotated[
        Annotated[list[t.Id], Meta(max_length=limits.BATCH_ITEMS_MAX)] | None, Meta(description="Only these entities.")
    ] = None
    depth: Annotated[
        Annotated[int, Meta(ge=0, le=limits.TRAVERSE_DEPTH_MAX)] | None,
        Meta(description="Also what is this many hops away."),
    ] = None
    include_vectors: t.IncludeVectors = False
    include_content: Annotated[bool, Meta(description="Whether files come with their bytes.")] = True
    include_vfs: Annotated[bool, Meta(description="Whether files are exported.")] = msgspec.field(
        name="includeVFS", default=True
    )
    include_system: Annotated[bool, Meta(description="Also system records; in-process only.")] = False
    as_of: t.AsOfChoice = None


class ExportResult(t.Result, kw_only=True, frozen=True):
    """The brain as one document; over HTTP it is streamed as it is written, a portable one as JSON Lines."""

    header: Annotated[t.JsonObject, Meta(description="Format, version, generation, counts.")]
    generation: t.GenerationNow
    entities: Annotated[
        list[t.JsonObject] | None, Meta(description="Entities, by id; formats `portable` and `json`.")
    ] = None
    relations: Annotated[
        list[t.JsonObject] | None, Meta(description="Relations between them, by id; formats `portable` and `json`.")
    ] = None
    blobs: Annotated[
        list[t.JsonObject] | None, Meta(description="File contents, by hash; formats `portable` and `json`.")
    ] = None
    content: Annotated[str | None, Meta(description="The text, for the formats `csv` and `graphml`.")] = None
    media_type: Annotated[str | None, Meta(description="What `content` is.")] = None


ImportFormat = Literal["portable", "json", "jsonl", "csv", "tsv", "md", "txt", "yaml", "graphml"]


class ImportParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of import: `content` here, or a file of the brain (`vfsPath`)."""

    format: Annotated[
        ImportFormat | None, Meta(description="What the content is; told from its name and text when absent.")
    ] = None
    content: Annotated[
        Annotated[str, Meta(max_length=limits.BODY_BYTES_MAX)] | None,
        Meta(description="The content, as text or base64."),
    ] = None
    encoding: Annotated[t.Encoding, Meta(description="How `content` is written.")] = "utf-8"
    vfs_path: Annotated[t.VfsPath | None, Meta(description="A file of the brain to import instead.")] = None
    file_name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.VFS_PATH_BYTES_MAX)] | None,
        Meta(description="The file's name or relative path: for titles, the format, and the place below /imports."),
    ] = None
    mode: Annotated[
        Literal["merge", "replace", "skip"],
        Meta(description="What to do with ids that exist: update them, replace everything, or leave them."),
    ] = "merge"
    confirm: Annotated[bool, Meta(description="Must be true for mode `replace`.")] = False
    remap_ids: Annotated[bool, Meta(description="Give every record a new id.")] = False
    dry_run: Annotated[bool, Meta(description="Only say what would be done.")] = False
    group_by: Annotated[
        Literal["type", "sheet", "flat", "custom"] | None,
        Meta(
            description="Put imported rows together: a `collection` for the source `contains` them, in one group more by "
            "`type`, by `sheet` (the source's name), or by the value of `groupField` (`custom`)."
        ),
    ] = None
    group_field: Annotated[
        Annotated[str, Meta(min_length=1, max_length=limits.METADATA_KEY_CHARS_MAX)] | None,
        Meta(description="The metadata field that `groupBy: custom` groups by."),
    ] = None
    create_entities: Annotated[bool, Meta(description="Whether rows become entities.")] = True
    create_relationships: Annotated[bool, Meta(description="Whether links become relations.")] = True
    preserve_source: Annotated[bool, Meta(description="Keep the source of rows as a file below /imports.")] = False
    enable_neural_extraction: Annotated[bool, Meta(description="Extract entities with a language model.")] = False
    enable_relationship_inference: Annotated[bool, Meta(description="Infer relations with a language model.")] = False
    enable_concept_extraction: Annotated[bool, Meta(description="Extract concepts with a language model.")] = False
    confidence_threshold: Annotated[t.Unit, Meta(description="Least confidence of extracted records.")] = 0.7
    enable_deduplication: Annotated[
        bool, Meta(description="Bring new rows into records of their type that mean the same.")
    ] = False
    deduplication_threshold: Annotated[
        t.Unit,
        Meta(
            description="Least likeness: the cosine of given vectors, else the share of words that texts have in common."
        ),
    ] = 0.85
    project_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        Meta(description="A project label kept with every record."),
    ] = None
    import_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        Meta(description="A name for this import; made when absent."),
    ] = None
    custom_metadata: Annotated[t.Metadata | None, Meta(description="Fields set on every record.")] = None
    default_type: Annotated[t.Noun | None, Meta(description="Noun type of rows that name none.")] = None
    default_subtype: Annotated[t.Subtype | None, Meta(description="Subtype of rows that name none.")] = None
    columns: Annotated[
        dict[str, str | list[str]] | None,
        Meta(description="For tables: field to column, such as {id, type, data}; `metadata` takes a list of columns."),
    ] = None
    stop_on_error: Annotated[bool, Meta(description="Write nothing when a line is faulty.")] = False

    def __post_init__(self) -> None:
        """Hold that the content comes from one place; a body of JSON Lines is a third one, beside the parameters."""
        if self.content is not None and self.vfs_path is not None:
            raise ValueError("Expected either `content` or `vfsPath`")
        if (self.group_by == "custom") != (self.group_field is not None):
            raise ValueError("Expected `groupField` with groupBy `custom`, and only there")


class ImportFailure(t.Result, kw_only=True, frozen=True):
    """A line that was not imported."""

    line: Annotated[int, Meta(description="Line or record number, from 1.")]
    column: Annotated[int | None, Meta(description="Column of a table, from 1.")] = None
    name: Annotated[str, Meta(description="The refusal's name.")]
    message: Annotated[str, Meta(description="What is wrong with it.")]


class ReadingNote(t.Result, kw_only=True, frozen=True):
    """Something that was not well formed and was read in a documented way."""

    name: Annotated[str, Meta(description="What it is.")]
    message: Annotated[str, Meta(description="What was done with it.")]
    line: Annotated[int | None, Meta(description="Line, from 1.")] = None


class ImportResult(t.Result, kw_only=True, frozen=True):
    """What an import did; the lines that failed are named, the others are stored."""

    import_id: Annotated[str, Meta(description="The import's name.")]
    format: Annotated[str, Meta(description="What the content was read as.")]
    added: Annotated[int, Meta(description="Entities added.")]
    updated: Annotated[int, Meta(description="Entities changed.")]
    skipped: Annotated[int, Meta(description="Entities left as they were.")]
    relations: Annotated[int, Meta(description="Relations made.")]
    blobs: Annotated[int, Meta(description="File contents stored.")]
    failed: Annotated[
        list[ImportFailure], Meta(description="Lines that were not imported; the first ones when they are many.")
    ]
    generation: t.GenerationNow
    failed_count: Annotated[int | None, Meta(description="How many lines failed in all.")] = None
    format_confidence: Annotated[t.Unit | None, Meta(description="How sure the format is.")] = None
    entities: Annotated[list[str] | None, Meta(description="Ids of the entities, the first thousand.")] = None
    vfs: Annotated[t.JsonObject | None, Meta(description="Folders and files that were made.")] = None
    stats: Annotated[t.JsonObject | None, Meta(description="Counts and times.")] = None
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None
    dry_run: Annotated[bool | None, Meta(description="True when this is what would be done, and nothing was.")] = None
    embedding: Annotated[
        t.Embedding | None, Meta(description="`pending` while vectors of the imported texts are being made.")
    ] = None
    warnings: Annotated[
        list[ReadingNote] | None, Meta(description="What was read in a documented way; the first ones.")
    ] = None


DOORS = (
    Door(
        name="export",
        title="Export a brain",
        summary="Write the brain, or what matches a filter, as one portable document.",
        effect=Effect.READ,
        params=ExportParams,
        result=ExportResult,
        refusals=(
            "UnknownNounTypeError",
            "UnknownOperatorError",
            "FilterTypeError",
            "FieldNotQueryableError",
            "GenerationNotRetainedError",
            "GenerationInFutureError",
            "AnswerTooLargeError",
            "RecordCorruptError",
            "BlobCorruptError",
        ),
    ),
    Door(
        name="import",
        title="Import content",
        summary="Store an export, JSON, JSON Lines, CSV, YAML, GraphML, Markdown or text; faulty lines are named, the rest is stored.",
        effect=Effect.DESTROY,
        params=ImportParams,
        result=ImportResult,
        refusals=(
            "ImportFormatError",
            "ConfirmationRequiredError",
            "VfsError",
            "UnknownNounTypeError",
            "ReservedFieldError",
            "BlobCorruptError",
            "BatchTooLargeError",
            "VectorDimensionError",
        ),
        later=later(STEP_8, "enableNeuralExtraction", "enableRelationshipInference", "enableConceptExtraction"),
    ),
)
