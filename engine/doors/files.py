"""The doors of files themselves: vfs.writeFile vfs.appendFile vfs.readFile vfs.readdir vfs.stat."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import structs

from contract.doors.vfs import AppendFileParams, ReaddirParams, ReadFileParams, StatParams, WriteFileParams
from contract.limits import ANSWER_BYTES_MAX, VFS_APPEND_BYTES_MAX, VFS_INLINE_BYTES_MAX
from contract.refusals import Refusal
from engine.doors.points import view_for
from engine.doors.registry import CallContext, Document, Parts, reads, streams, writes
from engine.records import Entity
from engine.rows.documents import text_of_data
from engine.rows.guards import VFS_METADATA_KEYS
from engine.vfs.errors import Code, shown, vfs_error
from engine.vfs.media import MEDIA_TYPE, is_text_type, media_type_of
from engine.vfs.paths import ROOT, clean_path, name_of
from engine.vfs.ranges import chosen
from engine.vfs.tree import (
    FileWrite,
    Payload,
    is_file,
    node_at,
    required_directory,
    required_file,
    required_node,
    searchable_text,
    write_file,
)
from engine.vfs.walk import Node, below, children

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

# What an entry costs in an answer beside its path and text: keys, hash, numbers.
ENTRY_BYTES = 256
_NUL = b"\x00"


def _texts_of_write(params: WriteFileParams) -> Sequence[str]:
    """The text of the file, when it is a text file. A fault in the parameters is left for the door to refuse."""
    try:
        content = decoded_content(params.content, params.encoding)
        media_type = params.media_type or media_type_of(params.path, content)
        text = text_of_data(searchable_text(content, media_type))
    except Refusal:
        return []
    return [] if text is None else [text]


@writes("vfs.writeFile", texts=_texts_of_write)
def write(txn: Transaction, params: WriteFileParams, call: CallContext) -> Document:
    """Writes one file whole and makes its parents; bytes, type and metadata that are so already change nothing.

    `ifAbsent` on a file that exists is EEXIST; `ifSha` that differs is `RevisionConflictError` with both hashes.
    """
    return written(txn, params, Payload.of(decoded_content(params.content, params.encoding)), call)


def written(txn: Transaction, params: WriteFileParams, content: Payload, call: CallContext) -> Document:
    """Writes `content` as the file that the parameters describe, under their preconditions."""
    path = clean_path(params.path)
    existing = node_at(txn, path)
    if existing is not None and params.if_absent:
        raise vfs_error(
            Code.EEXIST,
            path,
            f"{shown(path)} exists.",
            cure="Leave `ifAbsent` out to overwrite it, or use another path.",
        )
    check_sha(existing, path, params.if_sha)
    media_type = _media_type(params.media_type, path) or media_type_of(name_of(path), content.head)
    metadata = params.metadata or {}
    refuse_owned_keys(metadata)
    receipt = write_file(txn, FileWrite(path, params.path, content, media_type, metadata), call)
    return {**receipt, "mediaType": media_type}


@writes("vfs.appendFile")
def append(txn: Transaction, params: AppendFileParams, call: CallContext) -> Document:
    """Adds bytes at the end of a file, or makes it. What is there is checked first: damage is never written on.

    The file is embedded anew in the background: what it says now is not known before the commit.
    BodyTooLargeError when it would grow beyond VFS_APPEND_BYTES_MAX.
    """
    path = clean_path(params.path)
    added = decoded_content(params.content, params.encoding)
    existing = None if node_at(txn, path) is None and path != ROOT else required_file(txn, path)
    if existing is None:
        media_type = media_type_of(name_of(path), added)
        receipt = write_file(txn, FileWrite(path, params.path, Payload.of(added), media_type, {}), call)
        return {**receipt, "mediaType": media_type}
    before = existing.doc["metadata"]
    size = before["size"] + len(added)
    if size > VFS_APPEND_BYTES_MAX:
        raise Refusal(
            "BodyTooLargeError",
            f"{shown(path)} would have {size} bytes; appending goes up to {VFS_APPEND_BYTES_MAX}.",
            cure="Begin another file, or write the whole anew with PUT /v1/brains/{brain}/files/<path>.",
            details={"path": path, "size": size, "bytesMax": VFS_APPEND_BYTES_MAX},
        )
    payload = Payload.of(txn.blob(before["sha256"]) + added)
    receipt = write_file(txn, FileWrite(path, params.path, payload, before["mimeType"], {}), call)
    return {**receipt, "mediaType": before["mimeType"]}


def described(params: WriteFileParams, content: Payload) -> WriteFileParams:
    """The parameters of a file whose bytes came by another way, with the text that it will be found by as content: what
    the door then asks to have embedded.
    """
    media_type = params.media_type or media_type_of(name_of(params.path), content.head)
    text = searchable_text(content.head, media_type, content.size)
    return structs.replace(params, content=text or "", encoding="utf-8", media_type=media_type)


def refuse_owned_keys(metadata: Document) -> None:
    """Refuses metadata keys that stand for the file itself, `ReservedFieldError`."""
    owned = sorted(VFS_METADATA_KEYS & metadata.keys())
    if owned:
        raise Refusal(
            "ReservedFieldError",
            f'metadata: the key "{owned[0]}" of a file belongs to the engine.',
            cure="Use another key; path, name, size and their kind follow the file.",
            details={"path": f"metadata.{owned[0]}", "reserved": sorted(VFS_METADATA_KEYS)},
        )


def decoded_content(content: str, encoding: str) -> bytes:
    """The bytes of a `content` parameter; base64 must be complete and canonical (RFC 4648, padding included)."""
    if encoding == "utf-8":
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refusal(
            "ValidationError",
            f"content: it is not base64: {error}.",
            cure="Send RFC 4648 base64 with padding and without line breaks, or `encoding: utf-8`.",
            details={"path": "content"},
        ) from error


def check_sha(existing: Entity | None, path: str, expected: str | None) -> None:
    actual = existing.doc["metadata"].get("sha256") if existing is not None else None
    if expected is not None and expected != actual:
        raise Refusal(
            "RevisionConflictError",
            f"{shown(path)} does not have the sha256 {expected}: "
            + ("there is no file." if actual is None else f"it has {actual}."),
            cure="Read the file again and repeat with its `sha256`.",
            details={"path": path, "expected": expected, "actual": actual},
        )


def _media_type(given: str | None, path: str) -> str | None:
    if given is None or MEDIA_TYPE.fullmatch(given.partition(";")[0].strip().lower()):
        return given if given is None else given.strip().lower()
    raise vfs_error(
        Code.EINVAL,
        path,
        f"mediaType: {given[:128]!a} is no media type.",
        cure='Give one such as "text/markdown", or leave it out.',
    )


@reads("vfs.readFile")
def read(view: View, params: ReadFileParams, call: CallContext) -> Document:
    """The bytes of a file, checked against their hash. Bytes that are not UTF-8 text are refused with their offset."""
    asked = _asked(view, params)
    room = ANSWER_BYTES_MAX if params.encoding == "utf-8" else ANSWER_BYTES_MAX * 3 // 4
    bound = room if params.max_size is None else min(room, params.max_size)
    start, end = (0, asked.size) if asked.part is None else asked.part
    if end - start > bound:
        raise _file_too_large(asked.path, end - start, bound)
    source = view.open_blob(asked.sha256)
    try:
        content = b"".join(source.pieces(start, end, call.check))
    finally:
        source.close()
    text = _text(content, asked.path) if params.encoding == "utf-8" else base64.b64encode(content).decode()
    return {"path": asked.path, "content": text, "encoding": params.encoding, **asked.document()}


@streams("vfs.readFile")
def read_in_pieces(store: Store, params: ReadFileParams, call: CallContext) -> Parts:
    """The bytes of a file of any size as they are. One of a MiB at most is checked before its first byte, a larger one
    while it goes: its last piece is given only when the hash is right."""
    with view_for(store, params, call.now_ms) as view:
        asked = _asked(view, params)
        start, end = (0, asked.size) if asked.part is None else asked.part
        if params.max_size is not None and end - start > params.max_size:
            raise _file_too_large(asked.path, end - start, params.max_size)
        source = view.open_blob(asked.sha256)

    def pieces() -> Iterator[bytes]:
        try:
            yield from source.pieces(start, end, call.check)
        finally:
            source.close()

    given = pieces()
    first = next(given, b"")  # so that what is damaged at its beginning is refused, and not begun
    return Parts({"path": asked.path, **asked.document()}, chain([first], given), asked.generation)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The file that a read is about, and the part of it that is asked for (None: all)."""

    path: str
    size: int
    media_type: str
    sha256: str
    generation: int
    part: tuple[int, int] | None

    def document(self) -> Document:
        """What every way of reading says of the file."""
        said: Document = {
            "size": self.size,
            "mediaType": self.media_type,
            "sha256": self.sha256,
            "generation": self.generation,
        }
        return said if self.part is None else {**said, "start": self.part[0], "end": self.part[1]}


