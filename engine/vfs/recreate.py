"""Rows of a file tree from a portable export: made again with their ids, paths and bytes, checked against each other.

A path that has a row already keeps it: a file is written over (or left, with `skip`), a directory is the one that is
there, and relations of the export that name its old id find it (`aliases`). What an export leaves out is made as the
file doors make it: missing directories above, missing containment edges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.records import Entity
from engine.rows.contents import content_of, embedding_state
from engine.rows.documents import ENTITY_KEYS, ordered, same, text_of_data
from engine.rows.entities import new_document
from engine.rows.guards import DIRECTORY_SUBTYPE, FILE_SUBTYPE, ROOT_SUBTYPE, VFS_METADATA_KEYS
from engine.rows.intake import Checked, Intake, Tally
from engine.vfs.errors import Code, shown, vfs_error
from engine.vfs.paths import ROOT, clean_path, parent_of
from engine.vfs.tree import FileWrite, Payload, ensure_directory, is_file, node_at, placed, write_file

if TYPE_CHECKING:
    from engine.transaction import Transaction

Bytes = Callable[[str], bytes | None]
"""The content of a hash as the import has it; None when it has none."""


def tree_path(fields: Document) -> str:
    """The path that a row of the tree says it has; empty when it says none. What the rows are put in order by."""
    metadata = fields.get("metadata")
    path = metadata.get("path") if isinstance(metadata, dict) else None
    return path if isinstance(path, str) else ""


@dataclass(slots=True)
class TreeMade:
    """What a chunk did that later ones must know: the paths of new rows, and the ids of rows that were found under
    another one, by the id that the import names them by."""

    created: list[str] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)


class TreeRows:
    """Writes tree rows, parents before children."""

    def __init__(self, intake: Intake, call: CallContext, content: Bytes) -> None:
        self.intake = intake
        self.call = call
        self.content = content
        self._made = TreeMade()

    def write(self, txn: Transaction, rows: list[Checked], tally: Tally) -> TreeMade:
        """Writes one chunk; refused rows become failures of the tally."""
        self._made = TreeMade()
        for one in rows:
            try:
                self._take(txn, one, tally)
            except Refusal as refusal:
                tally.fail(one.row, refusal)
        return self._made

    def join(self, txn: Transaction, paths: list[str]) -> None:
        """Gives new rows the containment edge from their directory that the export did not bring."""
        for path in paths:
            node = node_at(txn, path)
            if node is not None and path != ROOT:
                above = ensure_directory(txn, parent_of(path), self.call, parent_of(path))
                placed(txn, node, above, path, self.call)

    def _take(self, txn: Transaction, one: Checked, tally: Tally) -> None:
        path = _checked_path(one)
        existing = node_at(txn, path)
        if existing is None:
            self._create(txn, one, path, tally)
            return
        if is_file(existing) != (one.params.subtype == FILE_SUBTYPE):
            raise vfs_error(Code.EEXIST, path, f"{shown(path)} is there already, as something else.", cure="Move it.")
        if existing.id != one.id:
            self._made.aliases[str(one.row.fields.get("id"))] = existing.id
        if not is_file(existing) or self.intake.mode == "skip" or self._is_so(existing, one):
            tally.skipped += 1
        else:
            self._rewrite(txn, one, path, tally)
        tally.note(existing.id)

    def _is_so(self, existing: Entity, one: Checked) -> bool:
        metadata = one.params.metadata or {}
        return all(same(existing.doc["metadata"].get(key), value) for key, value in metadata.items())

    def _rewrite(self, txn: Transaction, one: Checked, path: str, tally: Tally) -> None:
        metadata = one.params.metadata or {}
        own = {key: value for key, value in metadata.items() if key not in VFS_METADATA_KEYS}
        data = self._bytes(txn, metadata)
        file = FileWrite(path, path, Payload.of(data), str(metadata.get("mimeType", "")), own)
        receipt = write_file(txn, file, self.call)
        changed = "changed" not in receipt
        tally.updated += changed
        tally.skipped += not changed
        tally.states.add(receipt["embedding"])

    def _create(self, txn: Transaction, one: Checked, path: str, tally: Tally) -> None:
        taken = txn.entity(one.id)
        if taken is not None:
            raise Refusal(
                "EntityExistsError",
                f'The id "{one.id}" of {shown(path)} is taken by another record.',
                cure="Import with `remapIds`, or move the file that has it.",
                details={"id": one.id},
            )
        if path != ROOT and node_at(txn, parent_of(path)) is None:
            ensure_directory(txn, parent_of(path), self.call, parent_of(path))
        if one.params.subtype == FILE_SUBTYPE:
            self._keep(txn, self._bytes(txn, one.params.metadata or {}), tally)
        content = content_of(txn, self.call, text_of_data(one.params.data), one.params.vector)
        doc = new_document(txn, one.id, one.params, known=True) | one.kept
        if "data" not in one.fields:
            del doc["data"]
        entity = txn.add_entity(ordered(doc, ENTITY_KEYS), content)
        txn.set_path(path, entity.iid)
        self._made.created.append(path)
        tally.added += 1
        tally.note(one.id)
        tally.states.add(embedding_state(content, self.call))

    def _keep(self, txn: Transaction, data: bytes, tally: Tally) -> None:
        if not self.intake.dry and txn.blob_size(hashlib.sha256(data).hexdigest()) is None:
            txn.put_blob(data)
            tally.blobs += 1

    def _bytes(self, txn: Transaction, metadata: Document) -> bytes:
        """The file's bytes, from the import or from the brain; BlobCorruptError when they are not what the row says."""
        sha256, size = metadata.get("sha256"), metadata.get("size")
        if not isinstance(sha256, str) or len(sha256) != 64 or set(sha256) - set("0123456789abcdef"):
            raise Refusal("ValidationError", "metadata.sha256: it is no hash of a content.")
        data = self.content(sha256)
        if data is None:
            data = txn.blob(sha256) if txn.blob_size(sha256) is not None else None
        if data is None:
            raise Refusal(
                "ImportFormatError",
                f"The content {sha256} of the file is neither in the import nor in the brain.",
                cure="Export with `includeContent`, and import the whole export.",
                details={"sha256": sha256},
            )
        if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            raise Refusal(
                "BlobCorruptError",
                f"The content {sha256} in the import does not have its hash or its size.",
                details={"sha256": sha256},
            )
        return data


def _checked_path(one: Checked) -> str:
    """The path of a row, spelled as the tree spells paths; `ValidationError` where path and kind do not fit."""
    spelled = tree_path(one.fields)
    path = clean_path(spelled)
    kinds = (ROOT_SUBTYPE,) if path == ROOT else (DIRECTORY_SUBTYPE, FILE_SUBTYPE)
    if path != spelled or one.params.subtype not in kinds:
        raise Refusal(
            "ValidationError",
            f'metadata.path: {ascii(spelled)[:256]} is not the path of a "{one.params.subtype}".',
            details={"path": "metadata.path"},
        )
    return path
