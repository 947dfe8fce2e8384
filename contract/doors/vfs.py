"""Doors of the brain's file tree."""

# ruff: noqa: E501 - tables read best with one field or door a line

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from contract import limits
from contract import types as t
from contract.door import Door, Effect

Kind = Literal["file", "directory", "symlink"]
_CONTENT = Meta(max_length=limits.BODY_BYTES_MAX, description="The content, as text or base64.")


class PathParams(t.Params, kw_only=True, frozen=True):
    """Parameters of the doors that take a path only."""

    path: Annotated[t.VfsPath, Meta(description="Absolute path, such as /notes/today.md.")]


class PathWriteParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of the writing doors that take a path."""

    path: Annotated[t.VfsPath, Meta(description="Absolute path, such as /notes/today.md.")]


class ReadFileParams(PathParams, kw_only=True, frozen=True):
    """Parameters of vfs.readFile."""

    encoding: Annotated[t.Encoding, Meta(description="`base64` for bytes that are no text.")] = "utf-8"
    max_size: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Refuse a larger file, bytes.")] = None
    range: Annotated[
        Annotated[str, Meta(max_length=64, pattern=r"^bytes=[0-9]*-[0-9]*$")] | None,
        Meta(description="Only these bytes, as in HTTP: `bytes=0-99`, `bytes=100-` or `bytes=-100`."),
    ] = None
    range_sha: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] | None,
        Meta(description="The whole file instead of `range` when its SHA-256 is another."),
    ] = None
    as_of: t.AsOfChoice = None


class ReadFileResult(t.Result, kw_only=True, frozen=True):
    """A file's content, checked against its hash."""

    path: Annotated[str, Meta(description="The file's path.")]
    content: Annotated[str, Meta(description="The content, in the encoding below.")]
    encoding: Annotated[t.Encoding, Meta(description="How the content is written.")]
    size: Annotated[int, Meta(description="Size in bytes.")]
    media_type: Annotated[str, Meta(description="Media type.")]
    sha256: Annotated[str, Meta(description="SHA-256 of the whole file's bytes, hex.")]
    generation: t.GenerationNow
    start: Annotated[int | None, Meta(description="First byte of the content, when a range was asked for.")] = None
    end: Annotated[int | None, Meta(description="The byte behind the content's last one, when a range was.")] = None


class ReaddirParams(t.Params, kw_only=True, frozen=True):
    """Parameters of vfs.readdir."""

    path: Annotated[t.VfsPath, Meta(description="Absolute path of the folder.")] = "/"
    recursive: Annotated[bool, Meta(description="Everything below, or only direct children.")] = True
    include_content: Annotated[bool, Meta(description="Whether small text files come with their text.")] = True
    as_of: t.AsOfChoice = None


class DirEntry(t.Result, kw_only=True, frozen=True):
    """One node of the tree."""

    path: Annotated[str, Meta(description="Absolute path.")]
    name: Annotated[str, Meta(description="Last segment of the path.")]
    kind: Annotated[Kind, Meta(description="What it is.")]
    size: Annotated[int | None, Meta(description="Size in bytes, of files.")] = None
    media_type: Annotated[str | None, Meta(description="Media type, of files.")] = None
    mtime: Annotated[int | None, Meta(description="Last change, ms since 1970 UTC.")] = None
    sha256: Annotated[str | None, Meta(description="SHA-256 of the bytes, hex, of files.")] = None
    content: Annotated[str | None, Meta(description="The text, of small text files.")] = None
    content_absent: Annotated[str | None, Meta(description="Why there is no content.")] = None


class ReaddirResult(t.Result, kw_only=True, frozen=True):
    """Nodes below a folder, by path."""

    entries: Annotated[list[DirEntry], Meta(description="The nodes, by path.")]
    generation: t.GenerationNow


class StatParams(PathParams, kw_only=True, frozen=True):
    """Parameters of vfs.stat."""

    as_of: t.AsOfChoice = None


