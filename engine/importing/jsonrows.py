"""JSON and JSON Lines: parameter objects of `add` and `relate`, or the lines of a portable export.

A line is one object. `{"e": Entity}` and `{"r": Relation}` are rows of a portable export; an object with `from`, `to`
and `type` is a relation, any other an entity. A JSON document is an array of such objects, one such object, or
`{"entities": [...], "relations": [...]}`.
"""

from __future__ import annotations

from contract.codec import decode
from contract.refusals import Refusal
from engine.importing.rows import ImportFailure, Parsed, Row, RowWarning

PORTABLE_FORMAT = "brain-portable-graph"
PORTABLE_VERSION = 1


def read_json_lines(text: str) -> Parsed:
    """Every line of `text`; one that is not an object is a failure alone. Blank lines are passed over."""
    parsed = Parsed()
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        try:
            document = decode(line.strip().encode(), "json")
        except Refusal as refusal:
            parsed.failures.append(ImportFailure(number, refusal.name, refusal.message))
            continue
        _take(parsed, number, document)
    return parsed


def read_json(text: str) -> Parsed:
    """Every item of one JSON document. A document that does not decode is one failure; `line` is the item's place."""
    parsed = Parsed()
    try:
        document = decode(text.removeprefix("\ufeff").encode(), "json")
    except Refusal as refusal:
        parsed.failures.append(ImportFailure(1, refusal.name, refusal.message))
        return parsed
    if isinstance(document, dict) and isinstance(document.get("entities", document.get("relations")), list):
        items = [*document.get("entities", []), *document.get("relations", [])]
    else:
        items = document if isinstance(document, list) else [document]
    for number, item in enumerate(items, 1):
        _take(parsed, number, item)
    return parsed


def _take(parsed: Parsed, number: int, item: object) -> None:
    """Puts one item where it belongs."""
    if not isinstance(item, dict):
        text = 'The row is not an object: write one record, such as {"data": ..., "type": ...}.'
        parsed.failures.append(ImportFailure(number, "ImportFormatError", text))
        return
    for key, relation in (("e", False), ("r", True)):
        inner = item.get(key)
        if len(item) == 1 and isinstance(inner, dict):
            parsed.rows.append(Row(number, inner, relation, exact=True))
            return
    if item.get("format") == PORTABLE_FORMAT:
        if item.get("version") != PORTABLE_VERSION:
            text = f"The export has version {item.get('version')!r}; version {PORTABLE_VERSION} is read here."
            parsed.failures.append(ImportFailure(number, "ImportFormatError", text))
        return
    if item.get("end") is True and "sha256" in item:
        return
    if len(item) == 1 and isinstance(item.get("b"), dict):
        text = "File contents of a portable export are not imported yet; the line was passed over."
        parsed.warnings.append(RowWarning("BlobSkipped", text, number))
        return
    relation = "from" in item and "to" in item
    parsed.rows.append(Row(number, item, relation))
