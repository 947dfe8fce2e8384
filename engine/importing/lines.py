"""JSON Lines of any length, a line in memory at a time: what is portable about them, their rows, their file contents.

One pass first (`survey`): the digest of a portable export, and where each file's content stands. Rows are read in a
second one; a row whose turn comes later is read again at its place.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import IO, Any, Final

from contract.codec import decode
from contract.refusals import Refusal
from engine.doors.registry import Document
from engine.exchange import portable
from engine.importing.jsonrows import row_of_item
from engine.importing.rows import ImportFailure, Row

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_CONTENT: Final = b'"base64":"'


class LineRows:
    """The rows of a file of JSON Lines, which is left where it is; give it back with its position anywhere."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._blobs: dict[str, int] = {}
        self.header: Document | None = None
        self.sha256 = ""
        self.faults: list[ImportFailure] = []
        self._survey()

    @property
    def is_portable(self) -> bool:
        """Whether the lines begin as a portable export does."""
        return self.header is not None

    def __iter__(self) -> Iterator[Row | ImportFailure]:
        """Every row in order, and what could not be read in its place. Header and last line are not rows."""
        for number, place, text in self._lines():
            found = self._read(number, place, text)
            if found is not None:
                yield found

    def row_at(self, row: Row) -> Row:
        """The row at a place, whole again."""
        self._file.seek(row.place)
        found = self._read(row.line, row.place, self._file.readline().strip())
        assert isinstance(found, Row), "a row was read at this place before"
        return found

    def blob(self, sha256: str) -> bytes | None:
        """The content that the lines have under a hash, not yet checked against it; None when they have none."""
        place = self._blobs.get(sha256)
        if place is None:
            return None
        self._file.seek(place)
        return content_of_line(self._file.readline())

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """(number from 1, place, text without its end) of every line that is not blank."""
        place, number = 0, 0
        self._file.seek(0)
        while True:
            line = self._file.readline()
            if not line:
                return
            number += 1
            text = line.strip()
            if number == 1:
                text = text.removeprefix(BYTE_ORDER_MARK)
            after = place + len(line)
            if text:
                yield number, place, text
                self._file.seek(after)  # a content may have been read meanwhile
            place = after

    def _read(self, number: int, place: int, text: bytes) -> Row | ImportFailure | None:
        try:
            if portable.is_damaged(text):
                return ImportFailure(number, "ImportFormatError", DAMAGED)
            if portable.blob_of_line(text) is not None:
                return Row(number, blob_head(text), exact=True, blob=True, place=place, size=len(text))
            document = decode(text, "json")
        except Refusal as refusal:
            return ImportFailure(number, refusal.name, refusal.message)
        return row_of_item(number, document, place=place, size=len(text))

    def _survey(self) -> None:
        digest, whole = hashlib.sha256(), hashlib.sha256()
        last: tuple[int, bytes, str] | None = None
        number, place = 0, 0
        self._file.seek(0)
        for line in iter(self._file.readline, b""):
            number += 1
            if number == 1:
                self.header = _header(line.strip().removeprefix(BYTE_ORDER_MARK))
            if line.startswith(b'{"b"'):
                sha256 = portable.blob_of_line(line)
                if sha256 is not None:
                    self._blobs.setdefault(sha256, place)
            elif line.startswith(b'{"end"'):
                last = (number, line, digest.hexdigest())
            digest.update(line)
            whole.update(line)
            place += len(line)
        self.sha256 = whole.hexdigest()
        if self.header is not None and not self.header.get("part"):
            self._judge_end(last, number)

    def _judge_end(self, last: tuple[int, bytes, str] | None, lines: int) -> None:
        """The faults that the last line of a portable export tells of."""
        if last is None or last[0] != lines:
            text = "The export breaks off: its last line, which vouches for the others, is missing."
            self.faults.append(ImportFailure(lines + 1, "ImportFormatError", text))
            return
        number, line, digest = last
        try:
            document = decode(line.strip(), "json")
        except Refusal as refusal:
            self.faults.append(ImportFailure(number, refusal.name, refusal.message))
            return
        if not isinstance(document, dict) or document.get("sha256") != digest:
            text = "The lines before this one are not those that the export was written with: their digest differs."
            self.faults.append(ImportFailure(number, "ImportFormatError", text))


DAMAGED: Final = (
    "The line is damaged: its bytes do not have its `crc`. "
    "If it was edited on purpose, take `crc` out of it and the last line away."
)


def _header(text: bytes) -> Document | None:
    """The header of a portable export, or None for any other line."""
    if b'"' + portable.FORMAT.encode() + b'"' not in text[:1024]:
        return None
    try:
        document = decode(text, "json")
    except Refusal:
        return None
    return document if isinstance(document, dict) and document.get("format") == portable.FORMAT else None


def blob_head(text: bytes) -> dict[str, Any]:
    """What a line of content says beside the content; ImportFormatError when it is none."""
    start = text.find(_CONTENT)
    end = text.find(b'"', start + len(_CONTENT))
    document = decode(text[: start + len(_CONTENT)] + text[end:], "json") if start >= 0 <= end else None
    if not isinstance(document, dict) or not isinstance(document.get("b"), dict):
        raise Refusal("ImportFormatError", "The line of a file content has no `base64`.")
    head: dict[str, Any] = document["b"]
    return head


def content_of_line(line: bytes) -> bytes:
    """The content that a line carries; ImportFormatError when it is not base64."""
    start = line.find(_CONTENT) + len(_CONTENT)
    try:
        return base64.b64decode(line[start : line.find(b'"', start)], validate=True)
    except binascii.Error as error:
        raise Refusal("ImportFormatError", f"The file content is not base64: {error}.") from error
