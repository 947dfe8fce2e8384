"""Ids for rows that bring none: the same row of the same source has the same id, so that an import can be run again.

Rows of equal content within one call are told apart by their order; across the calls of one source they are one record.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_ENCODER = msgspec.json.Encoder(order="sorted")


class RowIds:
    """Gives ids to the rows of one call of one source. A row seen once costs a number, whatever its size."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: set[int] = set()
        self._places: dict[int, int] = {}

    def of(self, fields: dict[str, Any]) -> str:
        """The id of a row with these fields, as they stood in the source: a UUIDv8 of their sha256 (RFC 9562, 5.8)."""
        content = _ENCODER.encode(fields)
        place = self._place(int.from_bytes(hashlib.sha256(content).digest()[:8]))
        return uuid_of(hashlib.sha256(b"brainy import\n%b\n%d\n%b" % (self._source.encode(), place, content)).digest())

    def _place(self, mark: int) -> int:
        """How many equal rows came before."""
        if mark not in self._seen:
            self._seen.add(mark)
            return 0
        self._places[mark] = self._places.get(mark, 0) + 1
        return self._places[mark]


def uuid_of(digest: bytes) -> str:
    """A UUIDv8 of the first 16 bytes of a digest."""
    numbers = bytearray(digest[:16])
    numbers[6] = numbers[6] & 0x0F | 0x80
    numbers[8] = numbers[8] & 0x3F | 0x80
    text = numbers.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
