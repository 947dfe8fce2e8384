"""The writer's half of a store: the one connection that writes, what it builds on, and the lease."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine import idempotency
from engine.clock import Clock
from engine.commit import (
    LOG_SHARE,
    GroupCommit,
    GroupRefusedError,
    GroupUnknownError,
    WriteJob,
    WriteOutcome,
    unknown_outcome,
)
from engine.disk import Disk, FileLock, refusal_of
from engine.index_holder import IndexHolder
from engine.lease import FOLDER, READERS, Lease
from engine.manifest import Manifest, not_attachable
from engine.reserve import TIGHT_BYTES, Reserve
from engine.sqlite import stamping
from engine.sqlite.connect import OpenMode, cache_bytes, close_quietly, connect, refusal_of_failure
from engine.sqlite.opening import CommitState, open_verified, raise_epoch
from engine.sqlite.schema import PAGE_BYTES
from engine.view import ViewContext

PASSIVE_LOG_BYTES: Final = 16 << 20
"""From this size of the log on it is folded in beside the commits; a log of 209 MB cost 0.2 to 0.4 s at reopening."""

TRUNCATE_LOG_BYTES: Final = 128 << 20
"""From this size on the log file is cut back when idle."""


class Setting(msgspec.Struct, frozen=True):
    """What the two halves of an open store share."""

    path: Path
    manifest: Manifest
    clock: Clock
    disk: Disk
    context: ViewContext
    index: IndexHolder


class Writing:
    """The one connection that writes, and the order of what it does. All methods take turns.

    `head` is the published generation; `state` is what the next commit builds on. Once `stopped` nothing is taken.
    `dropped_frames` is what the opening found at the end of the log, of a commit that never came to its end.
    """

    def __init__(self, setting: Setting, connection: apsw.Connection, lease: Lease, state: CommitState) -> None:
        self.lease = lease
        self.state = state
        self.head = state.head
        self.stopped = False
        self.dropped_frames = state.dropped_frames
        self._setting = setting
        self._disk = setting.disk
        self._turn = threading.RLock()
        self._in_group = False
        self._distrusted = False
        self._fenced = False
        self._log_bytes = 0
        self._fold_at_bytes = PASSIVE_LOG_BYTES
        self._rest_is_due = False
        self._stamp_is_due = False
        self._cache_bytes = 0
        self._folding = threading.Lock()
        self._purged: tuple[str, str] = ("", "")
        self._reserve = Reserve(setting.path, setting.disk)
        with suppress(OSError):
            self._reserve.keep(self._reserve.free_bytes())
        self._use(connection)

    @classmethod
    def begin(cls, setting: Setting, lease: Lease) -> "Writing":
        """Open the file as the holder of `lease` and raise the epoch. Raises apsw.Error, OSError and refusals.

        A log that was left by a crash is written again first: the crash may have followed a failed sync, and whatever
        is acknowledged from here on stands on what the log holds.
        """
        try:
            setting.disk.size_bytes(setting.path / "store.db-shm")
        except ValueError as error:
            raise not_attachable(setting.path, "damaged", str(error)) from error
        if lease.is_alone:
            setting.disk.write_again(setting.path / "store.db-wal")
        begins = not setting.disk.size_bytes(setting.path / "store.db-wal")
        connection, found = open_verified(
            setting.path, setting.disk, OpenMode.WRITER, setting.manifest, alone=lease.is_alone
        )
        try:
            epoch = raise_epoch(connection, setting.clock.token_bytes(stamping.BYTES) if begins else None)
            setting.disk.hit("lease.epoch")
            lease.beat(epoch=epoch, head=found.head)  # from here on a log that is lost is missed
        except BaseException:
            close_quietly(connection)
            raise
        return cls(setting, connection, lease, msgspec.structs.replace(found, epoch=epoch))

    def beat(self) -> bool:
        """See `Store.heartbeat`."""
        return self.lease.beat(epoch=self.state.epoch, head=self.head)

    def _use(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._group = GroupCommit(connection, self._setting.context, self._setting.clock, self._disk)
        connection.set_wal_hook(self._note_log)

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages * PAGE_BYTES < self._log_bytes:  # SQLite began the log anew: all of it had been folded in
            self._fold_at_bytes = PASSIVE_LOG_BYTES
        self._log_bytes = pages * PAGE_BYTES
        return apsw.SQLITE_OK

    def write(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        """See `Store.write`."""
        with self._turn:
            free = self._room(jobs)
            refusal = self._standing_refusal()
            if refusal is not None:
                return [WriteOutcome(refusal=refusal) for _ in jobs]
            if self._rest_is_due:
                self._rest_is_due = False
                self.checkpoint(truncate=False)
            if isinstance(free, int) and free >= TIGHT_BYTES:
                return self._commit(jobs)
            return [outcome for job in jobs for outcome in self._commit_tight(job, free)]

    def _standing_refusal(self) -> Refusal | None:
        if self.stopped:
            return Refusal("EngineUnavailableError", "The store was closed.")
        if self._in_group:
            return Refusal("OverloadedError", "A write was started inside a write of the same brain.")
        if self._fenced:
            return Refusal("WriterFencedError", "Another process took the writer lease by force.")
        return self._recover() if self._distrusted else None

    def _room(self, jobs: Sequence[WriteJob]) -> int | Refusal:
        """Bytes free for ordinary writes, or the refusal of a disk that does not say. On a full disk the reserve is
        given for jobs that remove; it is made again as soon as there is room."""
        try:
            free = self._reserve.free_bytes()
            if self._reserve.refusal(free) is None:
                self._reserve.keep(free)
            elif any(job.frees for job in jobs):
                self._reserve.give()
        except OSError as error:
            return refusal_of(error, "say how much room it has")
        return free

    def _commit_tight(self, job: WriteJob, free: int | Refusal) -> list[WriteOutcome]:
        """Commit one job on a disk with little room: it is measured before it is sent, so that it fails by name and
        plainly, and never half way. Jobs that remove may take all that is left: the reserve is theirs."""
        refusal = self._standing_refusal()  # an earlier one of the group may have failed
        if refusal is not None:
            return [WriteOutcome(refusal=refusal)]
        if job.frees:
            outcomes = self._commit([job], self._fits_at_all)
            if isinstance(free, Refusal) or self._reserve.refusal(free) is not None:
                self.checkpoint(truncate=False)  # the next one writes over the log instead of growing it
            return outcomes
        full = free if isinstance(free, Refusal) else self._reserve.refusal(free)
        if full is not None or isinstance(free, Refusal):
            return [WriteOutcome(refusal=full)]
        if self._log_bytes and self._reserve.refusal(free, 2 * self._log_bytes) is not None:
            self.checkpoint(truncate=True)  # what the log holds is in the database then, and measured with it
        return self._commit([job], self._fits)

    def _fits_at_all(self, wanted: int) -> None:
        """Raises StorageFullError when the log has no room for what a removal has touched. Raises OSError."""
        needed, free = wanted // LOG_SHARE, self._reserve.free_bytes()
        if self._stamp_is_due:  # all of the log is folded in, and is written over from its beginning
            free += self._disk.size_bytes(self._setting.path / "store.db-wal") or 0
        if needed > free:
            message = f"Removing this much takes {needed} bytes of the disk first, and {free} are left."
            cure = "Remove fewer at a time, or free space, then repeat the call."
            raise Refusal("StorageFullError", message, cure=cure, details={"freeBytes": free, "neededBytes": needed})

    def _fits(self, wanted: int) -> None:
        """Raises StorageFullError when a commit of so many bytes, and folding in the log, would leave too little.
        Raises OSError."""
        full = self._reserve.refusal(self._reserve.free_bytes(), wanted + self._log_bytes)
        if full is not None:
            raise full

    def _commit(self, jobs: Sequence[WriteJob], fits: Callable[[int], None] | None = None) -> list[WriteOutcome]:
        self._in_group = True
        stamp = self._setting.clock.token_bytes(stamping.BYTES) if self._stamp_is_due else None
        try:
            result = self._group.run(jobs, self.state, fits, stamp)
        except GroupRefusedError as error:
            self._fenced = self._fenced or error.refusal.name == "WriterFencedError"
            return [WriteOutcome(refusal=error.refusal) for _ in jobs]
        except GroupUnknownError as error:
            self._distrusted = True
            return [unknown_outcome(job, str(error)) for job in jobs]
        finally:
            self._in_group = False
        self.state = result.state
        if stamp is not None:
            self._stamp_is_due = False
        self._disk.hit("commit.durable")
        if result.applied is not None:
            self._setting.index.apply(result.applied)
        self._disk.hit("commit.applied")
        self.head = result.state.head
        self._disk.hit("commit.published")
        if self._log_bytes >= self._fold_at_bytes:
            self._fold_at_bytes = self._log_bytes + PASSIVE_LOG_BYTES
            threading.Thread(target=self._fold_beside, name="checkpoint", daemon=True).start()
        return result.outcomes

    def _fold_beside(self) -> None:
        """Fold most of the log in beside the commits. What they add meanwhile is folded in before the next one: only
        then does SQLite begin the log anew, and it would grow without bound under a steady load otherwise."""
        self._rest_is_due = self.checkpoint(truncate=False)

    def _recover(self) -> Refusal | None:
        """After a failed COMMIT: open the file anew, read its head, and fold the log in, which proves that the disk
        takes writes again. The refusal when it does not yet."""
        path = self._setting.path
        try:
            self._disk.hit("reopen.head")
            connection, state = open_verified(path, self._disk, OpenMode.WRITER, self._setting.manifest)
            close_quietly(self.connection)
            self._use(connection)
        except (apsw.Error, OSError) as error:
            return refusal_of_failure(error, "open the store again after a failed write")
        except Refusal as refusal:
            return refusal
        if state.epoch != self.state.epoch:
            self._fenced = True
            return Refusal("WriterFencedError", "Another process took the writer lease by force.")
        if state.head != self.state.head or state.marks != self.state.marks:
            self._setting.index.discard()  # the group is in the file after all: the index learns it by loading again
        self.state = state
        self.head = state.head
        if not self._proven():
            message = "An earlier write failed on the disk, and the log cannot be folded in yet."
            return Refusal(
                "StorageFullError", message, cure="Free space, or detach other readers, then repeat the call."
            )
        self._distrusted = False
        return None

    def _proven(self) -> bool:
        try:
            self._disk.hit("reopen.checkpoint")
        except OSError:
            return False
        return self.checkpoint(truncate=True)

    def checkpoint(self, *, truncate: bool) -> bool:
        """See `Store.checkpoint`. Takes the readers' lock, so that nobody reads the file without locks meanwhile."""
        with self._folding:
            if self.stopped:
                return False
            guard = self._fold_guard()
            if guard is None:
                return False
            try:
                self._disk.hit("checkpoint.truncate" if truncate else "checkpoint.passive")
                return self._fold(truncate)
            except OSError:
                return False
            finally:
                guard.release()

    @contextmanager
    def without_lockless_readers(self) -> Iterator[None]:
        """Keeps out, for the length of the block, processes that read the file without SQLite's locks: such a one is
        frozen, and must not find its generation forgotten. OverloadedError while there is one."""
        with self._folding:
            guard = self._fold_guard()
            if guard is None:
                raise Refusal(
                    "OverloadedError",
                    "Another process reads this store frozen, and history cannot be let go under it.",
                    cure="Close the brain there, then repeat the call.",
                    details={"retryAfterMs": 1000},
                )
            try:
                yield
            finally:
                guard.release()

    def _fold_guard(self) -> FileLock | None:
        try:
            return self._disk.try_lock(self._setting.path / FOLDER / READERS, shared=False)
        except OSError:
            return None

    def _fold(self, truncate: bool) -> bool:
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            connection = connect(self._setting.path, self._disk, OpenMode.WRITER)
            try:
                held, folded = connection.wal_checkpoint(mode=mode)
            finally:
                close_quietly(connection)
            self._stamp_is_due = self._stamp_is_due or 0 <= held == folded
        except apsw.Error:
            return False
        if truncate:
            self._log_bytes = 0
        return True

    def cache_bytes(self) -> int:
        """Page cache of the writing connection; while a commit uses it, what was found the last time."""
        if self._turn.acquire(blocking=False):
            try:
                self._cache_bytes = cache_bytes(self.connection)
            finally:
                self._turn.release()
        return self._cache_bytes

    def maintain(self) -> None:
        """See `Store.maintain`."""
        with self._turn:
            if self._standing_refusal() is not None:
                return
            now_us = self._setting.clock.now_us()
            with suppress(OSError):
                self._reserve.keep(self._reserve.free_bytes())
            self._purged = idempotency.purge(self.connection, now_us, self._purged) or ("", "")
        if self._log_bytes:
            self.checkpoint(truncate=self._log_bytes >= TRUNCATE_LOG_BYTES)

    def close(self, *, fold: bool, keep_lease: bool = False) -> Lease | None:
        """See `Store.close` and `suspend`. A fenced or distrusted writer leaves the log and the lease as they are."""
        with self._turn:
            self.stopped = True
            if not self._may_leave_in_order():
                close_quietly(self.connection)
                self.lease.abandon()
                return None
            with self._folding:  # one that runs beside the commits ends first
                self._close_connection(fold)
            self._disk.hit("close.flushed")
            if keep_lease:
                return self.lease
            self.lease.release(self.state.head)
            return None

    def _may_leave_in_order(self) -> bool:
        if self._fenced or self._distrusted:
            return False
        try:
            epoch = self.connection.execute("SELECT v FROM meta WHERE k='epoch'").fetchone()
        except apsw.Error:
            return False
        return epoch is not None and epoch[0] == self.state.epoch

    def _close_connection(self, fold: bool) -> None:
        """Fold the log in and let SQLite remove it, unless a reader without locks is attached."""
        guard = self._fold_guard() if fold else None
        try:
            if guard is not None:
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
            close_quietly(self.connection)  # a log that could not be folded in stays, and is read at the next opening
        finally:
            if guard is not None:
                guard.release()
