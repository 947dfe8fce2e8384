"""What the lock folder remembers of the store beside it: the least that its database and log must hold.

A database that is put back from an older copy, and a log that is lost, look whole by themselves.
"""

from pathlib import Path

import msgspec

from engine.disk import Disk
from engine.lease import FOLDER, UnreadableError, read_close, read_lock
from engine.manifest import not_attachable


class Witness(msgspec.Struct, frozen=True):
    """An epoch and a generation that were durable once; 0 when nothing is remembered."""

    epoch: int = 0
    head: int = 0

    def refuse_older(self, path: Path, epoch: int, head: int) -> None:
        """`StoreNotAttachableError` when the store at `path` holds less than is remembered."""
        if epoch >= self.epoch and head >= self.head:
            return
        why = f"it ends at generation {head}, and generation {self.head} was kept in it"
        if head >= self.head:
            why = f"it ends before its last writer (number {self.epoch}) opened it"
        raise not_attachable(
            path, "damaged", f"{why}: its log is lost, or its database was put back from an older copy"
        )


def read(path: Path, disk: Disk) -> Witness:
    """What is remembered of the store at `path`. Read it before the store: a living writer goes on meanwhile."""
    closed = read_close(path / FOLDER, disk)
    try:
        lock = read_lock(path / FOLDER, disk)
    except UnreadableError:
        lock = None
    return Witness(lock.epoch if lock else 0, max(closed.head if closed else 0, lock.head if lock else 0))
