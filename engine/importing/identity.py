"""Ids for rows that bring none: the same row of the same source has the same id, so that an import can be run again.

Rows of equal content within one call are told apart by their order; across the calls of one source they are one record.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import msgspec

# A random constant of ours: ids of imports are version 5 UUIDs in this namespace (RFC 9562, 5.5).
_NAMESPACE = uuid.UUID("6a0f3f0c-2f5e-4c57-9d0a-0d8e3c6f7b11")
_ENCODER = msgspec.json.Encoder(order="sorted")


class RowIds:
    """Gives ids to the rows of one call of one source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._seen: Counter[bytes] = Counter()

    def of(self, fields: dict[str, Any]) -> str:
        """The id of a row with these fields, as they stood in the source."""
        content = _ENCODER.encode(fields)
        place = self._seen[content]
        self._seen[content] += 1
        return str(uuid.uuid5(_NAMESPACE, f"{self._source}\n{place}\n{content.decode()}"))
