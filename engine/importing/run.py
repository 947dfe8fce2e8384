"""One import of rows: batch by batch, entities before the relations that name them, the rest put aside until the end.

Rows are read and checked outside the writer; a batch only looks up and writes. Batches are independent commits where
the content is long: an import that is broken off has written whole batches, and running it again leaves those as they
are and goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from contract.limits import READ_CHUNK_ROWS_MAX
from contract.refusals import Refusal
from engine.doors.registry import CallContext, Document
from engine.importing.groups import Groups
from engine.importing.rows import ImportFailure, Row
from engine.rows.edges import CheckedEdge, EdgeRows
from engine.rows.guards import VFS_PREFIX
from engine.rows.intake import FAILURES_LISTED_MAX, IDS_LISTED_MAX, Checked, EntityRows, Intake, Tally
from engine.vfs.recreate import TreeRows, tree_path

if TYPE_CHECKING:
    from engine.transaction import Transaction

Apply = Callable[["Transaction"], Document]
Commit = Callable[[Apply], Document]
"""Runs one batch: in a commit of its own, or within the one that everything is in."""

BATCH_ROWS: Final = 2_000
BATCH_BYTES: Final = 4 * 1024 * 1024
TREE_BATCH_ROWS: Final = 256


class RowSource(Protocol):
    """Where rows come from; each can be read again at its place."""

    def __iter__(self) -> Iterator[Row | ImportFailure]: ...

    def row_at(self, row: Row) -> Row:
        """The row again, whole."""
        ...

    def blob(self, sha256: str) -> bytes | None:
        """A file's content that the source has; not checked yet."""
        ...


