"""A file cut into pieces that each fit one import call. Pure but for the reading; memory holds one piece at a time.

Tables are cut between records, and each piece repeats the header. A text or a document cannot be cut without changing
what it says, so it goes whole. Lines are no pieces: they are streamed (`segments`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from supervisor.cli.beneath import Found, Named, Root, Skipped

PIECE_BYTES_MAX = 1024 * 1024
"""One call's content: a commit of this size takes some 100 ms, so other writers are not held up for long."""
WHOLE_BYTES_MAX = 15 * 1024 * 1024
"""A text file over this cannot fit one call whatever it says."""

FORMATS = {
    ".md": "md",
    ".markdown": "md",
    ".txt": "txt",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".graphml": "graphml",
}
ENDINGS = " ".join(FORMATS)
TABLES = frozenset({"csv", "tsv"})


class PieceError(Exception):
    """A file that cannot be cut or read as its format; the message says why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One import call's worth: `lines_before` is what to add to a line number that the answer names."""

    content: str
    size_bytes: int
    lines_before: int


def files_under(paths: list[Path]) -> tuple[list[Found | Named], list[Path], list[Skipped]]:
    """Every file to import, files of no known format that were named, and what is passed over below a folder."""
    found: list[Found | Named] = []
    strange: list[Path] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.is_dir():
            for each in Root(path).walk():
                if isinstance(each, Skipped):
                    skipped.append(each)
                elif each.path.suffix.lower() in FORMATS:
                    found.append(each)
        elif path.suffix.lower() in FORMATS:
            found.append(Named(path))
        else:
            strange.append(path)
    return found, strange, skipped


def format_of(path: Path) -> str:
    """The import format of a file by its ending."""
    return FORMATS[path.suffix.lower()]


def pieces(source: Found | Named | Path) -> Iterator[Piece]:
    """The pieces of one file in order; PieceError or OSError when it cannot be read."""
    named = Named(source) if isinstance(source, Path) else source
    kind = format_of(named.path)
    with named.open() as file:
        if kind not in TABLES:
            data = file.read(WHOLE_BYTES_MAX + 1)
            if len(data) > WHOLE_BYTES_MAX:
                raise PieceError(f"it has more than {WHOLE_BYTES_MAX} bytes, which no one call can carry; split it")
            yield Piece(_text(data, 0), len(data), 0)
        else:
            yield from _rows(file, header=_record(file))


def _text(data: bytes, offset: int) -> str:
    try:
        return data.decode("utf-8-sig" if offset == 0 else "utf-8")
    except UnicodeDecodeError as error:
        raise PieceError(f"it is not UTF-8 at byte {offset + error.start}") from error


def _record(file: BinaryIO) -> bytes:
    """One csv record: a line, and the next ones while a quoted cell is open."""
    record = file.readline()
    while record.count(b'"') % 2 and len(record) <= PIECE_BYTES_MAX:
        more = file.readline()
        if not more:
            break
        record += more
    return record


def _rows(file: BinaryIO, header: bytes) -> Iterator[Piece]:
    start = len(header)
    before = 0
    gathered: list[bytes] = []
    size = len(header)
    lines = 0
    while record := _record(file):
        if gathered and size + len(record) > PIECE_BYTES_MAX:
            yield _piece(gathered, header, start, before)
            start, before, lines, size, gathered = (
                start + sum(map(len, gathered)),
                before + lines,
                0,
                len(header),
                [],
            )
        gathered.append(record)
        size += len(record)
        lines += record.count(b"\n")
    if gathered or not before:
        yield _piece(gathered, header, start, before)


def _piece(records: list[bytes], header: bytes, start: int, before: int) -> Piece:
    body = b"".join(records)
    head = _text(header, 0)
    if head and not head.endswith("\n") and body:
        head += "\n"
    return Piece(head + _text(body, max(start, 1)), len(body), before)