class StatResult(t.Result, kw_only=True, frozen=True):
    """What is known of a path without reading it."""

    path: Annotated[str, Meta(description="Absolute path.")]
    kind: Annotated[Kind, Meta(description="What it is.")]
    size: Annotated[int, Meta(description="Size in bytes; 0 for folders.")]
    entity_id: Annotated[str, Meta(description="Id of the entity behind the path.")]
    ctime: Annotated[int, Meta(description="When it was made, ms since 1970 UTC.")]
    mtime: Annotated[int, Meta(description="Last change, ms since 1970 UTC.")]
    metadata: Annotated[t.JsonObject, Meta(description="The caller's own fields.")]
    media_type: Annotated[str | None, Meta(description="Media type, of files.")] = None
    sha256: Annotated[str | None, Meta(description="SHA-256 of the bytes, hex, of files.")] = None
    indexed_bytes: Annotated[int | None, Meta(description="Bytes of text by which the file is found.")] = None
    mode: Annotated[int | None, Meta(description="Permission bits, when they were set.")] = None


class WriteFileParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.writeFile."""

    content: Annotated[str, _CONTENT]
    encoding: Annotated[t.Encoding, Meta(description="`base64` for bytes that are no text.")] = "utf-8"
    media_type: Annotated[
        Annotated[str, Meta(min_length=3, max_length=255, pattern=r"^[^\s/;]+/[^\s/;]+(;.*)?$")] | None,
        Meta(description="Media type; told from name and bytes when absent."),
    ] = None
    metadata: Annotated[t.Metadata | None, Meta(description="Your own fields on the file.")] = None
    if_absent: Annotated[bool, Meta(description="Refuse when the file exists.")] = False
    if_sha: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] | None,
        Meta(description="Refuse unless the file has this SHA-256."),
    ] = None


class WriteFileResult(t.Result, kw_only=True, frozen=True):
    """Receipt of a written file."""

    path: Annotated[str, Meta(description="The file's path.")]
    entity_id: Annotated[str, Meta(description="Id of the entity behind the file.")]
    sha256: Annotated[str, Meta(description="SHA-256 of the bytes, hex.")]
    size: Annotated[int, Meta(description="Size in bytes.")]
    generation: t.GenerationNow
    media_type: Annotated[str | None, Meta(description="Media type that was stored.")] = None
    embedding: Annotated[
        t.Embedding | None, Meta(description="Whether the file's text is searchable by meaning yet.")
    ] = None
    changed: Annotated[bool | None, Meta(description="False when the file already was as asked.")] = None


class AppendFileParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.appendFile."""

    content: Annotated[str, _CONTENT]
    encoding: Annotated[t.Encoding, Meta(description="`base64` for bytes that are no text.")] = "utf-8"


class MkdirParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.mkdir."""

    recursive: Annotated[bool, Meta(description="Also make missing parents.")] = True


class PathResult(t.Result, kw_only=True, frozen=True):
    """The path that resulted."""

    path: Annotated[str, Meta(description="Absolute path.")]
    generation: t.GenerationNow
    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None


class UnlinkParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.unlink."""

    if_sha: Annotated[
        Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] | None,
        Meta(description="Refuse unless the file has this SHA-256."),
    ] = None


class RmdirParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.rmdir."""

    recursive: Annotated[bool, Meta(description="Also remove everything below.")] = False


class MoveParams(t.WriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.rename."""

    from_: Annotated[t.VfsPath, Meta(description="The path as it is.")] = msgspec.field(name="from")
    to: Annotated[t.VfsPath, Meta(description="The path as it shall be.")]


class CopyParams(MoveParams, kw_only=True, frozen=True):
    """Parameters of vfs.copy."""

    recursive: Annotated[bool, Meta(description="Also copy everything below a folder.")] = False


class ExistsParams(PathParams, kw_only=True, frozen=True):
    """Parameters of vfs.exists."""

    as_of: t.AsOfChoice = None


class ExistsResult(t.Result, kw_only=True, frozen=True):
    """Whether a path exists."""

    exists: Annotated[bool, Meta(description="Whether it does.")]
    generation: t.GenerationNow