class RowsImport:
    """One import. `rows` counts what could be read, `failed_count` also what the tally has no room to list; with
    `rows_max` more rows are BatchTooLargeError."""

    def __init__(
        self, source: RowSource, intake: Intake, call: CallContext, commit: Commit, *, rows_max: int | None = None
    ) -> None:
        self._source = source
        self._intake = intake
        self._call = call
        self._commit = commit
        self._aliases: dict[str, str] = {}
        self._entity_rows = EntityRows(intake, call)
        self._groups = Groups(intake, call)
        self._tree_rows = TreeRows(intake, call, source.blob)
        self._edge_rows = EdgeRows(intake, call, self._aliases)
        self._entities: list[Checked] = []
        self._edges: list[CheckedEdge] = []
        self._tree: list[tuple[str, Row]] = []
        self._blobs: list[tuple[int, str]] = []
        self._created: list[str] = []
        self._waiting: list[Row] = []
        self._bytes = 0
        self._rows_max = rows_max
        self.tally = Tally()
        self.failed_count = 0
        self.rows = 0

    def run(self) -> Tally:
        """Takes every row of the source."""
        for fault in getattr(self._source, "faults", ()):
            self._fail(fault)
        for number, item in enumerate(self._source):
            if number % READ_CHUNK_ROWS_MAX == 0:
                self._call.check()
            if isinstance(item, ImportFailure):
                self._fail(item)
            else:
                self._take(item)
        self._flush()
        self._flush_tree()
        self._flush_waiting()
        self._join_tree()
        return self.tally

    def _take(self, row: Row) -> None:
        self.rows += 1
        if self._rows_max is not None and self.rows > self._rows_max:
            raise Refusal(
                "BatchTooLargeError",
                f"The content has more than {self._rows_max} rows, which is what one import commits.",
                cure="Send it as a body of JSON Lines or with `brainy import`, which commit in batches, or split it.",
                details={"rowsMax": self._rows_max},
            )
        try:
            if row.blob:
                self._blob(row)
            elif row.relation:
                self._relation(row)
            elif not self._intake.entities:
                self.tally.skipped += 1
            elif row.exact and str(row.fields.get("subtype", "")).startswith(VFS_PREFIX):
                self._tree.append((tree_path(row.fields), replace(row, fields={})))
            else:
                self._entities.append(self._entity_rows.checked(row))
                self._grew(row)
        except Refusal as refusal:
            self._fail(ImportFailure(row.line, refusal.name, refusal.message))

    def _relation(self, row: Row) -> None:
        if not self._intake.relations:
            return
        if self._tree and row.exact:
            # The entities of an export come before its relations: the tree is complete.
            self._flush()
            self._flush_tree()
        self._edges.append(self._edge_rows.checked(row))
        self._grew(row)

    def _blob(self, row: Row) -> None:
        self._blobs.append((row.line, str(row.fields.get("sha256"))))
        self._grew(row)

    def _keep_blob(self, txn: Transaction, sha256: str) -> bool:
        """Keeps a content that no row asked for so far: its file may be in the brain, or come in a later call."""
        if txn.blob_size(sha256) is not None:
            return False
        data = self._source.blob(sha256)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise Refusal("BlobCorruptError", f"The content {sha256[:64]} in the import does not have its hash.")
        if not self._intake.dry:
            txn.put_blob(data)
        return True

    def _grew(self, row: Row) -> None:
        self._bytes += row.size
        if len(self._entities) + len(self._edges) + len(self._blobs) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self._flush()

    def _fail(self, failure: ImportFailure) -> None:
        self.failed_count += 1
        if len(self.tally.failures) < FAILURES_LISTED_MAX:
            self.tally.failures.append(failure)

    def _committed(self, apply: Apply) -> Document:
        """One batch, and what it did. Answers of batches name the first ids of the whole import only."""
        failures = self.tally.failures
        answer = self._commit(apply)
        self.failed_count += len(answer["failed"])
        self.tally.failures = []
        self.tally.take(answer)
        self.tally.failures = (failures + self.tally.failures)[:FAILURES_LISTED_MAX]
        return answer

    def _flush(self) -> None:
        entities, edges, blobs = self._entities, self._edges, self._blobs
        self._entities, self._edges, self._blobs, self._bytes = [], [], [], 0
        if not entities and not edges and not blobs:
            return
        room = IDS_LISTED_MAX - len(self.tally.ids)

        def apply(txn: Transaction) -> Document:
            tally, late = Tally(), list[CheckedEdge]()
            for start in range(0, len(entities), READ_CHUNK_ROWS_MAX):
                chunk = entities[start : start + READ_CHUNK_ROWS_MAX]
                self._entity_rows.write(txn, chunk, tally)
                tally.groups += self._groups.join(txn, [tally.twins.get(one.id, one.id) for one in chunk])
            self._aliases.update(tally.twins)
            for start in range(0, len(edges), READ_CHUNK_ROWS_MAX):
                late += self._edge_rows.write(txn, edges[start : start + READ_CHUNK_ROWS_MAX], tally)
            for line, sha256 in blobs:
                try:
                    tally.blobs += self._keep_blob(txn, sha256)
                except Refusal as refusal:
                    tally.failures.append(ImportFailure(line, refusal.name, refusal.message))
            del tally.ids[room:]
            return tally.document() | {"late": [one.row.line for one in late]}

        answer = self._committed(apply)
        self._aliases.update(answer["twins"])
        late = set(answer["late"])
        self._waiting += [replace(one.row, fields={}) for one in edges if one.row.line in late]

    def _flush_tree(self) -> None:
        rows = sorted(self._tree, key=lambda entry: entry[0].encode("utf-8", "surrogatepass"))
        self._tree = []
        for start in range(0, len(rows), TREE_BATCH_ROWS):
            chunk: list[Checked] = []
            for _, stub in rows[start : start + TREE_BATCH_ROWS]:
                try:
                    chunk.append(self._entity_rows.checked(self._source.row_at(stub)))
                except Refusal as refusal:
                    self._fail(ImportFailure(stub.line, refusal.name, refusal.message))

            def apply(txn: Transaction, chunk: list[Checked] = chunk) -> Document:
                tally = Tally()
                made = self._tree_rows.write(txn, chunk, tally)
                return tally.document() | {"created": made.created, "aliases": made.aliases}

            self._call.check()
            answer = self._committed(apply)
            self._created += answer["created"]
            self._aliases.update(answer["aliases"])

    def _flush_waiting(self) -> None:
        """Relations whose ends were not there when their turn came: now they are, or they are failures."""
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), READ_CHUNK_ROWS_MAX):
            chunk = waiting[start : start + READ_CHUNK_ROWS_MAX]
            checked = [self._edge_rows.checked(self._source.row_at(row)) for row in chunk]

            def apply(txn: Transaction, checked: list[CheckedEdge] = checked) -> Document:
                tally = Tally()
                for one in self._edge_rows.write(txn, checked, tally):
                    try:
                        self._edge_rows.refuse_missing_end(txn, one)
                    except Refusal as refusal:
                        tally.fail(one.row, refusal)
                return tally.document()

            self._call.check()
            self._committed(apply)

    def _join_tree(self) -> None:
        # The edges of one part of an export come with another part.
        header = getattr(self._source, "header", None) or {}
        created = [] if header.get("part") else self._created
        for start in range(0, len(created), TREE_BATCH_ROWS):

            def apply(txn: Transaction, paths: list[str] = created[start : start + TREE_BATCH_ROWS]) -> Document:
                self._tree_rows.join(txn, paths)
                return Tally().document()

            self._committed(apply)
