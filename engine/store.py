"""One brain's store: create, attach, open for writing, read views, commit, close."""

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

import apsw

from contract.refusals import Refusal
from engine import creation, idempotency, manifest
from engine.blobs import BlobFolder
from engine.clock import Clock, SystemClock
from engine.commit import GroupCommit, GroupRefusedError, GroupUnknownError, WriteJob, WriteOutcome, unknown_outcome
from engine.disk import Disk, FileLock
from engine.index_holder import IndexHolder
from engine.lease import FOLDER, READERS, Lease, UnreadableError, read_lock
from engine.port import IndexPort
from engine.records import Document, SegmentRow
from engine.sqlite import log, resident
from engine.sqlite.connect import OpenMode, ReaderPool, cache_bytes, connect, refusal_of_sqlite
from engine.sqlite.opening import CommitState, attach_mode, raise_epoch, verify
from engine.sqlite.schema import PAGE_BYTES
from engine.sqlite.scope import LIVE, Scope
from engine.sqlite.source import SnapshotSource
from engine.transaction import Transaction
from engine.view import View, ViewContext

PASSIVE_LOG_BYTES: Final = 16 << 20
"""From this size of the log on it is folded in beside the commits; a log of 209 MB cost 0.2 to 0.4 s at reopening."""

TRUNCATE_LOG_BYTES: Final = 128 << 20
"""From this size on the log file is cut back when idle."""

RESERVE_BYTES: Final = 4 << 20
"""Free space below which only jobs that remove are taken: two of the largest groups fit into it."""

CLOSE_WAIT_S: Final = 30.0
"""How long `close` waits for views that are still out; the longest call is cut off by then."""

Role = Literal["writer", "reader"]


