"""Ids for rows that bring none: the same row of the same source has the same id, so that an import can be run again.

Rows of equal content within one call are told apart by their order; across the calls of one source they are one record.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")


class RowIds:
    """Gives ids to the rows of one call of one source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: Counter[bytes] = Counter()

    def of(self, fields: dict[str, Any]) -> str:
        """The id of a row with these fields, as they stood in the source: a UUIDv8 of their sha256 (RFC 9562, 5.8)."""
        content = _ENCODER.encode(fields)
        place = self._seen[content]
        self._seen[content] += 1
        named = b"brainy import\n%b\n%d\n%b" % (self._source.encode(), place, content)
        digest = bytearray(hashlib.sha256(named).digest()[:16])
        digest[6] = digest[6] & 0x0F | 0x80
        digest[8] = digest[8] & 0x3F | 0x80
        text = digest.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
