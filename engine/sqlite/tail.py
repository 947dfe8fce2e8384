"""The end of a log that a crash left: told apart are what was in flight, which SQLite drops, and what was durable.

SQLite reads a log up to the first frame that does not fit its checksum, and drops the rest without a word. A commit is
synced before the next one begins. So when a commit in the dropped rest is followed by a frame of the same chain, it was
durable, and what cut it off is damage.
"""

import struct
from pathlib import Path
from typing import Final

import apsw

from engine.disk import Disk, OpenFile
from engine.manifest import not_attachable

_HEADER: Final = struct.Struct(">8I")
"""magic, version, page size, checkpoint number, salt 1, salt 2, checksum 1, checksum 2."""

_FRAME: Final = struct.Struct(">6I")
"""page, size of the database after a commit (0 within a transaction), salt 1, salt 2, checksum 1, checksum 2."""

_MAGIC: Final = 0x377F0682
"""With its lowest bit set checksums are computed over big-endian words."""

_FOREIGN_MAX: Final = 64
"""So many frames of an earlier use of the file in a row, and nothing of this use follows."""

_WORD: Final = 0xFFFFFFFF


class _Frame:
    """The head of one frame of the log."""

    def __init__(self, log: "_Log", number: int) -> None:
        self._log = log
        self.number = number
        head = log.read_at(log.offset(number), _FRAME.size)
        self.is_whole = len(head) == _FRAME.size
        fields = _FRAME.unpack(head) if self.is_whole else (0,) * 6
        self._head = head
        self.commits = fields[1] != 0
        self.salts = fields[2:4]
        self.sums = fields[4:6]

    def is_chained(self, before: tuple[int, int]) -> bool:
        """Whether its bytes fit its checksum, begun from the one of the frame before it."""
        data = self._log.read_at(self._log.offset(self.number) + _FRAME.size, self._log.page_bytes)
        if not self.is_whole or len(data) != self._log.page_bytes:
            return False
        return self._log.checksum(self._head[:8] + data, before) == self.sums


class _Log:
    """The file as SQLite lays it out."""

    def __init__(self, file: OpenFile, page_bytes: int) -> None:
        self._file = file
        header = file.read_at(0, _HEADER.size)
        fields = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
        self._order = ">" if fields[0] & 1 else "<"
        self.page_bytes = page_bytes
        self.read_at = file.read_at
        self.is_sound = fields[0] | 1 == _MAGIC | 1 and self.checksum(header[:24], (0, 0)) == fields[6:8]
        self.sums = fields[6:8]
        self.salts = fields[4:6] if self.is_sound else _Frame(self, 1).salts

    def offset(self, number: int) -> int:
        """Where a frame begins; the first has number 1."""
        return _HEADER.size + (number - 1) * (_FRAME.size + self.page_bytes)

    def checksum(self, data: bytes, before: tuple[int, int]) -> tuple[int, int]:
        """SQLite's running checksum over pairs of 32-bit words."""
        one, two = before
        words = iter(struct.unpack(f"{self._order}{len(data) // 4}I", data))
        for first, second in zip(words, words, strict=True):
            one = (one + first + two) & _WORD
            two = (two + second + one) & _WORD
        return one, two


def refuse_damaged(connection: apsw.Connection, store: Path, disk: Disk, page_bytes: int) -> int:
    """`StoreNotAttachableError` when the log of `store` holds durable commits that `connection`, outside a transaction,
    cannot reach. Nobody may be writing it. Raises apsw.Error, OSError; ValueError when the log is not a regular file.
    How many whole frames were in flight, and are dropped.

    Passed over for whoever has no right to write the log: SQLite tells only others how far it reached.
    """
    try:
        reached = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]
    except apsw.ReadOnlyError:
        return 0
    try:
        file = disk.open_log(store / "store.db-wal")
    except FileNotFoundError:
        return 0
    try:
        log = _Log(file, page_bytes)
        if any(log.salts) and max(0, reached) < (file.size_bytes - _HEADER.size) // (_FRAME.size + page_bytes):
            return _look(log, max(0, reached) + 1, store)
        return 0
    finally:
        file.close()


def _look(log: _Log, first: int, store: Path) -> int:
    """Go through the frames from `first` on, the first that SQLite did not take; how many are of this use of it."""
    broken = None if log.is_sound else 0
    before, commits = log.sums if first == 1 else _Frame(log, first - 1).sums, False
    foreign, number, dropped = 0, first, 0
    while foreign < _FOREIGN_MAX:
        frame = _Frame(log, number)
        if not frame.is_whole:
            break
        ours = frame.salts == log.salts
        chained = ours and frame.is_chained(before)
        if broken is None and not chained:
            broken = number
        if broken is not None and commits and chained:
            place = f"frame {broken}, at byte {log.offset(broken)}" if broken else "its head"
            why = f"its log is damaged in {place}, and whole commits follow that cannot be read"
            raise not_attachable(store, "damaged", why)
        before, commits = frame.sums, ours and frame.commits
        foreign = 0 if ours else foreign + 1
        dropped += ours
        number += 1
    return dropped
