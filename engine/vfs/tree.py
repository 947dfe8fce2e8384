"""The file tree over the store's rows: looking a path up, making directories, writing a file.

A directory is a `collection` of subtype `vfs-directory` (the root: `vfs-root`), internal; a file is a `document`,
`media` or `file` of subtype `vfs-file`, public. A `contains` edge of subtype `vfs-contains`, internal, leads from a
directory to each of its children. The bytes of a file are a blob under their sha256; its searchable text is the row's
`data`. The path index answers look-ups: no read walks directories (A-VFS-08).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.doors.registry import CallContext, Document
from engine.records import KEEP, Entity, Keep
from engine.rows.contents import content_of, embedding_state
from engine.rows.documents import ENTITY_KEYS, RELATION_KEYS, ordered, same, text_of_data
from engine.rows.entities import stored_state
from engine.rows.guards import CONTAINS_SUBTYPE, DIRECTORY_SUBTYPE, FILE_SUBTYPE, ROOT_SUBTYPE, VFS_METADATA_KEYS
from engine.sqlite.rows import corrupt
from engine.vfs.errors import Code, shown, vfs_error
from engine.vfs.media import is_text_type, noun_type_of, text_of
from engine.vfs.paths import ROOT, ancestors_of, parent_of, spelled_name, spelled_parent

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View

INDEXED_BYTES_MAX = 256 * 1024
"""How much of a text file is searchable in one row: a book's chapter, some three hundred passages."""

HEAD_BYTES_MAX = INDEXED_BYTES_MAX + 4
"""What has to be seen of a file to index it: the indexed bytes, and the rest of a code point that they end in."""


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of a file: `data` itself, or None when the blob of `sha256` is durable already (a streamed upload).

    `head` is the beginning, HEAD_BYTES_MAX of it at least when there are so many: what its text and type are told from.
    """

    sha256: str
    size: int
    head: bytes
    data: bytes | None

    @classmethod
    def of(cls, data: bytes) -> Payload:
        """Bytes in memory."""
        return cls(hashlib.sha256(data).hexdigest(), len(data), data, data)


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One file to be written. `path` is clean; `spelled` is it as the caller wrote it.

    `metadata` is the caller's, merged into what the row has; `visibility` and `service` None keep or default.
    """

    path: str
    spelled: str
    content: Payload
    media_type: str
    metadata: Mapping[str, Any]


def node_at(view: View, path: str) -> Entity | None:
    """The row at a clean path, or None. One look-up in the path index and one row read."""
    iid = view.path(path)
    if iid is None:
        return None
    entity = view.entities_at([iid]).get(iid)
    if entity is None:
        raise corrupt("path", path, {"iid": iid, "missing": "the entity that it names"})
    return entity


def required_node(view: View, path: str) -> Entity:
    """The row at a clean path; `VfsError` ENOENT, or ENOTDIR when a file stands where a directory would have to."""
    node = node_at(view, path)
    if node is not None:
        return node
    for ancestor in reversed(ancestors_of(path)):
        above = node_at(view, ancestor)
        if above is not None and is_file(above):
            raise not_a_directory(path, ancestor)
    raise vfs_error(
        Code.ENOENT, path, f"There is nothing at {shown(path)}.", cure="List what is there with `vfs.readdir`."
    )


def required_file(view: View, path: str) -> Entity:
    """The file at a clean path; `VfsError` ENOENT, ENOTDIR or EISDIR."""
    if path == ROOT:
        raise _is_a_directory(path)
    node = required_node(view, path)
    if not is_file(node):
        raise _is_a_directory(path)
    return node


def required_directory(view: View, path: str) -> list[Entity]:
    """The directory at a clean path, as a list that is empty for the root of a brain without files.

    `VfsError` ENOENT, or ENOTDIR when a file is there or above.
    """
    if path == ROOT and node_at(view, path) is None:
        return []
    node = required_node(view, path)
    if is_file(node):
        raise vfs_error(
            Code.ENOTDIR,
            path,
            f"{shown(path)} is a file.",
            cure="Read it with `vfs.readFile`, or look at `vfs.stat`.",
        )
    return [node]


def is_file(node: Entity) -> bool:
    """True for a file, False for a directory or the root."""
    return bool(node.doc.get("subtype") == FILE_SUBTYPE)


def not_a_directory(path: str, ancestor: str) -> Exception:
    """`VfsError` ENOTDIR: `ancestor`, which would have to be a directory of `path`, is a file."""
    return vfs_error(
        Code.ENOTDIR, path, f"{shown(ancestor)} is a file, not a directory.", cure="Use another path.", at=ancestor
    )


def _is_a_directory(path: str) -> Exception:
    return vfs_error(
        Code.EISDIR, path, f"{shown(path)} is a directory.", cure="Name a file below it; list it with `vfs.readdir`."
    )


def searchable_text(content: bytes, media_type: str, size: int | None = None) -> str | None:
    """The text by which a file is found: at most 256 KiB of a text file, cut between code points; else None.

    `content` may be the head of a file of `size` bytes.
    """
    if not is_text_type(media_type):
        return None
    head, size = content[:HEAD_BYTES_MAX], len(content) if size is None else size
    text = text_of(head if size <= len(head) else _whole_points(head))
    if text is None:
        return None
    if size > INDEXED_BYTES_MAX:
        text = _whole_points(text.encode()[:INDEXED_BYTES_MAX]).decode()
    return text.removeprefix("\ufeff")


def _whole_points(head: bytes) -> bytes:
    """`head` without a code point that the cut went through: at most three bytes are taken away."""
    for back in range(1, min(4, len(head)) + 1):
        lead = head[-back]
        if lead < 0x80:
            return head
        if lead >= 0xC0:
            length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            return head if back >= length else head[:-back]
    return head


