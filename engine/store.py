"""One brain's store: create, attach, open for writing, read views, commit, close."""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import apsw
import msgspec

from contract.refusals import Refusal
from engine import creation, manifest
from engine.blobs import BlobFolder
from engine.clock import Clock, SystemClock
from engine.collection import Collector
from engine.commit import WriteJob, WriteOutcome
from engine.disk import Disk, FileLock
from engine.index_holder import IndexHolder
from engine.lease import FOLDER, Lease, UnreadableError, read_lock
from engine.manifest import Manifest
from engine.port import IndexPort
from engine.reading import OpenView
from engine.records import Document, SegmentRow
from engine.scrub import Scrubber
from engine.snapshots.replacing import recover
from engine.sqlite import resident
from engine.sqlite.connect import (
    OpenMode,
    ReaderPool,
    connect,
    refusal_of_failure,
)
from engine.sqlite.opening import attach_mode, open_verified
from engine.sqlite.scope import Scope
from engine.sqlite.source import SnapshotSource
from engine.transaction import Transaction
from engine.view import ViewContext, in_future
from engine.writing import Setting, Writing

if TYPE_CHECKING:
    from engine.index import Index

COLLECTING_STEPS: Final = 16
"""Steps of collecting blobs in one round of idle time: a tenth of a second at most."""

CLOSE_WAIT_S: Final = 30.0
"""How long `close` waits for views that are still out; the longest call is cut off by then."""

SCRUB_STEPS: Final = 8
"""Steps of a scrub in one round of idle time: some tens of ms every ten seconds, a million rows in a working day."""

COPY_STEPS: Final = 100_000
"""Steps of SQLite's machine between two looks at whether a copy is still wanted: some milliseconds."""

Role = Literal["writer", "reader"]