class Store:
    """An open store: a frozen reader (`attach`) or the fenced writer (`open_writer`).

    `view` may be called from any thread. `write`, `heartbeat`, `maintain` and `close` are safe from any thread too:
    they take turns.
    """

    def __init__(
        self, path: Path, found: manifest.Manifest, role: Role, clock: Clock, disk: Disk, mode: OpenMode
    ) -> None:
        self.path = path
        self.identity = found.id
        self.role: Role = role
        self._clock = clock
        self._disk = disk
        self._mode = mode
        self._readers = ReaderPool(lambda: connect(path, disk, mode))
        self._index = IndexHolder(lambda: _new_index(disk), self._readers, self._source)
        self._context = ViewContext(BlobFolder(path / "blobs", disk), self._index.view, found.created_at)
        self._head = 0
        self._closed = False
        self._closing = threading.Lock()
        self._residency: resident.Residency | None = None
        self._readers_lock: FileLock | None = None
        self._writing: Writing | None = None

    # -- opening

    @classmethod
    def create(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        """Make an empty store at `path`, whose parent must exist.

        Refuses a folder that holds a store or anything foreign (`ValidationError`); an interrupted creation is finished.
        """
        creation.create(path, clock or SystemClock(), disk or Disk())

    @classmethod
    def attach(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> "Store":
        """Open for reading, frozen at the generation found; changes no byte under `path` (A-ATTACH-01).

        `StoreNotFoundError` when nothing is there; `StoreNotAttachableError` with `details.reason` when it cannot serve.
        """
        clock, disk = clock or SystemClock(), disk or Disk()
        path = path.resolve()
        found = manifest.read(path, disk)
        mode, lock = _attach_mode(path, disk)
        store = cls(path, found, "reader", clock, disk, mode)
        store._readers_lock = lock
        store._residency = resident.begin(path, "locking" if mode is OpenMode.SHARED else "lockless")
        try:
            connection = _opened(path, disk, mode)
            store._head = verify(connection, path, found).head
            store._readers.give(connection)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open_writer(
        cls, path: Path, *, force: bool = False, clock: Clock | None = None, disk: Disk | None = None
    ) -> "Store":
        """Claim the writer lease and open for writing; never waits.

        Refuses as `attach` does, and `BRAINY_WRITER_LOCKED` (details.holder), `WriterLeaseUnreadableError`,
        `StorageReadOnlyError`. `force` takes the lease from whoever holds it.
        """
        clock, disk = clock or SystemClock(), disk or Disk()
        path = path.resolve()
        found = manifest.read(path, disk)
        lease = Lease.claim(path, disk, clock, force=force)
        store = cls(path, found, "writer", clock, disk, OpenMode.SHARED)
        try:
            store._residency = resident.begin(path, "locking")
            connection = _opened(path, disk, OpenMode.WRITER)
            store._writing = Writing(store, connection, lease)
            state = verify(connection, path, found)
            store._writing.adopt(state, raise_epoch(connection))
            disk.hit("lease.epoch")
            store._head = state.head
        except BaseException as error:
            lease.abandon()
            store.close()
            if isinstance(error, apsw.Error):
                raise refusal_of_sqlite(error, "open the store for writing") from error
            raise
        return store

    # -- reading

    @property
    def head(self) -> int:
        """The published generation: every view made now sees it."""
        return self._head

    @property
    def cursor_secret(self) -> bytes:
        """32 random bytes made with the store, under which cursors are sealed."""
        with self.view() as view:
            secret: bytes = view.meta("secret")
        return secret

    def view(self, at: int | None = None) -> "OpenView":
        """A view at generation `at`, by default the head; use it in a `with` statement.

        `GenerationInFutureError` above the head, `GenerationNotRetainedError` below the retention floor.
        """
        head = self._head
        if at is not None and at > head:
            message = f"Generation {at} lies ahead of the brain's head, {head}."
            raise Refusal("GenerationInFutureError", message, details={"generation": at, "head": head})
        return OpenView(self._readers, self._context, head if at is None else at, self.path)

    def _source(self, scope: Scope) -> SnapshotSource:
        return SnapshotSource(scope, self.path / "seg", self._publish if self.role == "writer" else None)

    def _publish(self, add: Sequence[SegmentRow], drop: Sequence[str]) -> None:
        def register(transaction: Transaction) -> Document:
            for row in add:
                transaction.register_segment(row)
            transaction.forget_segments(drop)
            return {}

        refusal = self.write([WriteJob(door="segments", apply=register, principal="engine")])[0].refusal
        if refusal is not None:
            raise refusal

    # -- writing

    def write(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        """Commit jobs in their order as one group with one sync; one outcome for each, never an exception for the world.

        A refusal before COMMIT is plain. When COMMIT itself fails every outcome is `OutcomeUnknownError`, and writes
        are refused until the store has reopened its file and checkpointed it.
        """
        if self._writing is None:
            message = "The store is attached read-only."
            refusal = Refusal("BrainNotOpenForWritingError", message)
            return [WriteOutcome(refusal=refusal) for _ in jobs]
        return self._writing.write(jobs)

    def writer_block(self) -> Document:
        """The `writer` object that `open` answers (A-LEASE-03, A-LEASE-06); times are ms since 1970.

        For a reader it names the holder, when there is one that left a readable record.
        """
        if self._writing is not None:
            record = self._writing.lease.record
            return {"role": "writer", **record.holder(), "claimPath": self._writing.lease.claim_path}
        try:
            holder = read_lock(self.path / FOLDER, self._disk)
        except UnreadableError:
            holder = None
        return {"role": "reader"} if holder is None else {"role": "reader", "holder": holder.holder()}

    def fence_holds(self) -> bool:
        """True when this store is the writer and nobody has taken the lease since (A-LEASE-12)."""
        if self._writing is None:
            return False
        with self.view() as view:
            epoch = view.meta("epoch")
        return bool(epoch == self._writing.state.epoch)

    def heartbeat(self) -> bool:
        """Rewrite the lease's heartbeat, due every 10 s; False when the lease was lost (nothing is written then)."""
        return self._writing is not None and self.fence_holds() and self._writing.lease.beat()

    def maintain(self) -> None:
        """Work for idle time: fold the log into the database, forget old idempotency keys. Never on the commit path."""
        if self._writing is not None:
            self._writing.maintain()

    def checkpoint(self, *, truncate: bool) -> bool:
        """Fold the log into the database; False when a reader attached without locks, or a busy one, forbids it."""
        return self._writing is not None and self._writing.checkpoint(truncate=truncate)

    def footprint_bytes(self) -> int:
        """Resident bytes held for this store: page caches and loaded indexes."""
        writer = cache_bytes(self._writing.connection) if self._writing is not None else 0
        return self._readers.cache_bytes() + writer + self._index.footprint_bytes()

    def close(self) -> None:
        """Drain, fold the log in, record the orderly close, release the lease. A second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._disk.hit("close.begin")
            self._index.close()  # may still publish segments
            self._closed = True
        drained = self._readers.close(CLOSE_WAIT_S)
        if self._writing is not None:
            self._writing.close(fold=drained)
        if self._readers_lock is not None:
            self._readers_lock.release()
        if self._residency is not None:
            self._residency.end()


class Writing:
    """The writer's half of a store: the one connection that writes, what it builds on, and the lease."""

    def __init__(self, store: Store, connection: apsw.Connection, lease: Lease) -> None:
        self.lease = lease
        self.connection = connection
        self.state: CommitState
        self._store = store
        self._disk = store._disk
        self._turn = threading.RLock()
        self._in_group = False
        self._distrusted = False
        self._fenced = False
        self._log_bytes = 0
        self._folding = threading.Lock()
        self._purged: tuple[str, str] = ("", "")
        self._use(connection)

    def _use(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._group = GroupCommit(connection, self._store._context, self._store._clock, self._disk)
        connection.set_wal_hook(self._note_log)

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_bytes = pages * PAGE_BYTES
        return apsw.SQLITE_OK

    def adopt(self, state: CommitState, epoch: int) -> None:
        """Build on `state` as the holder of `epoch`."""
        self.state = CommitState(
            head=state.head, head_hash=state.head_hash, at_us=state.at_us, marks=state.marks, epoch=epoch
        )

    def write(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        """See `Store.write`."""
        with self._turn:
            refusal = self._standing_refusal()
            if refusal is not None:
                return [WriteOutcome(refusal=refusal) for _ in jobs]
            full = self._reserve_refusal()
            taken = [job for job in jobs if full is None or job.frees]
            outcomes = iter(self._commit(taken) if taken else [])
            return [WriteOutcome(refusal=full) if full and not job.frees else next(outcomes) for job in jobs]

    def _standing_refusal(self) -> Refusal | None:
        if self._store._closed:
            return Refusal("EngineUnavailableError", "The store was closed.")
        if self._in_group:
            return Refusal("OverloadedError", "A write was started inside a write of the same brain.")
        if self._fenced:
            return Refusal("WriterFencedError", "Another process took the writer lease by force.")
        return self._recover() if self._distrusted else None

    def _reserve_refusal(self) -> Refusal | None:
        free = self._disk.free_bytes(self._store.path)
        if free >= RESERVE_BYTES:
            return None
        message = f"The disk has {free} bytes left; the last {RESERVE_BYTES} are kept for removing."
        return Refusal("StorageFullError", message, details={"freeBytes": free, "reserveBytes": RESERVE_BYTES})

    def _commit(self, jobs: Sequence[WriteJob]) -> list[WriteOutcome]:
        self._in_group = True
        try:
            result = self._group.run(jobs, self.state)
        except GroupRefusedError as error:
            self._fenced = self._fenced or error.refusal.name == "WriterFencedError"
            return [WriteOutcome(refusal=error.refusal) for _ in jobs]
        except GroupUnknownError as error:
            self._distrusted = True
            return [unknown_outcome(job, str(error)) for job in jobs]
        finally:
            self._in_group = False
        self.state = result.state
        self._disk.hit("commit.durable")
        if result.applied is not None:
            self._store._index.apply(result.applied)
        self._disk.hit("commit.applied")
        self._store._head = result.state.head
        self._disk.hit("commit.published")
        if self._log_bytes >= PASSIVE_LOG_BYTES and not self._folding.locked():
            threading.Thread(target=self.checkpoint, kwargs={"truncate": False}, name="checkpoint", daemon=True).start()
        return result.outcomes

    def _recover(self) -> Refusal | None:
        """After a failed COMMIT: open the file anew, read its head, and prove with a truncating checkpoint that the disk
        takes writes again; the refusal when it does not yet."""
        store = self._store
        try:
            self._disk.hit("reopen.head")
            connection = connect(store.path, self._disk, OpenMode.WRITER)
            self.connection.close(True)
            self._use(connection)
            state = verify(connection, store.path, manifest.read(store.path, self._disk))
        except apsw.Error as error:
            return refusal_of_sqlite(error, "open the store again after a failed write")
        except Refusal as refusal:
            return refusal
        if state.epoch != self.state.epoch:
            self._fenced = True
            return Refusal("WriterFencedError", "Another process took the writer lease by force.")
        if state.head != self.state.head or state.marks != self.state.marks:
            store._index.discard()  # the group is in the file after all: the index learns it by loading again
        self.state = state
        store._head = state.head
        self._disk.hit("reopen.checkpoint")
        if not self.checkpoint(truncate=True):
            message = "An earlier write failed on the disk, and the log cannot be folded in yet."
            return Refusal(
                "StorageFullError", message, cure="Free space, or detach other readers, then repeat the call."
            )
        self._distrusted = False
        return None

    def checkpoint(self, *, truncate: bool) -> bool:
        """See `Store.checkpoint`. Takes the readers' lock, so that nobody reads the file without locks meanwhile."""
        with self._folding:
            self._disk.hit("checkpoint.truncate" if truncate else "checkpoint.passive")
            try:
                guard = self._disk.try_lock(self._store.path / FOLDER / READERS, shared=False)
            except OSError:
                return False
            if guard is None:
                return False
            try:
                return self._fold(truncate)
            finally:
                guard.release()

    def _fold(self, truncate: bool) -> bool:
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if truncate else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            connection = connect(self._store.path, self._disk, OpenMode.WRITER)
            try:
                connection.wal_checkpoint(mode=mode)
            finally:
                connection.close()
        except apsw.Error:
            return False
        if truncate:
            self._log_bytes = 0
        return True

    def maintain(self) -> None:
        """See `Store.maintain`."""
        with self._turn:
            if self._standing_refusal() is not None:
                return
            now_us = self._store._clock.now_us()
            self._purged = idempotency.purge(self.connection, now_us, self._purged) or ("", "")
        if self._log_bytes:
            self.checkpoint(truncate=self._log_bytes >= TRUNCATE_LOG_BYTES)

    def close(self, *, fold: bool) -> None:
        """See `Store.close`. A fenced or distrusted writer leaves the log and the lease as they are."""
        with self._turn:
            if self._fenced or self._distrusted or not hasattr(self, "state"):
                self.connection.close(True)
                self.lease.abandon()
                return
            if fold:
                self._fold_and_close()
            else:
                self.connection.close(True)
            self._disk.hit("close.flushed")
            self.lease.release(self.state.head)

    def _fold_and_close(self) -> None:
        """Fold the log in and let SQLite remove it, unless a reader without locks is attached."""
        guard = None
        try:
            epoch = self.connection.execute("SELECT v FROM meta WHERE k='epoch'").fetchone()
            self._fenced = epoch is None or epoch[0] != self.state.epoch
            if not self._fenced:
                guard = self._disk.try_lock(self._store.path / FOLDER / READERS, shared=False)
            if guard is not None:
                self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except (apsw.Error, OSError):
            self._distrusted = True
        try:
            self.connection.close(True)
        finally:
            if guard is not None:
                guard.release()


class OpenView:
    """A view to be used in a `with` statement: one read transaction on one pooled connection."""

    def __init__(self, pool: ReaderPool, context: ViewContext, generation: int, path: Path) -> None:
        self._pool = pool
        self._context = context
        self._generation = generation
        self._path = path
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> View:
        try:
            connection = self._pool.take()
        except apsw.Error as error:
            raise refusal_of_sqlite(error, "read the store") from error
        try:
            connection.execute("BEGIN")
            head = log.head(Scope(connection, LIVE, True))
            scope = Scope(connection, self._generation, head == self._generation)
            if not scope.live:
                self._refuse_forgotten(log.floor(scope))
        except BaseException as error:
            self._pool.give(connection, reusable=False)
            if isinstance(error, apsw.Error):
                raise refusal_of_sqlite(error, "read the store") from error
            raise
        self._connection = connection
        return View(scope, self._generation, self._context)

    def _refuse_forgotten(self, floor: int) -> None:
        if self._generation < floor:
            message = f"Generation {self._generation} is older than the history that is kept, which begins at {floor}."
            details = {"generation": self._generation, "oldestKept": floor}
            raise Refusal("GenerationNotRetainedError", message, details=details)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        failed = isinstance(error, apsw.Error)
        try:
            if not failed:
                connection.execute("COMMIT")
        except apsw.Error:
            failed = True
        self._pool.give(connection, reusable=not failed)
        if isinstance(error, apsw.Error):
            raise refusal_of_sqlite(error, "read the store") from error


def _new_index(disk: Disk) -> IndexPort:
    """Imported at the first use: the numeric libraries cost more time and memory than opening the store."""
    from engine.index import Index

    return Index(disk)


def _attach_mode(path: Path, disk: Disk) -> tuple[OpenMode, FileLock | None]:
    try:
        return attach_mode(path, disk)
    except (OSError, ValueError) as error:
        raise manifest.not_attachable(path, "damaged", f"its locks cannot be looked at ({error})") from error


def _opened(path: Path, disk: Disk, mode: OpenMode) -> apsw.Connection:
    try:
        return connect(path, disk, mode)
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise manifest.not_attachable(path, "damaged", f"its store.db is not a database ({error})") from error
    except apsw.CantOpenError as error:
        raise manifest.not_attachable(path, "unreadable", f"its store.db cannot be opened ({error})") from error
    except apsw.Error as error:
        raise refusal_of_sqlite(error, "open the store") from error