def _asked(view: View, params: ReadFileParams) -> _Asked:
    path = clean_path(params.path)
    metadata = required_file(view, path).doc["metadata"]
    size, sha256 = int(metadata["size"]), str(metadata["sha256"])
    part = chosen(params.range, params.range_sha, size, sha256)
    return _Asked(path, size, metadata["mimeType"], sha256, view.generation, part)


def _file_too_large(path: str, size: int, bound: int) -> Refusal:
    return Refusal(
        "AnswerTooLargeError",
        f"Of {shown(path)} {size} bytes are asked for; {bound} are allowed here.",
        cure="Read it over HTTP with GET /v1/brains/{brain}/files/<path>, or a `range` of it; or raise `maxSize`.",
        details={"size": size, "bytesMax": bound, "path": path},
    )


def _text(content: bytes, path: str) -> str:
    try:
        text = content.decode("utf-8")
        offset = content.find(_NUL)
    except UnicodeDecodeError as error:
        text = ""
        nul = content.find(_NUL, 0, error.start)
        offset = error.start if nul < 0 else nul
    if offset >= 0:
        raise vfs_error(
            Code.EINVAL,
            path,
            f"{shown(path)} is not UTF-8 text: byte {offset} (0x{content[offset]:02x}) is none of a text.",
            cure="Read it with `encoding: base64`.",
            offset=offset,
        )
    return text


