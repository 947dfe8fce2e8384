"""An export as GraphML: entities are nodes, relations directed edges, their fields and metadata `data` elements.

A metadata key is the attribute `metadata.<key>`. A value that XML cannot hold as text (an object, a list, a null, a
control character) is JSON, and its element says `json="true"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from engine.doors.registry import Document
from engine.exchange.columns import ENTITY_FIELDS, RELATION_FIELDS, Columns
from engine.exchange.export import Export
from engine.sqlite.rows import encode_doc

NAMESPACE: Final = "http://graphml.graphdrawing.org/xmlns"
METADATA_PREFIX: Final = "metadata."

_KINDS: Final = {"confidence": "double", "weight": "double", "createdAt": "long", "updatedAt": "long", "_rev": "long"}
_ENTITY: Final = tuple(name for name in ENTITY_FIELDS if name != "id")
_RELATION: Final = tuple(name for name in RELATION_FIELDS if name not in ("id", "from", "to"))
# What XML 1.0 cannot hold, and the carriage return, which a reader would turn into a line feed.
_UNWRITABLE: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def graphml_pieces(export: Export, columns: Columns) -> Iterator[bytes]:
    """The document, a piece for each chunk of records."""
    nodes = _keys(_ENTITY, columns.entities, "n")
    edges = _keys(_RELATION, columns.relations, "r")
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="{NAMESPACE}">\n'.encode()
    yield "".join(_declared(nodes, columns.entities, "node")).encode()
    yield "".join(_declared(edges, columns.relations, "edge")).encode()
    yield b'<graph id="brain" edgedefault="directed">\n'
    for docs in export.entities():
        yield "".join(f"<node id={attribute(doc['id'])}>{_data(doc, nodes)}</node>\n" for doc in docs).encode()
    for docs in export.relations():
        yield "".join(_edge(doc, edges) for doc in docs).encode()
    yield b"</graph>\n</graphml>\n"


def _keys(fields: tuple[str, ...], metadata: Mapping[str, str], letter: str) -> dict[str, str]:
    """Attribute name -> id of its key element."""
    names = [*fields, *(METADATA_PREFIX + key for key in sorted(metadata))]
    return {name: f"{letter}{number}" for number, name in enumerate(names)}


def _declared(keys: Mapping[str, str], metadata: Mapping[str, str], domain: str) -> Iterator[str]:
    for name, key in keys.items():
        kind = metadata.get(name[len(METADATA_PREFIX) :]) if name.startswith(METADATA_PREFIX) else _KINDS.get(name)
        shown = "string" if kind in (None, "json") else kind
        yield f'<key id="{key}" for="{domain}" attr.name={attribute(name)} attr.type="{shown}"/>\n'


def _edge(doc: Document, keys: Mapping[str, str]) -> str:
    ends = f"source={attribute(doc['from'])} target={attribute(doc['to'])}"
    return f"<edge id={attribute(doc['id'])} {ends}>{_data(doc, keys)}</edge>\n"


def _data(doc: Document, keys: Mapping[str, str]) -> str:
    values = {name: value for name, value in doc.items() if name in keys}
    values |= {METADATA_PREFIX + key: value for key, value in doc.get("metadata", {}).items()}
    return "".join(_element(keys[name], value) for name, value in values.items())


def _element(key: str, value: Any) -> str:  # noqa: ANN401 - any JSON value
    plain = isinstance(value, str) and not _UNWRITABLE.search(value)
    if plain:
        return f'<data key="{key}">{escape(value)}</data>'
    text = encode_doc(value).decode()
    if isinstance(value, bool | int | float):
        return f'<data key="{key}">{text}</data>'
    return f'<data key="{key}" json="true">{escape(_ascii(text))}</data>'


def _ascii(text: str) -> str:
    """JSON text in which everything that XML cannot hold is escaped."""
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def attribute(text: str) -> str:
    """Text as a quoted attribute; ids hold no control character."""
    return quoteattr(_UNWRITABLE.sub("\ufffd", text), {"\n": "&#10;", "\t": "&#9;"})
