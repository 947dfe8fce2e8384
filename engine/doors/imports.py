"""The import door: a content, a file of the brain, or a body of any length becomes records or a file.

Rows (json, jsonl, csv, tsv, yaml, graphml, a portable export) become entities and relations; a note (md, txt) becomes a
file below `/imports`, or stays where it is when it is a file of the brain already. A content is one commit; a body of
JSON Lines is read from disk and committed batch by batch. Nothing waits for the model: vectors follow by the backfill.
"""

from __future__ import annotations

import hashlib
import io
from typing import IO, TYPE_CHECKING

from contract.doors.exchange import ImportParams
from contract.limits import BODY_BYTES_MAX, IMPORT_ROWS_MAX
from contract.refusals import Refusal
from engine.commit import WriteJob
from engine.doors.files import decoded_content
from engine.doors.registry import CallContext, Document, uploads, writes
from engine.exchange.portable import VERSION
from engine.fingerprint import fingerprint
from engine.importing.answers import answer_of, stopped, unreadable
from engine.importing.detect import FORMATS, LINES, NOTES, Detected, detect
from engine.importing.lines import LineRows
from engine.importing.noting import import_note
from engine.importing.read import read_rows, text_of_content
from engine.importing.rows import RowWarning
from engine.importing.run import Apply, RowsImport, RowSource
from engine.importing.sources import preserve, refuse_misplaced, stored
from engine.rows.clearing import clear_all
from engine.rows.intake import Intake, Tally
from engine.vfs.paths import clean_path
from engine.vfs.tree import Payload, required_file

if TYPE_CHECKING:
    from engine.store import Store
    from engine.transaction import Transaction

INLINE_SOURCE = "inline"
PORTABLE = "portable"


@writes("import")
def import_content(txn: Transaction, params: ImportParams, call: CallContext) -> Document:
    """Imports one content. Faulty rows are named in `failed` and stop nothing, unless `stopOnError`.

    Refuses ImportFormatError for a content that is not text, has no readable row, or has a format that is not read;
    BatchTooLargeError for more rows than one commit takes; ConfirmationRequiredError for `replace` without `confirm`;
    ValidationError, VfsError for its own parameters.
    """
    _refuse_unconfirmed(params)
    source, content = _content(txn, params)
    form = detect(params.format, params.file_name or params.vfs_path, content)
    if form.format not in FORMATS:
        raise Refusal(
            "ImportFormatError",
            f'The format "{form.format}" is not read.',
            cure=f"Give one of {', '.join(FORMATS)}.",
            details={"formats": list(FORMATS)},
        )
    if form.format in NOTES:
        answer = _imported_note(txn, params, form, source, content, call)
    else:
        answer = _imported_rows(txn, params, form, source, content, call)
    return _concluded(txn, params, answer)


def _concluded(txn: Transaction, params: ImportParams, answer: Document) -> Document:
    """The answer of a job, which a dry run does not keep."""
    if params.dry_run:
        txn.abandon()
        return answer | {"changed": False}
    return answer if txn.changed else answer | {"changed": False}


def _imported_note(
    txn: Transaction, params: ImportParams, form: Detected, source: str, content: bytes, call: CallContext
) -> Document:
    text = text_of_content(content)
    intake = _intake(params, form, source, None, call)
    txn.set_meta({"import": intake.import_id})
    if params.mode == "replace":
        clear_all(txn, call)
    return import_note(txn, params, intake, form, content, text, call)


def _imported_rows(
    txn: Transaction, params: ImportParams, form: Detected, source: str, content: bytes, call: CallContext
) -> Document:
    rows: RowSource
    warnings: list[RowWarning] = []
    if form.format in LINES:
        rows = lines = LineRows(io.BytesIO(content))
        header, form = lines.header, _lines_form(lines, form)
    else:
        rows = parsed = read_rows(text_of_content(content), form.format, params.columns)
        header, warnings = parsed.header, parsed.warnings
    intake = _intake(params, form, source, header, call)
    txn.set_meta({"import": intake.import_id})
    if params.mode == "replace":
        clear_all(txn, call)
    run = RowsImport(rows, intake, call, lambda apply: apply(txn), rows_max=IMPORT_ROWS_MAX)
    tally = _carried_out(run, form)
    if run.failed_count and params.stop_on_error:
        raise stopped(tally.failures, run.failed_count)
    kept = {}
    if params.preserve_source:
        path = params.vfs_path or preserve(txn, params, intake, form, Payload.of(content), call, tally)
        kept = {"vfs": {"files": [path]}}
    return answer_of(intake, form, tally, run.failed_count, warnings) | kept


def _carried_out(run: RowsImport, form: Detected) -> Tally:
    tally = run.run()
    if run.failed_count and not run.rows:
        raise unreadable(form.format, tally.failures, run.failed_count)
    return tally


@uploads("import")
def import_lines(store: Store, params: ImportParams, file: IO[bytes], call: CallContext) -> Document:
    """Imports a body of JSON Lines, batch by batch, each a commit of its own; a broken-off one is taken up by running
    it again. With `dryRun` or `stopOnError` it is one commit, and has at most IMPORT_ROWS_MAX rows.

    Refuses what `import_content` refuses.
    """
    _refuse_unconfirmed(params)
    with store.view() as view:
        refuse_misplaced(view, params)
    lines = LineRows(file)
    form = _lines_form(lines, Detected("jsonl", 1.0))
    intake = _intake(params, form, params.file_name or INLINE_SOURCE, lines.header, call)
    commits = _Commits(store, params, intake, lines.sha256, call)
    if params.dry_run or params.stop_on_error:
        payload = stored(store, file, call) if params.preserve_source else None
        return commits.one(lambda txn: _whole_upload(txn, params, intake, form, lines, payload, call))
    if params.mode == "replace":
        commits.one(lambda txn: clear_all(txn, call))
    run = RowsImport(lines, intake, call, commits.one)
    tally = _carried_out(run, form)
    kept = {}
    if params.preserve_source:
        payload = stored(store, file, call)
        written = commits.one(lambda txn: _kept(txn, params, intake, form, payload, call))
        tally.blobs += written["blobs"]
        kept = {"vfs": {"files": [written["path"]]}}
    answer = answer_of(intake, form, tally, run.failed_count) | kept | {"generation": store.head}
    return answer if commits.changed else answer | {"changed": False}


