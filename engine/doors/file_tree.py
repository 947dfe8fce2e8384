"""The doors of the file tree: vfs.mkdir rmdir unlink rename copy exists tree getMetadata setMetadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contract.doors.vfs import (
    CopyParams,
    ExistsParams,
    GetMetadataParams,
    MkdirParams,
    MoveParams,
    RmdirParams,
    SetMetadataParams,
    TreeParams,
    UnlinkParams,
)
from contract.limits import ANSWER_BYTES_MAX
from contract.refusals import Refusal
from engine.doors.files import ENTRY_BYTES, check_sha, refuse_owned_keys
from engine.doors.registry import CallContext, Document, reads, writes
from engine.records import Entity
from engine.rows.documents import ENTITY_KEYS, ordered, same
from engine.rows.guards import VFS_METADATA_KEYS
from engine.vfs.changing import copy, make_directory, move, remove_nodes, subtree
from engine.vfs.errors import Code, shown, vfs_error
from engine.vfs.paths import ROOT, clean_path, name_of, parent_of
from engine.vfs.tree import ensure_directory, is_file, node_at, required_directory, required_file, required_node
from engine.vfs.walk import below, children

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View


@writes("vfs.mkdir")
def mkdir(txn: Transaction, params: MkdirParams, call: CallContext) -> Document:
    """Makes a directory, with its parents unless `recursive` is false; one that is there already is left alone then."""
    path = clean_path(params.path)
    made = make_directory(txn, path, params.path, call, recursive=params.recursive)
    return {"path": path} if made else {"path": path, "changed": False}


@writes("vfs.unlink", frees=True)
def unlink(txn: Transaction, params: UnlinkParams, call: CallContext) -> Document:
    """Removes a file with the relations that touch it; its bytes stay as long as history or another file needs them."""
    path = clean_path(params.path)
    node = required_file(txn, path)
    check_sha(node, path, params.if_sha)
    remove_nodes(txn, [(path, node)])
    return {"removed": True}


@writes("vfs.rmdir", frees=True)
def rmdir(txn: Transaction, params: RmdirParams, call: CallContext) -> Document:
    """Removes a directory, with everything below it when `recursive`; ENOTEMPTY otherwise. The root stays: EINVAL."""
    path = clean_path(params.path)
    if path == ROOT:
        raise vfs_error(
            Code.EINVAL, path, "The root cannot be removed.", cure="Remove the folders below it, or use `clear`."
        )
    [node] = required_directory(txn, path)
    if not params.recursive and next(below(txn, path, call), None) is not None:
        raise vfs_error(
            Code.ENOTEMPTY, path, f"{shown(path)} is not empty.", cure="Remove all of it with `recursive: true`."
        )
    remove_nodes(txn, subtree(txn, path, node, call))
    return {"removed": True}


@writes("vfs.rename")
def rename(txn: Transaction, params: MoveParams, call: CallContext) -> Document:
    """Moves a file or directory; ids, bytes, vectors and relations stay, and nothing is overwritten."""
    target = clean_path(params.to)
    moved = move(txn, clean_path(params.from_), target, params.to, call)
    return {"path": target} if moved else {"path": target, "changed": False}


@writes("vfs.copy")
def copy_node(txn: Transaction, params: CopyParams, call: CallContext) -> Document:
    """Copies a file, or a directory with everything below it, under new ids over the same bytes."""
    target = clean_path(params.to)
    copy(txn, clean_path(params.from_), target, params.to, call, recursive=params.recursive)
    return {"path": target}


@reads("vfs.exists")
def exists(view: View, params: ExistsParams, call: CallContext) -> Document:
    """Whether anything is at a path. The root always is; a path that cannot be is refused, not absent."""
    path = clean_path(params.path)
    return {"exists": path == ROOT or view.path(path) is not None, "generation": view.generation}


@reads("vfs.getMetadata")
def get_metadata(view: View, params: GetMetadataParams, call: CallContext) -> Document:
    """The caller's own fields of a file or directory."""
    path = clean_path(params.path)
    node = node_at(view, path) if path == ROOT else required_node(view, path)
    return {"metadata": {} if node is None else own_metadata(node), "generation": view.generation}


@writes("vfs.setMetadata")
def set_metadata(txn: Transaction, params: SetMetadataParams, call: CallContext) -> Document:
    """Merges fields into a file's or directory's own, one level deep; a null is stored as null.

    Keys that stand for the file itself are `ReservedFieldError`.
    """
    path = clean_path(params.path)
    refuse_owned_keys(params.metadata)
    node = ensure_directory(txn, path, call, path) if path == ROOT else required_node(txn, path)
    metadata = {**node.doc["metadata"], **params.metadata}
    own = {key: value for key, value in metadata.items() if key not in VFS_METADATA_KEYS}
    if same(metadata, node.doc["metadata"]):
        return {"metadata": own, "changed": False}
    revision = int(node.doc.get("_rev", 1)) + 1
    doc = {**node.doc, "metadata": metadata, "updatedAt": txn.now_ms, "_rev": revision}
    txn.replace_entity(node, ordered(doc, ENTITY_KEYS))
    return {"metadata": own}


def own_metadata(node: Entity) -> Document:
    """The metadata of a row that is the caller's."""
    return {key: value for key, value in node.doc["metadata"].items() if key not in VFS_METADATA_KEYS}


@reads("vfs.tree")
def tree(view: View, params: TreeParams, call: CallContext) -> Document:
    """A node and what is below it, level by level, each level by path; the cost is that of the nodes shown.

    A directory at `maxDepth` that holds something is marked `truncated`. AnswerTooLargeError for a tree that would not
    fit. A file is a tree of one node.
    """
    path = clean_path(params.path)
    top = node_at(view, path) if path == ROOT else required_node(view, path)
    root = _shown(path, top)
    shown_nodes: dict[str, Document] = {path: root}
    level = [] if top is None or is_file(top) else [top]
    size = ENTRY_BYTES
    for _ in range(params.max_depth):
        following: list[Entity] = []
        for child_path, child in children(view, level, call):
            node = shown_nodes[child_path] = _shown(child_path, child)
            shown_nodes[parent_of(child_path)]["children"].append(node)
            size += ENTRY_BYTES + 2 * len(child_path.encode())
            if size > ANSWER_BYTES_MAX:
                raise Refusal(
                    "AnswerTooLargeError",
                    f"The tree of {shown(path)} takes more than {ANSWER_BYTES_MAX} bytes.",
                    cure="Lower `maxDepth`, or look at a folder further down.",
                    details={"path": path, "bytesMax": ANSWER_BYTES_MAX},
                )
            if not is_file(child):
                following.append(child)
        level = following
    for directory in level:
        node = shown_nodes[directory.doc["metadata"]["path"]]
        if view.paths_under(directory.doc["metadata"]["path"], limit=1):
            node["truncated"] = True
            del node["children"]
    return {"root": root, "generation": view.generation}


def _shown(path: str, node: Entity | None) -> dict[str, Any]:
    if node is not None and is_file(node):
        metadata = node.doc["metadata"]
        return {"path": path, "name": metadata["name"], "kind": "file", "size": metadata["size"]}
    name = name_of(path) if node is None else node.doc["metadata"]["name"]
    return {"path": path, "name": name, "kind": "directory", "children": []}
