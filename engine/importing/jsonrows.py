"""JSON: parameter objects of `add` and `relate`, or the records of a portable export.

A row is one object. `{"e": Entity}` and `{"r": Relation}` are rows of a portable export; an object with `from` and `to`
is a relation, any other an entity. A JSON document is an array of such objects, one such object, or
`{"entities": [...], "relations": [...]}`, which is an export when it has the header of one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from contract.codec import decode
from contract.refusals import Refusal
from engine.exchange import portable
from engine.importing.rows import ImportFailure, Parsed, Row


def read_json(text: str) -> Parsed:
    """Every item of one JSON document. A document that does not decode is one failure; `line` is the item's place."""
    try:
        document = decode(text.removeprefix("\ufeff").encode(), "json")
    except Refusal as refusal:
        return Parsed(failures=[ImportFailure(1, refusal.name, refusal.message)])
    return parsed_of(document)


def parsed_of(document: object) -> Parsed:
    """The rows of a decoded document, whatever it was written in."""
    parsed = Parsed()
    if isinstance(document, dict) and isinstance(document.get("entities", document.get("relations")), list):
        header = document.get("header")
        exact = isinstance(header, dict) and header.get("format") == portable.FORMAT
        parsed.header = header if exact else None
        for number, (key, item) in enumerate(_items(document), 1):
            whole = {key: item} if exact and isinstance(item, dict) else item
            _take(parsed, number, whole)
        if exact:
            _take_blobs(parsed, document.get("blobs"))
        return parsed
    items = document if isinstance(document, list) else [document]
    for number, item in enumerate(items, 1):
        _take(parsed, number, item)
    return parsed


def _items(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, name in (("e", "entities"), ("r", "relations")):
        listed = document.get(name) or []
        for item in listed if isinstance(listed, list) else [listed]:
            yield key, item


def _take(parsed: Parsed, number: int, item: object) -> None:
    found = row_of_item(number, item, place=len(parsed.rows))
    if isinstance(found, Row):
        parsed.rows.append(found)
    elif found is not None:
        parsed.failures.append(found)


def _take_blobs(parsed: Parsed, blobs: object) -> None:
    """The file contents of an export in one document."""
    for item in blobs if isinstance(blobs, list) else []:
        if isinstance(item, dict) and isinstance(item.get("sha256"), str) and isinstance(item.get("base64"), str):
            try:
                parsed.blobs[item["sha256"]] = base64.b64decode(item["base64"], validate=True)
            except binascii.Error as error:
                text = f"The content {item['sha256'][:64]} is not base64: {error}."
                parsed.failures.append(ImportFailure(len(parsed.rows) + 1, "ImportFormatError", text))


def row_of_item(number: int, item: object, *, place: int = 0, size: int = 0) -> Row | ImportFailure | None:
    """The row that an item is; a failure for what is none; None for the first and the last line of an export."""
    if not isinstance(item, dict):
        text = 'The row is not an object: write one record, such as {"data": ..., "type": ...}.'
        return ImportFailure(number, "ImportFormatError", text)
    bare = item.keys() - {"crc"}
    for key, relation in (("e", False), ("r", True)):
        inner = item.get(key)
        if bare == {key} and isinstance(inner, dict):
            return Row(number, inner, relation, exact=True, place=place, size=size)
    if item.get("format") == portable.FORMAT:
        if item.get("version") == portable.VERSION:
            return None
        text = f"The export has version {item.get('version')!r}; version {portable.VERSION} is read here."
        return ImportFailure(number, "ImportFormatError", text)
    if item.get("end") is True and "sha256" in item:
        return None
    return Row(number, item, "from" in item and "to" in item, place=place, size=size)
