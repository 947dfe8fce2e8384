"""What the import door answers, and how it refuses a content as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from contract.refusals import Refusal
from engine.doors.registry import Document
from engine.importing.detect import Detected
from engine.importing.rows import ImportFailure, RowWarning
from engine.rows.intake import FAILURES_LISTED_MAX, Intake, Tally

WARNINGS_LISTED_MAX = 100
FAILED_SHOWN_MAX = 20


def answer_of(
    intake: Intake, form: Detected, tally: Tally, failed_count: int, warnings: Sequence[RowWarning] = ()
) -> Document:
    """The answer of an import that was carried out, or looked at (`dryRun`)."""
    answer: Document = {
        "importId": intake.import_id,
        "format": form.format,
        "added": tally.added,
        "updated": tally.updated,
        "skipped": tally.skipped,
        "relations": tally.relations,
        "blobs": tally.blobs,
        "failed": failed_documents(tally.failures)[:FAILURES_LISTED_MAX],
        "failedCount": failed_count,
        "formatConfidence": form.confidence,
        "entities": tally.ids,
        "embedding": next((word for word in ("pending", "done") if word in tally.states), "none"),
    }
    told = {"deduplicated": tally.alike, "groups": tally.groups}
    if any(told.values()):
        answer["stats"] = told
    if warnings:
        answer["warnings"] = [_warning_document(warning) for warning in warnings[:WARNINGS_LISTED_MAX]]
    return answer | ({"dryRun": True} if intake.dry else {})


def _warning_document(warning: RowWarning) -> Document:
    line = {} if warning.line is None else {"line": warning.line}
    return {"name": warning.name, "message": warning.message, **line}


def failed_documents(failures: Sequence[ImportFailure]) -> list[Document]:
    """Failures as an answer lists them, by line."""
    return [
        {
            "line": fault.line,
            **({} if fault.column is None else {"column": fault.column}),
            "name": fault.name,
            "message": fault.message,
        }
        for fault in sorted(failures, key=lambda fault: fault.line)
    ]


def stopped(failures: Sequence[ImportFailure], count: int) -> Refusal:
    """The refusal of `stopOnError`: a line is faulty, and nothing was written."""
    listed = failed_documents(failures)
    first = listed[0]
    return Refusal(
        "ImportFormatError",
        f"Line {first['line']}: {first['message']} Nothing was written ({count} faulty).",
        cure="Correct the lines that details name, or leave `stopOnError` out to import the others.",
        details={"failed": listed[:FAILED_SHOWN_MAX], "failedCount": count},
    )


def unreadable(form: str, failures: Sequence[ImportFailure], count: int) -> Refusal:
    """The refusal of a content in which no row can be read."""
    listed = failed_documents(failures)
    first = listed[0]
    return Refusal(
        "ImportFormatError",
        f"No row can be read as {form}: line {first['line']}: {first['message']}",
        details={"failed": listed[:FAILED_SHOWN_MAX], "failedCount": count},
    )
