"""A note becomes a file, byte for byte, with what it says of itself as metadata."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from contract.check import RESERVED_METADATA_KEYS
from contract.doors.exchange import ImportParams
from contract.limits import METADATA_KEY_CHARS_MAX
from engine.doors.files import refuse_owned_keys
from engine.doors.registry import CallContext, Document
from engine.importing.answers import answer_of
from engine.importing.detect import Detected
from engine.importing.linking import Linker
from engine.importing.notes import Note, read_note
from engine.importing.rows import RowWarning
from engine.rows.documents import same
from engine.rows.guards import VFS_METADATA_KEYS
from engine.rows.intake import STAMP_KEYS, Intake, Tally
from engine.vfs.media import media_type_of
from engine.vfs.paths import clean_path, name_of
from engine.vfs.tree import FileWrite, Payload, is_file, node_at, write_file

if TYPE_CHECKING:
    from engine.transaction import Transaction

IMPORTS_FOLDER = "/imports"


def import_note(
    txn: Transaction,
    params: ImportParams,
    intake: Intake,
    form: Detected,
    content: bytes,
    text: str,
    call: CallContext,
) -> Document:
    """Writes one note and gives the door's answer."""
    spelled = params.vfs_path or f"{IMPORTS_FOLDER}/{params.file_name or _made_name(content, form)}"
    path = clean_path(spelled)
    note = read_note(text, name_of(path), markdown=form.format == "md")
    metadata, warnings = _note_metadata(note.fields)
    warnings = [*note.warnings, *warnings]
    refuse_owned_keys(intake.custom_metadata)
    metadata |= {"title": note.title, **({"tags": note.tags} if note.tags else {}), **intake.custom_metadata}
    if intake.project_id is not None:
        metadata["projectId"] = intake.project_id
    tally = Tally()
    existing = node_at(txn, path)
    before = existing.doc["metadata"] if existing is not None and is_file(existing) else None
    media_type = before["mimeType"] if params.vfs_path and before else media_type_of(name_of(path), content)
    file = FileWrite(path, spelled, Payload.of(content), media_type, metadata)
    if before is not None and (intake.mode == "skip" or _is_so(before, file)):
        tally.skipped = 1
    else:
        stamped = {**metadata, **intake.stamps(txn.now_ms, before)}
        receipt = write_file(txn, FileWrite(path, spelled, file.content, media_type, stamped), call)
        tally.states.add(receipt["embedding"])
        tally.note(receipt["entityId"])
        tally.added, tally.updated = (1, 0) if before is None else (0, 1)
        if intake.relations:
            warnings += _linked(txn, path, note, call, tally, added=before is None)
    tally.blobs = tally.added + tally.updated
    return {**answer_of(intake, form, tally, 0, warnings), "vfs": {"files": [path]}}


def _linked(
    txn: Transaction, path: str, note: Note, call: CallContext, tally: Tally, *, added: bool
) -> list[RowWarning]:
    """Writes the links of a note that was written, and those of others that waited for it."""
    file = node_at(txn, path)
    assert file is not None, "the note was written"
    linker = Linker(txn, call, IMPORTS_FOLDER)
    warnings = linker.link(file, note.links)
    tally.relations = linker.made
    if added:
        linker.arrived(file)
    return warnings


def _made_name(content: bytes, form: Detected) -> str:
    """The name of a note that came without one: by its content, so that the same text is the same file again."""
    return f"{hashlib.sha256(content).hexdigest()[:16]}.{form.format}"


def _note_metadata(fields: Document) -> tuple[Document, list[RowWarning]]:
    """Front matter as metadata; keys that belong to the engine stay in the text alone, with a warning."""
    kept: Document = {}
    warnings: list[RowWarning] = []
    for key, value in fields.items():
        owned = key in RESERVED_METADATA_KEYS or key in VFS_METADATA_KEYS or key in STAMP_KEYS or key.startswith("_")
        if owned or len(key) > METADATA_KEY_CHARS_MAX:
            text = f'The front matter key "{key[:64]}" cannot be a metadata key: it stays in the text alone.'
            warnings.append(RowWarning("FrontMatterKeyReserved", text))
        elif key != "title":
            kept[key] = value
    return kept, warnings


def _is_so(before: Document, file: FileWrite) -> bool:
    """True when the file has these bytes, type and metadata already, whatever import brought them."""
    bytes_are_so = before["sha256"] == file.content.sha256 and before["mimeType"] == file.media_type
    return bytes_are_so and all(same(before.get(key), value) for key, value in file.metadata.items())
