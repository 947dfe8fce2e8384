"""What changes the tree as a tree: directories made, subtrees moved, copied and removed. One job, one generation each.

A move changes paths and nothing else: ids, bytes, texts, vectors and relations stay. A copy is new rows over the same
blobs, with the vectors of the old ones. Both leave what is at their target alone: nothing is ever overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.limits import VFS_SUBTREE_NODES_MAX
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import KEEP, Entity
from engine.rows.documents import ENTITY_KEYS, ordered
from engine.rows.guards import CONTAINS_SUBTYPE
from engine.vfs.errors import Code, shown, vfs_error
from engine.vfs.paths import ROOT, is_within, parent_of, spelled_name, spelled_parent
from engine.vfs.tree import (
    ensure_directory,
    is_file,
    link,
    node_at,
    not_a_directory,
    placed,
    required_node,
)
from engine.vfs.walk import Node, below

if TYPE_CHECKING:
    from engine.transaction import Transaction
    from engine.view import View


def make_directory(txn: Transaction, path: str, spelled: str, call: CallContext, *, recursive: bool) -> bool:
    """Makes the directory at a clean path; False when it is there already and that is asked for (`recursive`).

    EEXIST when something is there, ENOENT without `recursive` when its parent is missing, ENOTDIR when a file is above.
    """
    existing = node_at(txn, path)
    if existing is not None or path == ROOT:
        if recursive and (existing is None or not is_file(existing)):
            return False
        raise _exists(path, existing)
    if not recursive:
        parent = parent_of(path)
        found = None if parent == ROOT else required_node(txn, parent)
        if found is not None and is_file(found):
            raise not_a_directory(path, parent)
    ensure_directory(txn, path, call, spelled)
    return True


def subtree(view: View, path: str, node: Entity, call: CallContext) -> list[Node]:
    """A node and everything below it, a directory before what it holds. BatchTooLargeError beyond the bound."""
    nodes: list[Node] = [(path, node)]
    if not is_file(node):
        for found in below(view, path, call):
            nodes.append(found)
            if len(nodes) > VFS_SUBTREE_NODES_MAX:
                raise Refusal(
                    "BatchTooLargeError",
                    f"{shown(path)} holds more than {VFS_SUBTREE_NODES_MAX} files and folders, the most of one commit.",
                    cure="Do it a folder further down at a time.",
                    details={"path": path, "nodesMax": VFS_SUBTREE_NODES_MAX},
                )
    return nodes


def remove_nodes(txn: Transaction, nodes: list[Node]) -> None:
    """Ends nodes with their paths and every relation that touches them, the deepest first."""
    for path, _ in reversed(nodes):
        txn.drop_path(path)
    txn.remove_entities([node for _, node in reversed(nodes)])


def move(txn: Transaction, source: str, target: str, spelled: str, call: CallContext) -> bool:
    """Gives a node and everything below it new paths, making the directories above the new one; False for no change.

    ENOENT and ENOTDIR for what is missing, EINVAL for the root and for a place inside the node itself, EEXIST when
    something is at the target. A target that is the source in another spelling changes the name that lists show.
    """
    node = _movable(txn, source, target, "moved")
    name = spelled_name(spelled)
    if source == target:
        if node.doc["metadata"]["name"] == name:
            return False
        _renamed(txn, node, source, name)
        return True
    _free(txn, target)
    nodes = subtree(txn, source, node, call)
    parent = ensure_directory(txn, parent_of(target), call, spelled_parent(spelled))
    for path, entity in nodes:
        txn.drop_path(path)
        there = target + path[len(source) :]
        txn.set_path(there, entity.iid)
        _renamed(txn, entity, there, name if path == source else None)
    if parent_of(source) != parent_of(target):
        _unlink(txn, node)
        link(txn, parent, node, call)
    return True


def copy(txn: Transaction, source: str, target: str, spelled: str, call: CallContext, *, recursive: bool) -> None:
    """Makes new rows of a node and, with `recursive`, of everything below it, over the same blobs.

    Refuses as `move`; EISDIR for a directory without `recursive`.
    """
    node = _movable(txn, source, target, "copied")
    if not is_file(node) and not recursive:
        raise vfs_error(
            Code.EISDIR,
            source,
            f"{shown(source)} is a directory.",
            cure="Copy it with everything below it: `recursive: true`.",
        )
    _free(txn, target)
    nodes = subtree(txn, source, node, call)
    made = {parent_of(target): ensure_directory(txn, parent_of(target), call, spelled_parent(spelled))}
    for path, entity in nodes:
        there = target + path[len(source) :]
        content = None if not entity.cid else txn.content(entity.cid)
        name = spelled_name(spelled) if path == source else entity.doc["metadata"]["name"]
        new = txn.add_entity(_copied(txn, entity, there, name, call), content)
        made[there] = placed(txn, new, made[parent_of(there)], there, call)


def _movable(txn: Transaction, source: str, target: str, verb: str) -> Entity:
    if source == ROOT:
        raise vfs_error(Code.EINVAL, source, f"The root cannot be {verb}.", cure="Name a folder below it.")
    node = required_node(txn, source)
    if is_within(target, source):
        raise vfs_error(
            Code.EINVAL,
            target,
            f"{shown(source)} cannot be {verb} to {shown(target)}, which lies inside it.",
            cure="Choose a place outside.",
            source=source,
        )
    return node


def _free(txn: Transaction, target: str) -> None:
    existing = node_at(txn, target)
    if existing is not None or target == ROOT:
        raise _exists(target, existing)


def _exists(path: str, existing: Entity | None) -> Refusal:
    kind = "a file" if existing is not None and is_file(existing) else "a directory"
    return vfs_error(
        Code.EEXIST, path, f"{shown(path)} is {kind} already.", cure="Use another path, or remove what is there first."
    )


def _renamed(txn: Transaction, entity: Entity, path: str, name: str | None) -> None:
    metadata = {**entity.doc["metadata"], "path": path}
    if name is not None:
        metadata["name"] = name
    revision = int(entity.doc.get("_rev", 1)) + 1
    doc = {**entity.doc, "metadata": metadata, "updatedAt": txn.now_ms, "_rev": revision}
    txn.replace_entity(entity, ordered(doc, ENTITY_KEYS), KEEP)


def _copied(txn: Transaction, entity: Entity, path: str, name: str, call: CallContext) -> Document:
    metadata = {**entity.doc["metadata"], "path": path, "name": name}
    if is_file(entity):
        metadata["modified"] = txn.now_ms
    stamps = {"id": call.new_id(), "createdAt": txn.now_ms, "updatedAt": txn.now_ms, "_rev": 1}
    return ordered({**entity.doc, "metadata": metadata, **stamps}, ENTITY_KEYS)


def _unlink(txn: Transaction, node: Entity) -> None:
    """Ends the edge from a node's directory to it."""
    for edge in txn.edges([node.iid], "in", ["contains"]):
        relation = txn.relation(edge.id)
        if relation is not None and relation.doc.get("subtype") == CONTAINS_SUBTYPE:
            txn.remove_relation(relation)
