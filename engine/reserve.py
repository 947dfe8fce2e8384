"""Room that a store keeps for itself on its disk, so that removing still works when the disk is full.

It is a file with its blocks allocated, beside the locks. While the disk has room nobody touches it; a write that only
removes gives it back to the file system when there is none, and it is made again as soon as there is room for it and
for ordinary writes too. It holds nothing, and whoever copies a store may leave it out.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from contract.refusals import Refusal
from engine.disk import Disk
from engine.lease import FOLDER, RESERVE

RESERVE_BYTES: Final = 4 << 20
"""Free space below which only jobs that remove are taken, and as much again in the file: the largest group of removals
fits into it."""

RESERVE_SHARE: Final = 16
"""A small disk gives this part of itself at most, twice."""

TIGHT_BYTES: Final = 64 << 20
"""Free space below which a commit is measured before it is sent: the largest group is a good deal smaller."""


def refuse_without_room(folder: Path, disk: Disk, wanted: int) -> None:
    """Raises OSError (ENOSPC) when derived files of so many bytes would take what is kept for removing."""
    kept = min(RESERVE_BYTES, disk.total_bytes(folder) // RESERVE_SHARE)
    if disk.free_bytes(folder) - wanted < kept:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


class Reserve:
    """The reserve of one open writer. Not safe from two threads: the writer's turn guards it."""

    def __init__(self, store: Path, disk: Disk) -> None:
        self._store = store
        self._path = store / FOLDER / RESERVE
        self._disk = disk
        self._stands = False
        self.bytes = RESERVE_BYTES
        with suppress(OSError, ValueError):
            self.bytes = min(RESERVE_BYTES, disk.total_bytes(store) // RESERVE_SHARE)
            self._stands = disk.size_bytes(self._path) == self.bytes

    def free_bytes(self) -> int:
        """Bytes that the disk has free, the reserve not among them. Raises OSError."""
        return self._disk.free_bytes(self._store)

    def refusal(self, free: int, wanted: int = 0) -> Refusal | None:
        """The refusal of an ordinary write of about `wanted` bytes, when it would leave too little."""
        if free - wanted >= self.bytes:
            return None
        message = f"The disk has {free} bytes left; the last {self.bytes} are kept for removing."
        return Refusal("StorageFullError", message, details={"freeBytes": free, "reserveBytes": self.bytes})

    def keep(self, free: int) -> None:
        """Allocate the reserve when it does not stand and the disk has room; a disk that cannot goes without."""
        if self._stands or free < 2 * self.bytes:
            return
        with suppress(OSError):
            self._disk.allocate(self._path, self.bytes)
            self._stands = True

    def give(self) -> None:
        """Give the reserve back to the file system, for a write that frees room in the end."""
        self._stands = False
        with suppress(OSError):
            self._disk.remove(self._path)
