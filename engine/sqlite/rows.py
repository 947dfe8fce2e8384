"""Rows as SQLite holds them <-> records, with the checksum that ties a row to its own address. Pure.

A CRC covers every column of the row, so that a flipped bit, a swapped page and a row put in another's place are all
noticed when the row is read. SQLite's own integrity check notices none of them (measured).
"""

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final
from zlib import crc32

import msgspec

from contract.refusals import Refusal
from contract.vocabulary import NOUN_TYPES, VERB_TYPES
from engine.records import FOREVER, ChangeKind, Document, Entity, Operation, Relation, Watermarks

ENTITY, RELATION, PATH, DEFINITION = 1, 2, 3, 4
ADD, UPDATE, REMOVE = 1, 2, 3
KIND_NAMES: Final[Mapping[int, ChangeKind]] = {
    ENTITY: "entity",
    RELATION: "relation",
    PATH: "path",
    DEFINITION: "definition",
}
OP_NAMES: Final[Mapping[int, Operation]] = {ADD: "add", UPDATE: "update", REMOVE: "remove"}

VISIBILITIES: Final = ("public", "internal", "system")
VISIBILITY_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(VISIBILITIES)}
NOUN_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(NOUN_TYPES)}
VERB_NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(VERB_TYPES)}

_ADDRESS: Final = struct.Struct("<6q")
_SHORT: Final = struct.Struct("<4q")
_ONE: Final = struct.Struct("<q")
_MARKS: Final = struct.Struct("<5q")

encode_doc: Final = msgspec.json.Encoder().encode
_decode_doc: Final = msgspec.json.Decoder(dict[str, Any]).decode

Traits = tuple[int, str | None, int, str | None]
"""(type, subtype, visibility, service) as the columns hold them."""


def traits_of_entity(doc: Document) -> Traits:
    """The columns that are drawn from an entity's document."""
    return (
        NOUN_NUMBERS[doc["type"]],
        doc.get("subtype"),
        VISIBILITY_NUMBERS[doc.get("visibility", "public")],
        doc.get("service"),
    )


def traits_of_relation(doc: Document) -> Traits:
    """The columns that are drawn from a relation's document."""
    return (
        VERB_NUMBERS[doc["type"]],
        doc.get("subtype"),
        VISIBILITY_NUMBERS[doc.get("visibility", "public")],
        doc.get("service"),
    )


def row_crc(address: tuple[int, int, int, int], identity: str, traits: Traits, doc: bytes) -> int:
    """The checksum of a current row. `address`: (iid, ver, cid, g0) of an entity, (rid, src, dst, g0) of a relation."""
    type_, sub, visibility, service = traits
    head = _ADDRESS.pack(*address, type_, visibility)
    return crc32(doc, crc32(f"{identity}\0{sub}\0{service}".encode(), crc32(head)))


def old_crc(crc: int, g1: int) -> int:
    """The checksum of a closed row, from the one it had while it was current."""
    return crc32(_ONE.pack(g1), crc)


def small_crc(numbers: tuple[int, int, int, int], data: bytes) -> int:
    """The checksum of a row of four numbers and some bytes."""
    return crc32(data, crc32(_SHORT.pack(*numbers)))


def change_digest(address: tuple[int, int, int, int], identity: str, doc: bytes) -> bytes:
    """What the commit chain remembers of a row that was added or updated."""
    return sha256(_SHORT.pack(*address) + identity.encode() + b"\0" + doc).digest()


def removal_digest(key: int, ver: int) -> bytes:
    """What the commit chain remembers of a row that was ended."""
    return sha256(_SHORT.pack(key, ver, -1, -1)).digest()


def is_small_intact(numbers: tuple[int, int, int, int], data: bytes | str, crc: int) -> bool:
    """True when `small_crc` of the values is `crc`; values of a wrong type, which damage can make, are not intact."""
    try:
        return small_crc(numbers, data.encode() if isinstance(data, str) else data) == crc
    except (TypeError, struct.error):
        return False


def _is_intact(
    address: tuple[int, int, int, int], g1: int, identity: str, traits: Traits, doc: bytes, crc: int
) -> bool:
    try:
        found = row_crc(address, identity, traits, doc)
        return (found if g1 == FOREVER else old_crc(found, g1)) == crc
    except (TypeError, struct.error):  # a damaged header gives a column another type
        return False


def meta_crc(key: str, value: object) -> int:
    """The checksum of a row of `meta`."""
    return crc32(repr((key, value)).encode())


def member(names: Sequence[str], number: object) -> str:
    """The name that a stored integer stands for; damage can make it stand for none."""
    if isinstance(number, int) and 0 <= number < len(names):
        return names[number]
    raise corrupt("vocabulary number", number)


def entity_of(row: tuple[Any, ...]) -> Entity:
    """The entity of a row (iid, ver, cid, g0, g1, id, type, sub, vis, service, crc, doc), checked."""
    iid, ver, cid, g0, g1, identity, type_, sub, visibility, service, crc, doc = row
    if not _is_intact((iid, ver, cid, g0), g1, identity, (type_, sub, visibility, service), doc, crc):
        raise corrupt("entity", identity, {"iid": iid, "version": ver})
    return Entity(iid, ver, cid, g0, g1, identity, _decode_doc(doc))


def relation_of(row: tuple[Any, ...]) -> Relation:
    """The relation of a row (rid, src, dst, g0, g1, id, type, sub, vis, service, crc, doc), checked."""
    rid, src, dst, g0, g1, identity, type_, sub, visibility, service, crc, doc = row
    if not _is_intact((rid, src, dst, g0), g1, identity, (type_, sub, visibility, service), doc, crc):
        raise corrupt("relation", identity, {"rid": rid, "generation": g0})
    return Relation(rid, src, dst, g0, g1, identity, _decode_doc(doc))


def decode_object(data: bytes) -> Document:
    """A stored JSON object that its row's checksum has vouched for."""
    return _decode_doc(data)


def corrupt(kind: str, name: object, details: Mapping[str, object] | None = None) -> Refusal:
    """The refusal for a stored row that does not match its checksum."""
    return Refusal(
        "RecordCorruptError",
        f"The stored {kind} {name!r} is damaged: its bytes do not match its checksum.",
        details={"kind": kind, "record": name, **(details or {})},
    )


def pack_marks(marks: Watermarks) -> bytes:
    """Watermarks as a commit row keeps them."""
    return _MARKS.pack(marks.iid, marks.ver, marks.cid, marks.vid, marks.rid)


def unpack_marks(data: bytes) -> Watermarks:
    """The inverse of `pack_marks`."""
    try:
        return Watermarks(*_MARKS.unpack(data))
    except (TypeError, struct.error):
        raise corrupt("watermarks", "newest commit") from None


def slot(value: str | None) -> str:
    """An optional text as a counter's key column holds it."""
    return "" if value is None else "." + value


def unslot(value: str) -> str | None:
    """The inverse of `slot`."""
    return value[1:] if value else None
