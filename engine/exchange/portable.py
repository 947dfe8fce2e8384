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

_STARTS: Final = tuple(b'{"%b":{' % kind.encode() for kind in KINDS)
_START_BYTES: Final = len(b'{"e":')
_CRC: Final = b'},"crc":"'
_END_BYTES: Final = len(b',"crc":"01234567"}')
_BLOB: Final = re.compile(rb'\{"b":\{[^{}]{0,200}?"sha256":"([0-9a-f]{64})"')


def line(kind: str, value: bytes) -> bytes:
    """One record's line; `value` is its JSON."""
    return b'{"%b":%b,"crc":"%08x"}\n' % (kind.encode(), value, crc32(value))


def line_end(crc: int) -> bytes:
    """What ends a record's line whose value was written in pieces and has this CRC-32."""
    return b',"crc":"%08x"}\n' % crc


def framed(text: bytes) -> bytes | None:
    """The value of a line that is framed as `line` frames it, whatever its `crc` says; None for any other line."""
    if not text.startswith(_STARTS) or text[-_END_BYTES - 1 : -10] != _CRC or not text.endswith(b'"}'):
        return None
    return text[_START_BYTES:-_END_BYTES]


def is_damaged(text: bytes) -> bool:
    """Whether a line carries a `crc` that its bytes do not have. `text` is the line without its end."""
    value = framed(text)
    if value is None:
        return False
    return b"%08x" % crc32(value) != text[-10:-2]


def blob_of_line(text: bytes) -> str | None:
    """The hash that a line of file content says it has, without decoding the content; None for any other line."""
    found = _BLOB.match(text)
    return None if found is None else found[1].decode()


def trailer(sha256: str) -> bytes:
    """The last line."""
    return b'{"end":true,"sha256":"%b"}\n' % sha256.encode()
