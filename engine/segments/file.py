"""The file format of a segment: named arrays behind a checked header. Pure: bytes in, arrays out; the disk is
elsewhere.

    "BRNYSEG1" · header length u32 · header CRC-32 u32 · header (JSON) · arrays, each at a multiple of 64

The header names each array with its type, shape, place and CRC-32. Opening checks the header and that every array lies
inside the file, which takes no time that grows with the data; `damaged` checks the arrays themselves. Little-endian.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

MAGIC: Final = b"BRNYSEG1"
FORMAT: Final = 1
ALIGNMENT: Final = 64
_PREFIX_BYTES: Final = len(MAGIC) + 8


class SegmentDamagedError(ValueError):
    """A file that is not a whole segment of this format. It is derived data: drop it and build it again."""


class _Section(msgspec.Struct, frozen=True, array_like=True):
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int
    crc: int


class _Header(msgspec.Struct, frozen=True):
    format: int
    kind: str
    lo: int
    hi: int
    generation: int
    info: dict[str, Any]
    sections: dict[str, _Section]


class SegmentFile(Mapping[str, NDArray[Any]]):
    """An opened segment: a mapping from array name to array, which lies in the given buffer and is not copied."""

    def __init__(self, buffer: memoryview, header: _Header, base: int) -> None:
        self._buffer = buffer
        self._header = header
        self._base = base
        self.kind = header.kind
        self.lo = header.lo
        self.hi = header.hi
        self.generation = header.generation
        self.info: Mapping[str, Any] = header.info

    def __getitem__(self, name: str) -> NDArray[Any]:
        section = self._header.sections[name]
        flat = np.frombuffer(self._piece(section), dtype=np.dtype(section.dtype))
        return flat.reshape(section.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._header.sections)

    def __len__(self) -> int:
        return len(self._header.sections)

    def _piece(self, section: _Section) -> memoryview:
        start = self._base + section.offset
        return self._buffer[start : start + section.bytes]

    def damaged(self) -> list[str]:
        """Gives the names of the arrays whose bytes are not those that were written. Reads the whole file."""
        sections = self._header.sections.items()
        return [name for name, section in sections if zlib.crc32(self._piece(section)) != section.crc]


def encode(
    kind: str, lo: int, hi: int, generation: int, info: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> list[bytes]:
    """Gives the pieces of the file, to be written one after the other. The arrays are not copied."""
    sections: dict[str, _Section] = {}
    pieces: list[bytes] = []
    offset = 0
    for name, array in arrays.items():
        packed = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        data = packed.reshape(-1).data.cast("B") if packed.size else memoryview(b"")
        sections[name] = _Section(packed.dtype.str, packed.shape, offset, len(data), zlib.crc32(data))
        padding = -len(data) % ALIGNMENT
        # A memoryview where bytes are declared: whatever takes the one takes the other, and nothing is copied.
        pieces += [cast("bytes", data), bytes(padding)]
        offset += len(data) + padding
    header = msgspec.json.encode(_Header(FORMAT, kind, lo, hi, generation, dict(info), sections))
    header += b" " * (-(len(header) + _PREFIX_BYTES) % ALIGNMENT)
    prefix = MAGIC + len(header).to_bytes(4, "little") + zlib.crc32(header).to_bytes(4, "little")
    return [prefix, header, *pieces]


def decode(buffer: memoryview) -> SegmentFile:
    """Opens a segment that lies in a buffer. SegmentDamagedError when the header or the length is not whole."""
    if len(buffer) < _PREFIX_BYTES or bytes(buffer[: len(MAGIC)]) != MAGIC:
        raise SegmentDamagedError("not a segment file")
    header_bytes = int.from_bytes(buffer[8:12], "little")
    raw = buffer[_PREFIX_BYTES : _PREFIX_BYTES + header_bytes]
    if len(raw) != header_bytes or zlib.crc32(raw) != int.from_bytes(buffer[12:16], "little"):
        raise SegmentDamagedError("the header is damaged")
    try:
        header = msgspec.json.decode(raw, type=_Header)
    except msgspec.MsgspecError as error:
        raise SegmentDamagedError(f"the header is damaged: {error}") from error
    if header.format != FORMAT:
        raise SegmentDamagedError(f"format {header.format} is not {FORMAT}")
    base = _PREFIX_BYTES + header_bytes
    end = max((section.offset + section.bytes for section in header.sections.values()), default=0)
    if base + end > len(buffer):
        raise SegmentDamagedError("the file is cut short")
    return SegmentFile(buffer, header, base)