class Store:
    """An open store: a frozen reader (`attach`) or the fenced writer (`open_writer`).

    `view` may be called from any thread. `write`, `heartbeat`, `maintain` and `close` are safe from any thread too:
    they take turns.
    """

    def __init__(
        self, opening: "Opening", mode: OpenMode, residency: resident.Residency, lock: FileLock | None
    ) -> None:
        path, disk = opening.path, opening.disk
        self.path = path
        self.identity = opening.manifest.id
        self._disk = disk
        self._mode = mode
        self._residency = residency
        self._readers_lock = lock
        self._readers = ReaderPool(lambda: connect(path, disk, mode))
        self._index = IndexHolder(lambda: _new_index(disk), self._readers, self._source)
        context = ViewContext(
            BlobFolder(path / "blobs", disk),
            self._index.view,
            opening.manifest.created_at,
            lambda name: disk.map_readonly(path / "seg" / name),
        )
        self._setting = Setting(path, opening.manifest, opening.clock, disk, context, self._index)
        self.snapshots = path.parent / f"{path.name}.snapshots"
        self.scrubber = Scrubber(self)
        self._frozen_head = 0
        self._dropped_frames = 0
        self._writing: Writing | None = None
        self.collector = Collector(self)
        self._closed = False
        self._closing = threading.Lock()

    # -- opening

    @classmethod
    def create(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> None:
        """Make an empty store at `path`, whose parent must exist.

        Refuses a folder that holds a store or anything foreign (`ValidationError`). Finishes an interrupted creation.
        """
        creation.create(path, clock or SystemClock(), disk or Disk())

    @classmethod
    def attach(cls, path: Path, *, clock: Clock | None = None, disk: Disk | None = None) -> "Store":
        """Open for reading, frozen at the generation found; changes no byte under `path` (A-ATTACH-01).

        `StoreNotFoundError` when nothing is there; `StoreNotAttachableError` (`details.reason`) when it cannot serve.
        """
        opening = Opening.of(path, clock, disk)
        mode, lock = _attach_mode(opening.path, opening.disk)
        residency = resident.begin(opening.path, "locking" if mode is OpenMode.SHARED else "lockless")
        store = cls(opening, mode, residency, lock)
        try:
            connection, state = open_verified(opening.path, opening.disk, mode, opening.manifest)
            store._readers.adopt(connection)
            store._frozen_head = state.head
            store._dropped_frames = state.dropped_frames
        except BaseException:
            store._let_go(wait_s=0.0)
            raise
        return store

    @classmethod
    def open_writer(
        cls,
        path: Path,
        *,
        force: bool = False,
        lease: Lease | None = None,
        clock: Clock | None = None,
        disk: Disk | None = None,
    ) -> "Store":
        """Claim the writer lease and open for writing; never waits.

        Refuses as `attach` does, and `BRAINY_WRITER_LOCKED` (details.holder), `WriterLeaseUnreadableError`,
        `StorageReadOnlyError`. `force` takes the lease from whoever holds it. `lease` is one that `suspend` kept; when
        it was taken by force meanwhile it is claimed like any other.
        """
        opening = Opening.of(path, clock, disk)
        if lease is None or not _beats(lease):
            if lease is not None:
                lease.abandon()
            lease = Lease.claim(opening.path, opening.disk, opening.clock, force=force)
        store = cls(opening, OpenMode.SHARED, resident.begin(opening.path, "locking"), None)
        try:
            store._writing = Writing.begin(store._setting, lease)
            store._dropped_frames = store._writing.dropped_frames
        except BaseException as error:
            lease.withdraw()
            store._let_go(wait_s=0.0)
            if isinstance(error, apsw.Error | OSError):
                raise refusal_of_failure(error, "open the store for writing") from error
            raise
        return store

    @property
    def disk(self) -> Disk:
        """The file system that it was opened with."""
        return self._disk

    @property
    def clock(self) -> Clock:
        """The clock that it was opened with."""
        return self._setting.clock

    @property
    def role(self) -> Role:
        """`writer` when this store holds the lease it was opened with, `reader` for an attach."""
        return "reader" if self._writing is None else "writer"

    # -- reading

    @property
    def head(self) -> int:
        """The published generation: every view made now sees it."""
        return self._frozen_head if self._writing is None else self._writing.head

    @property
    def dropped_frames(self) -> int:
        """Pages that the opening found at the end of the log, of a commit that a crash cut off: it is not there, and
        nobody was told that it was. 0 after an orderly close."""
        return self._dropped_frames

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
        head = self.head
        if at is not None and at > head:
            raise in_future(at, head)
        return OpenView(self._readers, self._setting.context, head if at is None else at)

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
        """Commit jobs in their order as one group with one sync; one outcome for each, whatever the world does.

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
        """Rewrite the lease's heartbeat, due every 10 s; False when the lease was lost (nothing is written then).

        Raises OSError when the disk does not take it: the lease is held all the same.
        """
        return self._writing is not None and self.fence_holds() and self._writing.beat()

    def maintain(self) -> None:
        """Work for idle time: fold the log into the database, forget old idempotency keys, collect blobs that nothing
        names. Never on the commit path."""
        if self._writing is not None:
            self._writing.maintain()
            self.scrubber.idle(SCRUB_STEPS)
            for _ in range(COLLECTING_STEPS):
                if not self.collector.step():
                    break

    def checkpoint(self, *, truncate: bool) -> bool:
        """Fold the log into the database; False when a reader attached without locks, or a busy one, forbids it."""
        return self._writing is not None and self._writing.checkpoint(truncate=truncate)

    def index(self) -> "Index":
        """The derived index; the first use loads it."""
        index: Index = self._index.loaded()
        return index

    def warm_index(self) -> None:
        """Start loading the index in the background; returns at once. From then on it keeps up with the commits."""
        self._index.warm()

    def rebuild_index(self) -> None:
        """Throw away the index with its files and make it anew from the records; reads wait for it. Refuses as a write
        does, and then nothing is thrown away."""
        with self.view() as view:
            names = view.segment_names()

        def forget(transaction: Transaction) -> Document:
            transaction.forget_segments(names)
            return {}

        self._index.rebuild()
        refusal = self.write([WriteJob(door="segments", apply=forget, principal="engine")])[0].refusal
        if refusal is not None:
            raise refusal
        self.index().flush()

    def flush(self) -> int:
        """Write the index's newest rows to segments and fold the log into the database; the generation that is on the
        disk then. Nothing that was answered needs it: every commit was durable before."""
        with self.view() as view:
            generation = view.generation
        self.index().flush()
        if not self.checkpoint(truncate=True):
            self.checkpoint(truncate=False)
        return generation

    def copy_database(self, target: Path, check: Callable[[], None]) -> None:
        """Let SQLite copy the database, as it is at one moment, to an empty file; writes go on meanwhile.

        `check` is called now and then, and what it raises ends the copy. Raises apsw.Error.
        """

        def wanted() -> bool:
            check()
            return False

        connection = self._readers.take()
        try:
            connection.execute("PRAGMA query_only=0").fetchall()
            connection.set_progress_handler(wanted, COPY_STEPS)
            connection.execute("VACUUM INTO ?", (str(target),)).fetchall()
        finally:
            connection.set_progress_handler(None)
            self._readers.give(connection, reusable=False)

    def without_lockless_readers(self) -> AbstractContextManager[None]:
        """See `Writing.without_lockless_readers`; of a store that is open for writing."""
        assert self._writing is not None, "only a writer asks"
        return self._writing.without_lockless_readers()

    def passed(self, point: str) -> None:
        """Pass a failpoint of the engine that lies above the disk."""
        self._disk.hit(point)

    @property
    def blobs(self) -> BlobFolder:
        """The folder of the larger blobs; for a writer to put one there before it is committed."""
        return self._setting.context.blobs

    def free_bytes(self) -> int:
        """Bytes that may still be written to the store's file system."""
        return self._disk.free_bytes(self.path)

    def footprint_bytes(self) -> int:
        """Resident bytes held for this store: page caches and loaded indexes."""
        writer = self._writing.cache_bytes() if self._writing is not None else 0
        return self._readers.cache_bytes() + writer + self._index.footprint_bytes()

    def close(self) -> None:
        """Drain, fold the log in, record the orderly close, release the lease. A second call does nothing."""
        with self._closing:
            if self._closed:
                return
            self._disk.hit("close.begin")
            self._index.close()  # may still publish segments
            self._closed = True
            self._let_go(CLOSE_WAIT_S)

    def suspend(self) -> tuple[Lease, int] | None:
        """`close`, but the lease stays held, with the head it was left at, for `open_writer` later (A-LEASE-10).

        None for a reader and for a writer that has lost its fence. Whoever keeps the lease beats and releases it.
        """
        with self._closing:
            if self._closed:
                return None
            self._disk.hit("close.begin")
            self._index.close()  # may still publish segments
            self._closed = True
            kept = self._let_go(CLOSE_WAIT_S, keep_lease=True)
            return None if kept is None else (kept, self.head)

    def _let_go(self, wait_s: float, *, keep_lease: bool = False) -> Lease | None:
        drained = self._readers.close(wait_s)
        kept = self._writing.close(fold=drained, keep_lease=keep_lease) if self._writing is not None else None
        if self._readers_lock is not None:
            self._readers_lock.release()
        self._residency.end()
        return kept


class Opening(msgspec.Struct, frozen=True):
    """A store that may be opened: its folder resolved, its manifest read, the machine it is on."""

    path: Path
    manifest: Manifest
    clock: Clock
    disk: Disk

    @classmethod
    def of(cls, path: Path, clock: Clock | None, disk: Disk | None) -> "Opening":
        """Read the manifest, after a replacement that was killed was put back; refuses as `Store.attach` does."""
        disk = disk or Disk()
        resolved = path.resolve()
        recover(resolved, disk)
        return cls(resolved, manifest.read(resolved, disk), clock or SystemClock(), disk)


def _beats(lease: Lease) -> bool:
    """Whether a kept lease is still ours; one whose heartbeat the disk does not take is claimed anew, by name."""
    try:
        return lease.beat()
    except OSError:
        return False


def _new_index(disk: Disk) -> IndexPort:
    """Imported at the first use: the numeric libraries cost more time and memory than opening the store."""
    from engine.index import Index

    return Index(disk)


def _attach_mode(path: Path, disk: Disk) -> tuple[OpenMode, FileLock | None]:
    try:
        return attach_mode(path, disk)
    except (OSError, ValueError) as error:
        raise manifest.not_attachable(path, "damaged", f"its locks cannot be looked at ({error})") from error
