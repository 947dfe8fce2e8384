"""From a document to a door's typed parameters, or to a refusal that quotes the value and names the cure.

msgspec decides what fits; this module puts its errors into our words and asks what a type cannot say: ids, file paths,
reserved metadata keys, filters, and that a packed vector stands only where a vector is meant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from contract import messages
from contract.documents import path_text
from contract.door import Door
from contract.limits import (
    BATCH_FAULTS_MAX,
    ID_BYTES_MAX,
    METADATA_KEY_CHARS_MAX,
    VFS_PATH_BYTES_MAX,
    VFS_SEGMENT_BYTES_MAX,
)
from contract.quote import quoted
from contract.refusals import Refusal
from contract.vector import Vector
from contract.where import parse

__all__ = [
    "RESERVED_METADATA_KEYS",
    "check_id",
    "check_json",
    "check_metadata",
    "check_params",
    "check_vfs_path",
    "later_option",
]

Path = tuple[str | int, ...]
Probe = Callable[[Any, Path], None]

RESERVED_METADATA_KEYS: frozenset[str] = frozenset(
    {
        "id",
        "type",
        "noun",
        "verb",
        "subtype",
        "data",
        "metadata",
        "vector",
        "confidence",
        "weight",
        "service",
        "visibility",
        "createdAt",
        "updatedAt",
        "createdBy",
    }
)
"""Names of top-level fields, which metadata may not shadow; keys that begin with `_` are reserved too."""


_TOO_LONG = frozenset({"BatchTooLargeError", "TransactTooLargeError"})


def check_params(door: Door, document: object) -> msgspec.Struct:
    """The typed parameters of `door` that `document` (path parameters included) holds.

    Refuses `ValidationError`; `UnknownNounTypeError`, `UnknownVerbTypeError`; `BatchTooLargeError`, `QueryLimitError`
    and their kin where a bound has its own name; `ReservedFieldError`; `VfsError`; the refusals of `where`. Nothing
    is coerced; null for an optional parameter equals absent.
    """
    if not isinstance(document, dict):
        message = f"The parameters of {door.full_name} are {quoted(document)}, and an object was expected."
        raise Refusal("ValidationError", message, door=door.full_name)
    shape = _shape(door)
    given = document
    if None in document.values():
        given = {key: value for key, value in document.items() if value is not None or key in shape.required}
    try:
        return _checked(door, shape, given)
    except Refusal as refusal:
        if shape.batch is not None:
            _add_item_faults(door, shape, given, refusal)
        raise


def _checked(door: Door, shape: "_Shape", given: dict[str, Any]) -> msgspec.Struct:
    for name in shape.vectors:
        packed = given.get(name)
        if isinstance(packed, Vector):
            given = {**given, name: packed.tolist()}
    try:
        params: msgspec.Struct = msgspec.convert(given, door.params, dec_hook=_vector)
        for name, probe in shape.probes:
            value = given.get(name)
            if value is not None:
                probe(value, (name,))
    except msgspec.ValidationError as error:
        raise messages.refusal_of(door, given, str(error)) from error
    except Refusal as refusal:
        refusal.door = door.full_name
        raise
    return params


def _add_item_faults(door: Door, shape: "_Shape", given: dict[str, Any], refusal: Refusal) -> None:
    """Name every faulty item of a refused batch: `items` the first twenty, `itemsRefused` how many in all."""
    field = shape.batch
    assert field is not None, "asked only of batch doors"
    items = given.get(field)
    if (
        refusal.name in _TOO_LONG
        or not isinstance(items, list)
        or not str((refusal.details or {}).get("path", "")).startswith(f"{field}[")
    ):
        return
    faults: list[dict[str, object]] = []
    for index, item in enumerate(items):
        try:
            _checked(door, shape, {**given, field: [item]})
        except Refusal as fault:
            # The item stood alone in its list: put its own index back into the text.
            alone = str((fault.details or {}).get("path", ""))
            message = fault.message.replace(alone, alone.replace("[0]", f"[{index}]", 1), 1)
            faults.append({"index": index, "name": fault.name, "message": message})
    refusal.details = {**(refusal.details or {}), "items": faults[:BATCH_FAULTS_MAX], "itemsRefused": len(faults)}
    if field == "ops" and faults:
        refusal.details["opIndex"] = faults[0]["index"]


def later_option(door: Door, params: msgspec.Struct) -> tuple[str, str] | None:
    """The first option of `params` that is not built yet and has a non-default value, with its release."""
    for name, wire_name, default in _later_fields(door):
        value = getattr(params, name)
        if value is None or value == default:
            continue
        for option in (wire_name, f"{wire_name}={value}" if isinstance(value, str) else ""):
            if option in door.later:
                return option, door.later[option]
    return None


@cache
def _later_fields(door: Door) -> tuple[tuple[str, str, object], ...]:
    """Attribute, wire name and default of every parameter that `door.later` speaks of; asked at every call."""
    named = {option.partition("=")[0] for option in door.later}
    fields = msgspec.structs.fields(door.params)
    return tuple((spec.name, spec.encode_name, spec.default) for spec in fields if spec.encode_name in named)


def check_id(value: str, path: Path) -> None:
    """Refuse an id that is blank, `.` or `..`, holds a control character, or is longer than 512 bytes of UTF-8."""
    if value.isascii() and value.isprintable() and len(value) <= ID_BYTES_MAX and value.strip(" .") != "":
        return
    reason = _id_fault(value)
    if reason is not None:
        raise Refusal(
            "ValidationError",
            f"The id {quoted(value)} at {path_text(path)} {reason}.",
            cure="An id has 1 to 512 bytes of UTF-8, is not blank, `.` or `..`, and holds no control characters.",
            details={"path": path_text(path), "value": value[:ID_BYTES_MAX]},
        )


def _id_fault(value: str) -> str | None:
    if not value.strip():
        return "is blank"
    if value in (".", ".."):
        return "is a relative path segment"
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in value):
        return "holds a control character"
    size = len(value.encode("utf-8", "replace"))
    return f"has {size} bytes" if size > ID_BYTES_MAX else None


def check_vfs_path(value: str, path: Path) -> None:
    """Refuse a file path that is not absolute, or has `.`, `..`, an empty segment, a backslash or control character.

    `/` alone is the root. Nothing is normalised: a path that would need it is refused as `VfsError` EINVAL.
    """
    segments = value[1:].split("/")
    if not value.startswith("/"):
        reason = "is not absolute"
    elif value != "/" and "" in segments:
        reason = "has an empty segment"
    elif "." in segments or ".." in segments:
        reason = "has a relative segment"
    elif "\\" in value or any(ord(char) < 0x20 or ord(char) == 0x7F for char in value):
        reason = "holds a backslash or a control character"
    elif len(value.encode("utf-8", "replace")) > VFS_PATH_BYTES_MAX:
        reason = "is too long"
    elif any(len(segment.encode("utf-8", "replace")) > VFS_SEGMENT_BYTES_MAX for segment in segments):
        reason = f"has a segment of more than {VFS_SEGMENT_BYTES_MAX} bytes"
    else:
        return
    raise Refusal(
        "VfsError",
        f"The path {quoted(value)} at {path_text(path)} {reason}.",
        details={"code": "EINVAL", "path": value[:1024]},
    )


def check_metadata(value: dict[str, Any], path: Path) -> None:
    """Refuse metadata keys that the engine owns, and packed vectors inside."""
    for key in value:
        if key in RESERVED_METADATA_KEYS or key.startswith("_"):
            where = path_text((*path, key))
            raise Refusal(
                "ReservedFieldError",
                f"The metadata key {quoted(key)} at {where} belongs to the engine.",
                details={"key": key, "path": where},
            )
        if not key or len(key) > METADATA_KEY_CHARS_MAX:
            raise Refusal(
                "ValidationError",
                f"The metadata key {quoted(key)} at {path_text(path)} has {len(key)} characters.",
                cure=f"A key has 1 to {METADATA_KEY_CHARS_MAX} characters.",
                details={"path": path_text(path)},
            )
    check_json(value, path)


def check_json(value: object, path: Path) -> None:
    """Refuse a packed vector in a place that is not a vector's."""
    if isinstance(value, Vector):
        message = f"A packed vector stands at {path_text(path)}, which is no vector field."
        raise Refusal("ValidationError", message, details={"path": path_text(path)})
    if isinstance(value, dict):
        for key, item in value.items():
            check_json(item, (*path, key))
    elif isinstance(value, list):
        if {float, int, str}.issuperset(map(type, value)):
            return
        for index, item in enumerate(value):
            check_json(item, (*path, index))


