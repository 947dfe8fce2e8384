"""The import door: a content, or a file of the brain, becomes records or a file, in one commit.

Rows (json, jsonl, csv, tsv) become entities and relations; a note (md, txt) becomes a file below `/imports`, or stays
where it is when it is a file of the brain already. Nothing waits for the model: vectors follow by the backfill.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from contract.check import RESERVED_METADATA_KEYS
from contract.doors.exchange import ImportParams
from contract.limits import BODY_BYTES_MAX, IMPORT_ROWS_MAX, METADATA_KEY_CHARS_MAX
from contract.refusals import Refusal
from engine.doors.files import decoded_content, refuse_owned_keys
from engine.doors.registry import CallContext, Document, writes
from engine.importing.detect import FORMATS, NOTES, Detected, detect
from engine.importing.notes import read_note
from engine.importing.read import FAILED_SHOWN_MAX, failed_documents, read_rows, text_of_content
from engine.importing.rows import Parsed, RowWarning
from engine.rows.documents import same
from engine.rows.guards import VFS_METADATA_KEYS
from engine.rows.intake import STAMP_KEYS, Intake, Tally, take_rows
from engine.vfs.media import media_type_of
from engine.vfs.paths import clean_path, name_of
from engine.vfs.tree import FileWrite, Payload, is_file, node_at, required_file, write_file

if TYPE_CHECKING:
    from engine.transaction import Transaction

IMPORTS_FOLDER = "/imports"
INLINE_SOURCE = "inline"
FAILURES_LISTED_MAX = 1000
WARNINGS_LISTED_MAX = 100
IDS_LISTED_MAX = 1000


@writes("import")
def import_content(txn: Transaction, params: ImportParams, call: CallContext) -> Document:
    """Imports one content. Faulty rows are named in `failed` and stop nothing, unless `stopOnError`.

    Refuses ImportFormatError for a content that is not text, has no readable row, or has a format that is not read;
    BatchTooLargeError for more rows than one commit takes; ValidationError, VfsError for its own parameters.
    """
    source, content = _content(txn, params)
    text = text_of_content(content)
    form = detect(params.format, params.file_name or params.vfs_path, text)
    if form.format not in FORMATS:
        raise Refusal(
            "ImportFormatError",
            f'The format "{form.format}" is not read.',
            cure=f"Give one of {', '.join(FORMATS)}.",
            details={"formats": list(FORMATS)},
        )
    import_id = params.import_id if params.import_id is not None else call.new_id()
    intake = Intake(
        import_id=import_id,
        format=form.format,
        source=source,
        mode=params.mode,
        project_id=params.project_id,
        custom_metadata=params.custom_metadata or {},
        default_type=params.default_type or "custom",
        default_subtype=params.default_subtype,
        entities=params.create_entities,
        relations=params.create_relationships,
    )
    txn.set_meta({"import": import_id})
    if form.format in NOTES:
        return _note(txn, params, intake, form, content, text, call)
    return _rows(txn, params, intake, form, text, call)


def _content(txn: Transaction, params: ImportParams) -> tuple[str, bytes]:
    """The name of the source, and its bytes."""
    if params.vfs_path is None:
        assert params.content is not None
        return params.file_name or INLINE_SOURCE, decoded_content(params.content, params.encoding)
    path = clean_path(params.vfs_path)
    metadata = required_file(txn, path).doc["metadata"]
    if metadata["size"] > BODY_BYTES_MAX:
        raise Refusal(
            "ImportFormatError",
            f"{path} has {metadata['size']} bytes; one import reads {BODY_BYTES_MAX}.",
            cure="Import it with `brainy import`, which splits it.",
            details={"size": metadata["size"], "bytesMax": BODY_BYTES_MAX},
        )
    return path, txn.blob(metadata["sha256"])


def _rows(
    txn: Transaction, params: ImportParams, intake: Intake, form: Detected, text: str, call: CallContext
) -> Document:
    parsed = read_rows(text, form.format, params.columns)
    if len(parsed.rows) > IMPORT_ROWS_MAX:
        raise Refusal(
            "BatchTooLargeError",
            f"The content has {len(parsed.rows)} rows; one import commits {IMPORT_ROWS_MAX}.",
            cure="Import it with `brainy import`, which splits it, or split it and give each part the same `importId`.",
            details={"rows": len(parsed.rows), "rowsMax": IMPORT_ROWS_MAX},
        )
    tally = take_rows(txn, parsed.rows, intake, call)
    parsed.failures += tally.failures
    if parsed.failures and params.stop_on_error:
        first = failed_documents(parsed)[0]
        raise Refusal(
            "ImportFormatError",
            f"Line {first['line']}: {first['message']} Nothing was written ({len(parsed.failures)} faulty).",
            cure="Correct the lines that details name, or leave `stopOnError` out to import the others.",
            details={"failed": failed_documents(parsed)[:FAILED_SHOWN_MAX], "failedCount": len(parsed.failures)},
        )
    return _answer(txn, intake, form, tally, parsed)


def _answer(txn: Transaction, intake: Intake, form: Detected, tally: Tally, parsed: Parsed) -> Document:
    failed = failed_documents(parsed)
    answer: Document = {
        "importId": intake.import_id,
        "format": form.format,
        "added": tally.added,
        "updated": tally.updated,
        "skipped": tally.skipped,
        "relations": tally.relations,
        "blobs": 0,
        "failed": failed[:FAILURES_LISTED_MAX],
        "failedCount": len(failed),
        "formatConfidence": form.confidence,
        "entities": tally.ids[:IDS_LISTED_MAX],
        "embedding": next((word for word in ("pending", "done") if word in tally.states), "none"),
    }
    if parsed.warnings:
        answer["warnings"] = [_warning_document(warning) for warning in parsed.warnings[:WARNINGS_LISTED_MAX]]
    return answer if txn.changed else answer | {"changed": False}


def _note(
    txn: Transaction,
    params: ImportParams,
    intake: Intake,
    form: Detected,
    content: bytes,
    text: str,
    call: CallContext,
) -> Document:
    """Writes a note as a file, byte for byte, with what it says of itself as metadata."""
    spelled = params.vfs_path or f"{IMPORTS_FOLDER}/{params.file_name or _made_name(content, form)}"
    path = clean_path(spelled)
    note = read_note(text, name_of(path), markdown=form.format == "md")
    metadata, warnings = _note_metadata(note.fields)
    warnings = [*note.warnings, *warnings]
    refuse_owned_keys(intake.custom_metadata)
    metadata |= {"title": note.title, **intake.custom_metadata}
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
        tally.ids.append(receipt["entityId"])
        tally.added, tally.updated = (1, 0) if before is None else (0, 1)
    answer = _answer(txn, intake, form, tally, Parsed(warnings=warnings))
    return {**answer, "blobs": tally.added + tally.updated, "vfs": {"files": [path]}}


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


def _warning_document(warning: RowWarning) -> Document:
    line = {} if warning.line is None else {"line": warning.line}
    return {"name": warning.name, "message": warning.message, **line}