class VfsSearchParams(t.Params, kw_only=True, frozen=True):
    """Parameters of vfs.search."""

    query: Annotated[
        str, Meta(min_length=1, max_length=limits.QUERY_CHARS_MAX, description="What to look for, in plain words.")
    ]
    path: Annotated[t.VfsPath, Meta(description="Only below this folder.")] = "/"
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.FIND_LIMIT_MAX,
            extra={"too_large": "QueryLimitError"},
            description="At most this many files.",
        ),
    ] = 10
    type: Annotated[t.Noun | None, Meta(description="Only this noun type.")] = None
    where: Annotated[t.WhereFilter | None, Meta(description="Only files that match this filter.")] = None
    min_score: Annotated[t.Unit | None, Meta(description="Leave out files with a lower score.")] = None
    as_of: t.AsOfChoice = None


class VfsFindSimilarParams(PathParams, kw_only=True, frozen=True):
    """Parameters of vfs.findSimilar."""

    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=limits.FIND_LIMIT_MAX,
            extra={"too_large": "QueryLimitError"},
            description="At most this many files.",
        ),
    ] = 10
    threshold: Annotated[t.Unit | None, Meta(description="Least similarity.")] = None
    as_of: t.AsOfChoice = None


class FileRow(t.Result, kw_only=True, frozen=True):
    """A file that matched."""

    path: Annotated[str, Meta(description="The file's path.")]
    score: Annotated[float, Meta(description="Its score.")]
    entity_id: Annotated[str, Meta(description="Id of the entity behind it.")]


class FileRowsResult(t.Result, kw_only=True, frozen=True):
    """Files, best first."""

    rows: Annotated[list[FileRow], Meta(description="The files.")]
    generation: t.GenerationNow


class TreeParams(t.Params, kw_only=True, frozen=True):
    """Parameters of vfs.tree."""

    path: Annotated[t.VfsPath, Meta(description="The folder at the top.")] = "/"
    max_depth: Annotated[int, Meta(ge=1, le=limits.VFS_TREE_DEPTH_MAX, description="At most this many levels.")] = 8
    as_of: t.AsOfChoice = None


class TreeNode(t.Result, kw_only=True, frozen=True):
    """A node and what is below it."""

    path: Annotated[str, Meta(description="Absolute path.")]
    name: Annotated[str, Meta(description="Last segment of the path.")]
    kind: Annotated[Kind, Meta(description="What it is.")]
    size: Annotated[int | None, Meta(description="Size in bytes, of files.")] = None
    children: Annotated[list[t.JsonObject] | None, Meta(description="Nodes of this same shape, of folders.")] = None
    truncated: Annotated[bool | None, Meta(description="True when `maxDepth` hid what is below.")] = None


class TreeResult(t.Result, kw_only=True, frozen=True):
    """The tree below a folder."""

    root: Annotated[TreeNode, Meta(description="The folder at the top.")]
    generation: t.GenerationNow


class GetMetadataParams(PathParams, kw_only=True, frozen=True):
    """Parameters of vfs.getMetadata."""

    as_of: t.AsOfChoice = None


class SetMetadataParams(PathWriteParams, kw_only=True, frozen=True):
    """Parameters of vfs.setMetadata."""

    metadata: Annotated[t.Metadata, Meta(description="Fields to set; merged shallowly.")]


class MetadataResult(t.Result, kw_only=True, frozen=True):
    """The fields of a file."""

    metadata: Annotated[t.JsonObject, Meta(description="The caller's own fields.")]
    generation: t.GenerationNow


class SetMetadataResult(MetadataResult, kw_only=True, frozen=True):
    """The fields of a file after they were set."""

    changed: Annotated[bool | None, Meta(description="False when nothing had to be written.")] = None


_PAST = ("GenerationNotRetainedError", "GenerationInFutureError")
_READ = ("VfsError", "BlobCorruptError", "RecordCorruptError", *_PAST)
_SEARCH = (
    "VfsError",
    "UnknownNounTypeError",
    "UnknownOperatorError",
    "FilterTypeError",
    "FieldNotQueryableError",
    "QueryLimitError",
    "EmbeddingModelUnavailableError",
    *_PAST,
    "RecordCorruptError",
)
_VFS = ("VfsError",)
_SUBTREE = ("VfsError", "BatchTooLargeError")

