"""Opening `store.db` once the folder's manifest allows it: how to read without writing a byte, and what to verify."""

from pathlib import Path
from typing import Final

import apsw
import msgspec

from contract.refusals import Refusal
from engine import witness
from engine.aggregates import tables
from engine.chain import genesis_hash
from engine.disk import Disk, FileLock
from engine.lease import FOLDER, READERS, writer_lives
from engine.manifest import FORMAT as MANIFEST_FORMAT
from engine.manifest import PRODUCT, Manifest, not_attachable
from engine.records import Watermarks
from engine.sqlite import log, resident, stamping, tail
from engine.sqlite.connect import OpenMode, close_quietly, connect, refusal_of_sqlite
from engine.sqlite.rows import meta_crc
from engine.sqlite.schema import ADDED, APPLICATION_ID, DDL, FORMAT, PAGE_BYTES
from engine.sqlite.scope import LIVE, Scope
from engine.sqlite.source import watermarks

_DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, TypeError, ValueError)
"""What reading a damaged file ends in; a damaged header gives a column another type."""


class CommitState(msgspec.Struct, frozen=True, kw_only=True):
    """What the next commit builds on: the newest generation, its hash and instant, the numbers given out, the epoch.

    `dropped_frames` counts pages at the end of the log that no whole commit holds, as an opening found them.
    """

    head: int
    head_hash: bytes
    at_us: int
    marks: Watermarks
    epoch: int
    dropped_frames: int = 0


def attach_mode(store: Path, disk: Disk) -> tuple[OpenMode, FileLock | None]:
    """How to read the store without changing a byte, and the readers' lock that makes it safe.

    Without a living writer the lock is held for as long as the store is attached: a writer may come, but folds nothing
    into the file underneath. Beside a living writer SQLite's own reader marks protect, and no lock is held.
    """
    if resident.present(store, "locking"):
        return OpenMode.SHARED, None
    try:
        lock = disk.try_lock(store / FOLDER / READERS, shared=True)
    except FileNotFoundError:
        lock = None
        checkpointing = False
    else:
        checkpointing = lock is None
    if checkpointing or writer_lives(store / FOLDER, disk):
        if lock is not None:
            lock.release()
        return OpenMode.SHARED, None
    has_log = bool(disk.size_bytes(store / "store.db-wal"))
    return (OpenMode.LOG_ON_HEAP if has_log else OpenMode.IMMUTABLE), lock


def open_verified(
    path: Path, disk: Disk, mode: OpenMode, manifest: Manifest, *, alone: bool = False
) -> tuple[apsw.Connection, CommitState]:
    """A connection, after checks that cost the same whatever the size: the database is the manifest's, its last commit
    is whole, and it holds what was known to be in it. `StoreNotAttachableError` with the reason otherwise.

    `alone`: nobody else can be writing, so the end of the log is looked at too.
    """
    remembered = witness.read(path, disk)
    connection = None
    nobody_writes = alone or mode is OpenMode.LOG_ON_HEAP
    try:
        under = stamping.beneath(path, disk) if nobody_writes else None
        connection = connect(path, disk, mode)
        connection.execute("BEGIN")
        _refuse_cut(connection, path, disk)
        state = _verified(Scope(connection, LIVE, True), path, manifest)
        stamping.refuse_mixed(path, connection, under)
        connection.execute("COMMIT")
        if nobody_writes:
            dropped = tail.refuse_damaged(connection, path, disk, PAGE_BYTES)
            state = msgspec.structs.replace(state, dropped_frames=dropped)
        remembered.refuse_older(path, state.epoch, state.head)
    except BaseException as error:
        if connection is not None:
            close_quietly(connection)
        _name_failure(error, path)
        raise
    return connection, state


def _refuse_cut(connection: apsw.Connection, path: Path, disk: Disk) -> None:
    """Refuse a database file that is shorter than its own header says: SQLite would take what is missing for empty."""
    size, log_size = disk.size_bytes(path / "store.db"), disk.size_bytes(path / "store.db-wal")
    if not log_size and (size or 0) < connection.pragma("page_count") * PAGE_BYTES:
        raise not_attachable(path, "damaged", "its database file was cut short")


