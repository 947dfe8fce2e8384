"""The writer lease: who may write a store.

Liveness is a `flock` on `locks/_writer.flock`, which is never renamed: while it is held the holder lives, whatever its
heartbeat says, and the kernel frees it with the process. Authority is the epoch in `store.db`, which every commit
checks. `_writer.lock` and `_writer.close` are advisory JSON that say who holds the lease and how the last holder left.
"""

import errno
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from contract.refusals import Refusal
from engine.clock import Clock
from engine.disk import Disk, FileLock, refusal_of
from engine.manifest import not_attachable

FOLDER: Final = "locks"
FLOCK: Final = "_writer.flock"
LOCK: Final = "_writer.lock"
CLOSE: Final = "_writer.close"
READERS: Final = "_readers.flock"
RESERVE: Final = "_reserve"
"""The file whose blocks are kept for a full disk; see `engine.reserve`."""

_FOREIGN: Final = frozenset({errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EEXIST})
"""What opening a folder, a symbolic link or a device in the place of a lock's file ends in."""

LOCK_VERSION: Final = 1
RECORD_BYTES_MAX: Final = 65_536
HEARTBEAT_MS: Final = 10_000
"""How often the holder rewrites its heartbeat. Informative only: a held flock is never stale."""

PROBES_MAX: Final = 50
PROBE_PAUSE_S: Final = 0.000_5
"""An attaching reader holds the flock shared for microseconds, to see if a writer lives; a claim tries again."""

ClaimPath = Literal["fresh", "leftover-after-clean-close", "stale-after-crash", "forced"]


class LockRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The contents of `_writer.lock`. Times are ms since 1970; `claim` is unique to one holding of the lease.

    `epoch` and `head` are what the store held, durable, when the record was written; see `engine.witness`.
    """

    pid: int
    hostname: str
    started_at: int
    heartbeat: int
    version: int
    claim: str
    epoch: int = 0
    head: int = 0

    def holder(self) -> dict[str, Any]:
        """What a refused caller is told."""
        return {
            "pid": self.pid,
            "hostname": self.hostname,
            "startedAt": self.started_at,
            "heartbeat": self.heartbeat,
        }


class CloseRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The contents of `_writer.close`: the holding `claim` ended in order, at `closed_at`, at generation `head`."""

    claim: str
    closed_at: int
    head: int


class UnreadableError(Exception):
    """A `_writer.lock` that is there and says nothing usable; the text says why."""


def decode_lock(data: bytes) -> LockRecord:
    """The record in the bytes of `_writer.lock`; `UnreadableError` when torn, empty or from a newer version."""
    try:
        record = msgspec.json.decode(data, type=dict[str, Any])
        version = record.get("version")
        if type(version) is int and version > LOCK_VERSION:
            raise UnreadableError(f"it has version {version}, this one knows {LOCK_VERSION}")
        return msgspec.convert(record, LockRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableError(f"it is not a lease record ({error})") from error


def read_lock(folder: Path, disk: Disk) -> LockRecord | None:
    """The record of the present or last holder; None when there is no file. `UnreadableError` as `decode_lock`."""
    try:
        return decode_lock(disk.read_file(folder / LOCK, RECORD_BYTES_MAX))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"it cannot be read ({error})") from error


def read_close(folder: Path, disk: Disk) -> CloseRecord | None:
    """The record of the last orderly close; None when it is absent or not whole."""
    try:
        return msgspec.json.decode(disk.read_file(folder / CLOSE, RECORD_BYTES_MAX), type=CloseRecord)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


def claim_path_of(lock: LockRecord | None, close: CloseRecord | None, *, force: bool) -> ClaimPath:
    """How a free lease was left, from what stands in the folder (A-LEASE-04, A-LEASE-05)."""
    if force:
        return "forced"
    if lock is None:
        return "fresh"
    return "leftover-after-clean-close" if close is not None and close.claim == lock.claim else "stale-after-crash"


def writer_lives(folder: Path, disk: Disk) -> bool:
    """True when another open file holds the writer's flock. Writes nothing; without a flock file nobody can write."""
    try:
        probe = disk.try_lock(folder / FLOCK, shared=True)
    except FileNotFoundError:
        return False
    if probe is None:
        return True
    probe.release()
    return False


def locked(record: LockRecord | None) -> Refusal:
    """The refusal for a lease that another process holds."""
    holder = record.holder() if record is not None else {"pid": None, "hostname": None}
    who = (
        f"process {record.pid} on {record.hostname}" if record is not None else "a process that left no readable record"
    )
    message = f"The writer lease is held by {who}."
    return Refusal("BRAINY_WRITER_LOCKED", message, details={"holder": holder})


