"""Documents as bytes and back, JSON and MessagePack, equally strict. No schema is known here: that is `contract.check`.

A document is None, bool, int, float, str, list, dict with str keys, or `Vector`. What one encoding refuses the other
refuses too: duplicate keys, NaN, Infinity, integers outside -2^63..2^64-1, lone surrogates, NUL in text, nesting beyond
the limit, bytes after the end. int and float stay distinct both ways.
"""

import math
import re
from array import array
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Literal, cast

import msgpack
import msgspec

from contract.documents import Fault, colon_count, is_clean, key_count, locate, path_text
from contract.limits import DOCUMENT_CONTAINERS_MAX, NESTING_DEPTH_MAX
from contract.refusals import Refusal
from contract.vector import VECTOR_EXT_CODE, Vector

Media = Literal["json", "msgpack"]
VectorEncoding = Literal["list", "f32"]

__all__ = ["Media", "Vector", "VectorEncoding", "decode", "encode", "splice_meta"]

# A JSON string, or what begins as one and never ends: possessive and total, so that hostile text costs one pass.
_STRING_TEXT = rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)'
_STRING = re.compile(_STRING_TEXT, re.DOTALL)
_BRACKET = re.compile(_STRING_TEXT + rb"|[\[\]{}]", re.DOTALL)
_NUMBER = re.compile(_STRING_TEXT + rb"|-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?", re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
# The place of a fault is looked for in this many tokens; beyond them the refusal says how far was looked.
_TOKENS_MAX = 200_000


def decode(body: bytes, media: Media) -> Any:  # noqa: ANN401 - the decode edge
    """The document that `body` holds, complete and clean.

    Refuses `UndecodableBodyError` with the byte offset or the document path of the fault. Cost: one pass over the
    bytes and one over the containers of the document.
    """
    return _decode_json(body) if media == "json" else _decode_msgpack(body)


def encode(document: object, media: Media, vectors: VectorEncoding = "f32") -> bytes:
    """The bytes of `document`. JSON prints a `Vector` as numbers whatever `vectors` says.

    Refuses `ValidationError` with the path of a value that no document may hold.
    """
    try:
        if not is_clean(document):
            raise _unencodable(document)
        if media == "json":
            return _JSON.encode(document)
        return cast("bytes", msgpack.packb(document, default=_PACK_HOOKS[vectors]))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unencodable(document) from error


def splice_meta(body: bytes, media: Media, meta: Mapping[str, object]) -> bytes:
    """`body`, an encoded object without `_meta`, with `_meta: meta` as its last member; the rest is not decoded."""
    if media == "json":
        assert body[-1:] == b"}", "an answer is an object"
        head = body[:-1].rstrip()
        comma = b"" if head == b"{" else b","
        return b'%b%b"_meta":%b}' % (head, comma, _JSON.encode(meta))
    count, header_bytes = _map_header(body)
    packer = msgpack.Packer()
    return b"".join(
        (packer.pack_map_header(count + 1), body[header_bytes:], packer.pack("_meta"), packer.pack(dict(meta)))
    )


def _map_header(body: bytes) -> tuple[int, int]:
    """Pair count and header size of the MessagePack map that `body` begins with."""
    first = body[0]
    if first & 0xF0 == 0x80:
        return first & 0x0F, 1
    if first == 0xDE:
        return int.from_bytes(body[1:3], "big"), 3
    assert first == 0xDF, "an answer is an object"
    return int.from_bytes(body[1:5], "big"), 5


def _vector_numbers(value: object) -> list[float]:
    if isinstance(value, Vector):
        return value.tolist()
    raise TypeError(f"a document holds no {type(value).__name__}")


def _vector_ext(value: object) -> msgpack.ExtType:
    if isinstance(value, Vector):
        return msgpack.ExtType(VECTOR_EXT_CODE, value.data)
    raise TypeError(f"a document holds no {type(value).__name__}")


_JSON = msgspec.json.Encoder(enc_hook=_vector_numbers)
_JSON_DECODER = msgspec.json.Decoder()
_PACK_HOOKS = {"f32": _vector_ext, "list": _vector_numbers}


def _unencodable(document: object) -> Refusal:
    fault = locate(document) or Fault((), "is not a document")
    return Refusal(
        "ValidationError",
        f"The value at {path_text(fault.path)} {fault.reason}.",
        details={"path": path_text(fault.path)},
    )


def _undecodable(message: str, **details: object) -> Refusal:
    return Refusal("UndecodableBodyError", message, details=details)


def _holds_duplicate(body: bytes, document: object) -> bool:
    """Whether the decoder dropped a key: every key has a colon, so the body then has more of them than the document."""
    colons = body.count(b":")
    if colons == (keys := key_count(document)):
        return False
    if b"\\u003" not in body:
        return colons != keys + colon_count(document)
    return _STRING.sub(b"", body).count(b":") != keys


def _decode_json(body: bytes) -> object:
    if body[:3] == b"\xef\xbb\xbf":
        raise _undecodable("The body begins with a byte order mark at byte 0.", offset=0)
    if len(body) > DOCUMENT_CONTAINERS_MAX and body.count(b"[") + body.count(b"{") > DOCUMENT_CONTAINERS_MAX:
        outside = _STRING.sub(b"", body)
        if outside.count(b"[") + outside.count(b"{") > DOCUMENT_CONTAINERS_MAX:
            raise _too_many_containers()
    try:
        document = _JSON_DECODER.decode(body)
    except RecursionError as error:
        raise _too_deep(body) from error
    except msgspec.ValidationError as error:
        raise _out_of_range(body) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _malformed_json(body, str(error)) from error
    if not is_clean(document):
        raise _unclean(document)
    if _holds_duplicate(body, document):
        raise _duplicate(body)
    return document


def _unclean(document: object) -> Refusal:
    fault = locate(document)
    assert fault is not None, "an unclean document has a fault"
    path = path_text(fault.path)
    return _undecodable(f"The value at {path} {fault.reason}.", path=path)


def _too_many_containers() -> Refusal:
    return _undecodable(f"The body holds more than {DOCUMENT_CONTAINERS_MAX} objects and lists.", path="$")


def _too_deep(body: bytes) -> Refusal:
    depth, seen = 0, 0
    for found in islice(_BRACKET.finditer(body), _TOKENS_MAX):
        seen = found.start()
        if found[0][:1] != b'"':
            depth += 1 if found[0] in b"[{" else -1
        if depth > NESTING_DEPTH_MAX:
            break
    return _undecodable(f"The body nests deeper than {NESTING_DEPTH_MAX} levels at or after byte {seen}.", offset=seen)


def _out_of_range(body: bytes) -> Refusal:
    seen = 0
    for found in islice(_NUMBER.finditer(body), _TOKENS_MAX):
        seen = found.start()
        if found[0][:1] != b'"' and not math.isfinite(float(found[0])):
            number = found[0][:64].decode("ascii")
            return _undecodable(f"The number {number} at byte {seen} is beyond the range of a double.", offset=seen)
    return _undecodable(f"A number after byte {seen} is beyond the range of a double.", offset=seen)


def _malformed_json(body: bytes, reason: str) -> Refusal:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return _undecodable(
            f"The body is not UTF-8: byte 0x{body[error.start]:02x} at byte {error.start}.", offset=error.start
        )
    strings = islice(_STRING.finditer(body), _TOKENS_MAX) if b"\\u" in body else ()
    for found in strings:
        if (lone := _lone_surrogate(found[0])) is not None:
            offset = found.start() + lone
            return _undecodable(f"The text holds a lone surrogate at byte {offset}.", offset=offset)
    if not text.strip():
        return _undecodable("The body is empty, and a JSON document was expected.", offset=0)
    if (found_at := re.search(r"byte (\d+)", reason)) is not None:
        # msgspec counts the byte after the end of the document, not the first one that follows.
        offset = min(int(found_at[1]) - ("trailing" in reason), len(body))
        quoted = body[offset : offset + 1].decode("utf-8", "replace")
        what = "bytes follow the end of the document" if "trailing" in reason else f"unexpected {quoted!r}"
        return _undecodable(f"The body is not one JSON document: {what} at byte {offset}.", offset=offset)
    return _undecodable(f"The body is not one JSON document: it ends early at byte {len(body)}.", offset=len(body))


def _lone_surrogate(token: bytes) -> int | None:
    """Offset inside a JSON string token of an escaped surrogate that has no partner."""
    expected: int | None = None
    for found in islice(_ESCAPE.finditer(token), _TOKENS_MAX):
        unit = int(found[1], 16) if found[1] else 0
        if expected is not None and found.start() == expected and 0xDC00 <= unit <= 0xDFFF:
            expected = None
            continue
        if expected is not None:
            return expected - 6
        if 0xDC00 <= unit <= 0xDFFF:
            return found.start()
        expected = found.end() if 0xD800 <= unit <= 0xDBFF else None
    return None if expected is None else expected - 6


def _duplicate(body: bytes) -> Refusal:
    """The refusal for a JSON body with a duplicate key, found again by a slower decoder that sees every pair."""
    decoder = msgspec.json.Decoder(type=msgspec.Raw)
    raw = decoder.decode(body)
    path = duplicate_path(bytes(raw)) or "$"
    return _undecodable(f"The key at {path} appears twice in its object.", path=path)


def duplicate_path(body: bytes) -> str | None:
    """The path of the first duplicate key of a well-formed JSON body, or None."""
    import json

    class _Twice(dict[str, object]):
        name: str | None = None

    def keep(pairs: list[tuple[str, object]]) -> _Twice:
        found = _Twice(pairs)
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found.name = key
                break
            seen.add(key)
        return found

    stack: list[tuple[tuple[str | int, ...], object]] = [((), json.loads(body, object_pairs_hook=keep))]
    while stack:
        path, value = stack.pop()
        if isinstance(value, _Twice):
            if value.name is not None:
                return path_text((*path, value.name))
            stack.extend(((*path, key), item) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in reversed(list(enumerate(value))))
    return None


class _DuplicateKeyError(ValueError):
    """A MessagePack map names a key twice; the first argument is the key."""


def _unique(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    listed = list(pairs)
    found = dict(listed)
    if len(found) != len(listed):
        seen: set[str] = set()
        for key, _ in listed:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return found


class _Counter:
    """The hooks of a large body: the same, and they stop it at the bound on containers."""

    def __init__(self) -> None:
        self.left = DOCUMENT_CONTAINERS_MAX

    def listed(self, items: list[object]) -> list[object]:
        self._take()
        return items

    def unique(self, pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
        self._take()
        return _unique(pairs)

    def _take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise _too_many_containers()


class _ForeignExtError(ValueError):
    """A MessagePack extension type that no document holds."""


def _extension(code: int, data: bytes) -> Vector:
    if code != VECTOR_EXT_CODE:
        raise _ForeignExtError(f"extension type {code} stands in no document")
    if len(data) % 4 or not data:
        raise _ForeignExtError(f"a vector of {len(data)} bytes is not a whole number of float32")
    numbers = array("f", data)
    if not math.isfinite(sum(numbers)) and not all(map(math.isfinite, numbers)):
        raise _ForeignExtError("a vector holds a value that is not finite")
    return Vector(data)


def _decode_msgpack(body: bytes) -> object:
    if not body:
        raise _undecodable("The body is empty, and a MessagePack document was expected.", offset=0)
    # A body of fewer bytes than the bound cannot hold more containers than it.
    counted = _Counter() if len(body) > DOCUMENT_CONTAINERS_MAX else None
    try:
        document = msgpack.unpackb(
            body,
            raw=False,
            strict_map_key=True,
            object_pairs_hook=counted.unique if counted else _unique,
            list_hook=counted.listed if counted else None,
            ext_hook=_extension,
        )
    except msgpack.ExtraData as error:
        offset = len(body) - len(error.extra)
        raise _undecodable(
            f"The body is not one MessagePack document: bytes follow its end at byte {offset}.", offset=offset
        ) from error
    except msgpack.StackError as error:
        raise _undecodable(f"The body nests deeper than {NESTING_DEPTH_MAX} levels.", path="$") from error
    except _DuplicateKeyError as error:
        raise _undecodable(
            f"The key {str(error.args[0])[:64]!r} appears twice in its object.", key=error.args[0]
        ) from error
    except UnicodeDecodeError as error:
        offset = body.find(error.object) + error.start
        raise _undecodable(f"The body holds text that is not UTF-8 at byte {offset}.", offset=offset) from error
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error) or "it is malformed"
        raise _undecodable(
            f"The body is not one MessagePack document: {reason[:200]}.", offset=_fault_offset(body)
        ) from error
    if not is_clean(document):
        raise _unclean(document)
    return document


def _fault_offset(body: bytes) -> int:
    """How many bytes a streaming decoder reads before it stops; the end of the body when it only wants more."""
    unpacker = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=len(body) + 1)
    unpacker.feed(body)
    try:
        unpacker.skip()
    except (ValueError, msgpack.OutOfData):
        return min(int(unpacker.tell()) or len(body), len(body))
    return int(unpacker.tell())
