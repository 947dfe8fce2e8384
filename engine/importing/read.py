"""From the bytes of a content to its rows: decoding, the reader of its format, and the column map."""

from __future__ import annotations

from collections.abc import Mapping

from contract.refusals import Refusal
from engine.importing.graphmlrows import read_graphml
from engine.importing.jsonrows import read_json
from engine.importing.rows import Parsed
from engine.importing.tables import ENTITY_FIELDS, NO_MAP, RELATION_FIELDS, ColumnMap, read_table
from engine.importing.yamlrows import read_yaml


def text_of_content(content: bytes) -> str:
    """`content` as text. Bytes that are not UTF-8, and NUL, refuse the whole import with their line and offset."""
    try:
        text = content.decode("utf-8")
        offset = content.find(b"\x00")
    except UnicodeDecodeError as error:
        text, offset = "", error.start
    if offset >= 0:
        line = content.count(b"\n", 0, offset) + 1
        raise Refusal(
            "ImportFormatError",
            f"The content is not UTF-8 text: byte {offset}, on line {line}, is 0x{content[offset]:02x}.",
            cure="Convert it to UTF-8; a file of bytes is written with `vfs.writeFile`.",
            details={"offset": offset, "line": line},
        )
    return text


def read_rows(text: str, form: str, columns: Mapping[str, str | list[str]] | None) -> Parsed:
    """The rows of a content of format `form` (json, csv, tsv, yaml, graphml), whole."""
    if form == "json":
        return read_json(text)
    if form == "yaml":
        return read_yaml(text)
    if form == "graphml":
        return read_graphml(text)
    return read_table(text, delimiter="\t" if form == "tsv" else ",", columns=column_map(columns))


def column_map(columns: Mapping[str, str | list[str]] | None) -> ColumnMap:
    """The column map of the parameters. ValidationError for a field that no record has, or a list beside `metadata`."""
    if columns is None:
        return NO_MAP
    fields: dict[str, str] = {}
    metadata: list[str] | None = None
    for name, column in columns.items():
        if name == "metadata" and isinstance(column, list):
            metadata = column
        elif name in {*ENTITY_FIELDS, *RELATION_FIELDS} and isinstance(column, str):
            fields[name] = column
        else:
            raise Refusal(
                "ValidationError",
                f"columns: {name[:64]!a} is no field of a record that one column fills.",
                cure=f"Map {', '.join(sorted({*ENTITY_FIELDS, *RELATION_FIELDS}))} to a column, metadata to a list.",
                details={"path": "columns", "value": name[:64]},
            )
    return ColumnMap(fields, metadata)