def ensure_directory(txn: Transaction, path: str, call: CallContext, spelled: str) -> Entity:
    """The directory at a clean path, made with what is missing above it; ENOTDIR when a file is in the way.

    `spelled` is the path as the caller wrote it: new directories are shown under the names in it.
    """
    found = node_at(txn, path)
    if found is not None:
        if is_file(found):
            raise not_a_directory(path, path)
        return found
    parent = None if path == ROOT else ensure_directory(txn, parent_of(path), call, spelled_parent(spelled))
    doc = _row(
        txn,
        call.new_id(),
        type="collection",
        subtype=ROOT_SUBTYPE if path == ROOT else DIRECTORY_SUBTYPE,
        visibility="internal",
        metadata={"path": path, "name": spelled_name(spelled), "vfsType": "directory", "isVFSEntity": True},
    )
    return placed(txn, txn.add_entity(doc, None), parent, path, call)


def write_file(txn: Transaction, file: FileWrite, call: CallContext) -> Document:
    """Writes one file whole, making its parents: `{path, entityId, sha256, size, embedding, created, changed?}`.

    Bytes, media type and metadata that are already so change nothing. EISDIR when a directory is there.
    """
    existing = node_at(txn, file.path)
    if file.path == ROOT or (existing is not None and not is_file(existing)):
        raise _is_a_directory(file.path)
    text = searchable_text(file.content.head, file.media_type, file.content.size)
    own = _file_metadata(file, text, txn.now_ms)
    receipt = {"path": file.path, "entityId": "", "sha256": file.content.sha256, "size": file.content.size}
    if existing is None:
        parent = ensure_directory(txn, parent_of(file.path), call, spelled_parent(file.spelled))
        _keep_bytes(txn, file.content)
        content = content_of(txn, call, text_of_data(text), None)
        doc = _row(
            txn,
            call.new_id(),
            type=noun_type_of(file.media_type),
            subtype=FILE_SUBTYPE,
            data=text or None,
            metadata={**file.metadata, **own},
            visibility="public",
        )
        entity = placed(txn, txn.add_entity(doc, content), parent, file.path, call)
        return receipt | {"entityId": entity.id, "embedding": embedding_state(content, call)}
    return receipt | {"entityId": existing.id} | _rewrite(txn, existing, file, own, text, call)


def _rewrite(
    txn: Transaction, existing: Entity, file: FileWrite, own: dict[str, Any], text: str | None, call: CallContext
) -> Document:
    """Gives an existing file its new bytes and metadata; the name stays as it was first written."""
    before = existing.doc["metadata"]
    same_bytes = before["sha256"] == own["sha256"]
    own = own | {"name": before["name"]} | ({"modified": before["modified"]} if same_bytes else {})
    stale = VFS_METADATA_KEYS - own.keys()
    metadata = {key: value for key, value in {**before, **file.metadata, **own}.items() if key not in stale}
    wanted = {**existing.doc, "type": noun_type_of(file.media_type), "data": text or None, "metadata": metadata}
    doc = ordered(wanted, ENTITY_KEYS)
    same_text = same(doc.get("data"), existing.doc.get("data"))
    content = KEEP if same_text else content_of(txn, call, text_of_data(text), None)
    state = stored_state(txn, existing, call) if isinstance(content, Keep) else embedding_state(content, call)
    if same_text and same(doc, existing.doc):
        return {"embedding": state, "changed": False}
    if not same_bytes:
        _keep_bytes(txn, file.content)
    doc |= {"updatedAt": txn.now_ms, "_rev": int(existing.doc.get("_rev", 1)) + 1}
    txn.replace_entity(existing, ordered(doc, ENTITY_KEYS), content)
    return {"embedding": state}


def _keep_bytes(txn: Transaction, content: Payload) -> None:
    if content.data is None:
        txn.adopt_blob(content.sha256, content.size)
    else:
        txn.put_blob(content.data)


def _file_metadata(file: FileWrite, text: str | None, now_ms: int) -> dict[str, Any]:
    """The metadata keys that are the file's own."""
    own: dict[str, Any] = {
        "path": file.path,
        "name": spelled_name(file.spelled),
        "vfsType": "file",
        "size": file.content.size,
        "mimeType": file.media_type,
        "sha256": file.content.sha256,
        "modified": now_ms,
        "isVFSEntity": True,
    }
    return own if text is None else own | {"indexedBytes": len(text.encode())}


def _row(txn: Transaction, entity_id: str, **fields: object) -> Document:
    """A new row of the tree, `fields` being those of an entity."""
    stamps = {"createdAt": txn.now_ms, "updatedAt": txn.now_ms, "_rev": 1}
    return ordered({"id": entity_id, **fields, **stamps}, ENTITY_KEYS)


def placed(txn: Transaction, entity: Entity, parent: Entity | None, path: str, call: CallContext) -> Entity:
    """Puts a new row at its path, below its parent."""
    txn.set_path(path, entity.iid)
    if parent is not None:
        link(txn, parent, entity, call)
    return entity


def link(txn: Transaction, parent: Entity, entity: Entity, call: CallContext) -> None:
    """The edge from a directory to its child."""
    edge = ordered(
        {
            "id": call.new_id(),
            "from": parent.id,
            "to": entity.id,
            "type": "contains",
            "subtype": CONTAINS_SUBTYPE,
            "metadata": {},
            "weight": 1.0,
            "visibility": "internal",
            "createdAt": txn.now_ms,
            "updatedAt": txn.now_ms,
            "_rev": 1,
        },
        RELATION_KEYS,
    )
    txn.add_relation(edge, parent.iid, entity.iid)