def _kept(
    txn: Transaction, params: ImportParams, intake: Intake, form: Detected, payload: Payload, call: CallContext
) -> Document:
    tally = Tally()
    return {"path": preserve(txn, params, intake, form, payload, call, tally), "blobs": tally.blobs}


def _whole_upload(
    txn: Transaction,
    params: ImportParams,
    intake: Intake,
    form: Detected,
    lines: LineRows,
    source: Payload | None,
    call: CallContext,
) -> Document:
    if params.mode == "replace":
        clear_all(txn, call)
    run = RowsImport(lines, intake, call, lambda apply: apply(txn), rows_max=IMPORT_ROWS_MAX)
    tally = _carried_out(run, form)
    if run.failed_count and params.stop_on_error:
        raise stopped(tally.failures, run.failed_count)
    kept = {}
    if source is not None:
        kept = {"vfs": {"files": [preserve(txn, params, intake, form, source, call, tally)]}}
    return _concluded(txn, params, answer_of(intake, form, tally, run.failed_count) | kept)


class _Commits:
    """Commits the batches of one upload. Each has a key of its own made of the call's, so that a repeated call finds
    what an earlier one has done; another body under the same key is refused by the first batch."""

    def __init__(self, store: Store, params: ImportParams, intake: Intake, sha256: str, call: CallContext) -> None:
        self._store = store
        self._call = call
        self._key = params.idempotency_key
        self._body = hashlib.sha256(fingerprint(params) + sha256.encode()).digest()
        self._intake = intake
        self._count = 0
        self.changed = False

    def one(self, apply: Apply) -> Document:
        """One commit; raises its refusal."""
        self._count += 1
        job = WriteJob(
            door="import",
            apply=apply,
            principal=self._call.principal,
            key=None if self._key is None else f"{self._key}#{self._count}",
            body_sha256=None if self._key is None else self._body,
            meta={"import": self._intake.import_id},
        )
        before = self._store.head
        [outcome] = self._store.write([job])
        if outcome.refusal is not None:
            raise outcome.refusal
        assert outcome.answer is not None
        self.changed = self.changed or outcome.replayed or (outcome.generation or 0) > before
        return outcome.answer


def _refuse_unconfirmed(params: ImportParams) -> None:
    if params.mode == "replace" and not params.confirm:
        raise Refusal(
            "ConfirmationRequiredError",
            "mode `replace` removes everything that the brain holds before it imports.",
            cure="Send `confirm: true`, or use the mode `merge` or `skip`.",
            details={"path": "confirm"},
        )


def _lines_form(lines: LineRows, form: Detected) -> Detected:
    """`portable` for lines that begin as an export does; ImportFormatError when that was said and is not so."""
    if lines.is_portable:
        return Detected(PORTABLE, 1.0)
    if form.format == PORTABLE:
        raise Refusal(
            "ImportFormatError",
            "The first line is not the header of a portable export.",
            cure="Import it as `jsonl`, or begin with the first line that `export` wrote.",
            details={"line": 1},
        )
    return form


def _refuse_version(header: Document | None) -> None:
    """A later version may mean something else by the same words: nothing of it is read."""
    if header is not None and header.get("version") != VERSION:
        raise Refusal(
            "ImportFormatError",
            f"The export has version {ascii(header.get('version'))[:32]}; version {VERSION} is read here.",
            cure="Import it with the release that wrote it, or a later one.",
            details={"version": VERSION},
        )


def _intake(params: ImportParams, form: Detected, source: str, header: Document | None, call: CallContext) -> Intake:
    _refuse_version(header)
    return Intake(
        import_id=params.import_id if params.import_id is not None else call.new_id(),
        format=form.format,
        source=source,
        mode=params.mode,
        project_id=params.project_id,
        custom_metadata=params.custom_metadata or {},
        default_type=params.default_type or "custom",
        default_subtype=params.default_subtype,
        entities=params.create_entities,
        relations=params.create_relationships,
        remap=params.remap_ids,
        space=_space(header),
        dry=params.dry_run,
        group_by=params.group_by,
        group_field=params.group_field,
        alike=params.deduplication_threshold if params.enable_deduplication else None,
    )


def _space(header: Document | None) -> tuple[str, int, str] | None:
    """The space of the vectors that an export carries, as its header says; None when it does not say."""
    if header is None:
        return None
    model, width, key = header.get("model"), header.get("dimensions"), header.get("space")
    whole = isinstance(model, str) and type(width) is int and isinstance(key, str) and len(model) + len(key) < 1024
    return (str(model), int(str(width)), str(key)) if whole else None


def _content(txn: Transaction, params: ImportParams) -> tuple[str, bytes]:
    """The name of the source, and its bytes."""
    if params.vfs_path is None:
        if params.content is None:
            raise Refusal(
                "ValidationError",
                "There is nothing to import: neither `content` nor `vfsPath` is given.",
                details={"path": "content"},
            )
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