class Lease:
    """A held lease. `claim` makes one; `release` ends it in order, the end of the process without."""

    def __init__(self, folder: Path, disk: Disk, clock: Clock, flock: FileLock | None, path: ClaimPath) -> None:
        now = clock.now_ms()
        self.claim_path = path
        self.record = LockRecord(
            pid=os.getpid(),
            hostname=socket.gethostname(),
            started_at=now,
            heartbeat=now,
            version=LOCK_VERSION,
            claim=clock.new_id(),
        )
        self._folder = folder
        self._disk = disk
        self._clock = clock
        self._flock = flock

    @classmethod
    def claim(
        cls, store: Path, disk: Disk, clock: Clock, *, force: bool, pause: Callable[[float], None] = time.sleep
    ) -> "Lease":
        """Take the lease of a store without waiting; the caller raises the epoch next.

        `BRAINY_WRITER_LOCKED` when it is held, `WriterLeaseUnreadableError` when the last holder's record says nothing;
        `force` passes both. `StorageReadOnlyError` and `StorageFullError` by what the disk says.
        """
        folder = store / FOLDER
        try:
            disk.make_folder(folder)
            for name in (FLOCK, READERS):
                disk.ensure_file(folder / name)
            flock = _take_flock(folder, disk, pause)
        except OSError as error:
            if error.errno in _FOREIGN:
                raise not_attachable(store, "damaged", f"{error.filename} is not what a store has there") from error
            raise refusal_of(error, "claim the writer lease") from error
        try:
            return cls._claimed(folder, disk, clock, flock, force)
        except BaseException:
            if flock is not None:
                flock.release()
            raise

    @classmethod
    def _claimed(cls, folder: Path, disk: Disk, clock: Clock, flock: FileLock | None, force: bool) -> "Lease":
        disk.hit("lease.flocked")
        lock = None
        try:
            lock = read_lock(folder, disk)
        except UnreadableError as error:
            if not force and flock is not None:
                message = f"The lease file {LOCK!r} says nothing usable: {error}."
                raise Refusal("WriterLeaseUnreadableError", message, details={"why": str(error)}) from error
        if flock is None and not force:
            raise locked(lock)
        path = claim_path_of(lock, read_close(folder, disk), force=force)
        disk.hit("lease.read")
        lease = cls(folder, disk, clock, flock, path)
        if lock is not None:
            lease.record = msgspec.structs.replace(lease.record, epoch=lock.epoch, head=lock.head)
        try:
            lease._write_somehow()
            disk.hit("lease.written")
        except OSError as error:
            lease.withdraw()
            raise refusal_of(error, "write the lease file") from error
        return lease

    @property
    def is_alone(self) -> bool:
        """Whether nobody else can be writing: the flock is ours. Not so while one that lost its lease still lives."""
        return self._flock is not None

    def _write_somehow(self) -> None:
        """Write the record; on a full disk the store's reserve is given back for it: who removes claims first."""
        try:
            self._write()
        except OSError as error:
            if error.errno != errno.ENOSPC or not self._disk.remove(self._folder / RESERVE):
                raise
            self._write()

    def _write(self) -> None:
        self._disk.write_atomic(self._folder / LOCK, msgspec.json.encode(self.record))

    def beat(self, *, epoch: int | None = None, head: int | None = None) -> bool:
        """Rewrite the heartbeat, with what the store holds by now; False, and nothing written, when the lease file is
        not ours any more.

        Raises OSError when the disk does not take it: the lease is held all the same.
        """
        self._disk.hit("lease.beat")
        if self._flock is None:  # taken by force from a living holder: the flock follows when that one leaves
            self._flock = self._disk.try_lock(self._folder / FLOCK, shared=False)
        try:
            current = read_lock(self._folder, self._disk)
        except UnreadableError:
            return False
        if current is None or current.claim != self.record.claim:
            return False
        held = {"epoch": epoch or self.record.epoch, "head": head or self.record.head}
        self.record = msgspec.structs.replace(self.record, heartbeat=self._clock.now_ms(), **held)
        self._disk.write_atomic(self._folder / LOCK, msgspec.json.encode(self.record), sync_name=False)
        return True

    def copy_record(self, folder: Path) -> None:
        """Write the record into another folder, which is to take the place of this one under the same lease."""
        self._disk.write_atomic(folder / LOCK, msgspec.json.encode(self.record))

    def release(self, head: int) -> None:
        """Record the orderly close, remove the lease file, free the flock: in this order (A-LEASE-09).

        On a disk that takes no writes the lease is freed all the same; the next holder then finds `stale-after-crash`.
        """
        record = CloseRecord(claim=self.record.claim, closed_at=self._clock.now_ms(), head=head)
        try:
            self._disk.write_atomic(self._folder / CLOSE, msgspec.json.encode(record))
            self._disk.hit("close.recorded")
            self._disk.remove(self._folder / LOCK)
            self._disk.hit("close.unlinked")
        except OSError:
            pass  # nothing is lost: every commit was durable before
        finally:
            self.abandon()

    def withdraw(self) -> None:
        """Take back a claim that led to no open store; a lease that was found fresh is fresh again.

        On a disk that takes no writes the lease is freed all the same; the next holder then finds `stale-after-crash`.
        """
        try:
            if self.claim_path == "fresh":
                self._disk.remove(self._folder / LOCK)
        except OSError:
            pass  # the caller is told of the failure that led here
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Free the flock and record nothing: the next holder finds `stale-after-crash`, or holds it already."""
        if self._flock is not None:
            self._flock.release()
            self._flock = None


def _take_flock(folder: Path, disk: Disk, pause: Callable[[float], None]) -> FileLock | None:
    """The exclusive flock; None when a writer holds it. A reader's momentary probe does not count as one."""
    for _ in range(PROBES_MAX):
        flock = disk.try_lock(folder / FLOCK, shared=False)
        if flock is not None:
            return flock
        probe = disk.try_lock(folder / FLOCK, shared=True)
        if probe is None:
            return None
        probe.release()
        pause(PROBE_PAUSE_S * (1 + os.getpid() % 7))
    return None