@reads("vfs.stat")
def stat(view: View, params: StatParams, call: CallContext) -> Document:
    """What is known of a path; opens no blob. `metadata` is the caller's own."""
    path = clean_path(params.path)
    node = required_node(view, path)
    metadata = node.doc["metadata"]
    own = {key: value for key, value in metadata.items() if key not in VFS_METADATA_KEYS}
    answer: Document = {
        "path": path,
        "kind": "file" if is_file(node) else "directory",
        "size": metadata.get("size", 0),
        "entityId": node.id,
        "ctime": node.doc["createdAt"],
        "mtime": metadata.get("modified", node.doc["updatedAt"]),
        "metadata": own,
    }
    if is_file(node):
        answer |= {"mediaType": metadata["mimeType"], "sha256": metadata["sha256"]}
        if "indexedBytes" in metadata:
            answer["indexedBytes"] = metadata["indexedBytes"]
    return answer


@reads("vfs.readdir")
def readdir(view: View, params: ReaddirParams, call: CallContext) -> Document:
    """Everything below a directory by path, at any depth unless `recursive: false` (A-VFS-04).

    Text files up to 1 MiB come with their text (A-VFS-05), checked against its hash. An answer that would not fit is
    refused whole. The root of a brain without files is an empty directory.
    """
    path = clean_path(params.path)
    top = required_directory(view, path)
    entries: list[Document] = []
    total = 0
    nodes: Iterable[Node] = below(view, path, call) if params.recursive else children(view, top, call)
    for entry_path, node in nodes:
        entry = _entry(view, entry_path, node, params.include_content)
        total += ENTRY_BYTES + len(entry_path.encode()) + len(entry.get("content", "").encode())
        if total > ANSWER_BYTES_MAX:
            raise _too_large(path, total)
        entries.append(entry)
    return {"entries": entries, "generation": view.generation}


def _too_large(path: str, total: int) -> Refusal:
    return Refusal(
        "AnswerTooLargeError",
        f"Listing {shown(path)} takes more than {ANSWER_BYTES_MAX} bytes ({total} were reached).",
        cure="List without texts (`includeContent: false`), one level (`recursive: false`), or a folder further down.",
        details={"path": path, "bytesMax": ANSWER_BYTES_MAX},
    )


def _entry(view: View, path: str, node: Entity, include_content: bool) -> Document:
    metadata = node.doc["metadata"]
    entry: Document = {"path": path, "name": metadata["name"], "kind": "file" if is_file(node) else "directory"}
    if not is_file(node):
        return entry | {"mtime": node.doc["updatedAt"]}
    entry |= {
        "size": metadata["size"],
        "mediaType": metadata["mimeType"],
        "mtime": metadata["modified"],
        "sha256": metadata["sha256"],
    }
    return entry | _content_or_reason(view, node, include_content)


def _content_or_reason(view: View, node: Entity, include_content: bool) -> Document:
    """The text of a file, or why it is not here."""
    metadata = node.doc["metadata"]
    if not include_content:
        return {"contentAbsent": "not asked for"}
    if not is_text_type(metadata["mimeType"]):
        return {"contentAbsent": f"not text: {metadata['mimeType']}"}
    if metadata["size"] > VFS_INLINE_BYTES_MAX:
        return {"contentAbsent": f"larger than {VFS_INLINE_BYTES_MAX} bytes"}
    content = view.blob(metadata["sha256"])
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return {"contentAbsent": f"not UTF-8 at byte {error.start}"}
    return {"contentAbsent": "holds a NUL character"} if _NUL in content else {"content": text}
