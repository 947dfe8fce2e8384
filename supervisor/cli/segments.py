"""A file of JSON Lines as bodies that each fit one streamed import, cut between lines; memory holds a block at a time.

Nearly every file is one segment, itself. A longer export is cut in parts that say so in their header: first the file
contents and the folders, which its rows need, then the rows. Its digest, which no part can vouch for, is checked here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from contract.limits import UPLOAD_BYTES_MAX
from supervisor.cli.pieces import PieceError

SEGMENT_BYTES_MAX: Final = UPLOAD_BYTES_MAX - 1024 * 1024
"""Room for the parameters and a header beside the lines."""
BLOCK_BYTES: Final = 256 * 1024
FORMAT_MARK: Final = b'"brain-portable-graph"'
HEADER_BYTES_MAX: Final = 16 * 1024
FOLDERS_BYTES_MAX: Final = 64 * 1024 * 1024
_FOLDER: Final = re.compile(rb'"subtype":"vfs-(?:directory|root)"')


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes `start` to `end` of a file behind `head`; `lines_before` is what to add to a line number of the answer."""

    head: bytes
    start: int
    end: int
    lines_before: int

    def blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """The bytes in order, read as they are asked for."""
        if self.head:
            yield self.head
        file.seek(self.start)
        left = self.end - self.start
        while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
            left -= len(block)
            yield block


def segments(file: BinaryIO, size_bytes: int, *, most: int = SEGMENT_BYTES_MAX) -> list[Segment]:
    """The segments of a file of this size, in the order to send them. PieceError for a line that fits none, and for an
    export that is not what it was written as."""
    if size_bytes <= most:
        return [Segment(b"", 0, size_bytes, 0)]
    file.seek(0)
    first = file.readline(HEADER_BYTES_MAX)
    if FORMAT_MARK not in first:
        return _cut(file, most, b"")
    head = json.dumps({**json.loads(first), "part": True}).encode() + b"\n"
    folders = _judge(file)
    found = _cut(file, most - len(head), head)
    contents = [segment for segment in found if _holds_contents(file, segment)]
    tree = [Segment(head + folders, 0, 0, 0)] if folders else []
    return [*contents, *tree, *(segment for segment in found if segment not in contents)]


def _cut(file: BinaryIO, most: int, head: bytes) -> list[Segment]:
    """Runs of whole lines; a run of an export never holds rows and contents both."""
    found: list[Segment] = []
    file.seek(0)
    start = place = first_line = 0
    contents = False
    for number, line in enumerate(iter(file.readline, b"")):
        if len(line) > most:
            raise PieceError(f"its line {number + 1} has {len(line)} bytes, which no one call can carry")
        turns = bool(head) and line.startswith(b'{"b"') != contents
        if place > start and (turns or place + len(line) - start > most):
            found.append(_segment(head, start, place, first_line))
            start, first_line = place, number
        contents = line.startswith(b'{"b"')
        place += len(line)
    if place > start:
        found.append(_segment(head, start, place, first_line))
    return found


def _segment(head: bytes, start: int, end: int, first_line: int) -> Segment:
    """The header that a part is given is its first line."""
    return Segment(head, start, end, first_line - (1 if head else 0))


def _holds_contents(file: BinaryIO, segment: Segment) -> bool:
    file.seek(segment.start)
    return file.read(4) == b'{"b"'


def _judge(file: BinaryIO) -> bytes:
    """Checks the last line of an export against the bytes before it. Gives the lines of its folders: they are sent
    before the files in them, which stand in the order of their ids, and are found to be there when their turn comes."""
    digest, last, folders = hashlib.sha256(), b"", bytearray()
    file.seek(0)
    for line in iter(file.readline, b""):
        digest.update(last)
        last = line
        if line.startswith(b'{"e"') and _FOLDER.search(line[:2048]):
            folders += line
            if len(folders) > FOLDERS_BYTES_MAX:
                raise PieceError(f"its folders alone have more than {FOLDERS_BYTES_MAX} bytes")
    try:
        end = json.loads(last)
    except ValueError:
        end = None
    if not isinstance(end, dict) or end.get("sha256") != digest.hexdigest():
        raise PieceError("it is not what was exported: its last line, a digest of the others, is missing or differs")
    return bytes(folders)
