"""Emptying a brain: every relation, path and entity ends, and history keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.limits import READ_CHUNK_ROWS_MAX
from engine.doors.registry import CallContext, Document
from engine.rows.guards import CONTAINS_SUBTYPE, FILE_SUBTYPE, is_vfs_row

if TYPE_CHECKING:
    from engine.transaction import Transaction


def clear_all(txn: Transaction, call: CallContext) -> Document:
    """Ends everything; how many entities, relations and files there were. The file tree counts as its files alone."""
    edges = entities = files = 0
    while relations := txn.scan_relations(limit=READ_CHUNK_ROWS_MAX):
        call.check()
        txn.remove_relations(relations)
        edges += sum(relation.doc.get("subtype") != CONTAINS_SUBTYPE for relation in relations)
    while paths := [*_root(txn), *txn.paths_under("/", limit=READ_CHUNK_ROWS_MAX)]:
        call.check()
        for path, _ in paths:
            txn.drop_path(path)
    while rows := txn.scan(limit=READ_CHUNK_ROWS_MAX):
        call.check()
        txn.remove_entities(rows)
        files += sum(entity.doc.get("subtype") == FILE_SUBTYPE for entity in rows)
        entities += sum(not is_vfs_row(entity.doc) for entity in rows)
    return {"entities": entities, "relations": edges, "files": files}


def _root(txn: Transaction) -> list[tuple[str, int]]:
    iid = txn.path("/")
    return [] if iid is None else [("/", iid)]
