"""The portable graph, format `brain-portable-graph` version 1: JSON Lines, in an order that depends on the rows alone.

    {"format":"brain-portable-graph","version":1,"generation":..,"exportedAt":..,"counts":{..},"vectors":..,"model":..}
    {"e":Entity,"crc":"8 hex digits"}                                       by id
    {"r":Relation,"crc":..}                                                 by id
    {"b":{"sha256":..,"size":..,"mediaType":..,"base64":..},"crc":..}       by sha256
    {"end":true,"sha256":"of every byte before this line"}

`crc` is the CRC-32 of the bytes between `{"e":` and `,"crc"`: it finds the damaged line, where the last line only says
that there is one. Both may be taken away by somebody who edits an export by hand; a line without a `crc` is taken as it
stands. Exporting, importing into an empty brain and exporting again gives the same bytes but for the header's
`generation` and `exportedAt`. Pure.
"""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

FORMAT: Final = "brain-portable-graph"
VERSION: Final = 1
KINDS: Final = ("e", "r", "b")

_FRAMED: Final = re.compile(rb'\{"([erb])":(\{.*\}),"crc":"([0-9a-f]{8})"\}')
_BLOB: Final = re.compile(rb'\{"b":\{[^{}]{0,200}?"sha256":"([0-9a-f]{64})"')


def line(kind: str, value: bytes) -> bytes:
    """One record's line; `value` is its JSON."""
    return b'{"%b":%b,"crc":"%08x"}\n' % (kind.encode(), value, crc32(value))


def line_end(crc: int) -> bytes:
    """What ends a record's line whose value was written in pieces and has this CRC-32."""
    return b',"crc":"%08x"}\n' % crc


def is_damaged(text: bytes) -> bool:
    """Whether a line carries a `crc` that its bytes do not have. `text` is the line without its end."""
    found = _FRAMED.fullmatch(text)
    return found is not None and crc32(found[2]) != int(found[3], 16)


def blob_of_line(text: bytes) -> str | None:
    """The hash that a line of file content says it has, without decoding the content; None for any other line."""
    found = _BLOB.match(text)
    return None if found is None else found[1].decode()


def trailer(sha256: str) -> bytes:
    """The last line."""
    return b'{"end":true,"sha256":"%b"}\n' % sha256.encode()