def _check_where(value: object, path: Path) -> None:
    parse(value, path)


_CHECKS: dict[str, Probe] = {
    "id": check_id,
    "vfsPath": check_vfs_path,
    "metadata": check_metadata,
    "json": check_json,
    "where": _check_where,
}


def _vector(kind: type, value: object) -> object:
    if kind is not Vector:
        raise NotImplementedError(kind)
    if type(value) is Vector:
        return value
    if not isinstance(value, list):
        raise ValueError(messages.NOT_A_VECTOR)
    if not value or len(value) > messages.VECTOR_WIDTH_MAX:
        raise ValueError(messages.VECTOR_WIDTH)
    try:
        return Vector.of(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{messages.BAD_VECTOR}{error}") from error


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a door's parameters need beyond their types.

    `probes` are the wire names of fields with something to ask; `vectors` those of fields that take a vector beside
    other things, which msgspec cannot tell apart from them unless it is a list; `batch` that of the list of items.
    """

    required: frozenset[str]
    probes: tuple[tuple[str, Probe], ...]
    vectors: tuple[str, ...]
    batch: str | None


@cache
def _shape(door: Door) -> _Shape:
    info = msgspec.inspect.type_info(door.params)
    assert isinstance(info, msgspec.inspect.StructType)
    probes = [(spec.encode_name, probe) for spec in info.fields if (probe := _probe(spec.type)) is not None]
    vectors = [spec.encode_name for spec in info.fields if _extra_of(spec.type).get("check") == "vector"]
    batches = [spec.encode_name for spec in info.fields if _extra_of(spec.type).get("too_long")]
    required = frozenset(spec.encode_name for spec in info.fields if spec.required)
    return _Shape(required, tuple(probes), tuple(vectors), batches[0] if batches else None)


def _extra_of(kind: msgspec.inspect.Type) -> dict[str, Any]:
    return (kind.extra or {}) if isinstance(kind, msgspec.inspect.Metadata) else {}


def _probe(kind: msgspec.inspect.Type) -> Probe | None:
    """What to ask of a value of `kind` beyond its type, or None when there is nothing."""
    named: Probe | None = None
    while isinstance(kind, msgspec.inspect.Metadata):
        named = named or _CHECKS.get((kind.extra or {}).get("check", ""))
        kind = kind.type
    if named is not None and not isinstance(kind, msgspec.inspect.UnionType):
        return named
    if isinstance(kind, msgspec.inspect.UnionType):
        return _union_probe(kind, named)
    if isinstance(kind, msgspec.inspect.ListType):
        return _list_probe(_probe(kind.item_type))
    if isinstance(kind, msgspec.inspect.StructType):
        return _struct_probe([(spec.encode_name, _probe(spec.type)) for spec in kind.fields])
    return named


def _list_probe(item: Probe | None) -> Probe | None:
    if item is None:
        return None

    def probe(values: list[object], path: Path) -> None:
        for index, value in enumerate(values):
            item(value, (*path, index))

    return probe


def _struct_probe(members: list[tuple[str, Probe | None]]) -> Probe | None:
    asked = [(name, probe) for name, probe in members if probe is not None]
    if not asked:
        return None

    def probe(value: dict[str, object], path: Path) -> None:
        for name, member in asked:
            item = value.get(name)
            if item is not None:
                member(item, (*path, name))

    return probe


_JSON_KINDS: dict[type[msgspec.inspect.Type], type] = {
    msgspec.inspect.StrType: str,
    msgspec.inspect.ListType: list,
    msgspec.inspect.StructType: dict,
    msgspec.inspect.DictType: dict,
}


def _union_probe(kind: msgspec.inspect.UnionType, named: Probe | None) -> Probe | None:
    """By the JSON kind of the value; tagged objects by their tag. `named` is a probe of the whole union."""
    by_kind: dict[type, Probe] = {}
    tagged: dict[str, Probe] = {}
    tag_field = ""
    for part in kind.types:
        probe = _probe(part)
        bare = part
        while isinstance(bare, msgspec.inspect.Metadata):
            bare = bare.type
        if probe is None or type(bare) not in _JSON_KINDS:
            continue
        if isinstance(bare, msgspec.inspect.StructType) and bare.tag_field is not None:
            tag_field, tagged[str(bare.tag)] = bare.tag_field, probe
        else:
            by_kind[_JSON_KINDS[type(bare)]] = probe
    if not by_kind and not tagged:
        return named

    def ask(value: Any, path: Path) -> None:  # noqa: ANN401 - any document
        if named is not None:
            named(value, path)
        found = tagged.get(value[tag_field]) if tagged and isinstance(value, dict) else by_kind.get(type(value))
        if found is not None:
            found(value, path)

    return ask
