"""Values as bytes: the key of a group, the identity of any JSON value, and numbers that sort as bytes.

Two values share a key exactly when the filter operator `equals` holds between them: 1 and 1.0 are one group, spelled 1,
and -0.0 is 0. Nothing here is read back by another program, but all of it is stored: a change of form needs a new
`definition.STATE_FORMAT`.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from engine.aggregates.exact import INTEGER_MAX, INTEGER_MIN, Number

# A longer identity is kept as its SHA-256: 32 bytes behind a byte that begins no JSON text.
_IDENTITY_BYTES_MAX = 40
_HASHED = b"\xff"

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.decode
_pack = struct.Struct(">QHB")
_float_bits = struct.Struct(">d")
_bits = struct.Struct(">Q")
_SIGN, _ALL = 1 << 63, (1 << 64) - 1


def group_key(values: Sequence[Any]) -> bytes:
    """The one spelling of a group's values (JSON values, in `groupBy` order)."""
    return _encode([_normal(value) for value in values])


def group_values(key: bytes) -> list[Any]:
    """The values that a group key spells."""
    values: list[Any] = _decode(key)
    return values


def value_identity(value: object) -> bytes:
    """Bytes that two JSON values share exactly when they are equal; at most 41 of them."""
    text = _encode(_normal(value))
    return text if len(text) <= _IDENTITY_BYTES_MAX else _HASHED + hashlib.sha256(text).digest()


def _normal(value: object) -> object:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, float):
        # Beyond the integers of a document a float has no integer spelling to be confused with.
        return int(value) if value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX else value
    if isinstance(value, Mapping):
        return {key: _normal(item) for key, item in value.items()}
    assert isinstance(value, (list, tuple)), f"not a JSON value: {value!r}"
    return [_normal(item) for item in value]


def number_key(value: Number) -> bytes:
    """Eleven bytes that sort as the numbers do, exactly, and keep an int apart from the float that equals it.

    The next float at or below the value as ordered bits, the distance to it (under 2,048 for every integer of a
    document), then 0 for an int and 1 for a float. -0.0 is kept as 0.0.
    """
    if isinstance(value, float):
        return _pack.pack(_ordered_bits(value), 0, 1)
    below = float(value)
    if int(below) > value:
        below = math.nextafter(below, -math.inf)
    return _pack.pack(_ordered_bits(below), value - int(below), 0)


def key_number(key: bytes) -> Number:
    """The number that `number_key` was made from."""
    ordered, distance, is_float = _pack.unpack(key)
    bits = ordered ^ _SIGN if ordered & _SIGN else ordered ^ _ALL
    below: float = _float_bits.unpack(_bits.pack(bits))[0]
    return below if is_float else int(below) + distance


def _ordered_bits(value: float) -> int:
    bits: int = _bits.unpack(_float_bits.pack(value + 0.0))[0]
    return bits ^ _ALL if bits & _SIGN else bits | _SIGN
