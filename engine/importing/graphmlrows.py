"""GraphML rows: nodes are entities, edges relations, `data` elements their fields and metadata.

An attribute called like a field of a record fills it, `metadata.<key>` and every other name is a metadata key. The
engine's own fields (`createdAt`, `updatedAt`, `_rev`) are passed over. No document type is read, so no entity is
expanded, and nothing outside the content is ever looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from contract.codec import decode
from contract.refusals import Refusal
from engine.exchange.columns import ENGINE_FIELDS, ENTITY_FIELDS, RELATION_FIELDS
from engine.importing.rows import ImportFailure, Parsed, Row

DEPTH_MAX: Final = 64
_METADATA: Final = "metadata."


@dataclass(slots=True)
class _Key:
    """A declared attribute."""

    name: str
    type: str
    default: str | None = None


@dataclass(slots=True)
class _Record:
    """A node or an edge while its element is open."""

    line: int
    relation: bool
    fields: dict[str, Any] = field(default_factory=dict)
    data: list[tuple[str, str, bool]] = field(default_factory=list)


class _MalformedError(Exception):
    """What makes the whole document unreadable."""


def read_graphml(text: str) -> Parsed:
    """Every node and edge of `text`. A document that is not well formed is one failure, and no row."""
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=" ")
    reader.attach(parser)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        message = f"The document is not well formed: {expat.ErrorString(error.code)}."
        return Parsed(failures=[ImportFailure(error.lineno, "ImportFormatError", message, error.offset + 1)])
    except _MalformedError as fault:
        return Parsed(failures=[ImportFailure(parser.CurrentLineNumber, "ImportFormatError", str(fault))])
    if not reader.is_graphml:
        message = "The document is not GraphML: its outer element is another one."
        return Parsed(failures=[ImportFailure(1, "ImportFormatError", message)])
    return reader.parsed


class _Reader:
    """The handlers of one parse."""

    def __init__(self) -> None:
        self.parsed = Parsed()
        self.is_graphml = False
        self._keys: dict[str, _Key] = {}
        self._record: _Record | None = None
        self._text: list[str] = []
        self._data: tuple[str, bool] | None = None
        self._key: _Key | None = None
        self._directed = True
        self._depth = 0
        self._parser: Any = None

    def attach(self, parser: Any) -> None:  # noqa: ANN401 - an expat parser has no type of its own
        """Sets the handlers. A document type would bring entities: it is refused."""
        self._parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append
        parser.StartDoctypeDeclHandler = self._doctype

    def _doctype(self, *_: object) -> None:
        raise _MalformedError("A document type declaration is not read: take it out.")

    def _start(self, spelled: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _MalformedError(f"The document is nested over {DEPTH_MAX} levels deep.")
        name = spelled.rpartition(" ")[2]
        self._text.clear()
        if self._depth == 1:
            self.is_graphml = name == "graphml"
        if name == "key":
            self._key = _Key(
                attributes.get("attr.name", attributes.get("id", "")), attributes.get("attr.type", "string")
            )
            self._keys[attributes.get("id", "")] = self._key
        elif name == "graph":
            self._directed = attributes.get("edgedefault") != "undirected"
        elif name == "node":
            self._record = _Record(self._line, False, {"id": attributes.get("id", "")})
        elif name == "edge":
            self._record = _Record(self._line, True, self._ends(attributes))
        elif name == "hyperedge":
            message = "A hyperedge is not read: a relation has two ends."
            self.parsed.failures.append(ImportFailure(self._line, "ImportFormatError", message))
        elif name == "data":
            self._data = (attributes.get("key", ""), attributes.get("json") == "true")

    def _ends(self, attributes: dict[str, str]) -> dict[str, Any]:
        ends: dict[str, Any] = {"from": attributes.get("source", ""), "to": attributes.get("target", "")}
        directed = attributes.get("directed", "true" if self._directed else "false") != "false"
        return ends if directed else ends | {"bidirectional": True}

    @property
    def _line(self) -> int:
        return int(self._parser.CurrentLineNumber)

    def _end(self, spelled: str) -> None:
        self._depth -= 1
        name = spelled.rpartition(" ")[2]
        text = "".join(self._text)
        if name == "default" and self._key is not None:
            self._key.default = text
        elif name == "key":
            self._key = None
        elif name == "data" and self._data is not None:
            if self._record is not None:
                self._record.data.append((self._data[0], text, self._data[1]))
            self._data = None
        elif name in ("node", "edge") and self._record is not None:
            self._take(self._record)
            self._record = None
        self._text.clear()

    def _take(self, record: _Record) -> None:
        try:
            self._fill(record)
        except Refusal as refusal:
            self.parsed.failures.append(ImportFailure(record.line, refusal.name, refusal.message))
            return
        self.parsed.rows.append(Row(record.line, record.fields, record.relation, place=len(self.parsed.rows)))

    def _fill(self, record: _Record) -> None:
        names = RELATION_FIELDS if record.relation else ENTITY_FIELDS
        metadata: dict[str, Any] = {}
        for key_id, text, is_json in record.data:
            key = self._keys.get(key_id)
            if key is None:
                raise Refusal(
                    "ImportFormatError", f'The data element names the key "{key_id[:64]}", which is not there.'
                )
            value = decode(text.encode(), "json") if is_json else _value(key, text)
            if key.name in ENGINE_FIELDS:
                continue
            if key.name in names and key.name not in ("id", "from", "to"):
                record.fields[key.name] = value
            else:
                metadata[key.name.removeprefix(_METADATA)] = value
        if metadata:
            record.fields["metadata"] = metadata


def _value(key: _Key, text: str) -> Any:  # noqa: ANN401 - a JSON value
    """Text as the type that its key declares; ImportFormatError when it is none."""
    try:
        if key.type == "boolean":
            return {"true": True, "false": False, "1": True, "0": False}[text.strip().lower()]
        if key.type in ("int", "long"):
            return int(text)
        if key.type in ("float", "double"):
            number = float(text)
            if number - number == 0:
                return number
            raise ValueError(text)
    except (KeyError, ValueError):
        message = f'"{text[:64]}" of "{key.name[:64]}" is no {key.type}.'
        raise Refusal("ImportFormatError", message) from None
    return text
