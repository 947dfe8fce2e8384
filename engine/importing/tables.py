"""CSV and TSV with a header row, read as RFC 4180 says: one record a row, one field a column.

Column names are matched exactly, then without regard to case. A column whose name is a field of a record (`id`,
`type`, `subtype`, `data`, `weight`, `confidence`, `service`, `visibility`, `createdBy`; for relations also `from` and
`to`) fills that field, unless a column map says otherwise; every other column is metadata under its header.
In a table with both a `from` and a `to` column, a row that fills either is a relation, and one that fills neither an
entity. `metadata.<key>` is the metadata key, whatever it is called; the engine's own columns (`createdAt`, `updatedAt`,
`_rev`) are passed over.

Types are inferred a column at a time, and only where no text would change: a column is `true`/`false`, whole numbers
or decimals if **every** filled cell of it is one in its shortest spelling (`007`, `1e5`, `+3` and `1.50` keep a column
text); anything else, dates included, stays text. Fields of a record keep the type that the field has. An empty cell
is an absent field.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.importing.rows import ImportFailure, Parsed, Row

COLUMNS_MAX = 1000
CELL_CHARACTERS_MAX = 1_000_000

ENTITY_FIELDS = ("id", "type", "subtype", "data", "weight", "confidence", "service", "visibility", "createdBy")
RELATION_FIELDS = ("from", "to", "type", "subtype", "data", "weight", "confidence", "service", "visibility")
ENGINE_COLUMNS = frozenset({"createdAt", "updatedAt", "_rev"})
METADATA_PREFIX = "metadata."
_NUMBER_FIELDS = frozenset({"weight", "confidence"})

_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{0,15}[1-9]|-?(?:0|[1-9][0-9]{0,14})\.0")


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Which column fills which field, by header. `metadata` None takes every column that fills no field."""

    fields: Mapping[str, str]
    metadata: Sequence[str] | None = None


NO_MAP = ColumnMap(fields={})


def read_table(text: str, *, delimiter: str, columns: ColumnMap = NO_MAP) -> Parsed:
    """Every row of `text`. A row with another number of cells than the header, or a broken quote, is a failure alone.

    Line numbers are those on which a row begins, the header being line 1. A header that repeats or lacks a name, or
    lacks a mapped column, is one failure at its line, and no row is read.
    """
    parsed = Parsed()
    records = _records(text.removeprefix("\ufeff"), delimiter, parsed)
    first = next(records, None)
    if first is None:
        return parsed
    header = [name.strip() for name in first[1]]
    fault = _header_fault(header, columns)
    if fault is not None:
        parsed.failures.append(ImportFailure(line=first[0], name="ImportFormatError", message=fault))
        return parsed
    table: list[tuple[int, list[str]]] = []
    for line, cells in records:
        if len(cells) == len(header):
            table.append((line, cells))
            continue
        text_fault = f"The row has {len(cells)} cells and the header {len(header)}."
        column = min(len(cells), len(header)) + 1
        parsed.failures.append(ImportFailure(line, "ImportFormatError", text_fault, column))
    _fill(parsed, header, table, columns)
    return parsed


