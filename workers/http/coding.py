"""Content coding of large answers: gzip where the caller takes it (RFC 9110, 8.4.1.3 and 12.5.3).

Documents only. Files go as they are: ranges and strong tags are about their own bytes. Streams too: a compressor would
hold their events back.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence
from typing import Final

MIN_BYTES: Final = 16 * 1024
"""A smaller answer is in flight sooner than it is packed."""

INLINE_BYTES: Final = 64 * 1024
"""What is packed on the loop, in under a millisecond; more goes to a thread."""

LEVEL: Final = 1
"""JSON packs four to eight times at the first level, at some 100 MB/s; the ninth gains a tenth and takes ten times."""

_GZIP: Final = 31
"""zlib's window bits for a gzip header and trailer."""


def takes_gzip(values: Sequence[str]) -> bool:
    """Whether the Accept-Encoding fields of a request take gzip: by its name or by `*`, with a weight above 0."""
    weights: dict[str, float] = {}
    for value in values:
        for part in value.split(","):
            name, *parameters = (piece.strip().lower() for piece in part.split(";"))
            weight = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
            try:
                weights[name] = float(weight)
            except ValueError:
                weights[name] = 0.0
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


async def packed(body: bytes) -> bytes:
    """The body as gzip."""
    return _pack(body) if len(body) <= INLINE_BYTES else await asyncio.to_thread(_pack, body)


def _pack(body: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()