DOORS = (
    Door(namespace="vfs", name="readFile", title="Read a file", summary="Read one file of the brain, checked against its hash.", effect=Effect.READ, params=ReadFileParams, result=ReadFileResult, refusals=(*_READ, "AnswerTooLargeError", "RangeNotSatisfiableError")),
    Door(namespace="vfs", name="readdir", title="List a folder", summary="List everything below a folder at any depth, small text files with their text.", effect=Effect.READ, params=ReaddirParams, result=ReaddirResult, refusals=(*_READ, "AnswerTooLargeError")),
    Door(namespace="vfs", name="stat", title="Look at a path", summary="Read what is known of a file or folder without its content.", effect=Effect.READ, params=StatParams, result=StatResult, refusals=_READ),
    Door(namespace="vfs", name="writeFile", title="Write a file", summary="Write one file, making its folders; text becomes searchable.", effect=Effect.WRITE, params=WriteFileParams, result=WriteFileResult, refusals=("VfsError", "ReservedFieldError", "RevisionConflictError")),
    Door(namespace="vfs", name="appendFile", title="Append to a file", summary="Add content at the end of a file; makes it when it is missing.", effect=Effect.WRITE, params=AppendFileParams, result=WriteFileResult, refusals=("VfsError", "BlobCorruptError", "BodyTooLargeError")),
    Door(namespace="vfs", name="unlink", title="Remove a file", summary="Remove one file of the brain.", effect=Effect.DESTROY, params=UnlinkParams, result=t.Removed, refusals=("VfsError", "RevisionConflictError")),
    Door(namespace="vfs", name="mkdir", title="Make a folder", summary="Make a folder, with its parents.", effect=Effect.WRITE, params=MkdirParams, result=PathResult, refusals=_VFS),
    Door(namespace="vfs", name="rmdir", title="Remove a folder", summary="Remove an empty folder, or everything below it.", effect=Effect.DESTROY, params=RmdirParams, result=t.Removed, refusals=_SUBTREE),
    Door(namespace="vfs", name="rename", title="Move a file", summary="Move or rename a file or folder with everything below it; ids and content stay.", effect=Effect.WRITE, params=MoveParams, result=PathResult, refusals=_SUBTREE),
    Door(namespace="vfs", name="copy", title="Copy a file", summary="Copy a file or folder under new ids.", effect=Effect.WRITE, params=CopyParams, result=PathResult, refusals=_SUBTREE),
    Door(namespace="vfs", name="exists", title="Does a path exist", summary="Tell whether a path exists.", effect=Effect.READ, params=ExistsParams, result=ExistsResult, refusals=(*_VFS, *_PAST)),
    Door(namespace="vfs", name="search", title="Search files", summary="Find files below a folder by words and meaning.", effect=Effect.READ, params=VfsSearchParams, result=FileRowsResult, refusals=_SEARCH),
    Door(namespace="vfs", name="findSimilar", title="Find similar files", summary="Find the files nearest in meaning to one file.", effect=Effect.READ, params=VfsFindSimilarParams, result=FileRowsResult, refusals=("VfsError", "SemanticLegUnavailableError", "QueryLimitError", *_PAST, "RecordCorruptError")),
    Door(namespace="vfs", name="tree", title="Show the file tree", summary="Show folders and files below a folder as a tree.", effect=Effect.READ, params=TreeParams, result=TreeResult, refusals=(*_VFS, *_PAST, "RecordCorruptError", "AnswerTooLargeError")),
    Door(namespace="vfs", name="getMetadata", title="Read a file's fields", summary="Read your own fields of a file or folder.", effect=Effect.READ, params=GetMetadataParams, result=MetadataResult, refusals=(*_VFS, *_PAST, "RecordCorruptError")),
    Door(namespace="vfs", name="setMetadata", title="Set a file's fields", summary="Set your own fields of a file or folder.", effect=Effect.WRITE, params=SetMetadataParams, result=SetMetadataResult, refusals=("VfsError", "ReservedFieldError")),
)  # fmt: skip