def _name_failure(failure: BaseException, path: Path) -> None:
    """Raise the refusal for a failed opening, when it has one."""
    try:
        raise failure
    except _DAMAGE as error:
        raise not_attachable(path, "damaged", f"its database is damaged ({error})") from error
    except Refusal as error:
        if error.name == "RecordCorruptError":
            raise not_attachable(path, "damaged", error.message) from error
        raise
    except apsw.CantOpenError as error:
        raise not_attachable(path, "unreadable", f"its database cannot be opened ({error})") from error
    except apsw.Error as error:
        raise refusal_of_sqlite(error, "open the store") from error


def _verified(scope: Scope, path: Path, manifest: Manifest) -> CommitState:
    if scope.connection.pragma("application_id") != APPLICATION_ID:
        raise not_attachable(path, "foreign", "its store.db is another program's database")
    found = scope.connection.pragma("user_version")
    if found > FORMAT:
        raise not_attachable(path, "newer-format", f"its database has format {found}, this version knows {FORMAT}")
    if log.meta_value(scope, "identity") != manifest.id:
        raise not_attachable(path, "damaged", "its database belongs to another store than its manifest")
    return read_state(scope)


def read_state(scope: Scope) -> CommitState:
    """The state at the newest commit, whose hash is checked."""
    head = log.head(scope)
    row = scope.row("SELECT h, at_us FROM commits WHERE gen=?", (head,)) or (log.meta_value(scope, "floor_h"), 0)
    log.commit(scope, head, False)
    epoch = int(log.meta_value(scope, "epoch"))
    return CommitState(head=head, head_hash=row[0], at_us=row[1], marks=watermarks(scope), epoch=epoch)


def raise_epoch(connection: apsw.Connection, stamp: bytes | None) -> int:
    """Make this connection's process the writer: earlier holders' commits are refused from now on. The new epoch.

    A store of an older format is brought to ours in the same commit. `stamp` is given when a log begins with it.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        epoch = int(log.meta_value(Scope(connection, LIVE, True), "epoch")) + 1
        connection.execute("UPDATE meta SET v=?, crc=? WHERE k='epoch'", (epoch, meta_crc("epoch", epoch)))
        if stamp is not None:
            stamping.renew(connection, stamp)
        _bring_up(connection)
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    return epoch


def _bring_up(connection: apsw.Connection) -> None:
    """Add what a store of an older format lacks, and begin aggregates anew whose state is of an older form."""
    for statement in ADDED:
        connection.execute(statement)
    if connection.pragma("user_version") < FORMAT:
        connection.execute(f"PRAGMA user_version={FORMAT}")
    for stored in tables.stale(connection):
        tables.reset(connection, stored)


def create_database(path: Path, disk: Disk, manifest: Manifest, secret: bytes) -> None:
    """Make an empty database file at `path`, closed and without a log when this returns."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(str(path), flags=flags, vfs=disk.sqlite_vfs)
    try:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for statement in DDL:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={FORMAT}")
        connection.executemany(
            "INSERT INTO meta VALUES(?,?,?)",
            [
                (key, value, meta_crc(key, value))
                for key, value in (
                    ("identity", manifest.id),
                    ("created_ms", manifest.created_at),
                    ("epoch", 0),
                    ("secret", secret),
                    ("floor", 0),
                    ("floor_h", genesis_hash(manifest.id)),
                )
            ],
        )
        connection.execute("COMMIT")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    finally:
        connection.close()


def adopt_database(path: Path, disk: Disk) -> Manifest:
    """The manifest that belongs to the empty database of an interrupted creation; refuses one that holds commits."""
    connection = connect(path, disk, OpenMode.WRITER)
    try:
        scope = Scope(connection, LIVE, True)
        if connection.pragma("application_id") != APPLICATION_ID or log.head(scope) > 0:
            raise not_attachable(path, "damaged", "it holds a database with data, and its manifest is missing")
        identity, created = log.meta_value(scope, "identity"), log.meta_value(scope, "created_ms")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        return Manifest(product=PRODUCT, format=MANIFEST_FORMAT, id=identity, created_at=created)
    finally:
        connection.close()