def _records(text: str, delimiter: str, parsed: Parsed) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each begins on; blank lines are passed over."""
    lines = text.splitlines(keepends=True) if "\r" not in text else re.split(r"(?<=\n)|(?<=\r)(?!\n)", text)
    csv.field_size_limit(CELL_CHARACTERS_MAX)
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    while True:
        begins = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            parsed.failures.append(ImportFailure(begins, "ImportFormatError", f"The row cannot be read: {error}."))
            continue
        if cells and (len(cells) > 1 or cells[0].strip()):
            yield begins, cells


def _header_fault(header: list[str], columns: ColumnMap) -> str | None:
    if len(header) > COLUMNS_MAX:
        return f"The header has {len(header)} columns; {COLUMNS_MAX} are taken."
    if "" in header:
        return f"Column {header.index('') + 1} of the header has no name."
    seen: set[str] = set()
    for name in header:
        if name in seen:
            return f'The header names the column "{name[:64]}" twice.'
        seen.add(name)
    wanted = [*columns.fields.values(), *(columns.metadata or ())]
    missing = next((name for name in wanted if name not in seen), None)
    return None if missing is None else f'The column map names "{missing[:64]}", which the header does not have.'


def _fill(parsed: Parsed, header: list[str], table: list[tuple[int, list[str]]], columns: ColumnMap) -> None:
    ends = _ends(header, columns)
    shapes = {
        relation: _Shape.of(header, columns, relation=relation) for relation in ({False, True} if ends else {False})
    }
    related = [ends is not None and any(cells[place].strip() for place in ends) for _, cells in table]
    readers = {
        (relation, place): _column_reader(
            [cells[place] for (_, cells), is_relation in zip(table, related, strict=True) if is_relation == relation]
        )
        for relation, shape in shapes.items()
        for place in shape.extra
    }
    for (line, cells), relation in zip(table, related, strict=True):
        fields = _fields(cells, shapes[relation], {place: readers[relation, place] for place in shapes[relation].extra})
        parsed.rows.append(Row(line, fields, relation, place=len(parsed.rows)))


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which column fills which field of a record, and which ones are metadata under which key."""

    places: Mapping[str, int]
    extra: Mapping[int, str]
    relation: bool

    @classmethod
    def of(cls, header: list[str], columns: ColumnMap, *, relation: bool) -> _Shape:
        names = RELATION_FIELDS if relation else ENTITY_FIELDS
        places = _field_places(header, columns, names)
        if columns.metadata is not None:
            return cls(places, {header.index(name): name for name in columns.metadata}, relation)
        # A column of the other kind of record is no metadata of this one, as long as the table has both.
        others = _field_places(header, columns, ENTITY_FIELDS if relation else RELATION_FIELDS)
        mixed = _ends(header, columns) is not None
        taken = {*places.values(), *(others.values() if mixed else ())}
        extra = {
            place: name.removeprefix(METADATA_PREFIX)
            for place, name in enumerate(header)
            if place not in taken and name not in ENGINE_COLUMNS
        }
        return cls(places, extra, relation)


def _fields(cells: list[str], shape: _Shape, readers: Mapping[int, Callable[[str], object]]) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, place in shape.places.items():
        if cells[place].strip():
            fields[name] = _field_value(name, cells[place])
    metadata = {key: readers[place](cells[place]) for place, key in shape.extra.items() if cells[place] != ""}
    if "data" not in fields and not shape.relation:
        words = [f"{key}: {cells[place]}" for place, key in shape.extra.items() if isinstance(metadata.get(key), str)]
        if words:
            fields["data"] = "\n".join(words)
    if metadata:
        fields["metadata"] = metadata
    return fields


def _ends(header: list[str], columns: ColumnMap) -> tuple[int, int] | None:
    """The columns of the two ends, in a table that has both."""
    places = _field_places(header, columns, ("from", "to"))
    return (places["from"], places["to"]) if len(places) == 2 else None


def _field_places(header: list[str], columns: ColumnMap, names: Sequence[str]) -> dict[str, int]:
    """Field name -> column place: the map first, then a column of exactly that name, then of that name in any case."""
    places = {name: header.index(column) for name, column in columns.fields.items() if name in names}
    lowered = [name.lower() for name in header]
    for name in names:
        if name in places:
            continue
        place = header.index(name) if name in header else None
        if place is None and lowered.count(name.lower()) == 1:
            place = lowered.index(name.lower())
        if place is not None and place not in places.values():
            places[name] = place
    return places


def _field_value(name: str, cell: str) -> object:
    if name not in _NUMBER_FIELDS:
        return cell if name == "data" else cell.strip()
    try:
        return float(cell)
    except ValueError:
        return cell  # the contract's check refuses it, naming the field


def _column_reader(cells: list[str]) -> Callable[[str], object]:
    """How the cells of one column are read: the narrowest type that every filled cell has, text otherwise."""
    filled = [cell for cell in cells if cell != ""]
    if filled and all(cell in _TRUTH for cell in filled):
        return _TRUTH.__getitem__
    if filled and all(_INTEGER.fullmatch(cell) for cell in filled):
        return int
    if filled and all(_INTEGER.fullmatch(cell) or _DECIMAL.fullmatch(cell) for cell in filled):
        return _number
    return str


_TRUTH: dict[str, object] = {"true": True, "false": False}


def _number(cell: str) -> object:
    """Whole numbers of a column of decimals stay whole: a filter compares the two as numbers."""
    return float(cell) if "." in cell else int(cell)
