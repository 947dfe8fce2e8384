"""The source of imported rows, kept as a file of the brain (`preserveSource`)."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from contract.doors.exchange import ImportParams
from engine.blobs import INLINE_BYTES_MAX, BlobWriter
from engine.doors.registry import CallContext
from engine.importing.detect import Detected
from engine.importing.noting import IMPORTS_FOLDER
from engine.rows.intake import Intake, Tally
from engine.vfs.media import media_type_of
from engine.vfs.paths import clean_path, name_of
from engine.vfs.tree import HEAD_BYTES_MAX, FileWrite, Payload, is_file, node_at, required_file, write_file

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction
    from engine.view import View

COPY_BYTES: Final = 1024 * 1024


def refuse_misplaced(view: View, params: ImportParams) -> None:
    """Refuses a source that could not be kept where its name says, before anything is written: VfsError."""
    if params.preserve_source and params.vfs_path is None and params.file_name is not None:
        path = clean_path(f"{IMPORTS_FOLDER}/{params.file_name}")
        if node_at(view, path) is not None:
            required_file(view, path)


def preserve(
    txn: Transaction,
    params: ImportParams,
    intake: Intake,
    form: Detected,
    content: Payload,
    call: CallContext,
    tally: Tally,
) -> str:
    """Writes the source below `/imports`, by its name or else by its hash, and gives the path; the same bytes there
    already are left alone, and a dry run only counts."""
    extension = "jsonl" if form.format == "portable" else form.format
    spelled = f"{IMPORTS_FOLDER}/{params.file_name or f'{content.sha256[:16]}.{extension}'}"
    path = clean_path(spelled)
    existing = node_at(txn, path)
    before = existing.doc["metadata"] if existing is not None and is_file(existing) else None
    if before is None or before["sha256"] != content.sha256:
        tally.blobs += 1
        if not intake.dry:
            stamps = intake.stamps(txn.now_ms, before)
            media_type = media_type_of(name_of(path), content.head)
            write_file(txn, FileWrite(path, spelled, content, media_type, stamps), call)
    return path


def stored(store: Store, file: IO[bytes], call: CallContext) -> Payload:
    """The bytes of an uploaded source, durable before they are named; small ones in memory, for those live in the
    database."""
    file.seek(0)
    head = file.read(max(HEAD_BYTES_MAX, INLINE_BYTES_MAX + 1))
    if len(head) <= INLINE_BYTES_MAX:
        return Payload.of(head)
    writer: BlobWriter = store.blobs.begin(call.new_id())
    try:
        file.seek(0)
        while piece := file.read(COPY_BYTES):
            call.check()
            writer.write(piece)
        return Payload(writer.finish(), writer.size, head, None)
    finally:
        writer.discard()
